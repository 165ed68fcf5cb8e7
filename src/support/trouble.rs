//! What is wrong with a part of the gateway at the moment, and since when.
//!
//! Promises: what lasts keeps the time at which it began; work that a disk does
//! not let end is found by whoever looks, while it lasts. One board for the
//! process: the threads that write know nothing of services.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Clock, Few, SystemClock, stability};

/// A disk that needs longer than this is not busy, but gone for a while.
const HANGS_AFTER: Duration = Duration::from_secs(5);

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// In words for people.
    pub error: String,
    /// Since when, in milliseconds since the epoch.
    pub since: u64,
}

static BOARD: Mutex<Few<&'static str, Trouble>> = Mutex::new(Few::new());

/// How often something began or ended, for whoever keeps a picture of all parts.
static CHANGES: AtomicU64 = AtomicU64::new(0);
static CHANGED: Notify = Notify::const_new();

/// What a thread that writes is at.
struct Work {
    began: Instant,
    since: u64,
    is_told: bool,
}

static UNDER_WAY: Mutex<Few<&'static str, Work>> = Mutex::new(Few::new());

/// Notes how a part is: what is wrong with it, or that nothing is. Answers what
/// is wrong now, and what begins or ends is noted in [`stability`].
pub fn tell(part: &'static str, error: Option<String>) -> Option<Trouble> {
    let (wrong, is_news) = put(part, error);
    if is_news {
        change();
    }
    wrong
}

/// The same for who makes a picture of all parts, which is not out of date by what it finds.
pub fn found(part: &'static str, error: Option<String>) -> Option<Trouble> {
    put(part, error).0
}

/// A number that is another one once a part has failed or is well again.
pub fn changes() -> u64 {
    CHANGES.load(Ordering::Acquire)
}

/// Waits until that has happened. One at a time waits.
pub async fn changed() {
    CHANGED.notified().await;
}

/// Makes that number another one: no part fails, and yet not all is as it was.
pub fn outdate() {
    CHANGES.fetch_add(1, Ordering::AcqRel);
}

fn change() {
    outdate();
    CHANGED.notify_one();
}

/// Puts it on the board, and whether that began or ended something.
fn put(part: &'static str, error: Option<String>) -> (Option<Trouble>, bool) {
    let now_ms = SystemClock.now_ms();
    let mut board = BOARD.lock();
    let Some(error) = error else {
        let over = board.remove(part);
        drop(board);
        let is_news = over.is_some();
        if let Some(over) = over {
            let lasted = now_ms.saturating_sub(over.since);
            stability::note(
                "service.recovered",
                crate::support::json!({"source": part, "durationMs": lasted}),
            );
        }
        return (None, is_news);
    };
    let known = board.get(part).map(|trouble| trouble.since);
    let trouble = Trouble { error, since: known.unwrap_or(now_ms) };
    board.insert(part, trouble.clone());
    drop(board);
    if known.is_none() {
        let members =
            crate::support::json!({"source": part, "outcome": "error", "reason": trouble.error});
        stability::note("service.failed", members);
    }
    (Some(trouble), known.is_none())
}

/// What is wrong with a part.
pub fn of(part: &str) -> Option<Trouble> {
    let told = BOARD.lock().get(part).cloned();
    told.or_else(|| hang(part, UNDER_WAY.lock().get_mut(part)?))
}

/// Does work of a part that ends when a disk says so.
pub fn watched<T>(part: &'static str, work: impl FnOnce() -> T) -> T {
    let (began, since) = (Instant::now(), SystemClock.now_ms());
    UNDER_WAY.lock().insert(part, Work { began, since, is_told: false });
    let done = work();
    let was_told = UNDER_WAY.lock().remove(part).is_some_and(|work| work.is_told);
    let seconds = began.elapsed().as_secs();
    if began.elapsed() >= HANGS_AFTER {
        tracing::warn!(part, seconds, "the disk answers again");
    }
    if was_told {
        let lasted = seconds.saturating_mul(1000);
        let members = crate::support::json!({"source": part, "durationMs": lasted});
        stability::note("service.recovered", members);
        change();
    }
    done
}

/// Whether something waits for a disk that does not answer.
pub fn disk_hangs() -> bool {
    UNDER_WAY.lock().iter_mut().any(|(part, work)| hang(part, work).is_some())
}

fn hang(part: &str, work: &mut Work) -> Option<Trouble> {
    let lasts = work.began.elapsed();
    if lasts < HANGS_AFTER {
        return None;
    }
    let error = format!("the disk has not answered for {} seconds", lasts.as_secs());
    if !std::mem::replace(&mut work.is_told, true) {
        tracing::error!(part, %error, "a disk hangs");
        let members = crate::support::json!({"source": part, "outcome": "error", "reason": error});
        stability::note("service.failed", members);
        change();
    }
    Some(Trouble { error, since: work.since })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_that_a_disk_does_not_let_end_is_found_while_it_lasts() {
        let mut work = Work { began: Instant::now(), since: 7, is_told: false };
        assert_eq!(hang("test of a hang", &mut work), None);
        tokio::time::advance(HANGS_AFTER * 2).await;
        let error = "the disk has not answered for 10 seconds".to_owned();
        assert_eq!(hang("test of a hang", &mut work), Some(Trouble { error, since: 7 }));
        assert!(work.is_told);
        assert_eq!(watched("test of work", || of("test of work")), None);
        assert!(!UNDER_WAY.lock().contains_key("test of work"));
    }

    #[test]
    fn what_begins_and_what_ends_is_news_but_for_who_has_found_it() {
        let part = "test of news";
        for error in [Some("one".to_owned()), None] {
            let before = changes();
            tell(part, error);
            assert!(changes() > before);
        }
        assert!(put(part, Some("one".into())).1 && !put(part, Some("two".into())).1);
        assert!(put(part, None).1 && !put(part, None).1);
    }

    #[test]
    fn what_lasts_keeps_its_beginning_and_what_is_over_is_gone() {
        assert_eq!(tell("test", None), None);
        let first = tell("test", Some("one".into())).unwrap();
        let second = tell("test", Some("two".into())).unwrap();
        assert_eq!((second.error.as_str(), second.since), ("two", first.since));
        assert_eq!(of("test"), Some(second));
        assert_eq!(tell("test", None), None);
        assert_eq!(of("test"), None);
        let wanted = |kind: &str| stability::Wanted {
            limit: 100,
            kind: Some(kind.to_owned()),
            since_seq: None,
        };
        for kind in ["service.failed", "service.recovered"] {
            let events = stability::report(&wanted(kind))["events"].clone();
            let ours = events.as_array().unwrap().iter().filter(|it| it["source"] == "test");
            assert_eq!(ours.count(), 1, "{kind}");
        }
    }
}
