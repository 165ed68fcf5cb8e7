//! How large a context is, and where to cut it.
//!
//! Promises: a tool call and its result stay on the same side of the cut. Must
//! not: ask a model; tokens are guessed from bytes.

use std::collections::HashMap;

use crate::protocol::message::{AgentMessage, ContentBlock, UserContent};
use crate::sessions::ContextEntry;

/// Bytes of text that a token stands for.
const BYTES_PER_TOKEN: usize = 4;
/// Tokens of a picture.
const IMAGE_TOKENS: usize = 1_200;

/// What is to be summed up, and what is kept.
#[derive(Debug, PartialEq)]
pub struct Plan<'c> {
    /// The summary that the context begins with.
    pub previous: Option<&'c str>,
    /// What the new summary stands for, with the previous one.
    pub summed: &'c [ContextEntry],
    /// What the model still reads in full.
    pub kept: &'c [ContextEntry],
}

/// Why there is nothing to sum up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nothing {
    /// Nobody has said anything.
    Empty,
    /// All that follows the last summary is recent, and nobody has asked.
    Recent,
}

impl Nothing {
    /// The `reason` on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "no real conversation messages",
            Self::Recent => "nothing to compact",
        }
    }
}

/// Splits a context so that at least the newest `keep` tokens are kept.
pub fn plan(context: &[ContextEntry], keep: u64) -> Result<Plan<'_>, Nothing> {
    let previous = context.first().and_then(|entry| entry.summary.as_deref());
    let (_, rest) = context.split_at(usize::from(previous.is_some()));
    if !rest.iter().any(|entry| says_something(&entry.message)) {
        return Err(Nothing::Empty);
    }
    let at = cut(rest, keep);
    let (summed, kept) = rest.split_at(at);
    if summed.iter().any(|entry| says_something(&entry.message)) {
        Ok(Plan { previous, summed, kept })
    } else {
        Err(Nothing::Recent)
    }
}

/// The index of the first entry to keep.
fn cut(entries: &[ContextEntry], keep: u64) -> usize {
    let mut budget = keep;
    let mut from = entries.len();
    for (index, entry) in entries.iter().enumerate().rev() {
        if budget == 0 {
            break;
        }
        budget = budget.saturating_sub(tokens(&entry.message));
        from = index;
    }
    let inside = between_call_and_result(entries);
    let is_allowed = |index: &usize| !inside.get(*index).copied().unwrap_or_default();
    // Rather keep more than cut a pair apart.
    (0..=from).rev().find(is_allowed).unwrap_or_default()
}

/// Whether a cut before an entry would part a call from its result.
fn between_call_and_result(entries: &[ContextEntry]) -> Vec<bool> {
    let mut inside = vec![false; entries.len()];
    let mut calls: HashMap<&str, usize> = HashMap::new();
    for (index, entry) in entries.iter().enumerate() {
        match &entry.message {
            AgentMessage::Assistant(message) => {
                calls.extend(message.tool_calls().map(|call| (call.id.as_str(), index)));
            }
            AgentMessage::ToolResult(result) => {
                let call = calls.remove(result.tool_call_id.as_str());
                let pair = call.and_then(|call| inside.get_mut(call + 1..=index));
                pair.into_iter().flatten().for_each(|flag| *flag = true);
            }
            AgentMessage::User(_) => {}
        }
    }
    inside
}

fn says_something(message: &AgentMessage) -> bool {
    match message {
        AgentMessage::User(message) => match &message.content {
            UserContent::Text(text) => !text.trim().is_empty(),
            UserContent::Blocks(blocks) => blocks.iter().any(is_content),
        },
        AgentMessage::Assistant(message) => message.content.iter().any(is_content),
        AgentMessage::ToolResult(_) => false,
    }
}

fn is_content(block: &ContentBlock) -> bool {
    match block {
        ContentBlock::Text(block) => !block.text.trim().is_empty(),
        ContentBlock::Image(_) | ContentBlock::ToolCall(_) => true,
        ContentBlock::Thinking(_) | ContentBlock::Unknown(_) => false,
    }
}

/// Tokens of a context: the most that a provider counted, since a message that was asked
/// alone says nothing of it, and a guess of what came since then.
pub fn context_tokens(context: &[ContextEntry]) -> u64 {
    // Answers before the summary were given to a longer context.
    let summed_at = context.first().filter(|entry| entry.summary.is_some());
    let summed_at = summed_at.map(|entry| entry.message.timestamp()).unwrap_or_default();
    let counted = context.iter().enumerate().filter_map(|(index, entry)| {
        let AgentMessage::Assistant(message) = &entry.message else { return None };
        let usage = &message.usage;
        let parts = usage.input + usage.output + usage.cache_read + usage.cache_write;
        let total = usage.total_tokens.max(parts);
        let is_counted = total > 0 && !message.stop_reason.has_failed();
        (is_counted && message.timestamp >= summed_at).then_some((index + 1, total))
    });
    let (from, total) = counted.max_by_key(|(_, total)| *total).unwrap_or_default();
    total + guess(context.get(from..).unwrap_or_default())
}

/// A guess at the tokens of these entries.
pub fn guess(entries: &[ContextEntry]) -> u64 {
    entries.iter().map(|entry| tokens(&entry.message)).sum()
}

fn tokens(message: &AgentMessage) -> u64 {
    let bytes = match message {
        AgentMessage::User(message) => match &message.content {
            UserContent::Text(text) => text.len(),
            UserContent::Blocks(blocks) => size(blocks),
        },
        AgentMessage::Assistant(message) => size(&message.content),
        AgentMessage::ToolResult(message) => size(&message.content),
    };
    in_tokens(bytes)
}

/// A guess at the tokens of a text.
pub fn text_tokens(text: &str) -> u64 {
    in_tokens(text.len())
}

/// A guess at the tokens of some blocks.
pub fn block_tokens(blocks: &[ContentBlock]) -> u64 {
    in_tokens(size(blocks))
}

/// A guess at the tokens of so many bytes of text.
pub fn in_tokens(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(BYTES_PER_TOKEN)).unwrap_or(u64::MAX)
}

fn size(blocks: &[ContentBlock]) -> usize {
    let sizes = blocks.iter().map(|block| match block {
        ContentBlock::Text(block) => block.text.len(),
        ContentBlock::Thinking(block) => block.thinking.len(),
        ContentBlock::Image(_) => IMAGE_TOKENS * BYTES_PER_TOKEN,
        ContentBlock::ToolCall(call) => call.name.len() + call.arguments.to_string().len(),
        ContentBlock::Unknown(value) => value.to_string().len(),
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    use crate::support::json;

    fn entry(number: usize, message: Value) -> ContextEntry {
        let message = serde_json::from_value(message).unwrap();
        ContextEntry { id: number.to_string(), message, summary: None }
    }

    fn user(number: usize, size: usize) -> ContextEntry {
        entry(number, json!({"role": "user", "content": "x".repeat(size), "timestamp": 5}))
    }

    fn calls(number: usize, ids: &[u8]) -> ContextEntry {
        let call = |id: &u8| json!({"type": "toolCall", "id": format!("c{id}"), "name": "read", "arguments": {}});
        let content: Vec<Value> = ids.iter().map(call).collect();
        entry(
            number,
            json!({"role": "assistant", "content": content, "api": "a", "provider": "p",
            "model": "m", "usage": {"totalTokens": 7_000}, "stopReason": "toolUse", "timestamp": 6}),
        )
    }

    fn result(number: usize, id: u8) -> ContextEntry {
        entry(
            number,
            json!({"role": "toolResult", "toolCallId": format!("c{id}"), "toolName": "read",
            "content": [{"type": "text", "text": "y".repeat(400)}], "timestamp": 7}),
        )
    }

    #[test]
    fn as_much_as_wanted_is_kept() {
        let context = [user(0, 400), user(1, 400), user(2, 400), user(3, 400)];
        let kept = |keep| plan(&context, keep).map(|plan| plan.kept.len());
        assert_eq!(kept(0), Ok(0));
        assert_eq!(kept(1), Ok(1));
        assert_eq!(kept(100), Ok(1));
        assert_eq!(kept(101), Ok(2));
        assert_eq!(kept(301), Err(Nothing::Recent));
        assert_eq!(plan(&[], 0), Err(Nothing::Empty));
        assert_eq!(plan(&[user(0, 0)], 0), Err(Nothing::Empty));
    }

    #[test]
    fn a_summary_is_not_summed_up_alone() {
        let mut summary = user(0, 400);
        summary.summary = Some("S".into());
        let context = [summary, user(1, 400), user(2, 400)];
        let first = plan(&context, 100).unwrap();
        assert_eq!((first.previous, first.summed.len(), first.kept.len()), (Some("S"), 1, 1));
        assert_eq!(plan(&context, 101), Err(Nothing::Recent));
        assert_eq!(plan(&context[..1], 0), Err(Nothing::Empty));
    }

    #[test]
    fn a_call_keeps_its_results() {
        let context = [user(0, 400), calls(1, &[1, 2]), result(2, 1), user(3, 4), result(4, 2)];
        for keep in 1..=200 {
            assert_eq!(plan(&context, keep).unwrap().kept.len(), 4, "{keep}");
        }
    }

    #[test]
    fn the_providers_count_comes_first_where_it_still_holds() {
        let mut context = vec![user(0, 400), calls(1, &[1]), result(2, 1)];
        assert_eq!(context_tokens(&context), 7_100);
        context[0].summary = Some("S".into());
        assert_eq!(context_tokens(&context), 7_100);
        let later = json!({"role": "user", "content": "x".repeat(400), "timestamp": 9});
        context[0].message = serde_json::from_value(later).unwrap();
        assert_eq!(context_tokens(&context), guess(&context));
    }

    proptest! {
        #[test]
        fn no_cut_parts_a_call_from_its_result(
            kinds in proptest::collection::vec((0..3_u8, 0..3_u8), 0..20), keep in 0..900_u64,
        ) {
            let context: Vec<_> = kinds.iter().enumerate().map(|(number, (kind, id))| match kind {
                0 => user(number, 300),
                1 => calls(number, &[*id, id + 1]),
                _ => result(number, *id),
            }).collect();
            if let Ok(plan) = plan(&context, keep) {
                let at = plan.summed.len();
                prop_assert!(!between_call_and_result(&context).get(at).copied().unwrap_or_default());
                prop_assert_eq!(at + plan.kept.len(), context.len());
                prop_assert!(plan.kept.is_empty() == (keep == 0) || at < context.len());
            }
        }
    }
}
