//! Messages as the dialect shows them: what was said, and the calls of tools with
//! their results beside the message that made them.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::super::book::seconds;
use crate::protocol::methods::chat::HISTORY_LIMIT_MAX;
use crate::registry::{Ctx, Reply};
use crate::sessions::SessionKey;

/// Where a message came from that says nothing of that.
const CHANNEL: &str = "web";

/// The newest messages of a session, the oldest of them first.
///
/// # Errors
/// Those of `chat.history`.
pub(super) async fn messages(cx: &Ctx, key: &SessionKey) -> Reply<Value> {
    let params = json!({"sessionKey": key.as_str(), "limit": HISTORY_LIMIT_MAX});
    let history = cx.call("chat.history", &params).await?;
    let entry = cx.services.sessions.entry(key).await.ok().flatten();
    let channel = entry.and_then(|entry| entry.channel).unwrap_or_else(|| CHANNEL.into());
    let messages = history["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(shown(messages, &channel))
}

fn shown(messages: &[Value], channel: &str) -> Value {
    let is_result = |message: &&Value| message["role"] == "toolResult";
    let results: HashMap<_, _> = messages
        .iter()
        .filter(is_result)
        .filter_map(|message| Some((message["toolCallId"].as_str()?, text(&message["content"]))))
        .collect();
    let rest = messages.iter().filter(|message| !is_result(message));
    rest.map(|message| one(message, &results, channel)).collect()
}

fn one(message: &Value, results: &HashMap<&str, String>, channel: &str) -> Value {
    let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let calls = blocks.iter().filter(|block| block["type"] == "toolCall");
    let call = |block: &Value| {
        let mut call = Map::from_iter([
            ("name".to_owned(), block["name"].clone()),
            ("call_id".to_owned(), block["id"].clone()),
            ("arguments".to_owned(), json!(block["arguments"].to_string())),
        ]);
        let result = block["id"].as_str().and_then(|id| results.get(id));
        call.extend(result.map(|result| ("result".to_owned(), json!(result))));
        Value::Object(call)
    };
    let calls: Vec<_> = calls.map(call).collect();
    json!({
        "role": message["role"],
        "content": text(&message["content"]),
        "timestamp": message["timestamp"].as_u64().map(seconds),
        "channel": channel,
        "tool_calls": calls,
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
}
