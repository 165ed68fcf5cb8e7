//! The Responses API of `OpenAI`.
//!
//! Owns: `POST {base}/responses`. Must not: retry; `Retry` does.

mod ids;
mod messages;
mod request;
mod stream;

use reqwest::header::HeaderMap;
use serde_json::Value;

use super::api::HttpApi;
use super::error::{ErrorStyle, ProviderError};
use super::http::bearer;
use super::{ModelInfo, ModelRequest};
use stream::Events;

/// What is peculiar to it.
pub struct OpenAiResponses;

impl HttpApi for OpenAiResponses {
    const STYLE: ErrorStyle = ErrorStyle::OpenAi;
    /// Models that think have no temperature, and each has efforts of its own. Accounts that are
    /// not verified get no summaries of thoughts.
    const DISPENSABLE: &'static [&'static str] =
        &["temperature", "reasoning.summary", "reasoning", "include"];
    type Reader = Events;

    fn url(model: &ModelInfo) -> String {
        format!("{}/responses", model.base_url)
    }

    fn headers(model: &ModelInfo) -> Result<HeaderMap, ProviderError> {
        bearer(model)
    }

    fn body(request: &ModelRequest) -> Value {
        request::body(request)
    }

    fn reader(model: &ModelInfo, _: u64) -> Events {
        Events::new(model)
    }
}
