//! System events that wait for a session's next turn.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::sessions::SessionKey;
use crate::store::Teller;
use crate::support::Few;

use super::parts::RunsParts;

/// Most events that wait in one session and are in memory alone, and most beacons; the
/// oldest of them give way. Those that the database has, which bounds them, stay.
const MAX_PASSING: usize = 20;
/// Most sessions in which something waits; in others it is kept only by the database.
const MAX_SESSIONS: usize = 1000;
/// Most characters of one event that is in memory alone: a hint at what may be looked up.
const PASSING_CHARS: usize = 1000;
/// Most characters of any other, which somebody was told is kept.
const MAX_CHARS: usize = 8192;
/// Most characters that one turn is told, more than of any one event; the others wait for
/// the next. They stand in its prompt: a model that could not read all of them would
/// never hear of any.
const TOLD_CHARS: usize = 40_000;

/// What happened outside of a conversation and should be known in it; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Notices(Arc<Mutex<Few<SessionKey, Waiting>>>);

/// An event.
#[derive(Debug)]
struct Notice {
    text: String,
    teller: Teller,
    origin: Origin,
}

/// Where an event is from, as far as its place here is bounded by that.
#[derive(Debug, PartialEq, Eq)]
enum Origin {
    /// The database has it, too, under these ids: more than one when the same was said
    /// again.
    Stored(Vec<u64>),
    /// It is in memory alone.
    Passing,
    /// The same, and it is from a beacon: however many there are, nothing else gives way.
    Beacon,
}

impl Origin {
    fn ids(&self) -> &[u64] {
        match self {
            Self::Stored(ids) => ids,
            Self::Passing | Self::Beacon => &[],
        }
    }
}

/// What waits for one session, or has waited: the oldest first.
#[derive(Debug, Default)]
struct Waiting(Vec<Notice>);

impl Waiting {
    /// Another event; the same text twice in a row is one.
    fn push(&mut self, text: String, teller: Teller, origin: Origin) {
        match self.0.last_mut() {
            Some(last) if last.text == text => {
                last.teller = last.teller.max(teller);
                match (&mut last.origin, origin) {
                    (Origin::Stored(ids), Origin::Stored(more)) => ids.extend(more),
                    (passing, Origin::Stored(ids)) => *passing = Origin::Stored(ids),
                    _ => {}
                }
            }
            _ => self.0.push(Notice { text, teller, origin }),
        }
        self.bound();
    }

    /// The oldest that are in memory alone give way.
    fn bound(&mut self) {
        for bounded in [Origin::Passing, Origin::Beacon] {
            let waiting = self.0.iter().filter(|notice| notice.origin == bounded).count();
            let mut surplus = waiting.saturating_sub(MAX_PASSING);
            self.0.retain(|notice| {
                let is_surplus = surplus > 0 && notice.origin == bounded;
                surplus -= usize::from(is_surplus);
                !is_surplus
            });
        }
    }

    /// Takes as many of the oldest as have so many characters together.
    fn take(&mut self, mut room: usize) -> Self {
        let is_over = |notice: &Notice| {
            let left = room.checked_sub(notice.text.chars().count());
            room = left.unwrap_or_default();
            left.is_none()
        };
        let end = self.0.iter().position(is_over).unwrap_or(self.0.len());
        Self(self.0.drain(..end).collect())
    }

    fn texts(&self) -> Vec<String> {
        self.0.iter().map(|notice| notice.text.clone()).collect()
    }

    /// Whose they are.
    fn teller(&self) -> Teller {
        self.0.iter().map(|notice| notice.teller).max().unwrap_or(Teller::Owner)
    }

    /// What the database has of them.
    fn stored(&self) -> Vec<u64> {
        self.0.iter().flat_map(|notice| notice.origin.ids()).copied().collect()
    }
}

impl Notices {
    /// Adds an event; the same text twice in a row is one.
    pub fn add(&self, key: &SessionKey, text: &str, teller: Teller) {
        self.put(key, text, teller, Origin::Passing);
    }

    /// The same for the news of a beacon.
    pub fn add_beacon(&self, key: &SessionKey, text: &str, teller: Teller) {
        self.put(key, text, teller, Origin::Beacon);
    }

    /// The same for one that the database has under this id.
    pub(super) fn add_stored(&self, key: &SessionKey, text: &str, teller: Teller, id: u64) {
        self.put(key, text, teller, Origin::Stored(vec![id]));
    }

    fn put(&self, key: &SessionKey, text: &str, teller: Teller, origin: Origin) {
        let mut all = self.0.lock();
        let is_stored = !origin.ids().is_empty();
        if !is_stored && all.len() >= MAX_SESSIONS && !all.contains_key(key) {
            tracing::warn!(session = %key, "system event not kept: they wait in {MAX_SESSIONS} sessions");
            return;
        }
        let most = if is_stored { usize::MAX } else { PASSING_CHARS };
        let text = text.chars().take(most).collect();
        all.or_default(key.clone()).push(text, teller, origin);
    }

    /// Takes what waits for a session, up to so many characters.
    fn take(&self, key: &SessionKey, room: usize) -> Waiting {
        let mut all = self.0.lock();
        let Some(waiting) = all.get_mut(key) else { return Waiting::default() };
        let taken = waiting.take(room);
        if waiting.0.is_empty() {
            all.remove(key);
        }
        taken
    }

    /// Nobody will hear what waits for a session.
    pub(super) fn forget(&self, key: &SessionKey) {
        self.0.lock().remove(key);
    }

    /// What was taken waits again, before what has come since.
    fn put_back(&self, key: &SessionKey, mut taken: Waiting) {
        if taken.0.is_empty() {
            return;
        }
        let mut all = self.0.lock();
        let waiting = all.or_default(key.clone());
        taken.0.append(&mut waiting.0);
        taken.bound();
        *waiting = taken;
    }

    /// All that waits, for `status`.
    pub fn of_all(&self) -> Vec<String> {
        self.0.lock().values().flat_map(Waiting::texts).collect()
    }
}

/// Events that were taken for a turn. Unless they are heard in it, they wait again
/// when this is dropped.
pub struct Untold<'a> {
    parts: &'a RunsParts,
    key: SessionKey,
    waiting: Waiting,
    /// How many characters the turn may still be told.
    room: usize,
}

impl<'a> Untold<'a> {
    /// What waits for a session.
    pub(super) fn of(parts: &'a RunsParts, key: &SessionKey) -> Self {
        let waiting = Waiting::default();
        let mut untold = Self { parts, key: key.clone(), waiting, room: TOLD_CHARS };
        untold.take_more();
        untold
    }

    /// The events.
    pub fn texts(&self) -> Vec<String> {
        self.waiting.texts()
    }

    /// Whether who hears them keeps the owner's tools. What somebody else says takes these
    /// away, as his messages do; what a machine has reported does in a heartbeat, where nobody
    /// has asked anything.
    pub fn is_owners(&self, is_heartbeat: bool) -> bool {
        match self.waiting.teller() {
            Teller::Owner => true,
            Teller::Node => !is_heartbeat,
            Teller::Other => false,
        }
    }

    /// Takes what has come since; answers that alone.
    pub(super) fn take_more(&mut self) -> Vec<String> {
        let mut more = self.parts.notices.take(&self.key, self.room);
        let texts = more.texts();
        let told: usize = texts.iter().map(|text| text.chars().count()).sum();
        self.room = self.room.saturating_sub(told);
        self.waiting.0.append(&mut more.0);
        texts
    }

    /// Somebody has heard them: the database forgets them, too, and no other, which may
    /// have come before them and wait all the same.
    pub fn set_heard(&mut self) {
        let heard = std::mem::take(&mut self.waiting).stored();
        if heard.is_empty() {
            return;
        }
        let (store, key) = (Arc::clone(&self.parts.store), self.key.clone());
        self.parts.tasks.spawn("notices", async move {
            if let Err(error) = store.forget_notices(key.as_str(), heard).await {
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
            notices.add(&key, &format!("event {index}"), Teller::Owner);
            // The same, from now on in the database.
            if index % 2 == 0 {
                notices.add_stored(&key, &format!("event {index}"), Teller::Owner, index);
            }
            notices.add_stored(&key, &format!("kept {index}"), Teller::Owner, index);
            notices.add(&key, &format!("passing {index}"), Teller::Owner);
        }
        let taken = notices.take(&key, TOLD_CHARS);
        let texts = taken.texts();
        assert_eq!((texts.len(), taken.stored().len()), (45 + MAX_PASSING, 45));
        let of = |word: &str| texts.iter().filter(|text| text.starts_with(word)).count();
        assert_eq!((of("kept"), of("event 2"), texts[0].as_str()), (30, 6 + 5, "event 0"));
        assert_eq!(texts.last().map(String::as_str), Some("passing 29"));
        assert!(notices.take(&key, TOLD_CHARS).0.is_empty());
    }

    #[test]
    fn beacons_give_way_to_each_other_and_nothing_else_does() {
        let notices = Notices::default();
        let key = SessionKey::from_canonical("agent:main:main");
        notices.add(&key, "passing", Teller::Owner);
        for index in 0..30 {
            notices.add_beacon(&key, &format!("beacon {index}"), Teller::Owner);
        }
        let texts = notices.take(&key, TOLD_CHARS).texts();
        assert_eq!((texts.len(), texts[0].as_str()), (1 + MAX_PASSING, "passing"));
        assert_eq!(texts[1], "beacon 10");
    }

    #[test]
    fn what_is_kept_is_whole_or_says_that_it_is_not() {
        let notices = Notices::default();
        let key = SessionKey::from_canonical("agent:main:main");
        let long = "\u{e4}".repeat(MAX_CHARS);
        assert_eq!(shortened(&long), long);
        assert_eq!(shortened(&format!("{long}x")), format!("{long} […]"));
        notices.add_stored(&key, &long, Teller::Owner, 1);
        notices.add(&key, &long, Teller::Owner);
        let texts = notices.take(&key, TOLD_CHARS).texts();
        let lengths: Vec<_> = texts.iter().map(|text| text.chars().count()).collect();
        assert_eq!(lengths, [MAX_CHARS, PASSING_CHARS]);
    }

    #[test]
    fn one_turn_is_told_what_it_has_room_for_and_the_next_the_others() {
        let notices = Notices::default();
        let key = SessionKey::from_canonical("agent:main:main");
        for id in 0..12 {
            notices.add_stored(
                &key,
                &format!("{id:04}{}", "\u{e4}".repeat(7996)),
                Teller::Owner,
                id,
            );
        }
        let mut heard = 0;
        for (count, ids) in [(5, 0..5), (5, 5..10), (2, 10..12), (0, 12..12)] {
            let taken = notices.take(&key, TOLD_CHARS);
            assert_eq!((taken.0.len(), taken.stored()), (count, ids.collect::<Vec<_>>()));
            for text in taken.texts() {
                assert!(text.starts_with(&format!("{heard:04}")));
                heard += 1;
            }
        }
        notices.add(&key, "later", Teller::Owner);
        assert!(notices.take(&key, 4).0.is_empty(), "it is not cut");
        assert_eq!(notices.take(&key, 5).texts(), ["later"]);
    }

    #[test]
    fn events_wait_in_so_many_sessions_only() {
        let notices = Notices::default();
        let key = |number| SessionKey::from_canonical(format!("agent:main:{number}"));
        for number in 0..=MAX_SESSIONS {
            notices.add(&key(number), "event", Teller::Owner);
        }
        assert_eq!(notices.of_all().len(), MAX_SESSIONS);
        notices.add(&key(0), "another", Teller::Owner);
        notices.add_stored(&key(MAX_SESSIONS), "stored", Teller::Owner, 1);
        assert_eq!(notices.of_all().len(), MAX_SESSIONS + 2);
    }

    #[test]
    fn the_same_that_was_said_again_is_one_event_and_nothing_of_it_stays_behind() {
        let notices = Notices::default();
        let key = SessionKey::from_canonical("agent:main:main");
        notices.add(&key, "again", Teller::Owner);
        for id in [6, 5] {
            notices.add_stored(&key, "again", Teller::Owner, id);
        }
        notices.add(&key, "again", Teller::Owner);
        let taken = notices.take(&key, TOLD_CHARS);
        assert_eq!((taken.texts(), taken.stored()), (vec!["again".to_owned()], vec![6, 5]));
    }

    #[test]
    fn of_several_tellers_the_one_counts_who_is_trusted_least() {
        let notices = Notices::default();
        let key = SessionKey::from_canonical("agent:main:main");
        let teller = || notices.take(&key, TOLD_CHARS).teller();
        assert_eq!(teller(), Teller::Owner, "nobody tells anything");
        for (tellers, expected) in [
            ([Teller::Owner, Teller::Owner], Teller::Owner),
            ([Teller::Node, Teller::Owner], Teller::Node),
            ([Teller::Other, Teller::Node], Teller::Other),
        ] {
            // The same text is one event.
            for texts in [["one", "two"], ["same", "same"]] {
                for (text, from) in texts.into_iter().zip(tellers) {
                    notices.add(&key, text, from);
                }
                assert_eq!(teller(), expected);
            }
        }
    }

    #[test]
    fn events_that_were_put_back_come_first_and_are_bounded_too() {
        let notices = Notices::default();
        let key = SessionKey::from_canonical("agent:main:main");
        notices.add_stored(&key, "first", Teller::Owner, 7);
        let taken = notices.take(&key, TOLD_CHARS);
        notices.add(&key, "second", Teller::Owner);
        notices.put_back(&key, taken);
        let taken = notices.take(&key, TOLD_CHARS);
        assert_eq!(
            (taken.texts(), taken.stored()),
            (vec!["first".to_owned(), "second".to_owned()], vec![7])
        );
        for index in 0..MAX_PASSING {
            notices.add(&key, &index.to_string(), Teller::Owner);
        }
        notices.put_back(&key, taken);
        let texts = notices.take(&key, TOLD_CHARS).texts();
        // What only memory had gave way, and what the database has too did not.
        assert_eq!(
            (texts.len(), &texts[..2]),
            (MAX_PASSING + 1, &["first".to_owned(), "0".to_owned()][..])
        );
    }
}
