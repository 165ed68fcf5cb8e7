//! The Messages API of Anthropic.
//!
//! Owns: `POST {base}/v1/messages`. Must not: retry; `Retry` does.

mod messages;
mod pictures;
mod request;
mod stream;
mod thinking;

#[cfg(test)]
pub use request::body;
pub use stream::Events;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::api::HttpApi;
use super::error::{ErrorStyle, ProviderError};
use super::http::key_header;
use super::{ModelInfo, ModelRequest};

const VERSION: &str = "2023-06-01";
const BETA: &str = "fine-grained-tool-streaming-2025-05-14";
const BETA_INTERLEAVED: &str =
    "fine-grained-tool-streaming-2025-05-14,interleaved-thinking-2025-05-14";

/// What is peculiar to it.
pub struct Anthropic;

impl HttpApi for Anthropic {
    const STYLE: ErrorStyle = ErrorStyle::Anthropic;
    /// Later models have no temperature. Older ones, and other servers with this API, may know
    /// nothing of thinking, or not this way to ask for it.
    const DISPENSABLE: &'static [&'static str] = &["temperature", "thinking", "output_config"];
    type Reader = Events;

    fn url(model: &ModelInfo) -> String {
        url(&model.base_url)
    }

    fn headers(model: &ModelInfo) -> Result<HeaderMap, ProviderError> {
        let mut headers = key_header(model, HeaderName::from_static("x-api-key"), "")?;
        // Models that think adaptively interleave without being asked.
        let beta = if thinking::is_adaptive(&model.id) { BETA } else { BETA_INTERLEAVED };
        headers.insert("anthropic-version", HeaderValue::from_static(VERSION));
        headers.insert("anthropic-beta", HeaderValue::from_static(beta));
        Ok(headers)
    }

    fn body(request: &ModelRequest) -> Value {
        request::body(request)
    }

    fn reader(_: &ModelInfo, _: u64) -> Events {
        Events::default()
    }
}

/// Addresses are written with and without the version; both are meant alike.
fn url(base: &str) -> String {
    format!("{}/v1/messages", base.strip_suffix("/v1").unwrap_or(base))
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
        let sent = Anthropic::headers(&model).unwrap();
        assert_eq!(sent.get("x-api-key").unwrap(), "mock-key");
        assert!(sent.get("x-api-key").unwrap().is_sensitive());
        assert_eq!(sent.get("anthropic-version").unwrap(), "2023-06-01");
        assert_eq!(sent.get("anthropic-beta").unwrap(), BETA_INTERLEAVED);
        model.id = "claude-sonnet-4-6".into();
        assert_eq!(Anthropic::headers(&model).unwrap().get("anthropic-beta").unwrap(), BETA);
    }

    #[test]
    fn a_remote_provider_needs_a_key_and_a_local_one_does_not() {
        let mut model = model("anthropic-messages");
        model.api_key = None;
        assert!(Anthropic::headers(&model).unwrap().get("x-api-key").is_none());
        model.base_url = "https://api.example".into();
        let error = Anthropic::headers(&model).unwrap_err();
        assert_eq!(error.kind, ProviderErrorKind::NoApiKey);
        let advice = "`clawgate models auth add --provider mock` stores one";
        assert_eq!(error.message, format!("No API key for provider: mock; {advice}"));
    }
}
