//! The conversation in the form of this API.
//!
//! Owns: the `input` of a request. Must not: apply rules that all APIs share;
//! `compose` has done so.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::compose::compose;
use super::super::parts::{IMAGES_FOLLOW, NO_OUTPUT, SEE_IMAGE, data_url, images_of, lines_of};
use super::super::{ModelInfo, ModelRequest};
use super::ids::{halves, message_id, wire_id};
use crate::protocol::message::{
    AgentMessage, AssistantMessage, ContentBlock, ImageBlock, TextBlock, ToolCall,
    ToolResultMessage, UserContent,
};

/// All items of a request.
pub fn input(request: &ModelRequest) -> Vec<Value> {
    let model = &request.model;
    let mut wire: Vec<Value> = system(request).into_iter().collect();
    let messages = compose(&request.messages, model, wire_id(&model.provider));
    for (index, message) in messages.iter().enumerate() {
        match message {
            AgentMessage::User(user) => wire.push(user_message(&user.content)),
            AgentMessage::Assistant(answer) => {
                let moved = is_from_another_model(answer, model);
                let items = answer.content.iter().filter_map(|block| item(block, index, moved));
                wire.extend(items);
            }
            AgentMessage::ToolResult(result) => wire.extend(tool_result(result)),
        }
    }
    wire
}

fn system(request: &ModelRequest) -> Option<Value> {
    let text = request.system.as_ref().filter(|text| !text.is_empty())?;
    let compat = &request.model.options.compat;
    let developer = request.model.reasoning && compat.supports_developer_role != Some(false);
    Some(json!({"role": if developer { "developer" } else { "system" }, "content": text}))
}

/// The same provider pairs ids of calls with thoughts; those of another model
/// of it are not sent along, so neither may the ids.
fn is_from_another_model(answer: &AssistantMessage, model: &ModelInfo) -> bool {
    answer.model != model.id
        && answer.provider == model.provider
        && answer.api == model.api.as_str()
}

fn user_message(content: &UserContent) -> Value {
    let parts: Vec<Value> = match content {
        UserContent::Text(text) => vec![text_part(text)],
        UserContent::Blocks(blocks) => blocks.iter().filter_map(user_part).collect(),
    };
    json!({"role": "user", "content": parts})
}

fn user_part(block: &ContentBlock) -> Option<Value> {
    match block {
        ContentBlock::Text(block) => Some(text_part(&block.text)),
        ContentBlock::Image(image) => Some(image_part(image)),
        _ => None,
    }
}

fn text_part(text: &str) -> Value {
    json!({"type": "input_text", "text": text})
}

fn image_part(image: &ImageBlock) -> Value {
    json!({"type": "input_image", "detail": "auto", "image_url": data_url(image)})
}

fn item(block: &ContentBlock, index: usize, moved: bool) -> Option<Value> {
    match block {
        ContentBlock::Text(block) => Some(text(block, index)),
        // The signature of a thought is the item itself.
        ContentBlock::Thinking(block) => {
            let item: Value = serde_json::from_str(block.thinking_signature.as_deref()?).ok()?;
            item.is_object().then_some(item)
        }
        ContentBlock::ToolCall(call) => Some(function_call(call, moved)),
        ContentBlock::Image(_) | ContentBlock::Unknown(_) => None,
    }
}

/// Later versions of the original sign a text with this, not with the bare id.
#[derive(Deserialize)]
struct Signature {
    id: String,
    phase: Option<String>,
}

fn text(block: &TextBlock, index: usize) -> Value {
    let signature = block.text_signature.as_deref().filter(|text| !text.is_empty());
    let structured = signature.and_then(|text| serde_json::from_str::<Signature>(text).ok());
    let (id, phase) = match (&structured, signature) {
        (Some(signature), _) => (message_id(&signature.id), signature.phase.as_deref()),
        (None, Some(id)) => (message_id(id), None),
        (None, None) => (format!("msg_{index}"), None),
    };
    let mut item = json!({
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": block.text, "annotations": []}],
        "status": "completed",
        "id": id,
    });
    if let Some(phase) = phase {
        item["phase"] = json!(phase);
    }
    item
}

fn function_call(call: &ToolCall, moved: bool) -> Value {
    let (call_id, item) = halves(&call.id);
    let mut wire = Map::new();
    wire.insert("type".into(), json!("function_call"));
    if let Some(item) = item.filter(|item| !(moved && item.starts_with("fc_"))) {
        wire.insert("id".into(), json!(item));
    }
    wire.insert("call_id".into(), json!(call_id));
    wire.insert("name".into(), json!(call.name));
    wire.insert("arguments".into(), json!(call.arguments.to_string()));
    Value::Object(wire)
}

/// Results hold text only; pictures follow as a user's.
fn tool_result(result: &ToolResultMessage) -> Vec<Value> {
    let text = lines_of(&result.content);
    let mut images: Vec<Value> = images_of(&result.content).map(image_part).collect();
    let output = match (text.is_empty(), images.is_empty()) {
        (false, _) => text.as_str(),
        (true, false) => SEE_IMAGE,
        (true, true) => NO_OUTPUT,
    };
    let (call_id, _) = halves(&result.tool_call_id);
    let mut items =
        vec![json!({"type": "function_call_output", "call_id": call_id, "output": output})];
    if !images.is_empty() {
        images.insert(0, text_part(IMAGES_FOLLOW));
        items.push(json!({"role": "user", "content": images}));
    }
    items
}
