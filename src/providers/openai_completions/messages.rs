//! The conversation in the form of this API.
//!
//! Owns: the `messages` of a request. Must not: apply rules that all APIs
//! share; `compose` has done so.

use serde_json::{Map, Value};

use super::super::ModelRequest;
use super::super::compose::compose;
use super::super::parts::{
    BEGINNING, IMAGES_FOLLOW, NO_OUTPUT, SEE_IMAGE, data_url, images_of, lines_of, parts_of,
};
use super::compat::Compat;
use super::stream::THINKING_FIELDS;
use crate::protocol::message::{
    AgentMessage, AssistantMessage, ContentBlock, ImageBlock, ToolCall, ToolResultMessage,
    UserContent, text_of,
};
use crate::support::json;

/// What some servers want to read between a result and a user's message.
const RESULTS_SEEN: &str = "I have processed the tool results.";

/// All messages of a request.
pub fn messages(request: &ModelRequest, compat: &Compat) -> Vec<Value> {
    let model = &request.model;
    let mut wire = Wire { compat, messages: Vec::new(), images: Vec::new() };
    if let Some(text) = request.system.as_ref().filter(|text| !text.is_empty()) {
        let role = if model.reasoning && compat.developer { "developer" } else { "system" };
        wire.messages.push(json!({"role": role, "content": text}));
    }
    for message in compose(&request.messages, model, compat.ids.wire_id()) {
        match &message {
            AgentMessage::User(user) => wire.user(user_content(&user.content)),
            AgentMessage::Assistant(answer) => wire.assistant(answer),
            AgentMessage::ToolResult(result) => wire.tool_result(result),
        }
    }
    wire.images_of_results();
    let mut messages = wire.messages;
    if compat.cache_marks {
        mark_last_text(&mut messages);
    }
    if compat.string_content {
        messages.iter_mut().for_each(flatten_content);
    }
    messages
}

/// The messages so far. Roles take turns: the templates of many models refuse a conversation
/// with two messages of one role in a row, and all that would ever follow it.
struct Wire<'a> {
    compat: &'a Compat,
    messages: Vec<Value>,
    /// Those of the results since the last other message.
    images: Vec<Value>,
}

impl Wire<'_> {
    fn user(&mut self, content: Value) {
        self.images_of_results();
        self.user_after_results(content);
    }

    fn user_after_results(&mut self, content: Value) {
        if self.compat.assistant_after_tool_result && self.last_of("tool").is_some() {
            self.messages.push(json!({"role": "assistant", "content": RESULTS_SEEN}));
        }
        match self.last_of("user") {
            Some(before) => add_parts(before, content),
            None => self.messages.push(json!({"role": "user", "content": content})),
        }
    }

    /// The last message, if it is of this role.
    fn last_of(&mut self, role: &str) -> Option<&mut Value> {
        let fits = |last: &&mut Value| last.get("role").is_some_and(|it| it == role);
        self.messages.last_mut().filter(fits)
    }

    /// Results cannot hold pictures here, so those of a batch follow as a
    /// user's.
    fn images_of_results(&mut self) {
        let mut parts = std::mem::take(&mut self.images);
        if !parts.is_empty() {
            parts.insert(0, text_part(IMAGES_FOLLOW));
            self.user_after_results(Value::Array(parts));
        }
    }

    fn assistant(&mut self, answer: &AssistantMessage) {
        self.images_of_results();
        let Some(said) = assistant(answer, self.compat) else { return };
        let has_begun = ["user", "assistant", "tool"].iter().any(|it| self.last_of(it).is_some());
        if !has_begun {
            self.messages.push(json!({"role": "user", "content": BEGINNING}));
        }
        // It has no calls: their results would stand between.
        match self.last_of("assistant") {
            Some(before) => add_answer(before, said),
            None => self.messages.push(Value::Object(said)),
        }
    }

    fn tool_result(&mut self, result: &ToolResultMessage) {
        self.images.extend(images_of(&result.content).map(image_part));
        let mut message = tool_result(result);
        if self.compat.tool_result_name && !result.tool_name.is_empty() {
            message["name"] = json!(result.tool_name);
        }
        self.messages.push(message);
    }
}

/// Adds what a user said to what was said just before. It stays a part of its own, so that
/// what a server has cached is still the begin.
fn add_parts(message: &mut Value, content: Value) {
    let mut parts = parts_of(message["content"].take());
    parts.extend(parts_of(content));
    message["content"] = Value::Array(parts);
}

/// Adds an answer to one just before it: texts with a blank line between, the rest as it is.
fn add_answer(message: &mut Value, answer: Map<String, Value>) {
    for (name, value) in answer.into_iter().filter(|(name, _)| name != "role") {
        let before = message.get(&name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let joined = match (before, value.as_str().filter(|text| !text.is_empty())) {
            (Some(before), Some(text)) => json!(format!("{before}\n\n{text}")),
            (Some(_), None) => continue,
            (None, _) => value,
        };
        message[name] = joined;
    }
}

/// Parts as one text, for servers that know no parts; pictures are lost.
fn flatten_content(message: &mut Value) {
    let Some(Value::Array(parts)) = message.get("content") else { return };
    let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
    let text = texts.collect::<Vec<_>>().join("\n");
    message["content"] = json!(text);
}

fn text_part(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn user_content(content: &UserContent) -> Value {
    let blocks = match content {
        UserContent::Text(text) => return json!(text),
        UserContent::Blocks(blocks) => blocks,
    };
    let parts = blocks.iter().filter_map(|block| match block {
        ContentBlock::Text(block) => Some(text_part(&block.text)),
        ContentBlock::Image(image) => Some(image_part(image)),
        _ => None,
    });
    parts.collect()
}

fn image_part(image: &ImageBlock) -> Value {
    json!({"type": "image_url", "image_url": {"url": data_url(image)}})
}

fn tool_result(result: &ToolResultMessage) -> Value {
    let text = lines_of(&result.content);
    let content = match (text.is_empty(), result.content.is_empty()) {
        (false, _) => text,
        (true, false) => SEE_IMAGE.to_owned(),
        (true, true) => NO_OUTPUT.to_owned(),
    };
    json!({"role": "tool", "content": content, "tool_call_id": result.tool_call_id})
}

fn assistant(answer: &AssistantMessage, compat: &Compat) -> Option<Map<String, Value>> {
    let mut text = text_of(&answer.content);
    let thoughts = thoughts(&answer.content);
    if compat.thinking_as_text && !thoughts.is_empty() {
        text = if text.is_empty() {
            thoughts.join("\n\n")
        } else {
            format!("{}\n\n{text}", thoughts.join("\n\n"))
        };
    }
    let calls: Vec<Value> = answer.tool_calls().map(tool_call).collect();
    if text.is_empty() && calls.is_empty() {
        return None;
    }
    let mut wire = Map::new();
    wire.insert("role".into(), json!("assistant"));
    wire.insert(
        "content".into(),
        match text.is_empty() {
            false => json!(text),
            // Who wants an answer there also wants it to be a text.
            true if compat.assistant_after_tool_result => json!(""),
            true => Value::Null,
        },
    );
    if !compat.thinking_as_text {
        wire.extend(echoed_thinking(&answer.content, &thoughts));
    }
    if let Some(nothing) = compat.no_thought {
        wire.entry("reasoning_content").or_insert_with(|| json!(nothing));
    }
    if !calls.is_empty() {
        wire.insert("tool_calls".into(), json!(calls));
    }
    let details: Vec<Value> = answer.tool_calls().filter_map(reasoning_detail).collect();
    if !details.is_empty() {
        wire.insert("reasoning_details".into(), json!(details));
    }
    Some(wire)
}

/// Thoughts that say something.
fn thoughts(content: &[ContentBlock]) -> Vec<&str> {
    let thoughts = content.iter().filter_map(|block| match block {
        ContentBlock::Thinking(block) => Some(block.thinking.as_str()),
        _ => None,
    });
    thoughts.filter(|text| !text.trim().is_empty()).collect()
}

/// Thoughts go back in the field that they came in; its name is the signature
/// of the first one.
fn echoed_thinking(content: &[ContentBlock], thoughts: &[&str]) -> Option<(String, Value)> {
    let field = content.iter().find_map(|block| match block {
        ContentBlock::Thinking(block) if !block.thinking.trim().is_empty() => {
            Some(block.thinking_signature.as_deref())
        }
        _ => None,
    });
    let field = field.flatten().filter(|field| THINKING_FIELDS.contains(field))?;
    Some((field.to_owned(), json!(thoughts.join("\n"))))
}

fn tool_call(call: &ToolCall) -> Value {
    let mut wire = json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments.to_string()},
    });
    if let Some(extra) = signature(call).filter(|value| value.get("google").is_some()) {
        wire["extra_content"] = extra;
    }
    wire
}

fn reasoning_detail(call: &ToolCall) -> Option<Value> {
    signature(call).filter(|value| value.get("type").is_some())
}

fn signature(call: &ToolCall) -> Option<Value> {
    serde_json::from_str(call.thought_signature.as_deref()?).ok()
}

/// Marks how far the conversation may be kept in the prompt cache.
fn mark_last_text(wire: &mut [Value]) {
    let mark = json!({"type": "ephemeral"});
    for message in wire.iter_mut().rev() {
        let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
        if !matches!(role, "user" | "assistant") {
            continue;
        }
        match message.get_mut("content") {
            Some(Value::String(text)) => {
                let part = json!({"type": "text", "text": text, "cache_control": mark});
                message["content"] = json!([part]);
                return;
            }
            Some(Value::Array(parts)) => {
                let is_text = |part: &&mut Value| part.get("type") == Some(&json!("text"));
                if let Some(part) = parts.iter_mut().rev().find(is_text) {
                    part["cache_control"] = mark;
                    return;
                }
            }
            _ => {}
        }
    }
}
