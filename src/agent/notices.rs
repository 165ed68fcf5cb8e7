//! System events that wait for a session's next turn.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::sessions::SessionKey;

/// Most events that wait in one session; the oldest give way.
const MAX_WAITING: usize = 20;
/// Most characters of one event that the model gets to see.
const MAX_CHARS: usize = 1000;

/// What happened outside of a conversation and should be known in it.
#[derive(Debug, Default)]
pub struct Notices(Mutex<BTreeMap<SessionKey, Waiting>>);

/// What waits for one session.
#[derive(Debug, Default)]
struct Waiting {
    texts: Vec<String>,
    /// The last of them that is in the database, too.
    stored: Option<u64>,
}

impl Notices {
    /// Adds an event; the same text twice in a row is one.
    pub fn add(&self, key: &SessionKey, text: &str) {
        self.put(key, text, None);
    }

    /// The same for one that the database has under this id.
    pub(super) fn add_stored(&self, key: &SessionKey, text: &str, id: u64) {
        self.put(key, text, Some(id));
    }

    fn put(&self, key: &SessionKey, text: &str, id: Option<u64>) {
        let mut all = self.0.lock();
        let waiting = all.entry(key.clone()).or_default();
        waiting.stored = waiting.stored.max(id);
        let text = shortened(text);
        if waiting.texts.last() == Some(&text) {
            return;
        }
        if waiting.texts.len() >= MAX_WAITING {
            waiting.texts.remove(0);
        }
        waiting.texts.push(text);
    }

    /// Takes what waits for a session, with the id of the last one that the
    /// database has.
    pub(super) fn take(&self, key: &SessionKey) -> (Vec<String>, Option<u64>) {
        let taken = self.0.lock().remove(key).unwrap_or_default();
        (taken.texts, taken.stored)
    }

    /// All that waits, for `status`.
    pub fn of_all(&self) -> Vec<String> {
        self.0.lock().values().flat_map(|waiting| waiting.texts.clone()).collect()
    }
}

/// An event as it is kept.
pub fn shortened(text: &str) -> String {
    text.chars().take(MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_wait_bounded_and_are_taken_once() {
        let notices = Notices::default();
        let key = SessionKey::from_canonical("agent:main:main");
        for index in 0..30 {
            notices.add(&key, &format!("event {index}"));
            notices.add_stored(&key, &format!("event {index}"), index);
        }
        let (taken, stored) = notices.take(&key);
        assert_eq!((taken.len(), stored), (MAX_WAITING, Some(29)));
        assert_eq!(taken.last().map(String::as_str), Some("event 29"));
        assert!(notices.take(&key).0.is_empty());
    }
}
