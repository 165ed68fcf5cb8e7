//! The body of a request.
//!
//! Owns: everything in it but the messages.

use serde_json::{Map, Value};

use crate::support::json;

use super::super::{ModelInfo, ModelRequest, ThinkingLevel};
use super::messages::messages;

/// The body for `request`.
pub fn body(request: &ModelRequest) -> Value {
    let model = &request.model;
    let mut body = Map::new();
    body.insert("model".into(), json!(model.id));
    body.insert("messages".into(), json!(messages(request)));
    body.insert("stream".into(), json!(true));
    let tools: Vec<Value> = request
        .offered_tools()
        .iter()
        .map(|tool| {
            json!({"type": "function", "function": {
                "name": tool.name, "description": tool.description, "parameters": tool.parameters,
            }})
        })
        .collect();
    if !tools.is_empty() {
        body.insert("tools".into(), json!(tools));
    }
    let mut options = Map::new();
    // Without it the server cuts the conversation at a few thousand tokens.
    options.insert("num_ctx".into(), json!(model.context_window));
    if let Some(temperature) = model.options.params.temperature {
        options.insert("temperature".into(), json!(temperature));
    }
    options.insert("num_predict".into(), json!(model.answer_limit()));
    body.insert("options".into(), Value::Object(options));
    if model.reasoning {
        body.insert("think".into(), think(model, request.thinking));
    }
    Value::Object(body)
}

/// Whether to think; `gpt-oss` only understands how hard, which others refuse.
fn think(model: &ModelInfo, level: ThinkingLevel) -> Value {
    use ThinkingLevel::{High, Low, Medium, Minimal, Off, XHigh};
    if !model.id.contains("gpt-oss") {
        return json!(level != Off);
    }
    match level {
        Off => json!(false),
        Minimal | Low => json!("low"),
        Medium => json!("medium"),
        High | XHigh => json!("high"),
    }
}

#[cfg(test)]
mod tests;
