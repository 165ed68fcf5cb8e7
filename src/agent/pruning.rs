//! Old results of tools, taken out of what the model reads.
//!
//! Promises: transcripts keep everything; what was said by people and models
//! stays whole, and so do recent results and those with pictures.
//!
//! [`Share`] is for what is too long at any age.

mod share;

pub use share::{Share, unseen};

use crate::config::PruningSettings;
use crate::protocol::message::{
    AgentMessage, ContentBlock, ToolResultMessage, UserContent, text_of,
};

use super::tools;

/// Characters that a token stands for.
const CHARS_PER_TOKEN: usize = 4;
/// Characters that a picture counts as.
const IMAGE_CHARS: usize = 8_000;

/// Blocks of a result that a text stands for at its begin, and where they were.
pub type Taken = Vec<(usize, ContentBlock)>;

/// What was taken out of results, with the places of their messages, in the order in which
/// that was done.
pub type Replaced = Vec<(usize, Taken)>;

/// Prunes the context of a model that reads `window` tokens.
pub fn prune(
    messages: &mut [AgentMessage],
    settings: &PruningSettings,
    window: u64,
    now_ms: u64,
) -> Replaced {
    let mut replaced = Replaced::new();
    let messages = forgotten_part(messages, settings.ttl_ms, now_ms);
    let whole = usize::try_from(window).unwrap_or(usize::MAX).saturating_mul(CHARS_PER_TOKEN);
    let limit = |permille: usize| whole.saturating_mul(permille) / 1000;
    let mut total: usize = messages.iter().map(chars).sum();
    if total < limit(settings.soft_permille) {
        return replaced;
    }
    let old = old_part(messages, settings.keep_answers).iter_mut().enumerate();
    let mut results: Vec<_> = old
        .filter_map(|(place, message)| match message {
            AgentMessage::ToolResult(result) if may_go(result, settings) => Some((place, result)),
            _ => None,
        })
        .collect();
    for (place, result) in &mut results {
        if let Some(short) = shortened(result, settings) {
            replaced.push((*place, replace(result, short, &mut total)));
        }
    }
    let Some(placeholder) = &settings.placeholder else { return replaced };
    let prunable: usize = results.iter().map(|(_, result)| size(&result.content)).sum();
    if prunable < settings.min_chars {
        return replaced;
    }
    for (place, result) in results {
        if total < limit(settings.hard_permille) {
            break;
        }
        replaced.push((place, replace(result, placeholder.clone(), &mut total)));
    }
    replaced
}

/// What the provider had forgotten when it was asked again: all before the last pause of so
/// long. From then on the model reads it the same way: were it whole again in the next call,
/// the provider would have to read all of it anew.
fn forgotten_part(messages: &mut [AgentMessage], ttl_ms: u64, now_ms: u64) -> &mut [AgentMessage] {
    let next = messages.iter().skip(1).map(AgentMessage::timestamp).chain([now_ms]);
    let pauses = messages.iter().zip(next).map(|(it, next)| next.saturating_sub(it.timestamp()));
    let last = pauses.enumerate().filter(|(_, pause)| *pause >= ttl_ms).last();
    let end = last.map_or(0, |(index, _)| index + 1);
    messages.get_mut(..end).unwrap_or_default()
}

/// What comes before the last `keep` answers.
fn old_part(messages: &mut [AgentMessage], keep: usize) -> &mut [AgentMessage] {
    let answers = messages
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, message)| matches!(message, AgentMessage::Assistant(_)));
    let end = match keep.checked_sub(1) {
        None => messages.len(),
        Some(index) => answers.map(|(index, _)| index).nth(index).unwrap_or_default(),
    };
    messages.get_mut(..end).unwrap_or_default()
}

fn may_go(result: &ToolResultMessage, settings: &PruningSettings) -> bool {
    let has_picture = result.content.iter().any(|it| matches!(it, ContentBlock::Image(_)));
    !has_picture && tools::allows(&settings.tools, &result.tool_name)
}

/// The begin and the end of a long result.
fn shortened(result: &ToolResultMessage, settings: &PruningSettings) -> Option<String> {
    let text = text_of(&result.content);
    let count = text.chars().count();
    if count <= settings.soft_max || settings.head + settings.tail >= count {
        return None;
    }
    let head: String = text.chars().take(settings.head).collect();
    let tail: String = text.chars().skip(count - settings.tail).collect();
    Some(format!(
        "{head}\n...\n{tail}\n\n[Tool result trimmed: kept first {} chars and last {} chars of {count} chars.]",
        settings.head, settings.tail
    ))
}

/// Puts a text in the place of all that a result has. `total` becomes what there is then.
fn replace(result: &mut ToolResultMessage, text: String, total: &mut usize) -> Taken {
    let before = size(&result.content);
    let taken = put_for(result, text, |_| true);
    *total = (*total + size(&result.content)).saturating_sub(before);
    taken
}

/// Puts a text at the begin of a result and takes out the blocks for which it stands.
fn put_for(
    result: &mut ToolResultMessage,
    text: String,
    stands_for: fn(&ContentBlock) -> bool,
) -> Taken {
    let own = std::mem::take(&mut result.content).into_iter().enumerate();
    let (taken, others): (Taken, Taken) = own.partition(|(_, block)| stands_for(block));
    result.content.push(ContentBlock::text(text));
    result.content.extend(others.into_iter().map(|(_, block)| block));
    taken
}

/// Has a result be again what it was before this was taken out of it.
pub fn put_back(result: &mut ToolResultMessage, taken: Taken) {
    let content = &mut result.content;
    if !content.is_empty() {
        content.remove(0);
    }
    for (place, block) in taken {
        content.insert(place.min(content.len()), block);
    }
}

fn chars(message: &AgentMessage) -> usize {
    match message {
        AgentMessage::User(message) => match &message.content {
            UserContent::Text(text) => text.chars().count(),
            UserContent::Blocks(blocks) => size(blocks),
        },
        AgentMessage::Assistant(message) => size(&message.content),
        AgentMessage::ToolResult(message) => size(&message.content),
    }
}

fn size(blocks: &[ContentBlock]) -> usize {
    let sizes = blocks.iter().map(|block| match block {
        ContentBlock::Text(block) => block.text.chars().count(),
        ContentBlock::Thinking(block) => block.thinking.chars().count(),
        ContentBlock::Image(_) => IMAGE_CHARS,
        ContentBlock::ToolCall(call) => call.arguments.to_string().len(),
        ContentBlock::Unknown(_) => 0,
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    /// A question, then `count` calls with results of `size` characters.
    fn conversation(count: usize, size: usize) -> Vec<AgentMessage> {
        let mut messages = vec![json!({"role": "user", "content": "q", "timestamp": 1})];
        for index in 0..count {
            let id = format!("c{index}");
            messages.push(json!({"role": "assistant", "content": [{"type": "toolCall", "id": id,
                "name": "read", "arguments": {}}], "api": "a", "provider": "p", "model": "m",
                "usage": {}, "stopReason": "toolUse", "timestamp": 1}));
            messages.push(json!({"role": "toolResult", "toolCallId": id, "toolName": "read",
                "content": [{"type": "text", "text": "x".repeat(size)}], "isError": false,
                "timestamp": 1}));
        }
        messages.into_iter().map(|message| serde_json::from_value(message).unwrap()).collect()
    }

    fn settings() -> PruningSettings {
        PruningSettings {
            ttl_ms: 100,
            keep_answers: 1,
            soft_permille: 300,
            hard_permille: 500,
            min_chars: 0,
            soft_max: 40,
            head: 10,
            tail: 10,
            placeholder: Some("[gone]".into()),
            tools: crate::config::ToolRules::default(),
        }
    }

    fn results(messages: &[AgentMessage]) -> Vec<String> {
        let results = messages.iter().filter_map(|message| match message {
            AgentMessage::ToolResult(result) => Some(text_of(&result.content)),
            _ => None,
        });
        results.collect()
    }

    #[test]
    fn long_old_results_are_shortened_and_the_last_stays() {
        let mut messages = conversation(3, 400);
        prune(&mut messages, &settings(), 900, 200);
        let results = results(&messages);
        let short = format!(
            "{0}\n...\n{0}\n\n[Tool result trimmed: kept first 10 chars and last 10 chars of 400 chars.]",
            "x".repeat(10)
        );
        assert_eq!(results, [short.clone(), short, "x".repeat(400)]);
    }

    #[test]
    fn the_oldest_go_until_there_is_room_and_others_stay() {
        let mut messages = conversation(4, 400);
        let whole = PruningSettings { soft_max: 1000, ..settings() };
        prune(&mut messages, &whole, 650, 200);
        let results = results(&messages);
        assert_eq!(results, ["[gone]".into(), x(400), x(400), x(400)].map(|it: String| it));
    }

    fn x(count: usize) -> String {
        "x".repeat(count)
    }

    #[test]
    fn what_was_shortened_stays_so_in_the_calls_and_runs_that_follow() {
        let mut first = conversation(3, 400);
        prune(&mut first, &settings(), 900, 200);
        let mut later = conversation(3, 400);
        let mut followed = conversation(2, 400);
        for (message, timestamp) in followed.iter_mut().zip(200..) {
            match message {
                AgentMessage::User(message) => message.timestamp = timestamp,
                AgentMessage::Assistant(message) => message.timestamp = timestamp,
                AgentMessage::ToolResult(message) => message.timestamp = timestamp,
            }
        }
        later.extend(followed.iter().cloned());
        prune(&mut later, &settings(), 900, 210);
        let (before, since) = later.split_at(first.len());
        assert_eq!((before, since), (&first[..], &followed[..]));
    }

    #[test]
    fn nothing_goes_while_the_cache_is_warm_or_there_is_room_or_a_tool_is_spared() {
        let before = conversation(4, 400);
        let spared = PruningSettings {
            tools: crate::config::ToolRules {
                deny: crate::config::ToolPattern::parse("read").into_iter().collect(),
                ..Default::default()
            },
            ..settings()
        };
        for (settings, window, now) in [
            (settings(), 100, 50),
            (settings(), 100_000, 200),
            (spared, 100, 200),
            (PruningSettings { keep_answers: 4, ..settings() }, 100, 200),
        ] {
            let mut messages = before.clone();
            prune(&mut messages, &settings, window, now);
            assert_eq!(messages, before, "{window} {now}");
        }
    }
}
