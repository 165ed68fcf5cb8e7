//! What is wrong with a part of the gateway at the moment, and since when.
//!
//! Promises: what lasts keeps the time at which it began. One board for the
//! process: the threads that write know nothing of services.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::{Clock, SystemClock, stability};

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// In words for people.
    pub error: String,
    /// Since when, in milliseconds since the epoch.
    pub since: u64,
}

static BOARD: Mutex<BTreeMap<&'static str, Trouble>> = Mutex::new(BTreeMap::new());

/// Notes how a part is: what is wrong with it, or that nothing is. Answers what
/// is wrong now, and what begins or ends is noted in [`stability`].
pub fn tell(part: &'static str, error: Option<String>) -> Option<Trouble> {
    let now_ms = SystemClock.now_ms();
    let mut board = BOARD.lock();
    let Some(error) = error else {
        let over = board.remove(part);
        drop(board);
        if let Some(over) = over {
            let lasted = now_ms.saturating_sub(over.since);
            stability::note(
                "service.recovered",
                serde_json::json!({"source": part, "durationMs": lasted}),
            );
        }
        return None;
    };
    let known = board.get(part).map(|trouble| trouble.since);
    let trouble = Trouble { error, since: known.unwrap_or(now_ms) };
    board.insert(part, trouble.clone());
    drop(board);
    if known.is_none() {
        let members =
            serde_json::json!({"source": part, "outcome": "error", "reason": trouble.error});
        stability::note("service.failed", members);
    }
    Some(trouble)
}

/// What is wrong with a part.
pub fn of(part: &str) -> Option<Trouble> {
    BOARD.lock().get(part).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

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
