//! `session.reset` and its kin: when a session begins anew by itself.
//!
//! Owns: which of the rules holds for a session. Must not: know what time it is.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use super::ConfigError;
use super::explain::{Choice, Ledger};
use super::schema::Node;

/// Hour of the daily reset when nobody says which, as in the original.
const DEFAULT_HOUR: u8 = 4;

/// What decides that a session is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResetMode {
    /// An hour of the day, and minutes without a message if they are given.
    Daily,
    /// Minutes without a message.
    Idle,
}

impl ResetMode {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Daily => "daily",
            Self::Idle => "idle",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Daily, Self::Idle].into_iter().find(|mode| mode.as_str() == text)
    }
}

impl fmt::Display for ResetMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Kinds of sessions that may have rules of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResetType {
    /// With one person.
    Direct,
    /// In a group or channel.
    Group,
    /// In a thread or topic.
    Thread,
}

/// What is written in one place; the rest comes from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Rules {
    mode: Option<ResetMode>,
    at_hour: Option<u8>,
    idle_minutes: Option<u64>,
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.mode.map(|mode| mode.to_string()),
            self.at_hour.map(|hour| format!("atHour {hour}")),
            self.idle_minutes.map(|minutes| format!("idleMinutes {minutes}")),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

/// When sessions begin anew by themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResetSettings {
    base: Rules,
    by_type: BTreeMap<ResetType, Rules>,
    by_channel: BTreeMap<String, Rules>,
    /// `session.idleMinutes`, of older configurations.
    legacy_idle_minutes: Option<u64>,
    /// Whether `reset` or `resetByType` is written; the older key then decides
    /// no mode.
    is_explicit: bool,
}

/// The rule for one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResetPolicy {
    /// Stale when it began before this hour of the day, in local time.
    pub at_hour: Option<u8>,
    /// Stale after so many minutes without a message of a person.
    pub idle_minutes: Option<u64>,
}

impl ResetSettings {
    /// The rule for a session of this kind and channel. A channel's rule stands
    /// alone, a kind's is completed by the general one.
    pub fn policy(&self, kind: ResetType, channel: Option<&str>) -> ResetPolicy {
        let of_channel =
            channel.and_then(|channel| self.by_channel.get(channel.trim().to_lowercase().as_str()));
        let (first, next, legacy) = if let Some(rules) = of_channel {
            (*rules, Rules::default(), None)
        } else {
            let of_kind = self.by_type.get(&kind).copied().unwrap_or_default();
            (of_kind, self.base, self.legacy_idle_minutes)
        };
        let by_default =
            if legacy.is_some() && !self.is_explicit { ResetMode::Idle } else { ResetMode::Daily };
        let mode = first.mode.or(next.mode).unwrap_or(by_default);
        let hour = first.at_hour.or(next.at_hour).unwrap_or(DEFAULT_HOUR);
        let idle = first.idle_minutes.or(next.idle_minutes).or(legacy);
        ResetPolicy {
            at_hour: (mode == ResetMode::Daily).then_some(hour),
            idle_minutes: idle.filter(|minutes| *minutes > 0),
        }
    }
}

/// Reads the keys below `session`.
pub(super) fn read(
    session: &Node<'_>,
    file: &Path,
    ledger: &mut Ledger,
) -> Result<ResetSettings, ConfigError> {
    let (reset, types) = (session.member("reset")?, session.member("resetByType")?);
    let legacy: Option<u64> = session.member("idleMinutes")?.count()?;
    let is_explicit = reset.is_set() || types.is_set();
    let base = rules(&reset)?;
    let mode = match legacy {
        Some(_) if !is_explicit => ResetMode::Idle,
        _ => ResetMode::Daily,
    };
    ledger.settle("session.reset.mode", Choice::file(file, base.mode), mode);
    ledger.settle("session.reset.atHour", Choice::file(file, base.at_hour), DEFAULT_HOUR);
    let idle = Choice::file(file, base.idle_minutes.or(legacy));
    ledger.settle_optional("session.reset.idleMinutes", idle);
    let mut settings = ResetSettings {
        base,
        legacy_idle_minutes: legacy,
        is_explicit,
        ..ResetSettings::default()
    };
    let mut of_types = Vec::new();
    // `dm` is what older configurations call `direct`.
    for (name, kind) in [
        ("dm", ResetType::Direct),
        ("direct", ResetType::Direct),
        ("group", ResetType::Group),
        ("thread", ResetType::Thread),
    ] {
        let node = types.member(name)?;
        if node.is_set() {
            let rules = rules(&node)?;
            of_types.push(format!("{name}: {rules}"));
            settings.by_type.insert(kind, rules);
        }
    }
    let mut of_channels = Vec::new();
    for (name, node) in session.member("resetByChannel")?.members()? {
        let rules = rules(&node)?;
        of_channels.push(format!("{name}: {rules}"));
        settings.by_channel.insert(name.trim().to_lowercase(), rules);
    }
    for (key, rules) in [("resetByType", of_types), ("resetByChannel", of_channels)] {
        let shown = (!rules.is_empty()).then(|| rules.join("; "));
        ledger.settle_optional(&format!("session.{key}"), Choice::file(file, shown));
    }
    Ok(settings)
}

fn rules(node: &Node<'_>) -> Result<Rules, ConfigError> {
    Ok(Rules {
        mode: node.member("mode")?.word("daily, idle", ResetMode::parse)?,
        at_hour: node.member("atHour")?.integer_or_zero(23)?,
        idle_minutes: node.member("idleMinutes")?.bounded(0, u32::MAX.into())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    use crate::support::json;

    fn settings(session: &Value) -> Result<ResetSettings, ConfigError> {
        let node = Node::root(session, Path::new("/c"));
        read(&node, Path::new("/c"), &mut Ledger::default())
    }

    fn policy(
        session: &Value,
        kind: ResetType,
        channel: Option<&str>,
    ) -> (Option<u8>, Option<u64>) {
        let policy = settings(session).unwrap().policy(kind, channel);
        (policy.at_hour, policy.idle_minutes)
    }

    #[test]
    fn the_nearest_rule_holds_and_a_kind_is_completed_by_the_general_one() {
        use ResetType::{Direct, Group, Thread};
        let full = json!({
            "reset": {"mode": "daily", "atHour": 6, "idleMinutes": 90},
            "resetByType": {"group": {"mode": "idle"}, "dm": {"atHour": 2}, "thread": {"idleMinutes": 0}},
            "resetByChannel": {"Discord": {"mode": "idle", "idleMinutes": 7}, "telegram": {}},
        });
        for (session, kind, channel, expected) in [
            (json!({}), Direct, None, (Some(4), None)),
            (json!({"reset": {"mode": "idle"}}), Direct, None, (None, None)),
            (json!({"reset": {"mode": "idle", "idleMinutes": 5}}), Group, None, (None, Some(5))),
            (json!({"idleMinutes": 30}), Direct, None, (None, Some(30))),
            (json!({"idleMinutes": 30, "reset": {}}), Direct, None, (Some(4), Some(30))),
            (json!({"idleMinutes": 30, "resetByType": {}}), Direct, None, (Some(4), Some(30))),
            (full.clone(), Direct, None, (Some(2), Some(90))),
            (full.clone(), Group, None, (None, Some(90))),
            (full.clone(), Thread, Some("webchat"), (Some(6), None)),
            (full.clone(), Direct, Some(" DISCORD"), (None, Some(7))),
            (full.clone(), Direct, Some("telegram"), (Some(4), None)),
        ] {
            assert_eq!(policy(&session, kind, channel), expected, "{session} {kind:?} {channel:?}");
        }
        let direct = json!({"resetByType": {"dm": {"atHour": 1}, "direct": {"atHour": 2}}});
        assert_eq!(policy(&direct, Direct, None), (Some(2), None));
    }

    #[test]
    fn a_wrong_rule_is_told_with_its_key() {
        for (session, key) in [
            (json!({"reset": {"mode": "weekly"}}), "reset.mode"),
            (json!({"reset": {"atHour": 24}}), "reset.atHour"),
            (
                json!({"resetByType": {"group": {"idleMinutes": -1}}}),
                "resetByType.group.idleMinutes",
            ),
            (json!({"resetByChannel": {"x": 1}}), "resetByChannel.x"),
            (json!({"idleMinutes": 0}), "idleMinutes"),
        ] {
            let error = settings(&session).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{key}: must be")), "{error}");
        }
    }
}
