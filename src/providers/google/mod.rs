//! The Gemini API of Google.
//!
//! Owns: `POST {base}/models/{id}:streamGenerateContent`. Must not: retry;
//! `Retry` does.

mod contents;
mod request;
mod stream;
mod thinking;

use std::sync::Arc;

use reqwest::header::HeaderMap;

use super::answer::Answer;
use super::error::{ErrorStyle, ProviderError};
use super::http::{Framing, Http, Post, secret_header};
use super::{EventSink, ModelInfo, ModelRequest, Provider, reader};
use crate::protocol::message::AssistantMessage;
use crate::support::{BoxFuture, Clock};
use stream::Chunks;

/// Where the official API has its version.
const OFFICIAL: &str = "https://generativelanguage.googleapis.com";

/// The adapter.
pub struct Google {
    http: Http,
    clock: Arc<dyn Clock>,
}

impl Google {
    /// An adapter that calls through `http`.
    pub const fn new(http: Http, clock: Arc<dyn Clock>) -> Self {
        Self { http, clock }
    }
}

/// The official address is also written without its version.
fn url(model: &ModelInfo) -> String {
    let base = model.base_url.as_str();
    let version = if base == OFFICIAL { "/v1beta" } else { "" };
    let id = model.id.as_str();
    let kind =
        if id.starts_with("models/") || id.starts_with("tunedModels/") { "" } else { "models/" };
    format!("{base}{version}/{kind}{id}:streamGenerateContent?alt=sse")
}

fn headers(model: &ModelInfo) -> Result<HeaderMap, ProviderError> {
    let mut headers = HeaderMap::new();
    if let Some(key) = model.credential()? {
        let value = secret_header(key.expose())
            .ok_or_else(|| ProviderError::unusable_key(&model.provider))?;
        headers.insert("x-goog-api-key", value);
    }
    Ok(headers)
}

impl Provider for Google {
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
                url: url(model),
                headers: headers(model)?,
                body: &request::body(request),
                style: ErrorStyle::Google,
                framing: Framing::Events,
            };
            let stream = self.http.post(post).await?;
            let answer = Answer::new(model, events, began);
            reader::run(stream, Chunks::new(began), answer).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::testing::model;

    #[test]
    fn the_address_holds_the_model_and_asks_for_events() {
        let mut model = model("google-generative-ai");
        let end = "/models/mock-1:streamGenerateContent?alt=sse";
        assert_eq!(url(&model), format!("http://127.0.0.1:9/v1{end}"));
        model.base_url = OFFICIAL.into();
        assert_eq!(url(&model), format!("{OFFICIAL}/v1beta{end}"));
        model.id = "tunedModels/x".into();
        assert!(url(&model).contains("/v1beta/tunedModels/x:"));
    }

    #[test]
    fn the_key_has_a_header_of_its_own() {
        let sent = headers(&model("google-generative-ai")).unwrap();
        assert_eq!(sent.get("x-goog-api-key").unwrap(), "mock-key");
        assert!(sent.get("x-goog-api-key").unwrap().is_sensitive());
    }
}
