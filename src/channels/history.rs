//! What was said in groups since the agent was last spoken to there.
//!
//! Owns: the last messages of each chat that were to somebody else, in memory alone. Promises:
//! they are few and short; what a run was told is told no second time, and what was said before
//! a session began is not told in it; each is one line, so that nothing in it passes for another
//! message. Must not: take messages of people who may not write.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::inbound::{Inbound, words};
use super::service::Channels;
use super::state::Account;
use crate::config::channels::ChannelWay;
use crate::store::{OutboxAddress, SessionEntry};

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
    /// Id of its session; none where there was none yet.
    session: Option<String>,
    lines: VecDeque<Line>,
}

impl Chat {
    /// Forgets what was said before its session began anew.
    fn goes_on_in(&mut self, session: Option<&str>) {
        if self.session.is_some() && self.session.as_deref() != session {
            self.lines.clear();
        }
        self.session = session.map(str::to_owned);
    }
}

/// The chats, those of which something was heard last behind the others.
#[derive(Default)]
pub(super) struct History(Mutex<Vec<Chat>>);

impl History {
    /// Keeps a message, and of those of its chat at most so many.
    fn note(&self, place: &OutboxAddress, session: Option<&str>, line: Line, limit: usize) {
        let mut chats = self.0.lock();
        let known = chats.iter().position(|chat| chat.place == *place);
        let mut chat = match known {
            Some(at) => chats.remove(at),
            None => Chat { place: place.clone(), session: None, lines: VecDeque::new() },
        };
        chat.goes_on_in(session);
        if !chat.lines.iter().any(|known| known.id == line.id) {
            chat.lines.push_back(line);
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

    /// A message that is to the agent is one to this session of its chat.
    pub fn goes_on_in(&self, place: &OutboxAddress, session: &str) {
        let mut chats = self.0.lock();
        if let Some(chat) = chats.iter_mut().find(|chat| chat.place == *place) {
            chat.goes_on_in(Some(session));
        }
    }

    /// What is before the words of a message that is to the agent, behind the messages before
    /// it, of which so many are told at most: more were kept when the limit was higher.
    fn before(&self, place: &OutboxAddress, limit: usize, lead: Option<String>) -> Option<String> {
        let chats = self.0.lock();
        let Some(chat) = chats.iter().find(|chat| chat.place == *place) else { return lead };
        let older = chat.lines.len().saturating_sub(limit);
        let lines: Vec<_> = chat.lines.iter().skip(older).map(|line| line.text.as_str()).collect();
        if lines.is_empty() {
            return lead;
        }
        let told = format!("{BEFORE}\n{}\n\n{CURRENT}", lines.join("\n"));
        Some(match lead {
            Some(lead) => format!("{told}\n{lead}"),
            None => told,
        })
    }

    /// A run was told of them.
    pub fn clear(&self, place: &OutboxAddress) {
        self.0.lock().retain(|chat| chat.place != *place);
    }
}

impl Channels {
    /// Keeps a message of a group that is not to the agent.
    pub(super) fn note_aside(
        &self,
        account: &Account,
        place: &OutboxAddress,
        entry: Option<&SessionEntry>,
        inbound: &Inbound,
    ) {
        let limit = self.history_limit(account);
        if limit > 0 {
            let session = entry.map(|entry| entry.session_id.as_str());
            self.0.history.note(place, session, line_of(inbound), limit);
        }
    }

    /// What is before the words of a message that is to the agent, behind what was said in its
    /// group before it.
    pub(super) fn behind_history(
        &self,
        account: &Account,
        place: &OutboxAddress,
        lead: Option<String>,
    ) -> Option<String> {
        self.0.history.before(place, self.history_limit(account), lead)
    }

    /// How many messages of a group are told with one that is to the agent.
    fn history_limit(&self, account: &Account) -> usize {
        let Ok(ChannelWay::Telegram(telegram)) = &account.config.way else { return 0 };
        let everywhere = self.0.parts.settings.now().messages.history_limit;
        telegram.history_limit.unwrap_or(everywhere)
    }
}

/// A message in one line, with who said it and what came with it.
fn line_of(inbound: &Inbound) -> Line {
    let (before, text) = words(inbound);
    let files = inbound.files.iter().map(|file| format!("[file: {}]", file.name));
    let whole: Vec<_> = before.into_iter().chain([text]).chain(files).collect();
    let whole = whole.join(" ");
    let whole = whole.split_whitespace().collect::<Vec<_>>().join(" ");
    Line { id: inbound.message_id.clone(), text: whole.chars().take(LINE_MAX).collect() }
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

    fn line(id: &str, text: impl Into<String>) -> Line {
        Line { id: id.into(), text: text.into() }
    }

    #[test]
    fn the_last_messages_are_told_once_and_no_message_twice() {
        let (history, here) = (History::default(), place("-1"));
        for id in ["1", "2", "2", "3"] {
            history.note(&here, None, line(id, format!("[Ann (7)] m{id}")), 2);
        }
        history.note(&place("-2"), None, line("1", "elsewhere"), 2);
        let lead = || Some("[Ann (7)]".to_owned());
        let expected = format!("{BEFORE}\n[Ann (7)] m2\n[Ann (7)] m3\n\n{CURRENT}\n[Ann (7)]");
        assert_eq!(history.before(&here, 2, lead()), Some(expected));
        history.clear(&here);
        assert_eq!(history.before(&here, 2, lead()), lead());
        assert!(history.before(&place("-2"), 2, None).unwrap().contains("elsewhere"));
    }

    #[test]
    fn a_limit_that_is_lower_now_holds_for_what_was_said_before() {
        let (history, here) = (History::default(), place("-1"));
        for id in ["1", "2", "3"] {
            history.note(&here, None, line(id, format!("m{id}")), 50);
        }
        let told = |limit| history.before(&here, limit, None);
        assert_eq!(told(1), Some(format!("{BEFORE}\nm3\n\n{CURRENT}")));
        assert_eq!(told(0), None);
    }

    #[test]
    fn a_session_that_begins_anew_is_told_nothing_from_before() {
        let (history, here) = (History::default(), place("-1"));
        let told = |id: &str| {
            let told = history.before(&here, 50, None).unwrap_or_default();
            told.lines().any(|line| line == id)
        };
        history.note(&here, None, line("1", "1"), 50);
        // There was none yet when it was said.
        history.goes_on_in(&here, "a");
        history.note(&here, Some("a"), line("2", "2"), 50);
        assert!(told("1") && told("2"));
        history.goes_on_in(&here, "b");
        assert!(!told("1") && !told("2"));
        history.note(&here, Some("b"), line("3", "3"), 50);
        history.note(&here, Some("c"), line("4", "4"), 50);
        assert!(!told("3") && told("4"));
        // It was removed.
        history.note(&here, None, line("5", "5"), 50);
        assert!(!told("4") && told("5"));
    }

    #[test]
    fn no_crowd_fills_the_memory() {
        let history = History::default();
        for chat in 0..CHATS_MAX + 5 {
            history.note(&place(&chat.to_string()), None, line("1", "x"), 50);
        }
        for id in 0..60 {
            history.note(&place("loud"), None, line(&id.to_string(), "x".repeat(1000)), 1_000_000);
        }
        let chats = history.0.lock();
        assert_eq!(chats.len(), CHATS_MAX);
        assert_eq!(chats.last().unwrap().lines.len(), BYTES_MAX / 1000);
        assert_eq!(chats[0].place.target, "6");
    }
}
