//! System events that wait for a session's next turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::sessions::SessionKey;

use super::parts::RunsParts;

/// Most events that wait in one session; the oldest give way.
const MAX_WAITING: usize = 20;
/// Most sessions in which something waits; in others it is kept only by the database.
const MAX_SESSIONS: usize = 1000;
/// Most characters of one event that the model gets to see.
const MAX_CHARS: usize = 1000;

/// What happened outside of a conversation and should be known in it.
#[derive(Debug, Default)]
pub struct Notices(Mutex<BTreeMap<SessionKey, Waiting>>);

/// What waits for one session, or has waited.
#[derive(Debug, Default)]
pub struct Waiting {
    /// The events, the oldest first.
    pub texts: Vec<String>,
    /// The last of them that is in the database, too.
    pub stored: Option<u64>,
}

impl Waiting {
    /// More that has waited.
    pub fn add(&mut self, later: Self) {
        self.texts.extend(later.texts);
        self.stored = self.stored.max(later.stored);
    }
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
        if id.is_none() && all.len() >= MAX_SESSIONS && !all.contains_key(key) {
            tracing::warn!(session = %key, "system event not kept: they wait in {MAX_SESSIONS} sessions");
            return;
        }
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

    /// Takes what waits for a session.
    pub(super) fn take(&self, key: &SessionKey) -> Waiting {
        self.0.lock().remove(key).unwrap_or_default()
    }

    /// What was taken waits again, before what has come since.
    pub(super) fn put_back(&self, key: &SessionKey, mut taken: Waiting) {
        if taken.texts.is_empty() {
            return;
        }
        let mut all = self.0.lock();
        let waiting = all.entry(key.clone()).or_default();
        taken.add(std::mem::take(waiting));
        let surplus = taken.texts.len().saturating_sub(MAX_WAITING);
        taken.texts.drain(..surplus);
        *waiting = taken;
    }

    /// All that waits, for `status`.
    pub fn of_all(&self) -> Vec<String> {
        self.0.lock().values().flat_map(|waiting| waiting.texts.clone()).collect()
    }
}

/// Events that were taken for a turn. Unless they are heard in it, they wait again
/// when this is dropped.
pub struct Untold<'a> {
    pub(super) parts: &'a RunsParts,
    pub(super) key: SessionKey,
    pub(super) waiting: Waiting,
}

impl Untold<'_> {
    /// The events.
    pub fn texts(&self) -> &[String] {
        &self.waiting.texts
    }

    /// Takes what has come since; answers that alone.
    pub(super) fn take_more(&mut self) -> Vec<String> {
        let more = self.parts.notices.take(&self.key);
        let texts = more.texts.clone();
        self.waiting.add(more);
        texts
    }

    /// Somebody has heard them: the database forgets them, too.
    pub fn set_heard(&mut self) {
        let Some(last) = std::mem::take(&mut self.waiting).stored else { return };
        let (store, key) = (Arc::clone(&self.parts.store), self.key.clone());
        self.parts.tasks.spawn("notices", async move {
            if let Err(error) = store.forget_notices(key.as_str(), last).await {
                tracing::warn!(session = %key, %error, "system events are told again");
            }
        });
    }
}

impl Drop for Untold<'_> {
    fn drop(&mut self) {
        self.parts.notices.put_back(&self.key, std::mem::take(&mut self.waiting));
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
        let taken = notices.take(&key);
        assert_eq!((taken.texts.len(), taken.stored), (MAX_WAITING, Some(29)));
        assert_eq!(taken.texts.last().map(String::as_str), Some("event 29"));
        assert!(notices.take(&key).texts.is_empty());
    }

    #[test]
    fn events_wait_in_so_many_sessions_only() {
        let notices = Notices::default();
        let key = |number| SessionKey::from_canonical(format!("agent:main:{number}"));
        for number in 0..=MAX_SESSIONS {
            notices.add(&key(number), "event");
        }
        assert_eq!(notices.of_all().len(), MAX_SESSIONS);
        notices.add(&key(0), "another");
        notices.add_stored(&key(MAX_SESSIONS), "stored", 1);
        assert_eq!(notices.of_all().len(), MAX_SESSIONS + 2);
    }

    #[test]
    fn events_that_were_put_back_come_first_and_are_bounded_too() {
        let notices = Notices::default();
        let key = SessionKey::from_canonical("agent:main:main");
        notices.add_stored(&key, "first", 7);
        let taken = notices.take(&key);
        notices.add(&key, "second");
        notices.put_back(&key, taken);
        let taken = notices.take(&key);
        assert_eq!(
            (&taken.texts[..], taken.stored),
            (&["first".into(), "second".into()][..], Some(7))
        );
        for index in 0..MAX_WAITING {
            notices.add(&key, &index.to_string());
        }
        notices.put_back(&key, taken);
        let taken = notices.take(&key);
        assert_eq!((taken.texts.len(), taken.texts[0].as_str()), (MAX_WAITING, "0"));
    }
}
