//! The body of a request.
//!
//! Owns: everything in it but the messages.

use serde_json::{Map, Value, json};

use super::super::{ModelRequest, ToolSpec};
use super::messages::messages;
use super::thinking;

/// The body for `request`.
pub fn body(request: &ModelRequest) -> Value {
    let model = &request.model;
    let mut body = Map::new();
    body.insert("model".into(), json!(model.id));
    body.insert("messages".into(), json!(messages(request)));
    body.insert("stream".into(), json!(true));
    body.extend(thinking::fields(model, request.thinking));
    if let Some(text) = request.system.as_ref().filter(|text| !text.is_empty()) {
        let block = json!({"type": "text", "text": text, "cache_control": cache_mark()});
        body.insert("system".into(), json!([block]));
    }
    if !request.tools.is_empty() {
        let tools: Vec<Value> = request.tools.iter().map(tool).collect();
        body.insert("tools".into(), json!(tools));
    }
    Value::Object(body)
}

/// How far the prompt may be kept in the cache.
pub fn cache_mark() -> Value {
    json!({"type": "ephemeral"})
}

fn tool(tool: &ToolSpec) -> Value {
    let member = |name: &str, default: Value| {
        tool.parameters.get(name).filter(|it| !it.is_null()).cloned().unwrap_or(default)
    };
    json!({
        "name": tool.name,
        "description": tool.description,
        "input_schema": {
            "type": "object",
            "properties": member("properties", json!({})),
            "required": member("required", json!([])),
        },
    })
}

#[cfg(test)]
mod tests;
