//! The Messages API of Anthropic.
//!
//! Owns: `POST {base}/v1/messages`. Must not: retry; `Retry` does.

mod messages;
mod request;
mod stream;
mod thinking;

#[cfg(test)]
pub use request::body;
pub use stream::Events;

use std::sync::Arc;

use reqwest::header::{HeaderMap, HeaderValue};

use super::answer::Answer;
use super::error::{ErrorStyle, ProviderError};
use super::http::{EventStream, Framing, Http, Post, secret_header};
use super::{EventSink, ModelInfo, ModelRequest, Provider, reader};
use crate::protocol::message::AssistantMessage;
use crate::support::{BoxFuture, Clock};

const VERSION: &str = "2023-06-01";
const BETA: &str = "fine-grained-tool-streaming-2025-05-14";
const BETA_INTERLEAVED: &str =
    "fine-grained-tool-streaming-2025-05-14,interleaved-thinking-2025-05-14";

/// The adapter.
pub struct Anthropic {
    http: Http,
    clock: Arc<dyn Clock>,
}

impl Anthropic {
    /// An adapter that calls through `http`.
    pub const fn new(http: Http, clock: Arc<dyn Clock>) -> Self {
        Self { http, clock }
    }

    async fn open(&self, request: &ModelRequest) -> Result<EventStream, ProviderError> {
        let model = &request.model;
        let post = Post {
            model,
            url: url(&model.base_url),
            headers: headers(model)?,
            body: &request::body(request),
            style: ErrorStyle::Anthropic,
            framing: Framing::Events,
        };
        self.http.post(post).await
    }
}

/// Addresses are written with and without the version; both are meant alike.
fn url(base: &str) -> String {
    format!("{}/v1/messages", base.strip_suffix("/v1").unwrap_or(base))
}

fn headers(model: &ModelInfo) -> Result<HeaderMap, ProviderError> {
    let mut headers = HeaderMap::new();
    if let Some(key) = model.credential()? {
        let value = secret_header(key.expose())
            .ok_or_else(|| ProviderError::unusable_key(&model.provider))?;
        headers.insert("x-api-key", value);
    }
    // Models that think adaptively interleave without being asked.
    let beta = if thinking::is_adaptive(&model.id) { BETA } else { BETA_INTERLEAVED };
    headers.insert("anthropic-version", HeaderValue::from_static(VERSION));
    headers.insert("anthropic-beta", HeaderValue::from_static(beta));
    Ok(headers)
}

impl Provider for Anthropic {
    fn stream<'a>(
        &'a self,
        request: &'a ModelRequest,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<AssistantMessage, ProviderError>> {
        Box::pin(async move {
            let began = self.clock.now_ms();
            let stream = self.open(request).await?;
            let answer = Answer::new(&request.model, events, began);
            reader::run(stream, Events::default(), answer).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::ProviderErrorKind;
    use crate::providers::testing::model;

    #[test]
    fn the_version_in_the_address_is_not_repeated() {
        assert_eq!(url("https://h"), "https://h/v1/messages");
        assert_eq!(url("https://h/v1"), "https://h/v1/messages");
    }

    #[test]
    fn headers_carry_key_version_and_betas() {
        let mut model = model("anthropic-messages");
        let sent = headers(&model).unwrap();
        assert_eq!(sent.get("x-api-key").unwrap(), "mock-key");
        assert!(sent.get("x-api-key").unwrap().is_sensitive());
        assert_eq!(sent.get("anthropic-version").unwrap(), "2023-06-01");
        assert_eq!(sent.get("anthropic-beta").unwrap(), BETA_INTERLEAVED);
        model.id = "claude-sonnet-4-6".into();
        assert_eq!(headers(&model).unwrap().get("anthropic-beta").unwrap(), BETA);
    }

    #[test]
    fn a_remote_provider_needs_a_key_and_a_local_one_does_not() {
        let mut model = model("anthropic-messages");
        model.api_key = None;
        assert!(headers(&model).unwrap().get("x-api-key").is_none());
        model.base_url = "https://api.example".into();
        let error = headers(&model).unwrap_err();
        assert_eq!(error.kind, ProviderErrorKind::NoApiKey);
        assert_eq!(error.message, "No API key for provider: mock");
    }
}
