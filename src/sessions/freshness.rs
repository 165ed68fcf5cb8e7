//! When a session is stale: a message that comes then begins it anew.

use std::io;
use std::path::Path;

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::error::{At, SessionError};
use super::service::Sessions;
use super::steps::blocking;
use super::transcript::head;
use super::{SessionEntry, SessionKey, WEBCHAT, paths, time};
use crate::config::{ResetPolicy, ResetType};

impl Sessions {
    /// Begins a stale session anew, for a message that arrived `at` (in
    /// milliseconds) by this channel; settings stay, the old transcript is put away.
    /// Answers whether it was stale.
    pub async fn renew_if_stale(
        &self,
        key: &SessionKey,
        cwd: &Path,
        at: u64,
        channel: Option<&str>,
    ) -> Result<bool, SessionError> {
        let Some(entry) = self.entry(key).await? else { return Ok(false) };
        let is_stale = self.is_stale(key, &entry, at, channel).await?;
        if is_stale {
            self.reset(key, cwd).await?;
        }
        Ok(is_stale)
    }

    /// Whether a message that arrives `at` (in milliseconds) comes too late for
    /// the current transcript of a session. One that names no channel counts as one of the
    /// session's.
    pub async fn is_stale(
        &self,
        key: &SessionKey,
        entry: &SessionEntry,
        at: u64,
        channel: Option<&str>,
    ) -> Result<bool, SessionError> {
        let of_entry = || entry.channel.as_deref().or(entry.last_channel.as_deref());
        let channel = channel.or_else(of_entry).unwrap_or(WEBCHAT);
        let policy = self.inner.options.now().reset.policy(kind(key, entry), Some(channel));
        let began_at = match entry.session_started_at {
            Some(began_at) => began_at,
            None => self.header_time(key, entry).await?.unwrap_or(entry.updated_at),
        };
        let last_at = entry.last_interaction_at.unwrap_or(began_at);
        Ok(expired(policy, began_at, last_at, at, &TimeZone::system()))
    }

    /// When the transcript says that it began; older entries do not say it.
    async fn header_time(
        &self,
        key: &SessionKey,
        entry: &SessionEntry,
    ) -> Result<Option<u64>, SessionError> {
        let path = self.path(key, entry)?;
        let reading = blocking(move || {
            let header = match paths::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                opened => opened.and_then(|file| head(&file)).at("read", &path)?,
            };
            Ok(header.and_then(|(_, header)| header?.timestamp))
        });
        let timestamp = reading.await?;
        Ok(timestamp.map(|timestamp| time::millis(&timestamp)).filter(|began_at| *began_at > 0))
    }
}

fn kind(key: &SessionKey, entry: &SessionEntry) -> ResetType {
    let chat_type = entry.chat_type.as_deref();
    if key.as_str().contains(":thread:") || key.as_str().contains(":topic:") {
        ResetType::Thread
    } else if key.kind() == "group" || matches!(chat_type, Some("group" | "channel" | "room")) {
        ResetType::Group
    } else {
        ResetType::Direct
    }
}

/// Whether the rule says that a session has expired. A time after `now` counts
/// as `now`: a message that waited may have been overtaken by another.
fn expired(policy: ResetPolicy, began_at: u64, last_at: u64, now: u64, zone: &TimeZone) -> bool {
    let is_old = policy.at_hour.is_some_and(|hour| began_at < last_reset(now, hour, zone));
    let is_idle = policy
        .idle_minutes
        .is_some_and(|minutes| now.saturating_sub(last_at) > minutes.saturating_mul(60_000));
    is_old || is_idle
}

/// The last time, up to `now`, that a clock on the wall showed the full hour.
/// Where an hour is skipped the next one counts, where it comes twice the first.
fn last_reset(now: u64, hour: u8, zone: &TimeZone) -> u64 {
    let moment = Timestamp::from_millisecond(i64::try_from(now).unwrap_or(i64::MAX));
    let today = moment.unwrap_or(Timestamp::MAX).to_zoned(zone.clone()).date();
    let hour = i8::try_from(hour).unwrap_or_default();
    let reset_of = |day: jiff::civil::Date| {
        let moment = day.at(hour, 0, 0, 0).to_zoned(zone.clone()).ok()?;
        Some(time::since_epoch(moment.timestamp()))
    };
    match reset_of(today) {
        Some(reset) if reset <= now => reset,
        _ => reset_of(today.saturating_sub(1.day())).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Central Europe, without asking the machine for its time zones.
    fn berlin() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    fn at(text: &str) -> u64 {
        time::millis(text)
    }

    #[test]
    fn the_daily_hour_is_that_of_the_wall_clock_in_summer_and_winter() {
        for (now, hour, expected) in [
            // Winter: 04:00 is 03:00 UTC. The hour itself is past.
            ("2026-01-10T02:59:59Z", 4, "2026-01-09T03:00:00Z"),
            ("2026-01-10T03:00:00Z", 4, "2026-01-10T03:00:00Z"),
            ("2026-01-10T22:59:00Z", 4, "2026-01-10T03:00:00Z"),
            // Past midnight in Berlin, still the day before in Greenwich.
            ("2026-01-10T23:30:00Z", 0, "2026-01-10T23:00:00Z"),
            // Summer: 04:00 is 02:00 UTC.
            ("2026-07-01T01:59:59Z", 4, "2026-06-30T02:00:00Z"),
            ("2026-07-01T02:00:00Z", 4, "2026-07-01T02:00:00Z"),
            // The clock goes from 2 to 3 on March 29: half past two does not exist.
            ("2026-03-29T00:59:00Z", 2, "2026-03-28T01:00:00Z"),
            ("2026-03-29T01:00:00Z", 2, "2026-03-29T01:00:00Z"),
            ("2026-03-29T12:00:00Z", 4, "2026-03-29T02:00:00Z"),
            // The clock goes from 3 to 2 on October 25: two o'clock comes twice.
            ("2026-10-25T00:00:00Z", 2, "2026-10-25T00:00:00Z"),
            ("2026-10-25T01:30:00Z", 2, "2026-10-25T00:00:00Z"),
            ("2026-10-25T12:00:00Z", 4, "2026-10-25T03:00:00Z"),
        ] {
            assert_eq!(last_reset(at(now), hour, &berlin()), at(expected), "{now} at {hour}");
        }
    }

    #[test]
    fn a_session_expires_by_the_hour_by_idleness_or_by_whichever_is_first() {
        let now = at("2026-01-10T12:00:00Z");
        let (early, late) = (at("2026-01-10T01:00:00Z"), at("2026-01-10T11:00:00Z"));
        let both = |at_hour, idle_minutes| ResetPolicy { at_hour, idle_minutes };
        for (policy, began_at, last_at, stale) in [
            (both(Some(4), None), early, late, true),
            (both(Some(4), None), late, late, false),
            (both(None, Some(60)), early, late, false),
            (both(None, Some(59)), early, late, true),
            (both(Some(4), Some(59)), late, late, true),
            (both(Some(4), Some(61)), early, late, true),
            (both(Some(4), Some(61)), late, late, false),
            (both(None, None), 0, 0, false),
            // Clocks that went back, and messages that overtook each other.
            (both(Some(4), Some(1)), now + 1, now + 1, false),
        ] {
            assert_eq!(expired(policy, began_at, last_at, now, &berlin()), stale, "{policy:?}");
        }
    }

    #[test]
    fn threads_and_groups_are_told_by_key_and_chat_type() {
        let kind_of = |key: &str, chat_type: Option<&str>| {
            let entry =
                SessionEntry { chat_type: chat_type.map(Into::into), ..SessionEntry::default() };
            kind(&SessionKey::from_canonical(key), &entry)
        };
        assert_eq!(kind_of("agent:main:main", None), ResetType::Direct);
        assert_eq!(kind_of("agent:main:slack:channel:c:thread:7", None), ResetType::Thread);
        assert_eq!(kind_of("agent:main:telegram:group:1:topic:7", None), ResetType::Thread);
        assert_eq!(kind_of("agent:main:telegram:group:1", None), ResetType::Group);
        assert_eq!(kind_of("agent:main:other", Some("channel")), ResetType::Group);
    }
}
