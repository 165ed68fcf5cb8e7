//! The conversation in the form of this API.
//!
//! Owns: the `messages` of a request. Must not: apply rules that all APIs
//! share; `compose` has done so.

use serde_json::{Map, Value};

use super::super::ModelRequest;
use super::super::compose::compose;
use super::super::parts::{IMAGES_FOLLOW, NO_OUTPUT, SEE_IMAGE, images_of};
use crate::protocol::message::{
    AgentMessage, AssistantMessage, ContentBlock, ToolCall, ToolResultMessage, UserContent, text_of,
};
use crate::support::json;

/// All messages of a request.
pub fn messages(request: &ModelRequest) -> Vec<Value> {
    let system = request.system.iter().filter(|text| !text.is_empty());
    let mut wire: Vec<Value> =
        system.map(|text| json!({"role": "system", "content": text})).collect();
    let mut images: Vec<&str> = Vec::new();
    let messages = compose(&request.messages, &request.model, str::to_owned);
    for message in &messages {
        if let AgentMessage::ToolResult(result) = message {
            images.extend(pictures(&result.content));
            wire.push(tool_result(result));
            continue;
        }
        wire.extend(take_images(&mut images));
        match message {
            AgentMessage::User(user) => wire.push(user_message(&user.content)),
            AgentMessage::Assistant(answer) => wire.extend(assistant(answer)),
            AgentMessage::ToolResult(_) => {}
        }
    }
    wire.extend(take_images(&mut images));
    wire
}

fn user_message(content: &UserContent) -> Value {
    match content {
        UserContent::Text(text) => json!({"role": "user", "content": text}),
        UserContent::Blocks(blocks) => {
            with_images(text_of(blocks).as_str(), &pictures(blocks).collect::<Vec<_>>())
        }
    }
}

fn with_images(text: &str, images: &[&str]) -> Value {
    let mut message = json!({"role": "user", "content": text});
    if !images.is_empty() {
        message["images"] = json!(images);
    }
    message
}

fn pictures(blocks: &[ContentBlock]) -> impl Iterator<Item = &str> {
    images_of(blocks).map(|image| image.data.as_str())
}

/// Pictures of a batch of results follow as a user's.
fn take_images(images: &mut Vec<&str>) -> Option<Value> {
    let images = std::mem::take(images);
    (!images.is_empty()).then(|| with_images(IMAGES_FOLLOW, &images))
}

/// Thoughts stay here: the server's templates make them up anew.
fn assistant(answer: &AssistantMessage) -> Option<Value> {
    let text = text_of(&answer.content);
    let calls: Vec<Value> = answer.tool_calls().map(tool_call).collect();
    if text.is_empty() && calls.is_empty() {
        return None;
    }
    let mut wire = Map::new();
    wire.insert("role".into(), json!("assistant"));
    wire.insert("content".into(), json!(text));
    if !calls.is_empty() {
        wire.insert("tool_calls".into(), json!(calls));
    }
    Some(Value::Object(wire))
}

fn tool_call(call: &ToolCall) -> Value {
    json!({"function": {"name": call.name, "arguments": call.arguments}})
}

fn tool_result(result: &ToolResultMessage) -> Value {
    let text = text_of(&result.content);
    let content = match (text.is_empty(), pictures(&result.content).next()) {
        (false, _) => text.as_str(),
        (true, Some(_)) => SEE_IMAGE,
        (true, None) => NO_OUTPUT,
    };
    json!({"role": "tool", "content": content, "tool_name": result.tool_name})
}
