//! The conversation in the form of this API.
//!
//! Owns: the `contents` of a request. Must not: apply rules that all APIs
//! share; `compose` has done so.

use serde_json::{Map, Value};

use super::super::ModelRequest;
use super::super::compose::{compose, fit};
use super::super::parts::{BEGINNING, SEE_IMAGE, images_of, lines_of};
use super::thinking::is_of_third_generation;
use crate::protocol::message::{
    AgentMessage, AssistantMessage, ContentBlock, ImageBlock, ToolCall, ToolResultMessage,
    UserContent,
};
use crate::support::json;

const MAX_ID: usize = 64;
const IMAGES_FOLLOW: &str = "Tool result image:";
/// What the API takes instead of a signature that nobody has.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// All turns of a request.
pub fn contents(request: &ModelRequest) -> Vec<Value> {
    let id = request.model.id.as_str();
    let rules = Rules {
        ids: wants_ids(id),
        third_generation: is_of_third_generation(id),
        provider: &request.model.provider,
        model: id,
    };
    let mut turns: Vec<Value> = Vec::new();
    let wire_id = if rules.ids { tool_id } else { str::to_owned };
    let mut images: Vec<Value> = Vec::new();
    for message in compose(&request.messages, &request.model, wire_id) {
        if let AgentMessage::ToolResult(result) = &message {
            images.extend(rules.push_result(&mut turns, result));
            continue;
        }
        push_images(&mut turns, &mut images);
        match &message {
            AgentMessage::User(user) => push(&mut turns, "user", user_parts(&user.content)),
            AgentMessage::Assistant(answer) => {
                let parts = rules.answer_parts(answer);
                if parts.is_empty() {
                    continue;
                }
                if turns.is_empty() {
                    push(&mut turns, "user", vec![json!({"text": BEGINNING})]);
                }
                push(&mut turns, "model", parts);
            }
            AgentMessage::ToolResult(_) => {}
        }
    }
    push_images(&mut turns, &mut images);
    turns
}

/// Neighbours of one role are one turn, as roles have to take turns. Results stay alone:
/// the API counts the parts of their turn.
fn push(turns: &mut Vec<Value>, role: &str, parts: Vec<Value>) {
    let fits =
        |last: &&mut Value| last.get("role").is_some_and(|it| it == role) && !holds_results(last);
    let before = turns.last_mut().filter(fits).and_then(parts_of);
    match before {
        Some(before) => before.extend(parts),
        None => turns.push(turn(role, parts)),
    }
}

/// Pictures of a batch of results follow as a user's.
fn push_images(turns: &mut Vec<Value>, images: &mut Vec<Value>) {
    let mut parts = std::mem::take(images);
    if !parts.is_empty() {
        parts.insert(0, json!({"text": IMAGES_FOLLOW}));
        push(turns, "user", parts);
    }
}

/// What depends on the model.
struct Rules<'a> {
    /// Whether calls have ids.
    ids: bool,
    /// Whether calls must be signed, and results may hold pictures.
    third_generation: bool,
    provider: &'a str,
    model: &'a str,
}

/// Models of others that Google serves pair calls and results by id.
fn wants_ids(model: &str) -> bool {
    model.starts_with("claude-") || model.starts_with("gpt-oss-")
}

fn tool_id(id: &str) -> String {
    fit(id, MAX_ID)
}

fn turn(role: &str, parts: impl Into<Value>) -> Value {
    json!({"role": role, "parts": parts.into()})
}

fn user_parts(content: &UserContent) -> Vec<Value> {
    match content {
        UserContent::Text(text) => vec![json!({"text": text})],
        UserContent::Blocks(blocks) => {
            let parts = blocks.iter().filter_map(|block| match block {
                ContentBlock::Text(block) => Some(json!({"text": block.text})),
                ContentBlock::Image(image) => Some(image_part(image)),
                _ => None,
            });
            parts.collect()
        }
    }
}

fn image_part(image: &ImageBlock) -> Value {
    json!({"inlineData": {"mimeType": image.mime_type, "data": image.data}})
}

impl Rules<'_> {
    fn answer_parts(&self, answer: &AssistantMessage) -> Vec<Value> {
        let same = answer.provider == self.provider && answer.model == self.model;
        let signed = |signature: &Option<String>| {
            signature.as_deref().filter(|text| same && is_base64(text)).map(str::to_owned)
        };
        let parts = answer.content.iter().filter_map(|block| match block {
            ContentBlock::Text(block) if block.text.trim().is_empty() => None,
            ContentBlock::Text(block) => {
                Some(with_signature(json!({"text": block.text}), signed(&block.text_signature)))
            }
            ContentBlock::Thinking(block) if block.thinking.trim().is_empty() => None,
            ContentBlock::Thinking(block) if same => Some(with_signature(
                json!({"thought": true, "text": block.thinking}),
                signed(&block.thinking_signature),
            )),
            ContentBlock::Thinking(block) => Some(json!({"text": block.thinking})),
            ContentBlock::ToolCall(call) => {
                Some(self.call_part(call, signed(&call.thought_signature)))
            }
            ContentBlock::Image(_) | ContentBlock::Unknown(_) => None,
        });
        parts.collect()
    }

    fn call_part(&self, call: &ToolCall, signature: Option<String>) -> Value {
        let mut function = json!({"name": call.name, "args": call.arguments});
        if self.ids {
            function["id"] = json!(call.id);
        }
        let stand_in = self.third_generation.then(|| NO_SIGNATURE.to_owned());
        with_signature(json!({"functionCall": function}), signature.or(stand_in))
    }

    /// All results of an answer belong into one turn: the API refuses what stands
    /// between them. Gives the pictures that have no place in it.
    fn push_result(&self, turns: &mut Vec<Value>, result: &ToolResultMessage) -> Vec<Value> {
        let text = lines_of(&result.content);
        let mut images: Vec<Value> = images_of(&result.content).map(image_part).collect();
        let text = if text.is_empty() && !images.is_empty() { SEE_IMAGE } else { &text };
        let mut response = Map::new();
        response.insert("name".into(), json!(result.tool_name));
        let member = if result.is_error { "error" } else { "output" };
        response.insert("response".into(), json!({member: text}));
        let inside = self.third_generation && !images.is_empty();
        if inside {
            response.insert("parts".into(), json!(std::mem::take(&mut images)));
        }
        if self.ids {
            response.insert("id".into(), json!(result.tool_call_id));
        }
        let part = json!({"functionResponse": response});
        match turns.last_mut().filter(|last| holds_results(last)).and_then(parts_of) {
            Some(parts) => parts.push(part),
            None => turns.push(turn("user", vec![part])),
        }
        images
    }
}

fn parts_of(turn: &mut Value) -> Option<&mut Vec<Value>> {
    turn.get_mut("parts")?.as_array_mut()
}

fn holds_results(turn: &Value) -> bool {
    let parts = turn.get("parts").and_then(Value::as_array);
    parts.is_some_and(|parts| parts.iter().any(|part| part.get("functionResponse").is_some()))
}

fn with_signature(mut part: Value, signature: Option<String>) -> Value {
    if let Some(signature) = signature {
        part["thoughtSignature"] = json!(signature);
    }
    part
}

/// Signatures are bytes to this API; those of others are not.
fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/');
    !digits.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - digits.len() <= 2
        && digits.chars().all(fits)
}
