//! The conversation as a model may see it.
//!
//! Owns: the rules that all APIs share. Promises: every tool call has exactly
//! one result, directly after its message; ids of calls are unique, and no API
//! refuses their names. Must not: know how an API writes messages.

use std::collections::HashSet;

use super::ModelInfo;
use crate::protocol::message::{
    AgentMessage, AssistantMessage, ContentBlock, ThinkingBlock, ToolCall, ToolResultMessage,
    UserContent, UserMessage,
};

/// What stands in for the result of a call that never got one.
const NO_RESULT: &str = "No result provided";
/// Longest name of a call that every API takes; no tool of ours has a longer one.
const NAME_MAX: usize = 64;
/// What stands in for pictures that the model cannot see.
const IMAGE_LEFT_OUT: &str = "(image left out: the model accepts only text)";

/// An answer with its calls, and the results that they have so far.
struct Calls {
    answer: AssistantMessage,
    /// Call ids as the transcript has them, by position.
    original: Vec<String>,
    results: Vec<Option<ToolResultMessage>>,
}

enum Turn {
    User(UserMessage),
    Assistant(Box<Calls>),
}

/// Applies the rules to `messages` for `model`. `wire_id` makes an id fit for
/// the API; it is asked only for ids of other models.
pub fn compose(
    messages: &[AgentMessage],
    model: &ModelInfo,
    wire_id: fn(&str) -> String,
) -> Vec<AgentMessage> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut ids = WireIds { wire_id, used: HashSet::new() };
    for message in messages {
        match message {
            AgentMessage::User(user) => turns.extend(user_turn(user, model).map(Turn::User)),
            AgentMessage::Assistant(answer) => {
                turns.extend(
                    assistant_turn(answer, model, &mut ids)
                        .map(|calls| Turn::Assistant(Box::new(calls))),
                );
            }
            AgentMessage::ToolResult(result) => place(&mut turns, result, model),
        }
    }
    turns.into_iter().flat_map(Turn::into_messages).collect()
}

impl Turn {
    fn into_messages(self) -> Vec<AgentMessage> {
        let calls = match self {
            Self::User(user) => return vec![AgentMessage::User(user)],
            Self::Assistant(calls) => calls,
        };
        let Calls { answer, results, .. } = *calls;
        let results: Vec<_> = answer
            .tool_calls()
            .zip(results)
            .map(|(call, result)| {
                let result = result.unwrap_or_else(|| missing(&answer));
                AgentMessage::ToolResult(ToolResultMessage {
                    tool_call_id: call.id.clone(),
                    tool_name: call.name.clone(),
                    ..result
                })
            })
            .collect();
        std::iter::once(AgentMessage::Assistant(answer)).chain(results).collect()
    }
}

fn missing(answer: &AssistantMessage) -> ToolResultMessage {
    ToolResultMessage {
        tool_call_id: String::new(),
        tool_name: String::new(),
        content: vec![ContentBlock::text(NO_RESULT)],
        details: None,
        is_error: true,
        timestamp: answer.timestamp,
        extra: serde_json::Map::new(),
    }
}

fn user_turn(user: &UserMessage, model: &ModelInfo) -> Option<UserMessage> {
    let content = match &user.content {
        UserContent::Text(text) if text.is_empty() => return None,
        UserContent::Text(text) => UserContent::Text(text.clone()),
        UserContent::Blocks(blocks) => {
            let blocks = told(blocks, model);
            if blocks.is_empty() {
                return None;
            }
            UserContent::Blocks(blocks)
        }
    };
    Some(UserMessage { content, ..user.clone() })
}

/// What a user sent, with words where the model cannot see a picture: one that was asked
/// before it may have been shown it.
fn told(blocks: &[ContentBlock], model: &ModelInfo) -> Vec<ContentBlock> {
    let told = blocks.iter().filter_map(|block| match block {
        ContentBlock::Image(_) if !model.accepts_images() => {
            Some(ContentBlock::text(IMAGE_LEFT_OUT))
        }
        block => is_visible(block, model).then(|| block.clone()),
    });
    told.collect()
}

fn visible(blocks: &[ContentBlock], model: &ModelInfo) -> Vec<ContentBlock> {
    blocks.iter().filter(|block| is_visible(block, model)).cloned().collect()
}

/// Text that says something, and pictures where the model takes them.
fn is_visible(block: &ContentBlock, model: &ModelInfo) -> bool {
    match block {
        ContentBlock::Text(block) => !block.text.is_empty(),
        ContentBlock::Image(_) => model.accepts_images(),
        _ => false,
    }
}

fn assistant_turn(
    answer: &AssistantMessage,
    model: &ModelInfo,
    ids: &mut WireIds,
) -> Option<Calls> {
    if answer.stop_reason.has_failed() {
        return None;
    }
    let same = answer.provider == model.provider
        && answer.api == model.api.as_str()
        && answer.model == model.id;
    let mut original = Vec::new();
    let mut content = Vec::new();
    for block in &answer.content {
        match block {
            ContentBlock::Text(block) if block.text.trim().is_empty() => {}
            ContentBlock::Text(block) => {
                let mut block = block.clone();
                block.text_signature = block.text_signature.filter(|_| same);
                content.push(ContentBlock::Text(block));
            }
            ContentBlock::Thinking(block) => content.extend(thinking(block, same)),
            ContentBlock::ToolCall(call) if is_whole(call) => {
                original.push(call.id.clone());
                let mut call = call.clone();
                call.thought_signature = call.thought_signature.filter(|_| same);
                call.id = ids.take(&call.id, same);
                call.name = wire_name(&call.name);
                content.push(ContentBlock::ToolCall(call));
            }
            ContentBlock::ToolCall(_) | ContentBlock::Image(_) | ContentBlock::Unknown(_) => {}
        }
    }
    if content.is_empty() {
        return None;
    }
    let results = original.iter().map(|_| None).collect();
    Some(Calls { answer: AssistantMessage { content, ..answer.clone() }, original, results })
}

fn is_whole(call: &ToolCall) -> bool {
    !call.id.is_empty() && !call.name.is_empty() && call.arguments.is_object()
}

/// The name of a call as every API takes it. Models make names up, and one that an API does
/// not like would have each later request of the conversation refused.
fn wire_name(name: &str) -> String {
    fit(name, NAME_MAX)
}

/// So much of a name or an id, in characters that every API takes.
pub(super) fn fit(text: &str, most: usize) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    text.chars().map(|c| if fits(c) { c } else { '_' }).take(most).collect()
}

fn thinking(block: &ThinkingBlock, same: bool) -> Option<ContentBlock> {
    let says_something = !block.thinking.trim().is_empty();
    if block.redacted == Some(true) {
        return same.then(|| ContentBlock::Thinking(block.clone()));
    }
    match (same, block.thinking_signature.is_some()) {
        // An empty thought may still carry what the provider wants back.
        (true, true) => Some(ContentBlock::Thinking(block.clone())),
        (true, false) => says_something.then(|| ContentBlock::Thinking(block.clone())),
        (false, _) => says_something.then(|| ContentBlock::text(&block.thinking)),
    }
}

/// Puts a result beside its call: the nearest one before it that still waits.
/// A result without call, or a second one, is dropped.
fn place(turns: &mut [Turn], result: &ToolResultMessage, model: &ModelInfo) {
    let waiting = turns.iter_mut().rev().find_map(|turn| {
        let Turn::Assistant(calls) = turn else { return None };
        let mut pairs = calls.original.iter().zip(&mut calls.results);
        pairs.find_map(|(id, slot)| (*id == result.tool_call_id && slot.is_none()).then_some(slot))
    });
    if let Some(slot) = waiting {
        let mut content = visible(&result.content, model);
        if content.is_empty() && result.content.iter().any(is_image) {
            content.push(ContentBlock::text(IMAGE_LEFT_OUT));
        }
        *slot = Some(ToolResultMessage { content, details: None, ..result.clone() });
    }
}

fn is_image(block: &ContentBlock) -> bool {
    matches!(block, ContentBlock::Image(_))
}

/// Ids that the API accepts and that occur once: APIs refuse a conversation
/// with two calls of the same id.
struct WireIds {
    wire_id: fn(&str) -> String,
    used: HashSet<String>,
}

impl WireIds {
    fn take(&mut self, id: &str, same_model: bool) -> String {
        let wished = if same_model { id.to_owned() } else { (self.wire_id)(id) };
        let mut free = wished.clone();
        let mut count = 1_u32;
        while self.is_unusable(&free) {
            count += 1;
            // The number comes first, so that shortening cannot cut it off;
            // letters and digits only, which every API accepts.
            free = (self.wire_id)(&format!("n{count}x{wished}"));
        }
        free
    }

    /// Whether nothing of it tells the call, or another one has it.
    fn is_unusable(&mut self, id: &str) -> bool {
        let call = call_of(id);
        call.is_empty() || !self.used.insert(call)
    }
}

/// What a call is told from others by. The Responses API has ids `call|item`, and looks at
/// the first half alone.
pub(super) fn call_of(id: &str) -> String {
    id.split_once('|').map_or(id, |(call, _)| call).to_owned()
}

#[cfg(test)]
mod tests;
