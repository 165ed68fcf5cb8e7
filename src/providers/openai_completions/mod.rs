//! The API that `OpenAI` began and nearly every server of models speaks.
//!
//! Owns: `POST {base}/chat/completions`. Must not: retry; `Retry` does.

mod compat;
mod messages;
mod request;
mod stream;

#[cfg(test)]
pub use request::body;

use std::sync::Arc;

use serde_json::Value;

use super::answer::Answer;
use super::error::{ErrorStyle, ProviderError};
use super::http::{EventStream, Framing, Http, Post, bearer};
use super::{EventSink, ModelInfo, ModelRequest, Provider, reader};
use crate::protocol::message::AssistantMessage;
use crate::support::{BoxFuture, Clock};
use stream::Chunks;

/// The adapter.
pub struct OpenAiCompletions {
    http: Http,
    clock: Arc<dyn Clock>,
}

impl OpenAiCompletions {
    /// An adapter that calls through `http`.
    pub const fn new(http: Http, clock: Arc<dyn Clock>) -> Self {
        Self { http, clock }
    }

    async fn post(&self, model: &ModelInfo, body: &Value) -> Result<EventStream, ProviderError> {
        let url = format!("{}/chat/completions", model.base_url);
        let headers = bearer(model)?;
        let (style, framing) = (ErrorStyle::OpenAi, Framing::Events);
        self.http.post(Post { model, url, headers, body, style, framing }).await
    }

    /// Small models of Ollama have no tools and refuse any; without them they
    /// can still talk.
    async fn open(&self, request: &ModelRequest) -> Result<EventStream, ProviderError> {
        let mut body = request::body(request);
        match self.post(&request.model, &body).await {
            Err(error) if !request.tools.is_empty() && error.refused_feature() == Some("tools") => {
                if let Some(body) = body.as_object_mut() {
                    body.remove("tools");
                }
                self.post(&request.model, &body).await
            }
            result => result,
        }
    }
}

impl Provider for OpenAiCompletions {
    fn stream<'a>(
        &'a self,
        request: &'a ModelRequest,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<AssistantMessage, ProviderError>> {
        Box::pin(async move {
            let began = self.clock.now_ms();
            let stream = self.open(request).await?;
            let answer = Answer::new(&request.model, events, began);
            reader::run(stream, Chunks::new(began), answer).await
        })
    }
}
