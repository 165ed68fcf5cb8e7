//! The API that `OpenAI` began and nearly every server of models speaks.
//!
//! Owns: `POST {base}/chat/completions`. Must not: retry; `Retry` does.

mod compat;
mod messages;
mod request;
mod stream;

#[cfg(test)]
pub use request::body;

use reqwest::header::HeaderMap;
use serde_json::Value;

use super::api::HttpApi;
use super::error::{ErrorStyle, ProviderError};
use super::http::bearer;
use super::{ModelInfo, ModelRequest};
use stream::Chunks;

/// What is peculiar to it.
pub struct OpenAiCompletions;

impl HttpApi for OpenAiCompletions {
    const STYLE: ErrorStyle = ErrorStyle::OpenAi;
    /// Small models of Ollama have no tools; without them they can still talk. Others take no
    /// temperature but their own, or not every effort, or do not let their thinking be switched.
    const DISPENSABLE: &'static [&'static str] = &[
        "tools",
        "tool_choice",
        "temperature",
        "reasoning_effort",
        "reasoning",
        "thinking",
        "enable_thinking",
        "chat_template_kwargs",
    ];
    type Reader = Chunks;

    fn url(model: &ModelInfo) -> String {
        format!("{}/chat/completions", model.base_url)
    }

    fn headers(model: &ModelInfo) -> Result<HeaderMap, ProviderError> {
        bearer(model)
    }

    fn body(request: &ModelRequest) -> Value {
        request::body(request)
    }

    fn reader(_: &ModelInfo, _: u64) -> Chunks {
        Chunks::default()
    }
}
