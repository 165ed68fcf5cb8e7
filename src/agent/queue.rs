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

    /// The rules of a session for a message that came by this channel: its own, else those of
    /// the channel, else of all. When it is not known by which it came, by that of the session.
    pub fn of(
        settings: &QueueSettings,
        entry: Option<&SessionEntry>,
        came_by: Option<&str>,
    ) -> Self {
        let mode = entry.and_then(|entry| QueueMode::parse(entry.queue_mode.as_deref()?));
        let of_session =
            || entry.and_then(|entry| entry.channel.as_deref().or(entry.last_channel.as_deref()));
        let channel = came_by.or_else(of_session).unwrap_or(WEBCHAT).trim().to_lowercase();
        let of_channel = settings.by_channel.get(&channel).copied();
        let debounce_ms = entry.and_then(|entry| entry.queue_debounce_ms);
        let debounce_ms =
            debounce_ms.or_else(|| settings.debounce_by_channel.get(&channel).copied());
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
        assert_eq!(QueueRules::of(&settings, None, None).mode, QueueMode::Steer);
        settings.by_channel.insert(WEBCHAT.into(), QueueMode::Collect);
        settings.debounce_by_channel.insert(WEBCHAT.into(), 9);
        let of_channel = QueueRules::of(&settings, None, None);
        assert_eq!(of_channel.mode, QueueMode::Collect);
        assert_eq!(of_channel.debounce, Duration::from_millis(9));
        let other = QueueRules::of(&settings, None, Some("telegram")).debounce;
        assert_eq!(other, Duration::from_millis(settings.debounce_ms));
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
        assert_eq!(QueueRules::of(&settings, Some(&entry), None), expected);
        assert_eq!(expected.of_family(Family::Chat), expected);
        assert_eq!(expected.of_family(Family::Agent).mode, QueueMode::Followup);
    }

    #[test]
    fn a_message_waits_as_its_channel_says_and_else_as_that_of_its_session() {
        let by_channel = [
            ("telegram".to_owned(), QueueMode::Followup),
            (WEBCHAT.to_owned(), QueueMode::Interrupt),
        ];
        let settings = QueueSettings { by_channel: by_channel.into(), ..QueueSettings::default() };
        let telegram = Some("telegram".to_owned());
        let own = SessionEntry { channel: telegram.clone(), ..SessionEntry::default() };
        let last = SessionEntry { last_channel: telegram, ..SessionEntry::default() };
        for (entry, came_by, mode) in [
            (None, None, QueueMode::Interrupt),
            (Some(&own), None, QueueMode::Followup),
            (Some(&last), None, QueueMode::Followup),
            (None, Some("Telegram"), QueueMode::Followup),
            (Some(&own), Some(WEBCHAT), QueueMode::Interrupt),
            (Some(&own), Some("webhook"), QueueMode::Steer),
        ] {
            let rules = QueueRules::of(&settings, entry, came_by);
            assert_eq!(rules.mode, mode, "{entry:?} {came_by:?}");
        }
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
        let rules = QueueRules::of(&settings, Some(&endless), None);
        assert_eq!(rules.debounce, QueueRules::DEBOUNCE_MAX);
        assert_eq!(
            QueueRules::of(&settings, Some(&entry), None),
            QueueRules::of(&settings, None, None)
        );
    }
}
