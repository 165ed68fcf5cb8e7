//! The conversation in the form of this API.
//!
//! Owns: the `input` of a request. Must not: apply rules that all APIs share;
//! `compose` has done so.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::compose::compose;
use super::super::parts::{IMAGES_FOLLOW, NO_OUTPUT, SEE_IMAGE, data_url, images_of, lines_of};
use super::super::{ModelInfo, ModelRequest};
use super::ids::{halves, message_id, wire_id};
use crate::protocol::message::{
    AgentMessage, AssistantMessage, ContentBlock, ImageBlock, TextBlock, ToolCall,
    ToolResultMessage, UserContent,
};
use crate::support::{json, sort};

/// All items of a request.
pub fn input(request: &ModelRequest) -> Vec<Value> {
    let model = &request.model;
    let mut wire: Vec<Value> = system(request).into_iter().collect();
    let mut images: Vec<Value> = Vec::new();
    let messages = compose(&request.messages, model, wire_id);
    for (index, message) in messages.iter().enumerate() {
        if let AgentMessage::ToolResult(result) = message {
            images.extend(images_of(&result.content).map(image_part));
            wire.push(tool_result(result));
            continue;
        }
        wire.extend(take_images(&mut images));
        match message {
            AgentMessage::User(user) => wire.push(user_message(&user.content)),
            AgentMessage::Assistant(answer) => wire.extend(items(answer, index, model)),
            AgentMessage::ToolResult(_) => {}
        }
    }
    wire.extend(take_images(&mut images));
    wire
}

/// Results hold text only; pictures of a batch of them follow as a user's.
fn take_images(images: &mut Vec<Value>) -> Option<Value> {
    let mut parts = std::mem::take(images);
    if parts.is_empty() {
        return None;
    }
    parts.insert(0, text_part(IMAGES_FOLLOW));
    Some(json!({"role": "user", "content": parts}))
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

/// The items of the answer at this place of the conversation.
fn items(answer: &AssistantMessage, index: usize, model: &ModelInfo) -> Vec<Value> {
    let thoughts: Vec<_> = answer.content.iter().map(thought).collect();
    // Without the thought that came before them the provider refuses its own ids.
    let has_thoughts = thoughts.iter().flatten().all(says_thought);
    let has_ids = has_thoughts && !is_from_another_model(answer, model);
    let mut texts = 0;
    let items = answer.content.iter().zip(thoughts).filter_map(|(block, thought)| match block {
        ContentBlock::Text(block) => {
            texts += 1;
            // The first is called as the original calls them all.
            let own_id =
                if texts == 1 { format!("msg_{index}") } else { format!("msg_{index}_{texts}") };
            Some(text(block, own_id, has_ids))
        }
        ContentBlock::Thinking(_) => thought.filter(says_thought),
        ContentBlock::ToolCall(call) => Some(function_call(call, has_ids)),
        ContentBlock::Image(_) | ContentBlock::Unknown(_) => None,
    });
    let mut items: Vec<Value> = items.collect();
    // Other APIs let an answer go on behind its calls. Here that would stand between a call
    // and its result.
    if answer.api != model.api.as_str() {
        sort::by_key(&mut items, |item| item["type"] == "function_call");
    }
    items
}

/// The item of a thought, which is its signature.
fn thought(block: &ContentBlock) -> Option<Value> {
    let ContentBlock::Thinking(block) = block else { return None };
    let item: Value = serde_json::from_str(block.thinking_signature.as_deref()?).ok()?;
    item.is_object().then_some(item)
}

/// Whether an item holds what was thought. One that only names it is refused: the provider
/// was told to store nothing.
fn says_thought(item: &Value) -> bool {
    let sealed = item.get("encrypted_content").and_then(Value::as_str);
    // Servers that people run themselves write it openly.
    let open = item.get("content").and_then(Value::as_array);
    sealed.is_some_and(|text| !text.is_empty()) || open.is_some_and(|parts| !parts.is_empty())
}

/// Later versions of the original sign a text with this, not with the bare id.
#[derive(Deserialize)]
struct Signature {
    id: String,
    phase: Option<String>,
}

/// A text without an id of the provider's gets `own_id`: the API wants one, and refuses one
/// that another item has.
fn text(block: &TextBlock, own_id: String, has_ids: bool) -> Value {
    let signature = block.text_signature.as_deref().filter(|text| !text.is_empty());
    let structured = signature.and_then(|text| serde_json::from_str::<Signature>(text).ok());
    let (id, phase) = match (&structured, signature) {
        (Some(signature), _) => (Some(signature.id.as_str()), signature.phase.as_deref()),
        (None, id) => (id, None),
    };
    let id = id.filter(|id| has_ids && !id.is_empty()).map_or(own_id, message_id);
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

fn function_call(call: &ToolCall, has_ids: bool) -> Value {
    let (call_id, item) = halves(&call.id);
    let mut wire = Map::new();
    wire.insert("type".into(), json!("function_call"));
    if let Some(item) = item.filter(|item| has_ids || !item.starts_with("fc_")) {
        wire.insert("id".into(), json!(item));
    }
    wire.insert("call_id".into(), json!(call_id));
    wire.insert("name".into(), json!(call.name));
    wire.insert("arguments".into(), json!(call.arguments.to_string()));
    Value::Object(wire)
}

fn tool_result(result: &ToolResultMessage) -> Value {
    let text = lines_of(&result.content);
    let output = match (text.is_empty(), images_of(&result.content).next()) {
        (false, _) => text.as_str(),
        (true, Some(_)) => SEE_IMAGE,
        (true, None) => NO_OUTPUT,
    };
    let (call_id, _) = halves(&result.tool_call_id);
    json!({"type": "function_call_output", "call_id": call_id, "output": output})
}
