//! The Responses API of `OpenAI`.
//!
//! Owns: `POST {base}/responses`. Must not: retry;
//! `Retry` does.

mod ids;
mod messages;
mod request;
mod stream;

use std::sync::Arc;

use super::answer::Answer;
use super::error::{ErrorStyle, ProviderError};
use super::http::{Framing, Http, Post, bearer};
use super::{EventSink, ModelRequest, Provider, reader};
use crate::protocol::message::AssistantMessage;
use crate::support::{BoxFuture, Clock};
use stream::Events;

/// The adapter.
pub struct OpenAiResponses {
    http: Http,
    clock: Arc<dyn Clock>,
}

impl OpenAiResponses {
    /// An adapter that calls through `http`.
    pub const fn new(http: Http, clock: Arc<dyn Clock>) -> Self {
        Self { http, clock }
    }
}

impl Provider for OpenAiResponses {
    fn stream<'a>(
        &'a self,
        request: &'a ModelRequest,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<AssistantMessage, ProviderError>> {
        Box::pin(async move {
            let began = self.clock.now_ms();
            let model = &request.model;
            let post = Post {
                model,
                url: format!("{}/responses", model.base_url),
                headers: bearer(model)?,
                body: &request::body(request),
                style: ErrorStyle::OpenAi,
                framing: Framing::Events,
            };
            let stream = self.http.post(post).await?;
            let answer = Answer::new(model, events, began);
            reader::run(stream, Events::new(model), answer).await
        })
    }
}
