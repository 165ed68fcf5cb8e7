//! The body of a request.
//!
//! Owns: everything in it but the messages.

use serde_json::{Map, Value, json};

use super::super::{ModelRequest, ThinkingLevel, ToolSpec};
use super::compat::{Compat, ThinkingStyle};
use super::messages::messages;
use crate::protocol::message::AgentMessage;

/// The body for `request`.
pub fn body(request: &ModelRequest) -> Value {
    let model = &request.model;
    let compat = Compat::of(model);
    let mut body = Map::new();
    body.insert("model".into(), json!(model.id));
    body.insert("messages".into(), json!(messages(request, &compat)));
    body.insert("stream".into(), json!(true));
    body.insert("stream_options".into(), json!({"include_usage": true}));
    if compat.openai_fields {
        body.insert("store".into(), json!(false));
    }
    body.insert(compat.max_tokens.into(), json!(model.answer_limit()));
    if !request.tools.is_empty() {
        let tools: Vec<Value> = request.tools.iter().map(|tool| function(tool, &compat)).collect();
        body.insert("tools".into(), json!(tools));
    } else if has_tool_history(&request.messages) {
        // Some proxies refuse calls in the history of a request without tools.
        body.insert("tools".into(), json!([]));
    }
    if model.reasoning {
        body.extend(thinking(request, compat.thinking));
    }
    Value::Object(body)
}

fn function(tool: &ToolSpec, compat: &Compat) -> Value {
    let mut function = json!({
        "name": tool.name, "description": tool.description, "parameters": tool.parameters,
    });
    if compat.strict {
        function["strict"] = json!(false);
    }
    json!({"type": "function", "function": function})
}

fn has_tool_history(messages: &[AgentMessage]) -> bool {
    messages.iter().any(|message| match message {
        AgentMessage::Assistant(answer) => answer.tool_calls().next().is_some(),
        AgentMessage::ToolResult(_) => true,
        AgentMessage::User(_) => false,
    })
}

fn thinking(request: &ModelRequest, style: ThinkingStyle) -> Option<(String, Value)> {
    let off = request.thinking == ThinkingLevel::Off;
    match style {
        ThinkingStyle::Switch => Some(("enable_thinking".into(), json!(!off))),
        ThinkingStyle::None => None,
        _ if off => None,
        ThinkingStyle::Effort => Some(("reasoning_effort".into(), json!(effort(request)))),
        ThinkingStyle::Nested => Some(("reasoning".into(), json!({"effort": effort(request)}))),
    }
}

fn effort(request: &ModelRequest) -> &'static str {
    let knows_xhigh = ["gpt-5.2", "gpt-5.3"].iter().any(|name| request.model.id.contains(name));
    match request.thinking {
        ThinkingLevel::XHigh if !knows_xhigh => ThinkingLevel::High.as_str(),
        level => level.as_str(),
    }
}

#[cfg(test)]
mod tests;
