//! Jobs that are not due when their schedules say: a clock was ahead and has been set back,
//! or they could not be read for a while.
//!
//! Promises: a job is due no later than its schedule says, and has missed nothing that is
//! still to come, nor anything from before it was made, as a clock that has not been set yet
//! may say. What ran while the clock was ahead has its row, and does not run again. A job that can be read
//! again is due at the instant at which it could not.

use std::path::Path;

use crate::store::{CronChange, CronJobChange, CronJobRow, StoreError, cron_jobs_beside};

use super::job::Job;
use super::retry;
use super::service::Cron;

/// A job that was made at a time that is still to come, and is due later than its schedule says
/// now. Which of the two clocks was right is known to people only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutOff {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// When it is due.
    pub due_at: u64,
}

impl PutOff {
    fn of(row: &CronJobRow, now: u64) -> Option<Self> {
        let job = Job::of_row(row).ok().filter(|job| job.enabled && now < job.created_at_ms)?;
        let timing = job.timing().ok().filter(|timing| !timing.is_once())?;
        let next = timing.next_after(now)?;
        let due_at = row.due_at.filter(|due_at| *due_at > next)?;
        Some(Self { id: job.id, name: job.name, due_at })
    }
}

/// Those of a database, read beside a gateway or without one.
///
/// # Errors
/// When it cannot be read, or belongs to a later release.
pub fn put_off_beside(database: &Path, now: u64) -> Result<Vec<PutOff>, StoreError> {
    let rows = cron_jobs_beside(database)?;
    Ok(rows.iter().filter_map(|row| PutOff::of(row, now)).collect())
}

impl Cron {
    /// Has jobs be due by their schedules again, and tells of those.
    pub(super) async fn bring_forward(&self, now: u64) -> Result<(), StoreError> {
        for row in self.parts.store.cron_jobs().await? {
            if on_time(&row, now).is_some() {
                tracing::warn!(
                    job = %row.id,
                    "the clock was ahead, or it could not be read; it is due by its schedule again"
                );
                self.parts.store.forget_cron_misses(&row.id, now).await?;
                let id = row.id;
                if self.edit(&id, move |row| on_time(row, now)).await?.is_some() {
                    self.tell_now(&id, "updated", None).await;
                }
            }
        }
        Ok(())
    }
}

/// The job with its next instant; `None` when it has that already. A single instant is
/// where it is wanted, or where it is tried again.
fn on_time(row: &CronJobRow, now: u64) -> Option<CronChange> {
    let mut job = Job::of_row(row).ok().filter(|job| job.enabled)?;
    let timing = job.timing().ok()?;
    // What a job shows of a single instant that has begun stays until its run ends.
    let shown = job.state.next_run_at_ms.filter(|_| job.state.running_at_ms.is_none());
    let known = row.due_at.or(shown);
    let is_behind = known.is_some() && now < job.created_at_ms;
    let has_own = !timing.is_once() && !is_behind;
    // One that rests after failures is later than its schedule says, and no clock was wrong.
    let begins = job.created_at_ms.max(retry::rests_until(&job.state, now).saturating_sub(1));
    let own = has_own.then(|| timing.next_after(now.max(begins))).flatten();
    let next = known.into_iter().chain(own).min()?;
    if row.due_at == Some(next) {
        return None;
    }
    job.state.next_run_at_ms = Some(next);
    Some(CronChange::of_job(CronJobChange::Put(job.to_row(Some(next), row.origin.clone()))))
}

#[cfg(test)]
mod tests {
    use crate::cron::claim::Claim;
    use crate::cron::missed::{MissedPolicy, Usual};
    use crate::protocol::methods::cron::Schedule;

    use super::*;

    const NOON: u64 = 1_795_348_800_000;
    const HOUR: u64 = 3_600_000;

    fn daily(zone: &str) -> Job {
        let schedule = Schedule::Cron {
            expr: "0 13 * * *".into(),
            tz: Some(zone.into()),
            stagger_ms: Some(0),
        };
        Job { schedule, enabled: true, ..Job::nameless("daily") }
    }

    /// The row as it is after its instant has been looked at.
    fn claimed(row: &CronJobRow, now: u64) -> CronJobRow {
        let usual = Usual { once: MissedPolicy::Run, again: MissedPolicy::Run };
        put(Claim::of(row, now, usual, true, 100).map(|claim| claim.change)).unwrap()
    }

    fn put(change: Option<CronChange>) -> Option<CronJobRow> {
        match change?.job {
            CronJobChange::Put(row) => Some(row),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_job_that_could_not_be_read_is_due_again_once_it_can() {
        let due_at = NOON + HOUR;
        let mut known = daily("UTC");
        known.state.next_run_at_ms = Some(due_at);
        let known = known.to_row(Some(due_at), None);
        let unknown = known.job.replace("\"UTC\"", "\"Mars/Olympus\"");
        for text in [unknown, "no job".to_owned()] {
            let left = claimed(&CronJobRow { job: text, ..known.clone() }, due_at);
            assert_eq!(left.due_at, None);
            assert!(on_time(&left, due_at + HOUR).is_none(), "it still cannot be read");
            let readable = CronJobRow { job: known.job.clone(), ..left };
            let again = put(on_time(&readable, due_at + HOUR)).unwrap();
            assert_eq!(again, known, "nothing has become of that instant");
            assert!(on_time(&again, due_at + HOUR).is_none());
        }
    }

    #[test]
    fn a_single_instant_is_due_again_unless_it_has_begun_or_nobody_wants_it() {
        let schedule = Schedule::At { at: NOON.to_string() };
        let mut once = Job { schedule, enabled: true, ..Job::nameless("once") };
        once.state.next_run_at_ms = Some(NOON);
        let due_at = |job: &Job| put(on_time(&job.to_row(None, None), NOON + HOUR))?.due_at;
        assert_eq!(due_at(&once), Some(NOON));
        let off = Job { enabled: false, ..once.clone() };
        assert_eq!(due_at(&off), None);
        once.state.running_at_ms = Some(NOON);
        assert_eq!(due_at(&once), None);
    }

    #[test]
    fn what_a_clock_that_was_ahead_put_off_is_due_by_its_schedule() {
        let row = |due_at: u64| daily("UTC").to_row(Some(due_at), None);
        let late = put(on_time(&row(NOON + 500 * HOUR), NOON)).unwrap();
        assert_eq!(late.due_at, Some(NOON + HOUR));
        assert_eq!(Job::of_row(&late).unwrap().state.next_run_at_ms, Some(NOON + HOUR));
        assert!(on_time(&row(NOON + HOUR), NOON).is_none());
        assert!(on_time(&row(NOON - HOUR), NOON).is_none(), "it is due already");
    }

    #[test]
    fn a_job_that_rests_after_failures_is_not_brought_forward() {
        let schedule = Schedule::Every { every_ms: 10_000, anchor_ms: Some(NOON) };
        let mut job = Job { schedule, enabled: true, ..Job::nameless("job") };
        job.state.consecutive_errors = Some(3);
        job.state.last_run_at_ms = Some(NOON);
        let row = job.to_row(Some(NOON + 300_000), None);
        assert!(on_time(&row, NOON + 5000).is_none());
        let late = put(on_time(&row, NOON - 5000)).unwrap();
        assert_eq!(late.due_at, Some(NOON), "the clock was ahead when it failed");
    }

    #[test]
    fn a_job_from_a_clock_that_was_ahead_is_found_until_it_is_turned_off_and_on() {
        let made = NOON + 500 * HOUR;
        let mut job = Job { created_at_ms: made, ..daily("UTC") };
        let due_at = job.due_after(made).unwrap();
        let found = |job: &Job, due_at, now| PutOff::of(&job.to_row(Some(due_at), None), now);
        let expected = PutOff { id: "daily".into(), name: job.name.clone(), due_at };
        assert_eq!(found(&job, due_at, NOON), Some(expected));
        assert_eq!(found(&job, due_at, made), None, "its time has come");
        let again = job.due_after(NOON).unwrap();
        let row = job.to_row(Some(again), None);
        assert_eq!(PutOff::of(&row, NOON), None);
        assert!(on_time(&row, NOON).is_none(), "so it stays");
        job.enabled = false;
        assert_eq!(found(&job, due_at, NOON), None);
    }

    #[test]
    fn a_clock_from_before_a_job_was_made_brings_nothing_forward() {
        let made = Job { created_at_ms: NOON, ..daily("UTC") };
        let due_at = NOON + 25 * HOUR;
        for unset in [HOUR, NOON - HOUR] {
            assert!(on_time(&made.to_row(Some(due_at), None), unset).is_none(), "{unset}");
            let again = put(on_time(&made.to_row(None, None), unset)).unwrap();
            assert_eq!(again.due_at, Some(NOON + HOUR), "{unset}");
        }
        let right = put(on_time(&made.to_row(Some(due_at), None), NOON)).unwrap();
        assert_eq!(right.due_at, Some(NOON + HOUR));
    }
}
