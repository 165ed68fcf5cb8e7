//! Instants: when a schedule wants its job to run.
//!
//! Promises: of an hour that comes twice, a time of the day is met once; one
//! that is skipped is met at the next moment that there is. Both directions
//! give the same instants. Must not: ask what time it is.

use std::str::FromStr;

use croner::Cron;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned, civil};
use sha2::{Digest, Sha256};

use crate::protocol::methods::cron::Schedule;
use crate::sessions::iso_time;

/// Jobs at the full hour are spread over so long unless they say otherwise, as
/// in the original: everybody's providers are busy in that minute.
pub const HOURLY_STAGGER_MS: u64 = 5 * 60 * 1000;
/// How far ahead a single instant may lie, in years.
const YEARS_MAX: u64 = 10;
const YEAR_MS: u64 = 31_557_600_000;
const MINUTE_MS: u64 = 60_000;
/// Most times of the day of one schedule that are looked for one by one: two an hour.
const TIMES_MAX: usize = 48;

/// A schedule that wants nothing, or cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The pattern is wrong.
    #[error("CronPattern: {0}")]
    Pattern(String),
    /// There is no such time zone here.
    #[error("unknown time zone \"{0}\" in schedule.tz; use an IANA name such as Europe/Paris")]
    Zone(String),
    /// It fits no day.
    #[error("schedule never comes due")]
    Never,
    /// The one instant cannot be read.
    #[error("Invalid schedule.at: expected ISO-8601 timestamp (got {0})")]
    At(String),
    /// The one instant is over.
    #[error(
        "schedule.at is in the past: {at} ({minutes} minutes ago). Current time: {now}",
        at = iso_time(*at), now = iso_time(*now), minutes = now.saturating_sub(*at) / MINUTE_MS
    )]
    Past {
        /// It, in milliseconds since the epoch.
        at: u64,
        /// What time it is.
        now: u64,
    },
    /// The one instant is too far away.
    #[error(
        "schedule.at is too far in the future: {at} ({years} years ahead). Maximum allowed: \
         {YEARS_MAX} years",
        at = date(*at), years = at.saturating_sub(*now) / YEAR_MS
    )]
    Far {
        /// It, in milliseconds since the epoch.
        at: u64,
        /// What time it is.
        now: u64,
    },
}

/// The instants of a schedule, in milliseconds since the epoch.
#[derive(Debug, Clone)]
pub enum Timing {
    /// One.
    At(u64),
    /// One after the other, with the same time between.
    Every {
        /// That time.
        every: u64,
        /// The first.
        anchor: u64,
    },
    /// Those of a calendar.
    Calendar(Box<Calendar>),
}

/// Its patterns, where their clock hangs, and how much later its job runs.
#[derive(Debug, Clone)]
pub struct Calendar {
    /// One for each time of the day where those are listed, else one for all.
    patterns: Vec<Cron>,
    zone: TimeZone,
    offset: u64,
}

impl Timing {
    /// Those of the schedule of a job.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(schedule: &Schedule, job_id: &str) -> Result<Self, ScheduleError> {
        Ok(match schedule {
            Schedule::At { at } => {
                Self::At(parse_at(at).ok_or_else(|| ScheduleError::At(at.clone()))?)
            }
            Schedule::Every { every_ms, anchor_ms } => {
                Self::Every { every: (*every_ms).max(1), anchor: anchor_ms.unwrap_or_default() }
            }
            Schedule::Cron { expr, tz, stagger_ms } => Self::Calendar(Box::new(Calendar {
                patterns: patterns(expr)?,
                zone: zone(tz.as_deref())?,
                offset: offset(job_id, stagger_ms.unwrap_or_default()),
            })),
        })
    }

    /// Whether there is only one instant.
    pub const fn is_once(&self) -> bool {
        matches!(self, Self::At(_))
    }

    /// The first instant after a moment.
    pub fn next_after(&self, moment: u64) -> Option<u64> {
        match self {
            Self::At(at) => (*at > moment).then_some(*at),
            Self::Every { every, anchor } => {
                if moment < *anchor {
                    return Some(*anchor);
                }
                let steps = (moment - anchor) / every + 1;
                steps.checked_mul(*every)?.checked_add(*anchor)
            }
            Self::Calendar(calendar) => calendar.next_after(moment),
        }
    }

    /// The last instant up to a moment, that moment included.
    pub fn last_until(&self, moment: u64) -> Option<u64> {
        match self {
            Self::At(at) => (*at <= moment).then_some(*at),
            Self::Every { every, anchor } => {
                let past = moment.checked_sub(*anchor)?;
                Some(anchor + past / every * every)
            }
            Self::Calendar(calendar) => calendar.last_until(moment),
        }
    }
}

impl Calendar {
    fn next_after(&self, moment: u64) -> Option<u64> {
        let from = self.local(moment.saturating_sub(self.offset))?;
        let next = |pattern: &Cron| millis(&pattern.find_next_occurrence(&from, false).ok()?);
        self.patterns.iter().filter_map(next).min()?.checked_add(self.offset)
    }

    fn last_until(&self, moment: u64) -> Option<u64> {
        let from = self.local(moment.checked_sub(self.offset)?)?;
        let last = |pattern: &Cron| millis(&pattern.find_previous_occurrence(&from, true).ok()?);
        self.patterns.iter().filter_map(last).max()?.checked_add(self.offset)
    }

    /// In whole seconds, as patterns are: within a second after it nothing else is due, and
    /// where an hour comes twice the next instant is none of the last ones.
    fn local(&self, moment: u64) -> Option<Zoned> {
        let moment = Timestamp::from_second(i64::try_from(moment / 1000).ok()?).ok()?;
        Some(moment.to_zoned(self.zone.clone()))
    }
}

fn millis(moment: &Zoned) -> Option<u64> {
    u64::try_from(moment.timestamp().as_millisecond()).ok()
}

/// The patterns that together mean what a text says. A pattern with more than one time of
/// the day counts as one of intervals, which skips what a clock skips and repeats what it
/// repeats; times that are listed are times of the day, each by itself.
fn patterns(expr: &str) -> Result<Vec<Cron>, ScheduleError> {
    let whole = pattern(expr)?;
    let times = times_of_day(expr).filter(|times| times.len() > 1);
    times.map_or_else(|| Ok(vec![whole]), |times| times.iter().map(|it| pattern(it)).collect())
}

/// A pattern for each time of the day, if all of them are listed and there are not too many.
fn times_of_day(expr: &str) -> Option<Vec<String>> {
    let fields: Vec<_> = expr.split_whitespace().collect();
    // Minute and hour, or second, minute and hour.
    let (times, days) = fields.split_at_checked(if fields.len() == 5 { 2 } else { 3 })?;
    let mut patterns = vec![String::new()];
    for field in times {
        let numbers = numbers(field)?;
        if patterns.len() * numbers.len() > TIMES_MAX {
            return None;
        }
        patterns = patterns
            .iter()
            .flat_map(|before| numbers.iter().map(move |it| format!("{before}{it} ")))
            .collect();
    }
    let days = days.join(" ");
    Some(patterns.into_iter().map(|time| format!("{time}{days}")).collect())
}

/// The numbers of a field that lists them.
fn numbers(field: &str) -> Option<Vec<u8>> {
    let mut numbers = Vec::new();
    for item in field.split(',') {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        numbers.extend(first.parse::<u8>().ok()?..=last.parse().ok()?);
    }
    Some(numbers)
}

fn pattern(expr: &str) -> Result<Cron, ScheduleError> {
    let fields: Vec<_> = expr.split_whitespace().collect();
    // Names of whole patterns, such as @daily, are one word.
    if !(5..=7).contains(&fields.len()) && !expr.trim_start().starts_with('@') {
        return Err(ScheduleError::Pattern(format!(
            "invalid configuration format ('{expr}'), exactly five, six, or seven space separated \
             parts are required."
        )));
    }
    // No day of the week is one that never comes; it would be looked for in vain
    // through thousands of years.
    if fields
        .iter()
        .any(|field| field.starts_with('+') && field.trim_matches(['+', ',']).is_empty())
    {
        return Err(ScheduleError::Pattern(format!(
            "invalid configuration format ('{expr}'), a day of the week has to follow '+'."
        )));
    }
    Cron::from_str(expr).map_err(|error| ScheduleError::Pattern(error.to_string()))
}

fn zone(name: Option<&str>) -> Result<TimeZone, ScheduleError> {
    match name.map(str::trim).filter(|name| !name.is_empty()) {
        None => Ok(TimeZone::system()),
        Some(name) => TimeZone::get(name).map_err(|_| ScheduleError::Zone(name.to_owned())),
    }
}

/// How much later a job runs: always as much, and another job differently. The
/// same number as in the original.
fn offset(job_id: &str, stagger_ms: u64) -> u64 {
    if stagger_ms <= 1 {
        return 0;
    }
    let digest = Sha256::digest(job_id);
    let number = digest.iter().take(4).fold(0, |number, byte| number << 8 | u64::from(*byte));
    number % stagger_ms
}

/// How jobs of this pattern are spread that do not say it.
pub fn usual_stagger(expr: &str) -> Option<u64> {
    let fields: Vec<_> = expr.split_whitespace().collect();
    let is_hourly = match fields.as_slice() {
        ["0", hour, _, _, _] | ["0", "0", hour, _, _, _] => hour.contains('*'),
        _ => false,
    };
    is_hourly.then_some(HOURLY_STAGGER_MS)
}

/// A moment as people and programs write it: ISO 8601, in UTC when it names no
/// zone, or milliseconds since the epoch. A zone may be named behind it (RFC 9557).
pub fn parse_at(text: &str) -> Option<u64> {
    let text = text.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    // Without its zone it would be another moment.
    if text.contains('[') {
        let zoned = text.parse::<Zoned>().ok()?;
        return millis(&zoned);
    }
    let utc = |time: civil::DateTime| time.to_zoned(TimeZone::UTC).ok().map(|it| it.timestamp());
    let moment = text
        .parse::<Timestamp>()
        .ok()
        .or_else(|| utc(text.parse::<civil::DateTime>().ok()?))
        .or_else(|| utc(text.parse::<civil::Date>().ok()?.at(0, 0, 0, 0)))?;
    u64::try_from(moment.as_millisecond()).ok()
}

/// A moment as people read it, which may be further away than calendars go.
pub fn date(moment: u64) -> String {
    let is_in_calendars =
        i64::try_from(moment).is_ok_and(|it| Timestamp::from_millisecond(it).is_ok());
    if is_in_calendars { iso_time(moment) } else { "after the year 9999".to_owned() }
}

/// A schedule as it is kept, for a job that is made or changed now.
///
/// # Errors
/// When it cannot be read, or wants nothing.
pub fn settle(schedule: Schedule, job_id: &str, now: u64) -> Result<Schedule, ScheduleError> {
    let settled = match schedule {
        Schedule::At { at } => {
            let moment = parse_at(&at).ok_or(ScheduleError::At(at))?;
            if now.saturating_sub(moment) > MINUTE_MS {
                return Err(ScheduleError::Past { at: moment, now });
            }
            if moment.saturating_sub(now) > YEARS_MAX * YEAR_MS {
                return Err(ScheduleError::Far { at: moment, now });
            }
            Schedule::At { at: iso_time(moment) }
        }
        Schedule::Every { every_ms, anchor_ms } => {
            Schedule::Every { every_ms, anchor_ms: Some(anchor_ms.unwrap_or(now)) }
        }
        Schedule::Cron { expr, tz, stagger_ms } => {
            let stagger_ms = stagger_ms.or_else(|| usual_stagger(&expr));
            Schedule::Cron { expr, tz: tz.filter(|tz| !tz.trim().is_empty()), stagger_ms }
        }
    };
    let timing = Timing::of(&settled, job_id)?;
    if !timing.is_once() && timing.next_after(now).is_none() {
        return Err(ScheduleError::Never);
    }
    Ok(settled)
}

#[cfg(test)]
mod tests;
