//! Messages as the dialect shows them: what was said, and the calls of tools with
//! their results beside the message that made them.

use serde_json::Value;

use super::super::book::seconds;
use crate::protocol::methods::chat::{HISTORY_CHARS_MAX, HISTORY_LIMIT_MAX};
use crate::registry::{Ctx, Reply};
use crate::sessions::SessionKey;
use crate::support::json;

/// Where a message came from that says nothing of that.
const CHANNEL: &str = "web";

/// The newest messages of a session, the oldest of them first. Nothing here can say of a text
/// that it was cut, so none is.
///
/// # Errors
/// Those of `chat.history`.
pub(super) async fn messages(cx: &Ctx, key: &SessionKey) -> Reply<Value> {
    let params = json!({"sessionKey": key.as_str(), "limit": HISTORY_LIMIT_MAX,
        "maxChars": HISTORY_CHARS_MAX});
    let history = cx.call("chat.history", &params).await?;
    let entry = cx.services.sessions.entry(key).await.ok().flatten();
    let channel = entry.and_then(|entry| entry.channel).unwrap_or_else(|| CHANNEL.into());
    let messages = history["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(shown(messages, &channel))
}

fn shown(messages: &[Value], channel: &str) -> Value {
    let mut told = Vec::new();
    for message in messages {
        if message["role"] == "toolResult" {
            add_result(&mut told, message);
        } else {
            told.push(one(message, channel));
        }
    }
    Value::Array(told)
}

/// Puts a result beside its call, the nearest one before it: models give the same id again.
fn add_result(told: &mut [Value], result: &Value) {
    let is_its =
        |call: &&mut Value| call["call_id"] == result["toolCallId"] && call.get("result").is_none();
    let call = told
        .iter_mut()
        .rev()
        .find_map(|message| message.get_mut("tool_calls")?.as_array_mut()?.iter_mut().find(is_its));
    if let Some(call) = call {
        call["result"] = json!(text(&result["content"]));
    }
}

fn one(message: &Value, channel: &str) -> Value {
    let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let calls = blocks.iter().filter(|block| block["type"] == "toolCall");
    let calls = calls.map(|block| {
        json!({"name": block["name"], "call_id": block["id"],
            "arguments": block["arguments"].to_string()})
    });
    json!({
        "role": message["role"],
        "content": text(&message["content"]),
        "timestamp": message["timestamp"].as_u64().map(seconds),
        "channel": channel,
        "tool_calls": calls.collect::<Vec<_>>(),
    })
}

/// The text of a message, without thoughts and pictures.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_stands_beside_its_call() {
        let messages = [
            json!({"role": "user", "content": "hi", "timestamp": 1500}),
            json!({"role": "assistant", "timestamp": 2000, "content": [
                {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look."},
                {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a"}}]}),
            json!({"role": "toolResult", "toolCallId": "c1", "content": [
                {"type": "text", "text": "it says x"}]}),
            json!({"role": "assistant", "timestamp": 3000, "content": [
                {"type": "text", "text": "x"}]}),
        ];
        assert_eq!(
            shown(&messages, "web"),
            json!([
                {"role": "user", "content": "hi", "timestamp": 1.5, "channel": "web",
                    "tool_calls": []},
                {"role": "assistant", "content": "I look.", "timestamp": 2.0, "channel": "web",
                    "tool_calls": [{"name": "read", "call_id": "c1",
                        "arguments": "{\"path\":\"a\"}", "result": "it says x"}]},
                {"role": "assistant", "content": "x", "timestamp": 3.0, "channel": "web",
                    "tool_calls": []},
            ])
        );
    }

    #[test]
    fn of_calls_with_one_id_each_has_its_own_result() {
        let call = json!({"type": "toolCall", "id": "c", "name": "read", "arguments": {}});
        let asked = json!({"role": "assistant", "content": [call, call]});
        let told = |text: &str| {
            json!({"role": "toolResult", "toolCallId": "c",
                "content": [{"type": "text", "text": text}]})
        };
        let messages = [asked.clone(), told("one"), told("two"), asked, told("three")];
        let shown = shown(&messages, "web");
        let result = |message: usize, call: usize| &shown[message]["tool_calls"][call]["result"];
        assert_eq!((result(0, 0), result(0, 1)), (&json!("one"), &json!("two")));
        assert_eq!((result(1, 0), result(1, 1)), (&json!("three"), &Value::Null));
    }
}
