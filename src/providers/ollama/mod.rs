//! Ollama's own API.
//!
//! Owns: `POST {base}/api/chat`. Must not: retry; `Retry` does; look for
//! servers: the catalogue does.

mod integers;
mod messages;
mod request;
mod stream;

use reqwest::header::HeaderMap;
use serde_json::Value;

use super::api::HttpApi;
use super::error::{ErrorStyle, ProviderError};
use super::http::{Framing, bearer};
use super::{ModelInfo, ModelRequest};
use stream::Chunks;

/// What is peculiar to it.
pub struct Ollama;

impl HttpApi for Ollama {
    const STYLE: ErrorStyle = ErrorStyle::Ollama;
    const FRAMING: Framing = Framing::Lines;
    /// Small models have no tools, or cannot think; without they can still
    /// talk.
    const DISPENSABLE: &'static [&'static str] = &["tools", "think"];
    type Reader = Chunks;

    fn url(model: &ModelInfo) -> String {
        url(&model.base_url)
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

/// People write the address with the version of the OpenAI-compatible API,
/// which is beside this one.
fn url(base: &str) -> String {
    let base = base.trim_end_matches('/');
    format!("{}/api/chat", base.strip_suffix("/v1").unwrap_or(base))
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
