//! What was said in groups since the agent was last spoken to there.
//!
//! Owns: the last messages of each chat that were to somebody else, in memory alone. Promises:
//! they are few and short; what a run was told is told no second time; each is one line, so
//! that nothing in it passes for another message. Must not: take messages of people who may
//! not write.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::inbound::{Inbound, text_for_model};
use super::service::Channels;
use super::state::Account;
use crate::config::channels::ChannelWay;
use crate::store::OutboxAddress;

/// Most chats of which something is known; those that are silent for longest are forgotten.
const CHATS_MAX: usize = 200;
/// Most bytes of the messages of a chat.
const BYTES_MAX: usize = 32 * 1024;
/// Longest message, in characters: four bytes of each fit into a chat.
const LINE_MAX: usize = 2000;
/// What is before them, as in the original …
const BEFORE: &str = "[Chat messages since your last reply - for context]";
/// … and before the message that is to the agent.
const CURRENT: &str = "[Current message - respond to this]";

struct Line {
    /// The channel's id of the message.
    id: String,
    text: String,
}

struct Chat {
    place: OutboxAddress,
    lines: VecDeque<Line>,
}

/// The chats, those of which something was heard last behind the others.
#[derive(Default)]
pub(super) struct History(Mutex<Vec<Chat>>);

impl History {
    /// Keeps a message, and of those of its chat at most so many.
    fn note(&self, place: &OutboxAddress, id: &str, text: String, limit: usize) {
        let mut chats = self.0.lock();
        let known = chats.iter().position(|chat| chat.place == *place);
        let mut chat = match known {
            Some(at) => chats.remove(at),
            None => Chat { place: place.clone(), lines: VecDeque::new() },
        };
        if !chat.lines.iter().any(|line| line.id == id) {
            chat.lines.push_back(Line { id: id.to_owned(), text });
        }
        let bytes =
            |lines: &VecDeque<Line>| lines.iter().map(|line| line.text.len()).sum::<usize>();
        while chat.lines.len() > limit || bytes(&chat.lines) > BYTES_MAX {
            chat.lines.pop_front();
        }
        chats.push(chat);
        if chats.len() > CHATS_MAX {
            chats.remove(0);
        }
    }

    /// A message that is to the agent, behind those before it.
    pub fn before(&self, place: &OutboxAddress, text: String) -> String {
        let chats = self.0.lock();
        let chat = chats.iter().find(|chat| chat.place == *place);
        let Some(chat) = chat.filter(|chat| !chat.lines.is_empty()) else { return text };
        let lines: Vec<_> = chat.lines.iter().map(|line| line.text.as_str()).collect();
        format!("{BEFORE}\n{}\n\n{CURRENT}\n{text}", lines.join("\n"))
    }

    /// A run was told of them.
    pub fn clear(&self, place: &OutboxAddress) {
        self.0.lock().retain(|chat| chat.place != *place);
    }
}

impl Channels {
    /// Keeps a message of a group that is not to the agent.
    pub(super) fn note_aside(&self, account: &Account, place: &OutboxAddress, inbound: &Inbound) {
        let Ok(ChannelWay::Telegram(telegram)) = &account.config.way else { return };
        let everywhere = self.0.parts.settings.now().messages.history_limit;
        let limit = telegram.history_limit.unwrap_or(everywhere);
        if limit > 0 {
            self.0.history.note(place, &inbound.message_id, line_of(inbound), limit);
        }
    }
}

/// A message in one line, with who said it and what came with it.
fn line_of(inbound: &Inbound) -> String {
    let files = inbound.files.iter().map(|file| format!(" [file: {}]", file.name));
    let text = text_for_model(inbound, false) + &files.collect::<Vec<_>>().concat();
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(LINE_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(target: &str) -> OutboxAddress {
        OutboxAddress {
            channel: "telegram".into(),
            account: "default".into(),
            target: target.into(),
            thread: String::new(),
        }
    }

    #[test]
    fn the_last_messages_are_told_once_and_no_message_twice() {
        let (history, here) = (History::default(), place("-1"));
        for id in ["1", "2", "2", "3"] {
            history.note(&here, id, format!("[Ann (7)] m{id}"), 2);
        }
        history.note(&place("-2"), "1", "elsewhere".into(), 2);
        let told = history.before(&here, "[Ann (7)]\nhi".into());
        let expected = format!("{BEFORE}\n[Ann (7)] m2\n[Ann (7)] m3\n\n{CURRENT}\n[Ann (7)]\nhi");
        assert_eq!(told, expected);
        history.clear(&here);
        assert_eq!(history.before(&here, "hi".into()), "hi");
        assert!(history.before(&place("-2"), "hi".into()).contains("elsewhere"));
    }

    #[test]
    fn no_crowd_fills_the_memory() {
        let history = History::default();
        for chat in 0..CHATS_MAX + 5 {
            history.note(&place(&chat.to_string()), "1", "x".into(), 50);
        }
        for id in 0..60 {
            history.note(&place("loud"), &id.to_string(), "x".repeat(1000), 1_000_000);
        }
        let chats = history.0.lock();
        assert_eq!(chats.len(), CHATS_MAX);
        assert_eq!(chats.last().unwrap().lines.len(), BYTES_MAX / 1000);
        assert_eq!(chats[0].place.target, "6");
    }
}
