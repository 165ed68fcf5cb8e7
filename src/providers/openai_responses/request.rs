//! The body of a request.
//!
//! Owns: everything in it but the conversation.

use serde_json::{Map, Value};

use super::super::effort::effort;
use super::super::{ModelRequest, ToolSpec};
use super::messages::input;
use crate::config::model_options::CacheRetention;
use crate::support::json;

/// What turns thinking off in models that think unless they are told so.
const NO_THOUGHT: &str = "# Juice: 0 !important";

/// Longest `prompt_cache_key`, in characters: a request with a longer one is refused.
const CACHE_KEY_MAX: usize = 64;

/// The body for `request`.
pub fn body(request: &ModelRequest) -> Value {
    let model = &request.model;
    let (params, compat) = (&model.options.params, &model.options.compat);
    let retention = params.cache_retention.unwrap_or_default();
    let mut body = Map::new();
    let mut set = |name: &str, value: Value| body.insert(name.into(), value);
    set("model", json!(model.id));
    set("input", json!(items(request)));
    set("stream", json!(true));
    if retention != CacheRetention::None && compat.supports_prompt_cache_key != Some(false) {
        let key: String = request.session_id.chars().take(CACHE_KEY_MAX).collect();
        set("prompt_cache_key", json!(key));
    }
    if retention == CacheRetention::Long && model.base_url.contains("api.openai.com") {
        set("prompt_cache_retention", json!("24h"));
    }
    let stores_nothing = compat.supports_store != Some(false);
    if stores_nothing {
        set("store", json!(false));
    }
    set("max_output_tokens", json!(model.answer_limit()));
    if let Some(temperature) = params.temperature
        && compat.supports_temperature != Some(false)
    {
        set("temperature", json!(temperature));
    }
    if let Some(tier) = &params.service_tier {
        set("service_tier", json!(tier));
    }
    let tools = request.offered_tools();
    if !tools.is_empty() {
        set("tools", tools.iter().map(tool).collect());
    }
    let effort = thinking(request);
    if let Some(effort) = &effort {
        set("reasoning", json!({"effort": effort, "summary": "auto"}));
    }
    // Thoughts are not stored at the provider, so they come along. Models have some also when
    // they are not told to think.
    if effort.is_some() || (model.reasoning && stores_nothing) {
        set("include", json!(["reasoning.encrypted_content"]));
    }
    Value::Object(body)
}

fn thinking(request: &ModelRequest) -> Option<String> {
    let model = &request.model;
    let wanted = model.reasoning && model.options.compat.supports_reasoning_effort != Some(false);
    wanted.then(|| effort(request)).flatten()
}

fn items(request: &ModelRequest) -> Vec<Value> {
    let model = &request.model;
    let mut items = input(request);
    if model.reasoning && model.id.starts_with("gpt-5") && thinking(request).is_none() {
        let content = json!([{"type": "input_text", "text": NO_THOUGHT}]);
        items.push(json!({"role": "developer", "content": content}));
    }
    items
}

fn tool(tool: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": false,
    })
}

#[cfg(test)]
mod tests;
