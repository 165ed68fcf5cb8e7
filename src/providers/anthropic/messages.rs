//! The conversation in the form of this API.
//!
//! Owns: the `messages` of a request. Must not: apply rules that all APIs
//! share; `compose` has done so.

use serde_json::Value;

use super::super::ModelRequest;
use super::super::compose::{compose, fit};
use super::super::parts::{BEGINNING, NO_OUTPUT, SEE_IMAGE, images_of, lines_of, parts_of};
use super::pictures;
use super::thinking::{holds_thought, is_thought};
use crate::protocol::message::{
    AgentMessage, AssistantMessage, ContentBlock, ImageBlock, ThinkingBlock, ToolResultMessage,
    UserContent, text_of,
};
use crate::support::json;

const MAX_ID: usize = 64;

/// All messages of a request; the last one of a user gets `mark`.
pub fn messages(request: &ModelRequest, mark: Option<&Value>) -> Vec<Value> {
    let mut wire: Vec<Value> = Vec::new();
    let mut results = Results::default();
    let mut composed = compose(&request.messages, &request.model, tool_id);
    pictures::fit(&mut composed);
    for message in &composed {
        if let AgentMessage::ToolResult(result) = message {
            results.push(result);
            continue;
        }
        wire.extend(results.take());
        match message {
            AgentMessage::User(user) => wire.extend(user_message(&user.content)),
            AgentMessage::Assistant(answer) => {
                let said = assistant(answer);
                if wire.is_empty() && said.is_some() {
                    wire.push(json!({"role": "user", "content": BEGINNING}));
                }
                wire.extend(said);
            }
            AgentMessage::ToolResult(_) => {}
        }
    }
    wire.extend(results.take());
    if let Some(mark) = mark {
        mark_last_user(&mut wire, mark);
    }
    wire
}

/// Neighbours of one role as one message. The API itself takes them so, but servers whose
/// templates want the roles to take turns would refuse the conversation for good. An answer
/// that holds a thought stays one: what is signed is not put behind other words.
pub fn joined(messages: Vec<Value>) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::new();
    for mut message in messages {
        let fits =
            |last: &&mut Value| last.get("role") == message.get("role") && !holds_thought(&message);
        match joined.last_mut().filter(fits) {
            Some(last) => {
                let mut blocks = parts_of(last["content"].take());
                blocks.extend(parts_of(message["content"].take()));
                last["content"] = Value::Array(blocks);
            }
            None => joined.push(message),
        }
    }
    joined
}

/// Makes an id of a call acceptable.
fn tool_id(id: &str) -> String {
    fit(id, MAX_ID)
}

/// The results of the calls of an answer.
#[derive(Default)]
struct Results {
    blocks: Vec<Value>,
    /// Those of failed calls, which may hold text only.
    pictures: Vec<Value>,
}

impl Results {
    fn push(&mut self, result: &ToolResultMessage) {
        self.blocks.push(tool_result(result));
        if result.is_error {
            self.pictures.extend(images_of(&result.content).map(picture));
        }
    }

    /// All of them belong into one message, with nothing between them.
    fn take(&mut self) -> Option<Value> {
        let Self { mut blocks, pictures } = std::mem::take(self);
        blocks.extend(pictures);
        (!blocks.is_empty()).then(|| json!({"role": "user", "content": blocks}))
    }
}

fn user_message(content: &UserContent) -> Option<Value> {
    let content = match content {
        // The API refuses text blocks without text.
        UserContent::Text(text) => (!text.trim().is_empty()).then(|| json!(text)),
        UserContent::Blocks(blocks) => {
            let parts = parts(blocks);
            (!parts.is_empty()).then(|| json!(parts))
        }
    };
    Some(json!({"role": "user", "content": content?}))
}

fn parts(blocks: &[ContentBlock]) -> Vec<Value> {
    let parts = blocks.iter().filter_map(|block| match block {
        ContentBlock::Text(block) if block.text.trim().is_empty() => None,
        ContentBlock::Text(block) => Some(json!({"type": "text", "text": block.text})),
        ContentBlock::Image(image) => Some(picture(image)),
        _ => None,
    });
    parts.collect()
}

fn picture(image: &ImageBlock) -> Value {
    json!({
        "type": "image",
        "source": {"type": "base64", "media_type": image.mime_type, "data": image.data},
    })
}

/// An answer up to what is no thought: the API refuses one that ends with a thought, as
/// those do that their limit has cut.
fn assistant(answer: &AssistantMessage) -> Option<Value> {
    let mut blocks: Vec<Value> = answer.content.iter().filter_map(assistant_block).collect();
    let last = blocks.iter().rposition(|block| !is_thought(block))?;
    blocks.truncate(last + 1);
    Some(json!({"role": "assistant", "content": blocks}))
}

fn assistant_block(block: &ContentBlock) -> Option<Value> {
    match block {
        ContentBlock::Text(block) => Some(json!({"type": "text", "text": block.text})),
        ContentBlock::Thinking(block) => thinking(block),
        ContentBlock::ToolCall(call) => Some(json!({
            "type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments,
        })),
        ContentBlock::Image(_) | ContentBlock::Unknown(_) => None,
    }
}

/// Only what the API itself has signed is a thought to it.
fn thinking(block: &ThinkingBlock) -> Option<Value> {
    let signature = block.thinking_signature.as_ref().filter(|text| !text.is_empty());
    match (block.redacted == Some(true), signature) {
        (true, Some(data)) => Some(json!({"type": "redacted_thinking", "data": data})),
        (true, None) => None,
        (false, Some(signature)) => Some(json!({
            "type": "thinking", "thinking": block.thinking, "signature": signature,
        })),
        (false, None) if block.thinking.trim().is_empty() => None,
        (false, None) => Some(json!({"type": "text", "text": block.thinking})),
    }
}

fn tool_result(result: &ToolResultMessage) -> Value {
    let has_image = images_of(&result.content).next().is_some();
    let content = if has_image && !result.is_error {
        let mut parts = parts(&result.content);
        if text_of(&result.content).trim().is_empty() {
            parts.insert(0, json!({"type": "text", "text": SEE_IMAGE}));
        }
        json!(parts)
    } else {
        let text = lines_of(&result.content);
        let stand_in = if has_image { SEE_IMAGE } else { NO_OUTPUT };
        // The API refuses a failed call without text, and one with anything else.
        json!(if text.trim().is_empty() { stand_in } else { &text })
    };
    json!({
        "type": "tool_result",
        "tool_use_id": result.tool_call_id,
        "content": content,
        "is_error": result.is_error,
    })
}

/// Marks how far the conversation may be kept in the prompt cache.
fn mark_last_user(wire: &mut [Value], mark: &Value) {
    let is_user = |message: &&mut Value| message.get("role") == Some(&json!("user"));
    let Some(message) = wire.iter_mut().rev().find(is_user) else { return };
    match message.get_mut("content") {
        Some(Value::String(text)) => {
            let part = json!({"type": "text", "text": text, "cache_control": mark});
            message["content"] = json!([part]);
        }
        Some(Value::Array(parts)) => {
            if let Some(part) = parts.last_mut() {
                part["cache_control"] = mark.clone();
            }
        }
        _ => {}
    }
}
