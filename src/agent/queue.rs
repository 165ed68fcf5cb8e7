//! What happens to a message that comes while a run is active in its session.
//! Modes and defaults are those of the original.

use std::time::Duration;

use crate::config::{DropPolicy, QueueMode, QueueSettings};
use crate::sessions::WEBCHAT;
use crate::store::SessionEntry;

use super::report::Family;

/// How one message waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueRules {
    /// What it waits for.
    pub mode: QueueMode,
    /// How long it must be quiet before collected messages are answered.
    pub debounce: Duration,
    /// Most messages that wait for turns of their own.
    pub cap: usize,
    /// Which message gives way beyond that.
    pub drop: DropPolicy,
}

impl QueueRules {
    /// Longest time of quiet: an index that somebody else wrote may say any.
    pub const DEBOUNCE_MAX: Duration = Duration::from_hours(24);

    /// The rules of a session: its own, else those of its channel, else of all.
    pub fn of(settings: &QueueSettings, entry: Option<&SessionEntry>) -> Self {
        let mode = entry.and_then(|entry| QueueMode::parse(entry.queue_mode.as_deref()?));
        let of_channel = settings.by_channel.get(WEBCHAT).copied();
        let debounce_ms = entry.and_then(|entry| entry.queue_debounce_ms);
        let cap = entry.and_then(|entry| usize::try_from(entry.queue_cap?).ok());
        let drop = entry.and_then(|entry| DropPolicy::parse(entry.queue_drop.as_deref()?));
        Self {
            mode: mode.or(of_channel).unwrap_or(settings.mode),
            debounce: Duration::from_millis(debounce_ms.unwrap_or(settings.debounce_ms))
                .min(Self::DEBOUNCE_MAX),
            cap: cap.filter(|cap| *cap > 0).unwrap_or(settings.cap),
            drop: drop.unwrap_or(settings.drop),
        }
    }

    /// The rules for a message of this family. Who calls `agent` waits for an
    /// answer of its own, so such a message always gets a turn and never gives
    /// way.
    #[must_use]
    pub fn of_family(self, family: Family) -> Self {
        match family {
            Family::Chat => self,
            Family::Agent | Family::Hold => Self {
                mode: QueueMode::Followup,
                debounce: Duration::ZERO,
                cap: usize::MAX,
                drop: DropPolicy::New,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_beats_its_channel_and_that_the_rest() {
        let mut settings = QueueSettings::default();
        assert_eq!(QueueRules::of(&settings, None).mode, QueueMode::Steer);
        settings.by_channel.insert(WEBCHAT.into(), QueueMode::Collect);
        assert_eq!(QueueRules::of(&settings, None).mode, QueueMode::Collect);
        let entry = SessionEntry {
            queue_mode: Some("interrupt".into()),
            queue_debounce_ms: Some(7),
            queue_cap: Some(3),
            queue_drop: Some("old".into()),
            ..SessionEntry::default()
        };
        let expected = QueueRules {
            mode: QueueMode::Interrupt,
            debounce: Duration::from_millis(7),
            cap: 3,
            drop: DropPolicy::Old,
        };
        assert_eq!(QueueRules::of(&settings, Some(&entry)), expected);
        assert_eq!(expected.of_family(Family::Chat), expected);
        assert_eq!(expected.of_family(Family::Agent).mode, QueueMode::Followup);
    }

    #[test]
    fn what_an_entry_says_wrongly_is_as_if_it_said_nothing() {
        let entry = SessionEntry {
            queue_mode: Some("later".into()),
            queue_cap: Some(0),
            queue_drop: Some("all".into()),
            ..SessionEntry::default()
        };
        let endless = SessionEntry { queue_debounce_ms: Some(u64::MAX), ..SessionEntry::default() };
        let settings = QueueSettings::default();
        let rules = QueueRules::of(&settings, Some(&endless));
        assert_eq!(rules.debounce, QueueRules::DEBOUNCE_MAX);
        assert_eq!(QueueRules::of(&settings, Some(&entry)), QueueRules::of(&settings, None));
    }
}
