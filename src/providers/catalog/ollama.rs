//! Ollama: a server of models on one's own machine.
//!
//! Owns: finding it and asking for its models. It is spoken to through its
//! OpenAI-compatible API. Promises: an answer within the limit, whatever sits
//! on its port.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::Arc;

use super::super::http::Http;
use super::model::{Api, InputKind, ModelInfo, ModelPrice};
use crate::config::model_options::ModelOptions;
use crate::support::Secret;

/// Provider id.
pub const PROVIDER: &str = "ollama";
const DEFAULT_PORT: u16 = 11434;
/// `/api/tags` does not say; the models of today have at least this.
const CONTEXT_WINDOW: u64 = 32_768;
const MAX_TOKENS: u64 = 8192;
/// Nobody chooses among more than these.
const MAX_MODELS: usize = 200;

/// Where Ollama listens, from `OLLAMA_HOST` as Ollama itself reads it: scheme
/// and port may be missing, and an address to bind to is one to call.
pub fn address(host: Option<&str>) -> String {
    let host = host.map(str::trim).unwrap_or_default().trim_end_matches('/');
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let bare_v6 = authority.parse::<Ipv6Addr>().map(|ip| format!("[{ip}]"));
    let (name, port) = match (&bare_v6, authority.rsplit_once(':')) {
        (Ok(name), _) => (name.as_str(), None),
        // The last colon of `[::1]` is no port.
        (_, Some((name, port))) if !port.contains(']') => (name, port.parse().ok()),
        _ => (authority, None),
    };
    let name = match name {
        "" | "0.0.0.0" | "[::]" => "127.0.0.1",
        name => name,
    };
    let default_port = match (host.contains("://"), scheme) {
        (true, "http") => 80,
        (true, "https") => 443,
        _ => DEFAULT_PORT,
    };
    format!("{scheme}://{name}:{}{path}", port.unwrap_or(default_port))
}

/// The models of the Ollama at `url`; none when it does not answer.
pub async fn models(http: &Http, url: &str) -> Vec<Arc<ModelInfo>> {
    let answer = http.probe(&format!("{url}/api/tags")).await;
    let listed = answer.as_ref().and_then(|answer| answer.get("models")?.as_array());
    let names = listed.into_iter().flatten().filter_map(|model| model.get("name")?.as_str());
    names.take(MAX_MODELS).map(|name| Arc::new(model(name, url))).collect()
}

/// A model of the Ollama at `url`.
pub fn model(name: &str, url: &str) -> ModelInfo {
    ModelInfo {
        provider: PROVIDER.into(),
        id: name.to_owned(),
        name: name.to_owned(),
        api: Api::OpenAiCompletions,
        base_url: format!("{url}/v1"),
        // Ollama wants none, but some clients in front of it want any.
        api_key: Some(Secret::new("ollama-local")),
        headers: BTreeMap::new(),
        reasoning: false,
        input: vec![InputKind::Text],
        price: ModelPrice::default(),
        context_window: CONTEXT_WINDOW,
        max_tokens: MAX_TOKENS,
        timeout: None,
        options: ModelOptions::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_read_as_ollama_reads_it() {
        for (host, expected) in [
            (None, "http://127.0.0.1:11434"),
            (Some(""), "http://127.0.0.1:11434"),
            (Some("0.0.0.0"), "http://127.0.0.1:11434"),
            (Some(":1234"), "http://127.0.0.1:1234"),
            (Some("gpu-box"), "http://gpu-box:11434"),
            (Some("gpu-box:99/"), "http://gpu-box:99"),
            (Some("[::1]"), "http://[::1]:11434"),
            (Some("[::1]:5"), "http://[::1]:5"),
            (Some("::1"), "http://[::1]:11434"),
            (Some("::"), "http://127.0.0.1:11434"),
            (Some("http://gpu-box:99/ollama/"), "http://gpu-box:99/ollama"),
            (Some("http://gpu-box"), "http://gpu-box:80"),
            (Some("https://gpu-box"), "https://gpu-box:443"),
        ] {
            assert_eq!(address(host), expected, "{host:?}");
        }
    }
}
