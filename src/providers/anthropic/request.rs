//! The body of a request.
//!
//! Owns: everything in it but the messages.

use serde_json::{Map, Value};

use super::super::{ModelInfo, ModelRequest, ThinkingLevel, ToolSpec};
use super::messages::{joined, messages};
use super::thinking;
use crate::config::model_options::{CacheRetention, ToolChoice};
use crate::support::json;

/// The body for `request`.
pub fn body(request: &ModelRequest) -> Value {
    let model = &request.model;
    let mut body = Map::new();
    body.insert("model".into(), json!(model.id));
    let mark = cache_mark(model);
    let mut messages = messages(request, mark.as_ref());
    let level =
        if thinking::must_pause(model, &messages) { ThinkingLevel::Off } else { request.thinking };
    let fields = thinking::fields(model, level);
    // Whoever thinks unasked may want to have its thoughts back.
    if model.reasoning && !fields.contains_key("thinking") {
        thinking::leave_out(&mut messages);
    }
    body.insert("messages".into(), Value::Array(joined(messages)));
    body.insert("stream".into(), json!(true));
    body.extend(fields);
    if let Some(text) = request.system.as_ref().filter(|text| !text.is_empty()) {
        let mut block = json!({"type": "text", "text": text});
        if let Some(mark) = mark {
            block["cache_control"] = mark;
        }
        body.insert("system".into(), json!([block]));
    }
    let tools: Vec<Value> = request.offered_tools().iter().map(tool).collect();
    if !tools.is_empty() {
        body.insert("tools".into(), json!(tools));
        if let Some(choice) = &model.options.params.tool_choice {
            body.insert("tool_choice".into(), tool_choice(choice));
        }
    }
    // The API refuses it together with thought.
    if let Some(temperature) = model.options.params.temperature
        && !body.contains_key("thinking")
        && takes_temperature(model)
    {
        body.insert("temperature".into(), json!(temperature));
    }
    if is_minimax(model) && !body.contains_key("thinking") {
        body.insert("thinking".into(), json!({"type": "disabled"}));
    }
    let metadata = model.options.params.metadata.as_ref();
    if let Some(user) = metadata.and_then(|metadata| metadata.user_id.as_ref()) {
        body.insert("metadata".into(), json!({"user_id": user}));
    }
    Value::Object(body)
}

/// Whether the server is `MiniMax`'s, whose models think unless they are told not to.
fn is_minimax(model: &ModelInfo) -> bool {
    let is = |provider| model.is_of(provider);
    is("minimax") || is("minimax-portal") || model.base_url.contains("api.minimax")
}

fn takes_temperature(model: &ModelInfo) -> bool {
    let told = model.options.compat.supports_temperature;
    told.unwrap_or_else(|| thinking::takes_temperature(&model.id))
}

/// Marks how far the prompt may be kept in the cache, and for how long.
fn cache_mark(model: &ModelInfo) -> Option<Value> {
    match model.options.params.cache_retention.unwrap_or_default() {
        CacheRetention::None => None,
        CacheRetention::Long if model.base_url.contains("api.anthropic.com") => {
            Some(json!({"type": "ephemeral", "ttl": "1h"}))
        }
        CacheRetention::Short | CacheRetention::Long => Some(json!({"type": "ephemeral"})),
    }
}

/// A tool with its properties and what they refer to; of what else may stand at
/// the root of a schema the API refuses some.
fn tool(tool: &ToolSpec) -> Value {
    let member = |name: &str| tool.parameters.get(name).filter(|it| !it.is_null()).cloned();
    let mut schema = json!({
        "type": "object",
        "properties": member("properties").unwrap_or_else(|| json!({})),
        "required": member("required").unwrap_or_else(|| json!([])),
    });
    for name in ["$defs", "definitions"] {
        if let Some(schemas) = member(name) {
            schema[name] = schemas;
        }
    }
    json!({"name": tool.name, "description": tool.description, "input_schema": schema})
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Word(word) => json!({"type": word.as_str()}),
        ToolChoice::Object(given) => json!(given),
    }
}

#[cfg(test)]
mod tests;
