//! Which sessions go: pure decisions.

use std::collections::HashSet;

use super::super::{KeyRules, SessionEntry, SessionKey};
use crate::store::SessionRow;

/// Prefixes of keys that programs make; nobody comes back to those.
const SYNTHETIC: [&str; 6] = ["subagent:", "acp:", "acp-bridge:", "cron:", "hook:", "node:"];

/// Why a session goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// It has no transcript.
    Missing,
    /// It did not change for too long.
    Stale,
    /// There are too many.
    Capped,
}

/// The bounds.
pub(super) struct Bounds<'a> {
    /// Sessions that changed before this (milliseconds) are stale; 0 is none.
    pub stale_before: u64,
    /// Most sessions, if there is a bound.
    pub max_entries: Option<u64>,
    /// Sessions without transcripts, when those are to go.
    pub missing: &'a HashSet<SessionKey>,
}

/// The sessions that go, and why. `rows` are in the order of their last change,
/// the newest first; `is_kept` are those that never go.
pub(super) fn leaving(
    rows: &[SessionRow],
    bounds: &Bounds<'_>,
    is_kept: impl Fn(&SessionKey, &SessionEntry) -> bool,
) -> Vec<(SessionRow, Cause)> {
    let (mut leaving, mut staying) = (Vec::new(), Vec::new());
    for row in rows {
        let key = SessionKey::from_canonical(row.key.as_str());
        let cause = if is_kept(&key, &row.entry) {
            staying.push((row, true));
            continue;
        } else if bounds.missing.contains(&key) {
            Cause::Missing
        } else if row.entry.updated_at < bounds.stale_before {
            Cause::Stale
        } else {
            staying.push((row, false));
            continue;
        };
        leaving.push((row.clone(), cause));
    }
    let max = bounds.max_entries.map_or(usize::MAX, |max| max.try_into().unwrap_or(usize::MAX));
    let excess = staying.len().saturating_sub(max);
    let oldest = staying.into_iter().rev().filter(|(_, is_kept)| !is_kept);
    leaving.extend(oldest.take(excess).map(|(row, _)| (row.clone(), Cause::Capped)));
    leaving
}

/// Whether a session never goes by itself: main sessions, and those of groups,
/// channels and threads, where people come back.
pub(super) fn is_protected(key: &SessionKey, entry: &SessionEntry, rules: &KeyRules) -> bool {
    if *key == SessionKey::main(&key.agent(rules), rules) || key.kind() == "global" {
        return true;
    }
    let text = key.as_str();
    let rest = text.strip_prefix("agent:").and_then(|rest| rest.split_once(':'));
    let rest = rest.map_or(text, |(_, rest)| rest);
    let is_heartbeat = rest.split(':').any(|part| part == "heartbeat");
    if is_heartbeat || SYNTHETIC.iter().any(|prefix| rest.starts_with(prefix)) {
        return false;
    }
    let is_thread = rest.contains(":thread:") || rest.contains(":topic:");
    let chat_type = entry.chat_type.as_deref();
    is_thread || key.kind() == "group" || matches!(chat_type, Some("group" | "channel" | "thread"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str, updated_at: u64) -> SessionRow {
        let entry = SessionEntry { updated_at, ..SessionEntry::default() };
        SessionRow { key: key.into(), entry, children: Vec::new() }
    }

    #[test]
    fn the_stale_go_then_the_oldest_above_the_cap_and_never_the_kept() {
        let rows =
            [row("e", 50), row("d", 40), row("c", 30), row("b", 20), row("kept", 1), row("a", 0)];
        let missing = HashSet::from([SessionKey::from_canonical("d")]);
        let bounds = Bounds { stale_before: 10, max_entries: Some(2), missing: &missing };
        let found = leaving(&rows, &bounds, |key, _| key.as_str() == "kept");
        let found: Vec<_> = found.iter().map(|(row, cause)| (row.key.as_str(), *cause)).collect();
        let expected = [
            ("d", Cause::Missing),
            ("a", Cause::Stale),
            ("b", Cause::Capped),
            ("c", Cause::Capped),
        ];
        assert_eq!(found, expected, "of e, c, b and the kept one, two stay");
        let roomy = Bounds { stale_before: 0, max_entries: None, missing: &HashSet::new() };
        assert_eq!(leaving(&rows, &roomy, |_, _| false), []);
    }

    #[test]
    fn places_that_people_come_back_to_are_protected() {
        let rules = KeyRules::default();
        let protects = |key: &str, chat_type: Option<&str>| {
            let chat_type = chat_type.map(Into::into);
            let entry = SessionEntry { chat_type, ..SessionEntry::default() };
            is_protected(&SessionKey::from_canonical(key), &entry, &rules)
        };
        for key in [
            "global",
            "agent:main:main",
            "agent:other:main",
            "agent:main:telegram:group:1",
            "agent:main:slack:channel:c:thread:7",
        ] {
            assert!(protects(key, None), "{key}");
        }
        assert!(protects("agent:main:x", Some("channel")));
        for key in [
            "agent:main:work",
            "agent:main:subagent:7",
            "agent:main:cron:job:run:9",
            "agent:main:main:heartbeat",
            "unknown",
        ] {
            assert!(!protects(key, None), "{key}");
        }
        assert!(!protects("agent:main:subagent:group:1", Some("group")));
    }
}
