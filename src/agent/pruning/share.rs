//! Results of tools that are too long for a model to read whole, and such words of people.
//!
//! Promises: however much a tool answers, its result leaves room for the rest of the
//! conversation; of a long one the begin and the end stay, and all its pictures. Must not:
//! change transcripts, or know why a result is long; tokens are guessed from bytes.

use super::{Replaced, Taken, put_for};
use crate::protocol::message::{
    AgentMessage, ContentBlock, ToolResultMessage, UserContent, texts_of,
};
use crate::support::sort;

/// Bytes of text that a token stands for.
const BYTES_PER_TOKEN: u64 = 4;
/// Percent of what the model reads that one result may fill, as in the original.
const USUAL: u64 = 30;
/// Percent that all results may fill together, once a model finds them too long.
const SMALL: u64 = 10;
/// Bytes that may stay however little a model reads, as in the original.
const LEAST: usize = 2_000;

/// How much of what a model reads may be results of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// A part for each of them.
    Usual,
    /// So many bytes for each of them; the same from call to call, so that what the provider
    /// has read before stays as it is.
    Small(usize),
}

impl Share {
    /// Shortens results for a model that reads `window` tokens.
    pub fn fit<'m>(
        self,
        messages: impl Iterator<Item = &'m mut AgentMessage>,
        window: u64,
    ) -> Replaced {
        let most = self.most(window);
        let replaced = messages.enumerate().filter_map(|(place, message)| match message {
            AgentMessage::ToolResult(result) => Some((place, shorten(result, most)?)),
            _ => None,
        });
        replaced.collect()
    }

    /// Shortens what people have said before their last message, once a model has found it all
    /// too long: a message that no model can read would fail every later one, too. Answers
    /// what it was before.
    pub fn fit_words(self, messages: &mut [AgentMessage]) -> Vec<(usize, UserContent)> {
        let Self::Small(most) = self else { return Vec::new() };
        let (most, last) = (most.max(LEAST), last_words(messages));
        let old = messages.iter_mut().take(last).enumerate();
        let replaced = old.filter_map(|(place, message)| {
            let AgentMessage::User(user) = message else { return None };
            let text = user.content.text();
            if text.len() <= most {
                return None;
            }
            let text = short(&text, most, "Message");
            let shorter = match &user.content {
                UserContent::Text(_) => UserContent::Text(text),
                UserContent::Blocks(blocks) => {
                    let others = blocks.iter().filter(|it| !matches!(it, ContentBlock::Text(_)));
                    let text = std::iter::once(ContentBlock::text(text));
                    UserContent::Blocks(text.chain(others.cloned()).collect())
                }
            };
            Some((place, std::mem::replace(&mut user.content, shorter)))
        });
        replaced.collect()
    }

    /// The share that makes all these results, and what was said long before, together a small
    /// part of what the model reads; `None` when nothing would become shorter by it.
    pub fn smaller(self, messages: &[AgentMessage], window: u64) -> Option<Self> {
        let last = last_words(messages);
        let lengths = messages.iter().enumerate().filter_map(|(place, message)| match message {
            AgentMessage::ToolResult(result) => Some(length(&result.content)),
            // Short ones stay whole, and take nothing from results.
            AgentMessage::User(user) if place < last => {
                Some(user.content.text().len()).filter(|length| *length > LEAST)
            }
            _ => None,
        });
        let lengths: Vec<_> = lengths.collect();
        let longest = lengths.iter().max().copied().unwrap_or_default();
        let most = fair(lengths, part(window, SMALL));
        (most < longest.min(self.most(window))).then_some(Self::Small(most))
    }

    /// Most bytes of one result.
    fn most(self, window: u64) -> usize {
        match self {
            Self::Usual => part(window, USUAL),
            Self::Small(most) => most,
        }
    }
}

/// The place of what somebody said last.
fn last_words(messages: &[AgentMessage]) -> usize {
    let is_said = |message: &AgentMessage| matches!(message, AgentMessage::User(_));
    messages.iter().rposition(is_said).unwrap_or_default()
}

/// A guess at the tokens of a result that a model which reads `window` tokens does not get
/// to see.
pub fn unseen(content: &[ContentBlock], window: u64) -> u64 {
    let bytes = length(content).saturating_sub(part(window, USUAL));
    u64::try_from(bytes).unwrap_or(u64::MAX) / BYTES_PER_TOKEN
}

/// Bytes of this percentage of so many tokens.
fn part(window: u64, percent: u64) -> usize {
    let bytes = window.saturating_mul(BYTES_PER_TOKEN).saturating_mul(percent) / 100;
    usize::try_from(bytes).unwrap_or(usize::MAX).max(LEAST)
}

/// The length that each may have when they have `room` together: what short ones leave is
/// for the long ones.
fn fair(mut lengths: Vec<usize>, mut room: usize) -> usize {
    sort::plain(&mut lengths);
    for (index, length) in lengths.iter().enumerate() {
        let each = room / (lengths.len() - index);
        if *length > each {
            return each;
        }
        room -= length;
    }
    usize::MAX
}

fn length(content: &[ContentBlock]) -> usize {
    texts_of(content).map(str::len).sum()
}

/// Gives back its texts, if they were too long.
fn shorten(result: &mut ToolResultMessage, most: usize) -> Option<Taken> {
    if length(&result.content) <= most {
        return None;
    }
    let text =
        short(&texts_of(&result.content).collect::<Vec<_>>().join("\n"), most, "Tool result");
    Some(put_for(result, text, |block| matches!(block, ContentBlock::Text(_))))
}

/// The begin and the end of a text, what it is, and how much they are of it.
fn short(text: &str, most: usize, what: &str) -> String {
    // How it ended is often said last.
    let last = most / 3;
    let head = text.floor_char_boundary(most - last);
    let tail = text.ceil_char_boundary(text.len().saturating_sub(last));
    let (head, tail) = (text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default());
    format!(
        "{head}\n...\n{tail}\n\n[{what} trimmed: kept first {} bytes and last {} bytes of {} bytes.]",
        head.len(),
        tail.len(),
        text.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    use crate::agent::pruning::put_back;
    use crate::support::json;

    /// What a model reads here, in tokens: 12 000 bytes of a result, or 4 000 of all.
    const WINDOW: u64 = 10_000;

    fn result(content: &Value) -> AgentMessage {
        let result = json!({"role": "toolResult", "toolCallId": "c", "toolName": "exec",
            "content": content, "isError": false, "timestamp": 1});
        serde_json::from_value(result).unwrap()
    }

    fn of(text: &str) -> AgentMessage {
        result(&json!([{"type": "text", "text": text}]))
    }

    #[test]
    fn a_result_fills_a_part_of_the_context_at_most_and_its_end_stays() {
        let text = format!("{}{}", "a".repeat(150_000), "z".repeat(50_000));
        let user = json!({"role": "user", "content": text, "timestamp": 1});
        let before = [of(&text), of(&text[..12_000]), serde_json::from_value(user).unwrap()];
        let mut messages = before.to_vec();
        Share::Usual.fit(messages.iter_mut(), WINDOW);
        let expected = format!(
            "{}\n...\n{}\n\n[Tool result trimmed: kept first 8000 bytes and last 4000 bytes of \
             200000 bytes.]",
            "a".repeat(8_000),
            "z".repeat(4_000)
        );
        assert_eq!(messages[0].text(), expected);
        assert_eq!(messages[1..], before[1..]);
        let AgentMessage::ToolResult(whole) = &before[0] else { panic!("a result") };
        assert_eq!(unseen(&whole.content, WINDOW), 47_000);
        assert_eq!(unseen(&whole.content, 200_000), 0);
    }

    #[test]
    fn together_they_fill_a_small_part_and_short_ones_stay_whole() {
        let before = [of(&"x".repeat(50_000)), of("short"), of(&"q".repeat(3_000))];
        let small = Share::Usual.smaller(&before, WINDOW).unwrap();
        let mut messages = before.clone();
        small.fit(messages.iter_mut(), WINDOW);
        let kept = |message: &AgentMessage| message.text().matches(['x', 'q']).count();
        assert_eq!(messages.each_ref().map(kept), [1997, 0, 1997]);
        assert_eq!(messages[1], of("short"));
        assert_eq!(Share::Usual.smaller(&before[1..2], WINDOW), None);
        for (lengths, room, each) in [
            (vec![], 10, usize::MAX),
            (vec![4, 6], 10, usize::MAX),
            (vec![20, 1], 10, 9),
            (vec![20, 20, 1], 10, 4),
            (vec![1, 1], 0, 0),
        ] {
            assert_eq!(fair(lengths.clone(), room), each, "{lengths:?}");
        }
    }

    #[test]
    fn a_small_share_stays_until_it_is_too_much_and_this_ends() {
        let mut messages = vec![of(&"x".repeat(50_000)), of(&"q".repeat(3_000))];
        let small = Share::Usual.smaller(&messages, WINDOW);
        assert_eq!(small, Some(Share::Small(2_000)));
        assert_eq!(Share::Small(2_000).smaller(&messages, WINDOW), None);
        // Each model has its own idea of small, down to a point.
        assert_eq!(Share::Small(2_000).smaller(&messages, 2 * WINDOW), None);
        assert_eq!(Share::Small(2_000).smaller(&messages, 10), Some(Share::Small(1_000)));
        assert_eq!(Share::Small(1_000).smaller(&messages, 0), None);
        messages.push(of(&"z".repeat(3_000)));
        assert_eq!(Share::Small(2_000).smaller(&messages, WINDOW), Some(Share::Small(1_333)));
        // What would be shown whole anyway is not worth asking again.
        assert_eq!(Share::Usual.smaller(&[of(&"x".repeat(4_000))], WINDOW), None);
    }

    #[test]
    fn only_what_was_said_before_the_last_message_becomes_shorter_and_comes_back() {
        let said = |content: Value| {
            let said = json!({"role": "user", "content": content, "timestamp": 1});
            serde_json::from_value::<AgentMessage>(said).unwrap()
        };
        let long = "x".repeat(50_000);
        let picture = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
        let before = [
            said(json!(long)),
            said(json!([{"type": "text", "text": long}, picture])),
            said(json!("short")),
            said(json!(long)),
        ];
        assert_eq!(Share::Usual.smaller(&before[3..], WINDOW), None);
        let small = Share::Usual.smaller(&before, WINDOW).unwrap();
        assert_eq!(small, Share::Small(2_000));
        let mut messages = before.clone();
        assert!(Share::Usual.fit_words(&mut messages).is_empty());
        let whole = small.fit_words(&mut messages);
        assert_eq!(messages[2..], before[2..]);
        for (message, (place, content)) in messages.iter_mut().zip(whole) {
            let text = message.text();
            assert!(text.contains("x\n...\nx") && text.contains("[Message trimmed: "), "{text}");
            assert!(text.len() < 2_200, "{place}");
            let AgentMessage::User(user) = message else { panic!("a person") };
            user.content = content;
        }
        assert_eq!(messages, before);
    }

    #[test]
    fn pictures_stay_and_no_character_is_cut() {
        let content = json!([
            {"type": "text", "text": format!("a{}", "é".repeat(9_000))},
            {"type": "image", "data": "AA==", "mimeType": "image/png"},
            {"type": "text", "text": "end"},
        ]);
        let before = result(&content);
        let mut messages = [before.clone()];
        let mut replaced = Share::Usual.fit(messages.iter_mut(), 0);
        let AgentMessage::ToolResult(shown) = &mut messages[0] else { panic!("a result") };
        let [ContentBlock::Text(text), picture] = shown.content.as_slice() else {
            panic!("{shown:?}")
        };
        assert_eq!(*picture, ContentBlock::image("AA==", "image/png"));
        assert!(text.text.starts_with("aé") && text.text.contains("é\n...\né"), "{}", text.text);
        let end = "é\nend\n\n[Tool result trimmed: kept first 1333 bytes and last 666 bytes of \
            18005 bytes.]";
        assert!(text.text.ends_with(end), "{}", text.text);
        // Of them is nothing held.
        let (_, taken) = replaced.remove(0);
        assert_eq!(taken.iter().map(|(place, _)| *place).collect::<Vec<_>>(), [0, 2]);
        put_back(shown, taken);
        assert_eq!(messages[0], before);
    }
}
