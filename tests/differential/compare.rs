//! In what two values differ.
//!
//! Owns: the common form of both sides' events and messages, and the paths
//! where two values are not the same.

use clawgate::protocol::message::AssistantMessage;
use clawgate::protocol::message::ContentBlock;
use clawgate::providers::{ProviderError, StreamEvent};
use serde_json::{Map, Value, json};

/// What came of a call, in the common form.
#[derive(Debug)]
pub struct Outcome {
    /// Bodies of all requests, and where they went.
    pub requests: Value,
    /// What was streamed.
    pub events: Value,
    /// What the answer became.
    pub message: Value,
}

/// Our outcome.
pub fn ours(
    requests: Value,
    events: &[StreamEvent],
    result: &Result<AssistantMessage, ProviderError>,
) -> Outcome {
    let message = match result {
        Ok(message) => serde_json::to_value(message).unwrap(),
        Err(error) => match &error.partial {
            Some(partial) => serde_json::to_value(partial).unwrap(),
            None => json!({"content": [], "stopReason": "error", "errorMessage": error.message}),
        },
    };
    let content = match result {
        Ok(message) => message.content.clone(),
        Err(error) => error.partial.as_ref().map(|it| it.content.clone()).unwrap_or_default(),
    };
    let events = events.iter().filter_map(|event| common(event, &content)).collect();
    Outcome { requests, events, message: plain_message(message) }
}

/// The outcome that the script wrote.
pub fn theirs(requests: Value, outcome: &Value) -> Outcome {
    let events = outcome["events"].as_array().unwrap();
    // Whoever reads a stream learns nothing from a piece without text.
    let events = events.iter().filter(|event| event.get("delta") != Some(&json!("")));
    let events = events.map(|event| without_times(event.clone())).collect();
    let mut message = outcome["message"].clone();
    for block in message["content"].as_array_mut().unwrap() {
        // Left behind when the whole JSON comes in an event of its own.
        block.as_object_mut().unwrap().remove("partialJson");
    }
    Outcome {
        requests: joined_users(joined_answers(requests)),
        events,
        message: plain_message(message),
    }
}

/// Answers of the past as one text: pi-ai 0.55 sends them to the Completions
/// API as a list of parts, which servers copy into their own answers, and since
/// 0.61 as one text.
fn joined_answers(mut requests: Value) -> Value {
    for request in requests.as_array_mut().unwrap() {
        if !request["path"].as_str().unwrap().ends_with("/completions") {
            continue;
        }
        let messages = request["body"]["messages"].as_array_mut().unwrap();
        for message in messages.iter_mut().filter(|it| it["role"] == "assistant") {
            let Some(parts) = message["content"].as_array() else { continue };
            let plain = |part: &Value| part.get("cache_control").is_none();
            if parts.iter().all(plain) {
                let texts: Vec<_> =
                    parts.iter().map(|part| part["text"].as_str().unwrap()).collect();
                message["content"] = json!(texts.concat());
            }
        }
    }
    requests
}

/// Messages of a user that come in a row as one: ours are, as the templates of many models
/// refuse them otherwise. Results of Google's API stay alone.
fn joined_users(mut requests: Value) -> Value {
    for request in requests.as_array_mut().unwrap() {
        for (list, content) in [("messages", "content"), ("contents", "parts")] {
            let Some(messages) = request["body"].get_mut(list) else { continue };
            let mut joined: Vec<Value> = Vec::new();
            for message in messages.as_array().unwrap() {
                let fits = |last: &&mut Value| {
                    let is_result = last["parts"][0].get("functionResponse").is_some();
                    [&last["role"], &message["role"]] == ["user", "user"] && !is_result
                };
                match joined.last_mut().filter(fits) {
                    Some(last) => {
                        let all = [parts_of(&last[content]), parts_of(&message[content])];
                        last[content] = json!(all.concat());
                    }
                    None => joined.push(message.clone()),
                }
            }
            *messages = json!(joined);
        }
    }
    requests
}

fn parts_of(content: &Value) -> Vec<Value> {
    let text = || vec![json!({"type": "text", "text": content})];
    content.as_array().cloned().unwrap_or_else(text)
}

fn common(event: &StreamEvent, content: &[ContentBlock]) -> Option<Value> {
    let delta = |kind: &str, index: &usize, delta: &str| json!({"type": kind, "contentIndex": index, "delta": delta});
    Some(match event {
        StreamEvent::TextStart { index } => json!({"type": "text_start", "contentIndex": index}),
        StreamEvent::TextDelta { index, delta: text } => delta("text_delta", index, text),
        StreamEvent::ThinkingStart { index } => {
            json!({"type": "thinking_start", "contentIndex": index})
        }
        StreamEvent::ThinkingDelta { index, delta: text } => delta("thinking_delta", index, text),
        StreamEvent::ToolCallStart { index, .. } => {
            json!({"type": "toolcall_start", "contentIndex": index})
        }
        StreamEvent::ToolCallDelta { index, delta: text } => delta("toolcall_delta", index, text),
        StreamEvent::BlockEnd { index } => match &content[*index] {
            ContentBlock::Text(block) => {
                json!({"type": "text_end", "contentIndex": index, "content": block.text})
            }
            ContentBlock::Thinking(block) => {
                json!({"type": "thinking_end", "contentIndex": index, "content": block.thinking})
            }
            call => without_times(
                json!({"type": "toolcall_end", "contentIndex": index, "toolCall": call}),
            ),
        },
        // The signature is in the block that pi tells at its end.
        StreamEvent::ThinkingSigned { .. }
        | StreamEvent::CallCut { .. }
        | StreamEvent::Used(_)
        | StreamEvent::Retry(_)
        | StreamEvent::Fallback(_)
        | StreamEvent::Anew => return None,
    })
}

/// Without what differs from call to call, and what only one side knows of.
fn plain_message(message: Value) -> Value {
    let mut message = without_times(message);
    let members = message.as_object_mut().unwrap();
    // A call that failed at once has nothing but its error.
    if members.get("content") == Some(&json!([])) && members.contains_key("errorMessage") {
        members
            .retain(|name, _| matches!(name.as_str(), "content" | "stopReason" | "errorMessage"));
    }
    for name in ["timestamp", "responseId", "role"] {
        members.remove(name);
    }
    message
}

/// Ids that are made of the time lose it, empty signatures are none.
fn without_times(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.into_iter().filter(|(name, value)| {
                !(name.ends_with("Signature") && value.as_str().is_some_and(str::is_empty))
            });
            let plain = kept.map(|(name, value)| {
                let value = match (&value, name.as_str()) {
                    (Value::String(id), "id") => json!(without_time(id)),
                    _ => without_times(value),
                };
                (name, value)
            });
            Value::Object(plain.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.into_iter().map(without_times).collect(),
        other => other,
    }
}

/// `read_1760000000000_1` is `read_#`.
fn without_time(id: &str) -> String {
    let mut parts = id.rsplitn(3, '_');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(count), Some(time), Some(name))
            if time.len() == 13 && [count, time].iter().all(|it| it.parse::<u64>().is_ok()) =>
        {
            format!("{name}_#")
        }
        _ => id.to_owned(),
    }
}

/// Where the two differ, with what stands there.
pub fn differences(ours: &Value, theirs: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    walk("", ours, theirs, &mut found);
    found
}

fn walk(path: &str, ours: &Value, theirs: &Value, found: &mut Vec<(String, String)>) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
            for name in names {
                let at = format!("{path}/{name}");
                match (a.get(name), b.get(name)) {
                    (Some(a), Some(b)) => walk(&at, a, b, found),
                    (a, b) => found.push((at, side_by_side(a, b))),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                walk(&format!("{path}/{index}"), a, b, found);
            }
        }
        (Value::Number(a), Value::Number(b)) if a.as_f64() == b.as_f64() => {}
        (a, b) if a == b => {}
        (a, b) => found.push((path.to_owned(), side_by_side(Some(a), Some(b)))),
    }
}

fn side_by_side(ours: Option<&Value>, theirs: Option<&Value>) -> String {
    let text = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
    format!("\n      ours   {}\n      theirs {}", text(ours), text(theirs))
}
