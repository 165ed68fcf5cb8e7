//! The configuration that the recordings were made with.

use serde_json::{Value, json};

/// The shared secret of every recording.
pub const SECRET: &str = "ref-secret-0001";

/// Stands for the gateway's own workspace folder in a configuration.
pub const WORKSPACE: &str = "<WORKSPACE>";

/// `openclaw.json` of the reference runs, with the models served by
/// `provider` (`host:port`).
pub fn default_config(provider: &str) -> Value {
    json!({
        "gateway": {
            "mode": "local",
            "bind": "loopback",
            "auth": { "mode": "token", "token": SECRET },
        },
        "agents": {
            "defaults": {
                "workspace": WORKSPACE,
                "skipBootstrap": true,
                "model": { "primary": "mock/mock-1" },
                "heartbeat": { "every": "0m" },
            },
            "list": [{ "id": "main" }],
        },
        "models": {
            "mode": "replace",
            "providers": {
                "mock": {
                    "baseUrl": format!("http://{provider}/v1"),
                    "apiKey": "mock-key",
                    "api": "openai-completions",
                    "models": [model("mock-1", "Mock One", false), model("mock-2", "Mock Two", false)],
                },
                "mocka": {
                    "baseUrl": format!("http://{provider}"),
                    "apiKey": "mock-key",
                    "api": "anthropic-messages",
                    "models": [model("mock-think", "Mock Think", true)],
                },
            },
        },
        "update": { "checkOnStart": false },
    })
}

fn model(id: &str, name: &str, reasoning: bool) -> Value {
    json!({
        "id": id,
        "name": name,
        "reasoning": reasoning,
        "input": ["text", "image"],
        "cost": { "input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 0.2 },
        "contextWindow": 200_000,
        "maxTokens": 8192,
    })
}
