//! The conversation in the form of this API.
//!
//! Owns: the `messages` of a request. Must not: apply rules that all APIs
//! share; `compose` has done so.

use serde_json::{Map, Value, json};

use super::super::compose::compose;
use super::super::{ModelInfo, ModelRequest};
use super::compat::Compat;
use super::stream::THINKING_FIELDS;
use crate::protocol::message::{
    AgentMessage, AssistantMessage, ContentBlock, ImageBlock, ToolCall, ToolResultMessage,
    UserContent, text_of,
};

const IMAGES_FOLLOW: &str = "Attached image(s) from tool result:";
const SEE_IMAGE: &str = "(see attached image)";
const NO_OUTPUT: &str = "(no output)";

/// All messages of a request.
pub fn messages(request: &ModelRequest, compat: &Compat) -> Vec<Value> {
    let model = &request.model;
    let mut wire: Vec<Value> =
        request.system.iter().map(|text| system(text, model, compat)).collect();
    let mut images = Vec::new();
    for message in compose(&request.messages, model, compat.tool_id) {
        match &message {
            AgentMessage::ToolResult(result) => {
                images.extend(image_parts(&result.content));
                wire.push(tool_result(result));
                continue;
            }
            _ => wire.extend(take_images(&mut images)),
        }
        match &message {
            AgentMessage::User(user) => wire.push(json!({
                "role": "user", "content": user_content(&user.content),
            })),
            AgentMessage::Assistant(answer) => wire.extend(assistant(answer)),
            AgentMessage::ToolResult(_) => {}
        }
    }
    wire.extend(take_images(&mut images));
    if compat.cache_marks {
        mark_last_text(&mut wire);
    }
    wire
}

fn system(text: &str, model: &ModelInfo, compat: &Compat) -> Value {
    let developer = model.reasoning && compat.openai_fields;
    json!({"role": if developer { "developer" } else { "system" }, "content": text})
}

fn user_content(content: &UserContent) -> Value {
    let blocks = match content {
        UserContent::Text(text) => return json!(text),
        UserContent::Blocks(blocks) => blocks,
    };
    let parts = blocks.iter().filter_map(|block| match block {
        ContentBlock::Text(block) => Some(json!({"type": "text", "text": block.text})),
        ContentBlock::Image(image) => Some(image_part(image)),
        _ => None,
    });
    parts.collect()
}

fn image_part(image: &ImageBlock) -> Value {
    let url = format!("data:{};base64,{}", image.mime_type, image.data);
    json!({"type": "image_url", "image_url": {"url": url}})
}

fn image_parts(blocks: &[ContentBlock]) -> impl Iterator<Item = Value> {
    blocks.iter().filter_map(|block| match block {
        ContentBlock::Image(image) => Some(image_part(image)),
        _ => None,
    })
}

/// Results cannot hold pictures here, so those of a batch follow as a user's.
fn take_images(images: &mut Vec<Value>) -> Option<Value> {
    if images.is_empty() {
        return None;
    }
    let mut parts = vec![json!({"type": "text", "text": IMAGES_FOLLOW})];
    parts.append(images);
    Some(json!({"role": "user", "content": parts}))
}

fn tool_result(result: &ToolResultMessage) -> Value {
    let texts = result.content.iter().filter_map(|block| match block {
        ContentBlock::Text(block) => Some(block.text.as_str()),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    let content = match (text.is_empty(), result.content.is_empty()) {
        (false, _) => text,
        (true, false) => SEE_IMAGE.to_owned(),
        (true, true) => NO_OUTPUT.to_owned(),
    };
    json!({"role": "tool", "content": content, "tool_call_id": result.tool_call_id})
}

fn assistant(answer: &AssistantMessage) -> Option<Value> {
    let text = text_of(&answer.content);
    let calls: Vec<Value> = answer.tool_calls().map(tool_call).collect();
    if text.is_empty() && calls.is_empty() {
        return None;
    }
    let mut wire = Map::new();
    wire.insert("role".into(), json!("assistant"));
    wire.insert("content".into(), if text.is_empty() { Value::Null } else { json!(text) });
    wire.extend(echoed_thinking(&answer.content));
    if !calls.is_empty() {
        wire.insert("tool_calls".into(), json!(calls));
    }
    let details: Vec<Value> = answer.tool_calls().filter_map(reasoning_detail).collect();
    if !details.is_empty() {
        wire.insert("reasoning_details".into(), json!(details));
    }
    Some(Value::Object(wire))
}

/// Thoughts go back in the field that they came in; its name is the signature.
fn echoed_thinking(content: &[ContentBlock]) -> Option<(String, Value)> {
    let mut field = None;
    let mut thoughts = Vec::new();
    for block in content {
        if let ContentBlock::Thinking(block) = block
            && !block.thinking.trim().is_empty()
        {
            field = field.or(block.thinking_signature.as_deref());
            thoughts.push(block.thinking.as_str());
        }
    }
    let field = field.filter(|field| THINKING_FIELDS.contains(field))?;
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
