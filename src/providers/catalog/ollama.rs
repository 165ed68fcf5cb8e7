//! Ollama: a server of models on one's own machine.
//!
//! Owns: finding it and asking for its models and what they can do. Promises:
//! an answer within the limits, whatever sits on its port.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use tokio::time::Instant;

use super::super::http::Http;
use super::model::{Api, InputKind, ModelInfo, ModelPrice};
use crate::config::model_options::ModelOptions;
use crate::support::{Secret, json};

/// Provider id.
pub const PROVIDER: &str = "ollama";
const DEFAULT_PORT: u16 = 11434;
/// When the server does not say; the models of today have at least this.
const CONTEXT_WINDOW: u64 = 32_768;
const MAX_TOKENS: u64 = 8192;
/// Nobody chooses among more than these.
const MAX_MODELS: usize = 200;
/// How many models to ask about at a time.
const AT_A_TIME: usize = 8;
/// Start-up waits for it; models that it has not told of by then stay as they
/// are without.
const DETAILS_LIMIT: Duration = Duration::from_secs(2);

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
    let answer = http.probe(&format!("{url}/api/tags"), None).await;
    let listed = answer.as_ref().and_then(|answer| answer.get("models")?.as_array());
    let names = listed.into_iter().flatten().filter_map(|model| model.get("name")?.as_str());
    let mut models: Vec<_> = names.take(MAX_MODELS).map(|name| model(name, url)).collect();
    let until = Instant::now() + DETAILS_LIMIT;
    for batch in models.chunks_mut(AT_A_TIME) {
        let asked = batch.iter_mut().map(|model| ask(http, url, model));
        if tokio::time::timeout_at(until, join_all(asked)).await.is_err() {
            break;
        }
    }
    models.into_iter().map(Arc::new).collect()
}

/// Asks what `model` can do; whether there was an answer.
pub async fn ask(http: &Http, url: &str, model: &mut ModelInfo) -> bool {
    let body = json!({"model": model.id});
    let details = http.probe(&format!("{url}/api/show"), Some(&body)).await;
    if let Some(details) = &details {
        learn(model, details);
    }
    details.is_some()
}

/// Takes what the server says of a model.
fn learn(model: &mut ModelInfo, details: &Value) {
    Arc::make_mut(&mut model.options).is_assumed = false;
    let info = details.get("model_info").and_then(Value::as_object);
    // The name begins with that of the architecture, such as `llama`.
    let length = info.into_iter().flatten().find(|(name, _)| name.ends_with(".context_length"));
    if let Some(length) = length.and_then(|(_, length)| length.as_u64()).filter(|it| *it > 0) {
        model.context_window = length;
    }
    let Some(can) = details.get("capabilities").and_then(Value::as_array) else { return };
    let can = |what: &str| can.iter().any(|known| known == what);
    model.reasoning = can("thinking");
    if can("vision") {
        model.input = vec![InputKind::Text, InputKind::Image];
    }
    Arc::make_mut(&mut model.options).compat.supports_tools = Some(can("tools"));
}

/// A model of the Ollama at `url`.
pub fn model(name: &str, url: &str) -> ModelInfo {
    ModelInfo {
        provider: PROVIDER.into(),
        id: name.to_owned(),
        name: name.to_owned(),
        api: Api::Ollama,
        base_url: url.to_owned(),
        // Ollama wants none, but some clients in front of it want any.
        api_key: Some(Secret::new("ollama-local")),
        headers: BTreeMap::new(),
        reasoning: false,
        input: vec![InputKind::Text],
        price: ModelPrice::default(),
        context_window: CONTEXT_WINDOW,
        max_tokens: MAX_TOKENS,
        timeout: None,
        options: Arc::new(ModelOptions { is_assumed: true, ..ModelOptions::default() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_says_what_a_model_can_do() {
        let mut model = model("m", "http://h");
        learn(&mut model, &json!({"capabilities": "?", "model_info": {"llama.context_length": 0}}));
        assert_eq!((model.context_window, model.options.compat.supports_tools), (32_768, None));
        learn(
            &mut model,
            &json!({
                "capabilities": ["completion", "thinking", "vision"],
                "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40_960},
            }),
        );
        assert_eq!((model.context_window, model.reasoning), (40_960, true));
        assert!(model.accepts_images());
        assert_eq!(model.options.compat.supports_tools, Some(false));
    }

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
