//! The Gemini API of Google.
//!
//! Owns: `POST {base}/models/{id}:streamGenerateContent`. Must not: retry;
//! `Retry` does.

mod contents;
mod request;
mod stream;
mod thinking;

use reqwest::header::{HeaderMap, HeaderName};
use serde_json::Value;

use super::api::HttpApi;
use super::error::{ErrorStyle, ProviderError};
use super::http::key_header;
use super::{ModelInfo, ModelRequest};
use stream::Chunks;

/// Where the official API has its version.
const OFFICIAL: &str = "https://generativelanguage.googleapis.com";

/// What is peculiar to it.
pub struct Google;

impl Google {
    /// The model, as a place.
    pub fn path(model: &ModelInfo) -> String {
        let id = model.id.as_str();
        let is_whole = id.starts_with("models/") || id.starts_with("tunedModels/");
        if is_whole { id.to_owned() } else { format!("models/{id}") }
    }

    /// Where a model is asked to do something.
    pub fn method(model: &ModelInfo, name: &str) -> String {
        let base = model.base_url.as_str();
        // The official address is also written without its version.
        let version = if base == OFFICIAL { "/v1beta" } else { "" };
        format!("{base}{version}/{}:{name}", Self::path(model))
    }
}

impl HttpApi for Google {
    const STYLE: ErrorStyle = ErrorStyle::Google;
    /// Some models do not think, and of the others each has levels or budgets of its own.
    const DISPENSABLE: &'static [&'static str] = &["generationConfig.thinkingConfig"];
    type Reader = Chunks;

    fn url(model: &ModelInfo) -> String {
        format!("{}?alt=sse", Self::method(model, "streamGenerateContent"))
    }

    fn headers(model: &ModelInfo) -> Result<HeaderMap, ProviderError> {
        key_header(model, HeaderName::from_static("x-goog-api-key"), "")
    }

    fn body(request: &ModelRequest) -> Value {
        request::body(request)
    }

    fn reader(_: &ModelInfo, began: u64) -> Chunks {
        Chunks::new(began)
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
        assert_eq!(Google::url(&model), format!("http://127.0.0.1:9/v1{end}"));
        model.base_url = OFFICIAL.into();
        assert_eq!(Google::url(&model), format!("{OFFICIAL}/v1beta{end}"));
        model.id = "tunedModels/x".into();
        assert!(Google::url(&model).contains("/v1beta/tunedModels/x:"));
    }

    #[test]
    fn the_key_has_a_header_of_its_own() {
        let sent = Google::headers(&model("google-generative-ai")).unwrap();
        assert_eq!(sent.get("x-goog-api-key").unwrap(), "mock-key");
        assert!(sent.get("x-goog-api-key").unwrap().is_sensitive());
    }
}
