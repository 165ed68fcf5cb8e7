//! What person and agent have said to each other.
//!
//! Promises: nothing of the gateway itself, of tools, or what other sessions, jobs and
//! heartbeats ask. Must not: read more than a page of history.

use serde_json::Value;

use crate::protocol::message::INJECTED;

use super::display::shown_text;
use super::history::{FAILED_BEFORE_TEXT, HistoryOptions};
use super::service::Sessions;
use super::{SessionEntry, SessionError, SessionKey};

/// Messages that are looked at: most may be those of tools.
const LOOKED_AT: usize = 1_000;

/// `provenance.kind` of a message of a person that another system has passed on.
pub const OF_A_PERSON: &str = "external_user";

/// A message of a person or an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// Whether a person says it.
    pub is_user: bool,
    /// What is said; a long text is cut as in `chat.history`.
    pub text: String,
}

/// What was said last in a session.
#[derive(Debug)]
pub struct LastWords {
    /// The session, as it is with this transcript.
    pub entry: SessionEntry,
    /// The newest of its messages, in their order.
    pub words: Vec<Words>,
}

impl Sessions {
    /// At most `count` messages of what was said last; `None` where none of a person is
    /// among those of a page of history.
    ///
    /// # Errors
    /// When index or transcript cannot be read.
    pub async fn last_words(
        &self,
        key: &SessionKey,
        count: usize,
    ) -> Result<Option<LastWords>, SessionError> {
        let options = HistoryOptions { limit: LOOKED_AT, ..HistoryOptions::default() };
        let page = self.history(key, options).await?;
        let words = last(page.messages.iter().filter_map(words).collect(), count);
        let entry = page.entry.filter(|_| !words.is_empty());
        Ok(entry.map(|entry| LastWords { entry, words }))
    }
}

fn last(mut all: Vec<Words>, count: usize) -> Vec<Words> {
    if !all.iter().any(|words| words.is_user) {
        return Vec::new();
    }
    all.split_off(all.len().saturating_sub(count))
}

/// What a message in display form says; `None` when it is none of theirs.
fn words(message: &Value) -> Option<Words> {
    let is = |pointer, word: &str| message.pointer(pointer).is_some_and(|value| value == word);
    let is_user = is("/role", "user");
    let text = shown_text(message).trim().to_owned();
    let is_theirs = if is_user {
        !text.starts_with('/')
            && (message.get("provenance").is_none() || is("/provenance/kind", OF_A_PERSON))
    } else {
        is("/role", "assistant") && !is("/model", INJECTED) && text != FAILED_BEFORE_TEXT
    };
    let is_there = !text.is_empty() && !is("/__openclaw/reason", "oversized");
    (is_theirs && is_there).then_some(Words { is_user, text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::json;

    fn said(is_user: bool, text: &str) -> Words {
        Words { is_user, text: text.into() }
    }

    #[test]
    fn only_what_person_and_agent_say_to_each_other_are_words() {
        let text = |text: &str| json!([{"type": "text", "text": text}]);
        let beside =
            json!([{"type": "text", "text": "I look."}, {"type": "toolCall", "name": "read"}]);
        for (message, expected) in [
            (json!({"role": "user", "content": "hi"}), Some(said(true, "hi"))),
            (json!({"role": "assistant", "content": text(" ho ")}), Some(said(false, "ho"))),
            (json!({"role": "assistant", "content": beside}), Some(said(false, "I look."))),
            (
                json!({"role": "assistant", "content": text("/ is the root")}),
                Some(said(false, "/ is the root")),
            ),
            (json!({"role": "user", "content": "/new"}), None),
            (json!({"role": "assistant", "model": INJECTED, "content": text("done")}), None),
            (
                json!({"role": "assistant", "model": "delivery-mirror", "content": text("sent")}),
                Some(said(false, "sent")),
            ),
            (json!({"role": "assistant", "content": text(FAILED_BEFORE_TEXT)}), None),
            (
                json!({"role": "assistant", "content": text("too large"),
                "__openclaw": {"reason": "oversized"}}),
                None,
            ),
            (json!({"role": "assistant", "content": [{"type": "toolCall", "name": "read"}]}), None),
            (json!({"role": "toolResult", "content": text("a.txt")}), None),
            (json!({"role": "system", "content": text("summary")}), None),
            (json!({"role": "user", "content": "do", "provenance": {"kind": "cron"}}), None),
            (
                json!({"role": "user", "content": "hi", "provenance": {"kind": OF_A_PERSON}}),
                Some(said(true, "hi")),
            ),
        ] {
            assert_eq!(words(&message), expected, "{message}");
        }
    }

    #[test]
    fn what_only_agents_say_is_nothing_and_a_person_need_not_be_among_the_last() {
        let all = vec![said(true, "a"), said(false, "b"), said(false, "c")];
        assert_eq!(last(all.clone(), 1), [said(false, "c")]);
        assert_eq!(last(all.clone(), 9), all);
        assert_eq!(last(vec![said(false, "b")], 9), []);
    }
}
