//! How the simple profile writes what the standard one writes otherwise:
//! content blocks, thinking levels, usage.

use serde_json::{Map, Value};

use crate::support::json;

/// The thinking levels of the simple profile.
pub const THINKING: [&str; 4] = ["none", "low", "normal", "high"];

/// The simple profile's name (`none, low, normal, high`) for a standard thinking level.
pub fn thinking_out(level: &str) -> &str {
    match level {
        "off" => "none",
        "minimal" => "low",
        "medium" => "normal",
        "xhigh" => "high",
        other => other,
    }
}

/// Rewrites what a row of a session says of thinking, and what the defaults of rows do.
pub fn row_out(members: &mut Map<String, Value>) {
    for name in ["thinkingLevel", "thinkingDefault"] {
        if let Some(Value::String(level)) = members.get_mut(name) {
            *level = thinking_out(level).to_owned();
        }
    }
    if let Some(options) = members.get_mut("thinkingOptions") {
        *options = json!(THINKING);
    }
    if let Some(levels) = members.get_mut("thinkingLevels") {
        *levels = json!(THINKING.map(|level| json!({"id": level, "label": level})));
    }
}

/// Adds to an open question what older clients read of it, beside its
/// `request`: `sessionKey`, `agentId`, `command`, `cwd`, `requestedAt`.
pub fn approval_out(question: &mut Value) {
    let asked_at = question["createdAtMs"].as_i64().unwrap_or_default();
    let asked_at = jiff::Timestamp::from_millisecond(asked_at).unwrap_or_default();
    for name in ["sessionKey", "agentId", "command", "cwd"] {
        question[name] = question["request"][name].clone();
    }
    question["requestedAt"] = json!(asked_at.to_string());
}

/// Rewrites one message: its content as [`content_out`] does, `usage` and `stopReason`.
pub fn message_out(message: &mut Value) {
    content_out(message);
    let Value::Object(members) = message else { return };
    counts_out(members);
}

/// Rewrites `usage` and `stopReason` where they are.
pub fn counts_out(members: &mut Map<String, Value>) {
    if let Some(usage) = members.get_mut("usage") {
        *usage = usage_out(usage);
    }
    if let Some(Value::String(reason)) = members.get_mut("stopReason") {
        *reason = stop_reason_out(reason).to_owned();
    }
}

/// Rewrites the content of one message: `toolCall` becomes `tool_use`, role
/// `toolResult` becomes a user message with a `tool_result`, images get a `source`,
/// without data where a history has left that out.
pub fn content_out(message: &mut Value) {
    let Value::Object(members) = message else { return };
    if let Some(Value::Array(blocks)) = members.get_mut("content") {
        blocks.iter_mut().for_each(block_out);
    }
    if members.get("role").and_then(Value::as_str) == Some("toolResult") {
        let mut take = |name: &str| members.shift_remove(name).unwrap_or(Value::Null);
        let result = json!({
            "type": "tool_result",
            "tool_use_id": take("toolCallId"),
            "content": take("content"),
            "is_error": take("isError"),
        });
        members.insert("role".into(), json!("user"));
        members.insert("content".into(), json!([result]));
    }
}

fn block_out(block: &mut Value) {
    let Value::Object(members) = block else { return };
    let mut take = |name: &str| members.shift_remove(name).unwrap_or(Value::Null);
    match take("type").as_str() {
        Some("toolCall") => {
            *block = json!({
                "type": "tool_use",
                "id": take("id"),
                "name": take("name"),
                "input": take("arguments"),
            });
        }
        Some("image") if members.contains_key("mimeType") => {
            let mut take = |name: &str| members.shift_remove(name);
            let data = take("data").unwrap_or_else(|| json!(""));
            let media_type = take("mimeType").unwrap_or_default();
            let source = json!({"type": "base64", "media_type": media_type, "data": data});
            put_first(members, "source", source);
            put_first(members, "type", json!("image"));
        }
        Some(other) => put_first(members, "type", json!(other)),
        None => {}
    }
}

fn put_first(members: &mut Map<String, Value>, name: &str, value: Value) {
    members.shift_insert(0, name.to_owned(), value);
}

/// `usage` as `{inputTokens, outputTokens}`.
fn usage_out(usage: &Value) -> Value {
    let count = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or_default();
    json!({"inputTokens": count("input"), "outputTokens": count("output")})
}

/// Adds to `usage` what dashboards read of it, beside what it has.
pub fn add_counts(usage: &mut Value) {
    let Value::Object(counts) = usage_out(usage) else { return };
    let cost = usage["cost"]["total"].clone();
    let Value::Object(members) = usage else { return };
    members.extend(counts);
    if !cost.is_null() {
        members.insert("totalCost".into(), cost);
    }
}

/// The simple profile's name for a standard stop reason.
fn stop_reason_out(reason: &str) -> &str {
    match reason {
        "stop" => "end_turn",
        "length" => "max_tokens",
        "toolUse" => "tool_use",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_take_the_form_of_the_simple_profile() {
        let mut call = json!({"role": "assistant", "content": [
            {"type": "text", "text": "Let me look."},
            {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "n"}},
        ], "timestamp": 1});
        message_out(&mut call);
        assert_eq!(
            call,
            json!({"role": "assistant", "content": [
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "c", "name": "read", "input": {"path": "n"}},
            ], "timestamp": 1})
        );
        let mut result = json!({"role": "toolResult", "toolCallId": "c", "toolName": "read",
            "content": [{"type": "text", "text": "alpha"}], "isError": false, "timestamp": 2});
        message_out(&mut result);
        assert_eq!(result["role"], "user");
        assert_eq!(
            result["content"],
            json!([{"type": "tool_result", "tool_use_id": "c",
                "content": [{"type": "text", "text": "alpha"}], "is_error": false}])
        );
        let mut image = json!({"role": "user", "content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}]});
        message_out(&mut image);
        assert_eq!(
            image["content"][0]["source"],
            json!({"type": "base64", "media_type": "image/png", "data": "AA=="})
        );
        let left_out =
            json!({"type": "image", "mimeType": "image/png", "omitted": true, "bytes": 4});
        let mut image = json!({"role": "user", "content": [left_out]});
        message_out(&mut image);
        assert_eq!(
            image["content"][0],
            json!({"type": "image", "omitted": true, "bytes": 4,
                "source": {"type": "base64", "media_type": "image/png", "data": ""}})
        );
    }

    #[test]
    fn a_message_counts_and_ends_in_the_words_of_the_simple_profile() {
        let mut message = json!({"role": "assistant", "content": [], "stopReason": "stop",
            "usage": {"input": 3, "output": 2, "cost": {"total": 0.5}}});
        message_out(&mut message);
        assert_eq!(
            message,
            json!({"role": "assistant", "content": [], "stopReason": "end_turn",
                "usage": {"inputTokens": 3, "outputTokens": 2}})
        );
    }

    #[test]
    fn thinking_levels_have_simple_names() {
        for (simple, standard) in
            [("none", "off"), ("low", "low"), ("normal", "medium"), ("high", "high")]
        {
            assert_eq!(thinking_out(standard), simple);
        }
    }
}
