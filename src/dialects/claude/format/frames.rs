//! Lines as the frames that tell of them when they happen.

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::support::json;

use super::facts::SessionFacts;
use super::lines::Line;

/// The frame that echoes what a user said: it is told to all who look at the
/// session, before there is an answer. `timestamp` is in milliseconds since the
/// epoch, `content` a text or blocks.
pub fn echo(session_id: &str, uuid: Uuid, timestamp: u64, content: &Value) -> Value {
    let content = match content {
        Value::String(text) => json!([{"type": "text", "text": text}]),
        blocks => blocks.clone(),
    };
    json!({
        "type": "user",
        "uuid": uuid.to_string(),
        "timestamp": timestamp,
        "sessionId": session_id,
        "message": {"role": "user", "content": content},
    })
}

/// A line as Claude Code sends it live: members in snake case, answers as they
/// are when their block ends (no stop reason, tokens of the start). Behind them
/// are the members that only files have and that clients of the older protocol
/// look for: `parentUuid` and `timestamp`.
///
/// What a user typed is not sent so; see [`echo`].
pub fn live(line: &Line, facts: &SessionFacts) -> Value {
    let Value::Object(value) = &line.value else { return line.value.clone() };
    let mut frame = match value.get("type").and_then(Value::as_str) {
        Some("assistant") => said(value, facts, answer),
        Some("user") => said(value, facts, Value::clone),
        Some("system") => system(value),
        _ => return line.value.clone(),
    };
    for name in ["parentUuid", "timestamp"] {
        if let Some(member) = value.get(name) {
            frame.insert(name.into(), member.clone());
        }
    }
    Value::Object(frame)
}

fn said(
    value: &Map<String, Value>,
    facts: &SessionFacts,
    message: impl Fn(&Value) -> Value,
) -> Map<String, Value> {
    let member = |name: &str| value.get(name).cloned().unwrap_or_default();
    let parent = facts.sidechain.as_ref().and_then(|side| side.parent_tool_use_id.clone());
    let mut frame = Map::new();
    frame.insert("type".into(), member("type"));
    frame.insert("message".into(), message(&member("message")));
    frame.insert("parent_tool_use_id".into(), parent.into());
    frame.insert("session_id".into(), facts.session_id.as_str().into());
    frame.insert("uuid".into(), member("uuid"));
    for (file, wire) in [
        ("toolUseResult", "tool_use_result"),
        ("error", "error"),
        ("isCompactSummary", "isCompactSummary"),
    ] {
        if let Some(member) = value.get(file) {
            frame.insert(wire.into(), member.clone());
        }
    }
    frame
}

/// An answer as it was when its block ended.
fn answer(message: &Value) -> Value {
    let mut message = message.clone();
    if message.get("context_management").is_none() {
        message["stop_reason"] = Value::Null;
        if let Some(Value::Object(usage)) = message.get_mut("usage") {
            at_start(usage);
        }
        message["context_management"] = Value::Null;
    }
    message
}

/// Leaves what is known when a message begins.
fn at_start(usage: &mut Map<String, Value>) {
    usage.retain(|name, _| name.ends_with("_tokens"));
    if let Some(output) = usage.get_mut("output_tokens") {
        *output = output.as_u64().unwrap_or_default().min(1).into();
    }
}

fn system(value: &Map<String, Value>) -> Map<String, Value> {
    let member = |name: &str| value.get(name).cloned().unwrap_or_default();
    let mut frame = Map::new();
    frame.insert("type".into(), member("type"));
    frame.insert("subtype".into(), member("subtype"));
    frame.insert("session_id".into(), member("sessionId"));
    frame.insert("uuid".into(), member("uuid"));
    if let Some(about) = value.get("compactMetadata") {
        let about = json!({"trigger": about.get("trigger"), "pre_tokens": about.get("preTokens")});
        frame.insert("compact_metadata".into(), about);
    }
    frame
}
