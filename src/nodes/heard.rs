//! What nodes heard people say, so that a report that comes twice is one message.
//!
//! Promises: bounded; only the last thing that was said to a session can be a
//! repeat, and only for a moment: people do say things again.

use std::collections::VecDeque;

/// What comes again within this time is the same report, as in the original.
const WINDOW_MS: u64 = 1500;
/// Most sessions that are remembered, as in the original.
const MAX_SESSIONS: usize = 200;

/// The last that was said to each session, the newest last.
#[derive(Debug, Default)]
pub struct Heard(VecDeque<Last>);

#[derive(Debug)]
struct Last {
    session: String,
    print: String,
    at_ms: u64,
}

impl Heard {
    /// Notes what was said; `false` when it is a repeat.
    pub fn note(&mut self, session: &str, print: &str, now_ms: u64) -> bool {
        let last = self.0.iter().find(|last| last.session == session);
        let is_repeat = last.is_some_and(|last| {
            // A clock that was set back makes nothing a repeat for longer.
            last.print == print && now_ms.abs_diff(last.at_ms) <= WINDOW_MS
        });
        if is_repeat {
            return false;
        }
        self.0.retain(|last| last.session != session);
        if self.0.len() >= MAX_SESSIONS {
            self.0.pop_front();
        }
        let (session, print) = (session.to_owned(), print.to_owned());
        self.0.push_back(Last { session, print, at_ms: now_ms });
        true
    }

    /// This was not taken: it may come again. What was said meanwhile stays.
    pub fn forget(&mut self, session: &str, print: &str) {
        self.0.retain(|last| last.session != session || last.print != print);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_again_at_once_is_one_message_and_later_it_is_another() {
        let mut heard = Heard::default();
        assert!(heard.note("a", "hi", 1000));
        assert!(!heard.note("a", "hi", 1000 + WINDOW_MS));
        assert!(heard.note("b", "hi", 1000), "to another session");
        assert!(heard.note("a", "hi", 1001 + WINDOW_MS), "a person says it again");
        assert!(heard.note("a", "ho", 1002 + WINDOW_MS));
        assert!(heard.note("a", "hi", 1003 + WINDOW_MS), "not the last");
        heard.forget("a", "ho");
        assert!(!heard.note("a", "hi", 1004 + WINDOW_MS), "something else was not taken");
        heard.forget("a", "hi");
        assert!(heard.note("a", "hi", 1004 + WINDOW_MS), "it was not taken");
        assert!(heard.note("a", "hi", 1), "the clock was set back by far");
        for index in 0..MAX_SESSIONS {
            heard.note(&index.to_string(), "x", 9000);
        }
        assert_eq!(heard.0.len(), MAX_SESSIONS);
    }
}
