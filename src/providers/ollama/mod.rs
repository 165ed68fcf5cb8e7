//! Ollama's own API.
//!
//! Owns: `POST {base}/api/chat`. Must not: retry;
//! `Retry` does; look for servers: the catalogue does.

mod integers;
mod messages;
mod request;
mod stream;

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
pub struct Ollama {
    http: Http,
    clock: Arc<dyn Clock>,
}

impl Ollama {
    /// An adapter that calls through `http`.
    pub const fn new(http: Http, clock: Arc<dyn Clock>) -> Self {
        Self { http, clock }
    }

    async fn post(&self, model: &ModelInfo, body: &Value) -> Result<EventStream, ProviderError> {
        let post = Post {
            model,
            url: url(&model.base_url),
            headers: bearer(model)?,
            body,
            style: ErrorStyle::Ollama,
            framing: Framing::Lines,
        };
        self.http.post(post).await
    }

    /// Small models have no tools, or cannot think, and refuse to be asked;
    /// without that they can still talk.
    async fn open(&self, request: &ModelRequest) -> Result<EventStream, ProviderError> {
        let mut body = request::body(request);
        loop {
            let error = match self.post(&request.model, &body).await {
                Ok(stream) => return Ok(stream),
                Err(error) => error,
            };
            let refused =
                error.refused_feature().and_then(|name| body.as_object_mut()?.remove(name));
            if refused.is_none() {
                return Err(error);
            }
        }
    }
}

/// People write the address with the version of the OpenAI-compatible API,
/// which is beside this one.
fn url(base: &str) -> String {
    let base = base.trim_end_matches('/');
    format!("{}/api/chat", base.strip_suffix("/v1").unwrap_or(base))
}

impl Provider for Ollama {
    fn stream<'a>(
        &'a self,
        request: &'a ModelRequest,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<AssistantMessage, ProviderError>> {
        Box::pin(async move {
            let began = self.clock.now_ms();
            let stream = self.open(request).await?;
            let answer = Answer::new(&request.model, events, began);
            reader::run(stream, Chunks::new(), answer).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_may_be_that_of_the_compatible_api() {
        for base in ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"] {
            assert_eq!(url(base), "http://h:1/api/chat");
        }
    }
}
