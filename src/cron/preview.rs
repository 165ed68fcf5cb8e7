//! When a schedule would run, before there is a job of it.

use jiff::tz::TimeZone;
use serde_json::Value;

use crate::protocol::methods::cron::{CronPreviewParams, Schedule};
use crate::support::json;

use super::error::CronError;
use super::schedule::{self, ScheduleError, Timing};
use super::service::Cron;

/// Instants when nobody says how many.
const INSTANTS: u64 = 5;

impl Cron {
    /// The next instants of a schedule, as a job of it would have them:
    /// `cron.preview`. A job that is not made yet has no place of its own within
    /// `staggerMs`; the earliest instants are told then.
    ///
    /// # Errors
    /// When the schedule cannot be read or wants nothing; the text names the member.
    pub fn upcoming(&self, p: CronPreviewParams) -> Result<Value, CronError> {
        preview(p, self.now_ms())
    }
}

fn preview(p: CronPreviewParams, now: u64) -> Result<Value, CronError> {
    let id = p.id.as_deref().unwrap_or_default();
    let mut settled = schedule::settle(p.schedule, id, now).map_err(|error| refused(&error))?;
    let mut answer = json!({});
    if let Schedule::Cron { tz, stagger_ms, .. } = &mut settled {
        let system = TimeZone::system();
        answer["tz"] = json!(tz.as_deref().or(system.iana_name()));
        answer["staggerMs"] = json!(stagger_ms.unwrap_or_default());
        if p.id.is_none() {
            *stagger_ms = None;
        }
    }
    let timing = Timing::of(&settled, id).map_err(|error| refused(&error))?;
    let wanted = usize::try_from(p.limit.unwrap_or(INSTANTS)).unwrap_or(usize::MAX);
    let first = match timing {
        // One of the last minute still runs.
        Timing::At(at) => Some(at),
        ref timing => timing.next_after(now),
    };
    let instants = std::iter::successors(first, |last| timing.next_after(*last));
    answer["instants"] = instants.take(wanted).collect();
    Ok(answer)
}

fn refused(error: &ScheduleError) -> CronError {
    let member = match error {
        ScheduleError::Pattern(_) | ScheduleError::Never => "expr",
        ScheduleError::Zone(_) => "tz",
        ScheduleError::At(_) | ScheduleError::Past { .. } | ScheduleError::Far { .. } => "at",
    };
    CronError::Invalid(format!("invalid cron.preview params: at /schedule/{member}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-05-01T00:00:00Z.
    const NOW: u64 = 1_777_593_600_000;
    const MINUTE: u64 = 60_000;

    fn calendar(expr: &str, tz: Option<&str>) -> Schedule {
        Schedule::Cron { expr: expr.into(), tz: tz.map(str::to_owned), stagger_ms: None }
    }

    fn ask(schedule: Schedule, id: Option<&str>) -> Result<Value, String> {
        let p = CronPreviewParams { schedule, id: id.map(str::to_owned), limit: Some(2) };
        preview(p, NOW).map_err(|error| error.to_string())
    }

    #[test]
    fn the_next_instants_are_those_that_a_job_would_have() {
        let daily = ask(calendar("30 9 * * *", Some("Europe/Paris")), None).unwrap();
        let first = NOW + (7 * 60 + 30) * MINUTE;
        let wanted = json!({"tz": "Europe/Paris", "staggerMs": 0,
            "instants": [first, first + 24 * 60 * MINUTE]});
        assert_eq!(daily, wanted);
        let every = Schedule::Every { every_ms: MINUTE, anchor_ms: None };
        assert_eq!(
            ask(every, None).unwrap(),
            json!({"instants": [NOW + MINUTE, NOW + 2 * MINUTE]})
        );
        let once = Schedule::At { at: "2026-05-01T00:05:00Z".into() };
        assert_eq!(ask(once, None).unwrap(), json!({"instants": [NOW + 5 * MINUTE]}));
    }

    #[test]
    fn only_a_job_that_is_there_has_its_place_within_the_stagger() {
        let hourly = || calendar("0 * * * *", Some("UTC"));
        let before = ask(hourly(), None).unwrap();
        assert_eq!(before["staggerMs"], 5 * MINUTE);
        assert_eq!(before["instants"][0], NOW + 60 * MINUTE);
        let first = ask(hourly(), Some("a job")).unwrap()["instants"][0].as_u64().unwrap();
        let past = first % (60 * MINUTE);
        assert!(past > 0 && past < 5 * MINUTE, "{past}");
    }

    #[test]
    fn what_is_wrong_names_its_member() {
        for (schedule, text) in [
            (calendar("61 * * * *", None), "at /schedule/expr: CronPattern: "),
            (calendar("0 0 30 2 *", None), "at /schedule/expr: schedule never comes due"),
            (calendar("0 9 * * *", Some("Mars/Base")), "at /schedule/tz: unknown time zone"),
            (Schedule::At { at: "soon".into() }, "at /schedule/at: Invalid schedule.at"),
            (
                Schedule::At { at: "2020-01-01".into() },
                "at /schedule/at: schedule.at is in the past",
            ),
        ] {
            let error = ask(schedule, None).unwrap_err();
            let wanted = format!("invalid cron.preview params: {text}");
            assert!(error.starts_with(&wanted), "{error}");
        }
    }
}
