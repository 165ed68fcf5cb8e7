//! System events that wait for a session's next turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::sessions::SessionKey;

use super::parts::RunsParts;

/// Most events that wait in one session and are in memory alone; the oldest of them give
/// way. Those that the database has, which bounds them, stay.
const MAX_PASSING: usize = 20;
/// Most sessions in which something waits; in others it is kept only by the database.
const MAX_SESSIONS: usize = 1000;
/// Most characters of one event that is in memory alone: a hint at what may be looked up.
const PASSING_CHARS: usize = 1000;
/// Most characters of any other, which somebody was told is kept.
const MAX_CHARS: usize = 8192;

/// What happened outside of a conversation and should be known in it.
#[derive(Debug, Default)]
pub struct Notices(Mutex<BTreeMap<SessionKey, Waiting>>);

/// What waits for one session, or has waited.
#[derive(Debug, Default)]
pub struct Waiting {
    /// The events, the oldest first.
    texts: Vec<String>,
    /// Of each, whether the database has it, too.
    are_stored: Vec<bool>,
    /// The last of those.
    stored: Option<u64>,
}

impl Waiting {
    /// Another event; the same text twice in a row is one.
    fn push(&mut self, text: String, id: Option<u64>) {
        self.stored = self.stored.max(id);
        match (self.texts.last(), self.are_stored.last_mut()) {
            (Some(last), Some(is_stored)) if *last == text => *is_stored |= id.is_some(),
            _ => {
                self.texts.push(text);
                self.are_stored.push(id.is_some());
            }
        }
        self.bound();
    }

    /// More that has waited.
    fn add(&mut self, later: Self) {
        self.texts.extend(later.texts);
        self.are_stored.extend(later.are_stored);
        self.stored = self.stored.max(later.stored);
    }

    /// The oldest that are in memory alone give way.
    fn bound(&mut self) {
        let passing = self.are_stored.iter().filter(|is_stored| !**is_stored).count();
        for _ in MAX_PASSING..passing {
            let Some(oldest) = self.are_stored.iter().position(|is_stored| !is_stored) else {
                return;
            };
            self.texts.remove(oldest);
            self.are_stored.remove(oldest);
        }
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
        let text = match id {
            Some(_) => text.to_owned(),
            None => text.chars().take(PASSING_CHARS).collect(),
        };
        all.entry(key.clone()).or_default().push(text, id);
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
        taken.bound();
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

/// An event as it is kept: one that is too long says that it does not end here.
pub fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{} […]", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
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
            // The same, from now on in the database.
            if index % 2 == 0 {
                notices.add_stored(&key, &format!("event {index}"), index);
            }
            notices.add_stored(&key, &format!("kept {index}"), index);
            notices.add(&key, &format!("passing {index}"));
        }
        let taken = notices.take(&key);
        assert_eq!((taken.texts.len(), taken.stored), (45 + MAX_PASSING, Some(29)));
        let of = |word: &str| taken.texts.iter().filter(|text| text.starts_with(word)).count();
        assert_eq!((of("kept"), of("event 2"), taken.texts[0].as_str()), (30, 6 + 5, "event 0"));
        assert_eq!(taken.texts.last().map(String::as_str), Some("passing 29"));
        assert!(notices.take(&key).texts.is_empty());
    }

    #[test]
    fn what_is_kept_is_whole_or_says_that_it_is_not() {
        let notices = Notices::default();
        let key = SessionKey::from_canonical("agent:main:main");
        let long = "\u{e4}".repeat(MAX_CHARS);
        assert_eq!(shortened(&long), long);
        assert_eq!(shortened(&format!("{long}x")), format!("{long} […]"));
        notices.add_stored(&key, &long, 1);
        notices.add(&key, &long);
        let lengths = notices.take(&key).texts.into_iter().map(|text| text.chars().count());
        assert_eq!(lengths.collect::<Vec<_>>(), [MAX_CHARS, PASSING_CHARS]);
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
        for index in 0..MAX_PASSING {
            notices.add(&key, &index.to_string());
        }
        notices.put_back(&key, taken);
        let taken = notices.take(&key);
        // What only memory had gave way, and what the database has too did not.
        assert_eq!(
            (taken.texts.len(), &taken.texts[..2]),
            (MAX_PASSING + 1, &["first".to_owned(), "0".to_owned()][..])
        );
    }
}
