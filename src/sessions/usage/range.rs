//! Days, and spans of them, in somebody's time zone.

use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, ToSpan};

use super::super::time;

/// Milliseconds of a quarter hour.
pub(super) const QUARTER_MS: u64 = 15 * 60 * 1000;

/// Days when nobody says how many, today included.
const DEFAULT_DAYS: u32 = 30;

/// Most days that can be asked for: the calendar ends somewhere.
const DAYS_MAX: u32 = 36_500;

/// What cannot be read as a span of days.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// There is no such first day.
    #[error("no such day: {0}; give it as YYYY-MM-DD")]
    Start(String),
    /// There is no such last day.
    #[error("no such day: {0}; give it as YYYY-MM-DD")]
    End(String),
    /// There is no such offset.
    #[error("no such offset: {0}; give it as UTC+2 or UTC-3:30")]
    Offset(String),
}

/// Whose days are meant.
#[derive(Debug, Clone)]
pub struct Zone(TimeZone);

impl Zone {
    /// Greenwich.
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// This machine's.
    pub fn local() -> Self {
        Self(TimeZone::system())
    }

    /// One of these by its name in the params, `utc`, `gateway` or `specific`
    /// with an offset; UTC when there is none.
    pub fn read(mode: Option<&str>, offset: Option<&str>) -> Result<Self, RangeError> {
        match (mode, offset) {
            (Some("gateway"), _) => Ok(Self::local()),
            (Some("specific"), Some(offset)) => {
                Self::at(offset).ok_or_else(|| RangeError::Offset(offset.to_owned()))
            }
            _ => Ok(Self::utc()),
        }
    }

    /// The zone of an offset such as `UTC+5:30`, from -12 to +14 hours.
    fn at(offset: &str) -> Option<Self> {
        let rest = offset.strip_prefix("UTC")?;
        let (sign, rest) = match (rest.strip_prefix('+'), rest.strip_prefix('-')) {
            (Some(rest), _) => (1, rest),
            (_, Some(rest)) => (-1, rest),
            _ => return None,
        };
        let (hours, minutes) = rest.split_once(':').unwrap_or((rest, "0"));
        let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
        let total = sign * (hours.checked_mul(60)?.checked_add(minutes)?);
        if !(-12 * 60..=14 * 60).contains(&total) {
            return None;
        }
        Some(Self(TimeZone::fixed(Offset::from_seconds(total * 60).ok()?)))
    }

    /// The day that a moment belongs to.
    pub(super) fn day(&self, millis: u64) -> Date {
        let moment = Timestamp::from_millisecond(i64::try_from(millis).unwrap_or(i64::MAX));
        moment.unwrap_or(Timestamp::MAX).to_zoned(self.0.clone()).date()
    }

    /// The first moment of a day. The calendar has days that no clock reaches.
    fn start(&self, day: Date) -> u64 {
        let edge = if day.year() > 0 { Timestamp::MAX } else { Timestamp::MIN };
        time::since_epoch(day.to_zoned(self.0.clone()).map_or(edge, |start| start.timestamp()))
    }
}

/// A span of days, both ends included.
#[derive(Debug, Clone)]
pub struct DateRange {
    /// Whose days.
    pub zone: Zone,
    /// The first.
    pub first: Date,
    /// The last.
    pub last: Date,
}

impl DateRange {
    /// From the params: two days as `YYYY-MM-DD`, else so many days up to today,
    /// else thirty. With one day the other end is today, or thirty days before.
    pub fn read(
        zone: Zone,
        start: Option<&str>,
        end: Option<&str>,
        days: Option<u64>,
        now_ms: u64,
    ) -> Result<Self, RangeError> {
        let last = match end {
            Some(text) => text.parse().map_err(|_| RangeError::End(text.to_owned()))?,
            None => zone.day(now_ms),
        };
        let days = days.and_then(|days| u32::try_from(days).ok()).unwrap_or(DEFAULT_DAYS);
        let back = days.clamp(1, DAYS_MAX) - 1;
        let first = match start {
            Some(text) => text.parse().map_err(|_| RangeError::Start(text.to_owned()))?,
            None => last.saturating_sub(i64::from(back).days()),
        };
        Ok(Self { zone, first, last })
    }

    /// The first moment.
    pub fn start_ms(&self) -> u64 {
        self.zone.start(self.first)
    }

    /// The last moment.
    pub fn end_ms(&self) -> u64 {
        let next = self.last.checked_add(1.day());
        let after = next.map_or(time::since_epoch(Timestamp::MAX), |next| self.zone.start(next));
        after.saturating_sub(1)
    }

    /// The quarters of an hour in it, both ends included. They tell days apart
    /// in every zone whose offset is a multiple of a quarter hour: all that are
    /// in use.
    pub(super) fn quarters(&self) -> (u64, u64) {
        (self.start_ms() / QUARTER_MS, self.end_ms() / QUARTER_MS)
    }

    /// How many days it spans, counted as the original does: one more.
    pub fn days(&self) -> u64 {
        self.end_ms().saturating_sub(self.start_ms()).div_ceil(24 * 60 * 60 * 1000) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-22T03:24:59Z.
    const NOW: u64 = 1_795_317_899_000;

    fn range(zone: Zone, start: Option<&str>, end: Option<&str>, days: Option<u64>) -> DateRange {
        DateRange::read(zone, start, end, days, NOW).unwrap()
    }

    #[test]
    fn a_span_is_two_days_or_so_many_until_today() {
        let ends = |range: DateRange| (range.first.to_string(), range.last.to_string());
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(ends(range(Zone::utc(), None, None, None)), pair("2026-10-24", "2026-11-22"));
        assert_eq!(ends(range(Zone::utc(), None, None, Some(2))), pair("2026-11-21", "2026-11-22"));
        assert_eq!(ends(range(Zone::utc(), None, None, Some(0))), pair("2026-11-22", "2026-11-22"));
        let given = range(Zone::utc(), Some("2026-01-01"), Some("2026-12-31"), Some(9));
        assert_eq!(ends(given), pair("2026-01-01", "2026-12-31"));
        let until = range(Zone::utc(), None, Some("2026-03-30"), None);
        assert_eq!(ends(until), pair("2026-03-01", "2026-03-30"));
        let west = Zone::read(Some("specific"), Some("UTC-5")).unwrap();
        assert_eq!(ends(range(west, None, None, Some(1))), pair("2026-11-21", "2026-11-21"));
    }

    #[test]
    fn days_are_counted_as_recorded() {
        assert_eq!(range(Zone::utc(), None, None, None).days(), 31);
        assert_eq!(range(Zone::utc(), None, None, Some(2)).days(), 3);
    }

    #[test]
    fn the_ends_of_a_day_are_those_of_its_zone() {
        let east = Zone::read(Some("specific"), Some("UTC+5:30")).unwrap();
        let day = range(east, Some("2026-11-22"), Some("2026-11-22"), None);
        let hours = 3_600_000;
        let midnight = 1_795_305_600_000; // 2026-11-22T00:00:00Z
        assert_eq!(day.start_ms(), midnight - 5 * hours - hours / 2);
        assert_eq!(day.end_ms(), day.start_ms() + 24 * hours - 1);
        assert_eq!(day.quarters().1 - day.quarters().0, 95);
    }

    #[test]
    fn what_is_no_day_and_no_offset_is_said() {
        for bad in ["UTC+15", "UTC-13", "UTC+14:30", "UTC", "UTC+x", "+2"] {
            let error = Zone::read(Some("specific"), Some(bad)).unwrap_err();
            assert_eq!(error, RangeError::Offset(bad.into()));
        }
        let bad = DateRange::read(Zone::utc(), Some("2026-02-30"), None, None, NOW);
        assert_eq!(bad.unwrap_err(), RangeError::Start("2026-02-30".into()));
        for edge in ["9999-12-31", "0000-01-01"] {
            let range = range(Zone::utc(), Some(edge), Some(edge), None);
            assert!(range.quarters().0 <= range.quarters().1, "{edge}");
        }
    }

    #[test]
    fn a_last_day_at_the_end_of_the_calendar_ends_after_all_others() {
        for last in ["9999-12-29", "9999-12-30", "9999-12-31"] {
            for zone in ["UTC+14", "UTC-12"] {
                let zone = Zone::read(Some("specific"), Some(zone)).unwrap();
                let open = range(zone.clone(), Some("2026-11-01"), Some(last), None);
                assert!(open.start_ms() < NOW && open.end_ms() > NOW, "{last}");
                let far = range(zone, Some(last), Some(last), None);
                assert!(far.start_ms() > NOW && far.quarters().0 <= far.quarters().1, "{last}");
            }
        }
    }
}
