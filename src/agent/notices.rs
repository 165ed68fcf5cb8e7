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
pub struct Notices(Mutex<BTreeMap<SessionKey, Vec<String>>>);

impl Notices {
    /// Adds an event; the same text twice in a row is one.
    pub fn add(&self, key: &SessionKey, text: &str) {
        let mut waiting = self.0.lock();
        let queue = waiting.entry(key.clone()).or_default();
        let text: String = text.chars().take(MAX_CHARS).collect();
        if queue.last() == Some(&text) {
            return;
        }
        if queue.len() >= MAX_WAITING {
            queue.remove(0);
        }
        queue.push(text);
    }

    /// Takes what waits for a session.
    pub fn take(&self, key: &SessionKey) -> Vec<String> {
        self.0.lock().remove(key).unwrap_or_default()
    }

    /// All that waits, for `status`.
    pub fn of_all(&self) -> Vec<String> {
        self.0.lock().values().flatten().cloned().collect()
    }
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
            notices.add(&key, &format!("event {index}"));
        }
        let taken = notices.take(&key);
        assert_eq!(taken.len(), MAX_WAITING);
        assert_eq!(taken.last().map(String::as_str), Some("event 29"));
        assert!(notices.take(&key).is_empty());
    }
}
