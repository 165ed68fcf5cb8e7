//! What has happened to the gateway lately.
//!
//! Owns: one ring of records for the process, so that they outlive a restart in
//! place. Promises: bounded in number and in the length of texts; noting
//! something never waits for longer than a few lines of code take. Must not: be
//! given message texts or credentials.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::support::json;

use super::{Clock, SystemClock};

/// Records that are kept, as in the original.
pub const CAPACITY: usize = 1000;
/// Longest text in a record, in characters: a reason, not a story.
const TEXT_MAX: usize = 300;

/// One thing that happened.
#[derive(Debug, Clone)]
struct Record {
    seq: u64,
    ts: u64,
    kind: &'static str,
    /// An object as JSON: a thousand trees would be most of an idle gateway.
    members: Box<str>,
}

impl Record {
    fn shown(&self) -> Value {
        let members: Map<_, _> = serde_json::from_str(&self.members).unwrap_or_default();
        let mut shown = Map::from_iter([
            ("seq".to_owned(), Value::from(self.seq)),
            ("ts".to_owned(), self.ts.into()),
            ("type".to_owned(), self.kind.into()),
        ]);
        shown.extend(members);
        Value::Object(shown)
    }
}

#[derive(Debug, Default)]
struct Ring {
    records: VecDeque<Record>,
    last_seq: u64,
    dropped: u64,
}

static RING: Mutex<Ring> = Mutex::new(Ring { records: VecDeque::new(), last_seq: 0, dropped: 0 });

/// Notes that something happened: `members` is an object, what is `null` in it
/// is left out.
pub fn note(kind: &'static str, members: Value) {
    let Value::Object(mut members) = members else { return };
    members.retain(|_, value| !value.is_null());
    for value in members.values_mut() {
        if let Value::String(text) = value
            && let Some((end, _)) = text.char_indices().nth(TEXT_MAX)
        {
            text.truncate(end);
        }
    }
    RING.lock().add(kind, SystemClock.now_ms(), members);
}

/// Which records somebody asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The last so many.
    pub limit: usize,
    /// Only of this type.
    pub kind: Option<String>,
    /// Only those after this one.
    pub since_seq: Option<u64>,
}

/// The records, in the form of `diagnostics.stability`.
pub fn report(wanted: &Wanted) -> Value {
    RING.lock().report(wanted)
}

impl Ring {
    fn add(&mut self, kind: &'static str, ts: u64, members: Map<String, Value>) {
        if self.records.len() == CAPACITY {
            self.records.pop_front();
            self.dropped += 1;
        }
        self.last_seq += 1;
        let members = Value::Object(members).to_string().into();
        self.records.push_back(Record { seq: self.last_seq, ts, kind, members });
    }

    fn report(&self, wanted: &Wanted) -> Value {
        let fits = |record: &&Record| {
            wanted.kind.as_ref().is_none_or(|kind| kind == record.kind)
                && wanted.since_seq.is_none_or(|seq| record.seq > seq)
        };
        let found: Vec<_> = self.records.iter().filter(fits).collect();
        let mut by_type = BTreeMap::new();
        for record in &found {
            *by_type.entry(record.kind).or_insert(0_u64) += 1;
        }
        let shown = &found[found.len().saturating_sub(wanted.limit)..];
        let mut report = json!({
            "capacity": CAPACITY,
            "count": found.len(),
            "dropped": self.dropped,
            "events": shown.iter().map(|record| record.shown()).collect::<Vec<_>>(),
            "summary": {"byType": by_type},
        });
        if let (Some(first), Some(last)) = (found.first(), found.last()) {
            report["firstSeq"] = first.seq.into();
            report["lastSeq"] = last.seq.into();
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_bounded_and_says_what_it_dropped() {
        let mut ring = Ring::default();
        for number in 0..CAPACITY + 5 {
            let members = json!({"number": number}).as_object().cloned().unwrap();
            ring.add(if number % 2 == 0 { "even" } else { "odd" }, 7, members);
        }
        let report = ring.report(&Wanted { limit: 2, ..Wanted::default() });
        assert_eq!((&report["count"], &report["dropped"]), (&json!(CAPACITY), &json!(5)));
        assert_eq!((&report["firstSeq"], &report["lastSeq"]), (&json!(6), &json!(1005)));
        assert_eq!(
            report["events"],
            json!([
                {"seq": 1004, "ts": 7, "type": "odd", "number": 1003},
                {"seq": 1005, "ts": 7, "type": "even", "number": 1004},
            ])
        );
        let kind = Some("odd".to_owned());
        let odd = ring.report(&Wanted { limit: 1, kind, since_seq: Some(1001) });
        assert_eq!((&odd["count"], &odd["summary"]["byType"]), (&json!(2), &json!({"odd": 2})));
        let none = ring.report(&Wanted { limit: 9, kind: Some("x".into()), since_seq: None });
        assert!(none.get("firstSeq").is_none());
        assert_eq!((&none["count"], &none["events"]), (&json!(0), &json!([])));
    }

    #[test]
    fn texts_are_short_and_nulls_are_left_out() {
        note("test.bounded", json!({"reason": "é".repeat(2 * TEXT_MAX), "code": null}));
        let wanted = Wanted { limit: 1, kind: Some("test.bounded".into()), since_seq: None };
        let event = &report(&wanted)["events"][0];
        assert_eq!(event["reason"].as_str().unwrap().chars().count(), TEXT_MAX);
        assert!(event.get("code").is_none());
    }
}
