//! A clock that was ahead and has been set back.
//!
//! Promises: a job is due no later than its schedule says, and has missed nothing that is
//! still to come. What ran while the clock was ahead has its row, and does not run again.

use crate::store::{CronChange, CronJobChange, CronJobRow, StoreError};

use super::job::Job;
use super::service::Cron;

impl Cron {
    /// Has jobs be due by their schedules again that a clock that was ahead put off.
    pub(super) async fn bring_forward(&self, now: u64) -> Result<(), StoreError> {
        for row in self.parts.store.cron_jobs().await? {
            if on_time(&row, now).is_some() {
                tracing::warn!(job = %row.id, "the clock was ahead; its next instant is nearer");
                self.parts.store.forget_cron_misses(&row.id, now).await?;
                self.edit(&row.id, move |row| on_time(row, now)).await?;
            }
        }
        Ok(())
    }
}

/// The job with its next instant; `None` when it has that already. A single instant is
/// where it is wanted, or where it is tried again.
fn on_time(row: &CronJobRow, now: u64) -> Option<CronChange> {
    let mut job = Job::of_row(row).ok()?;
    let next = job.timing().ok().filter(|timing| !timing.is_once())?.next_after(now);
    if row.due_at? <= next? {
        return None;
    }
    job.state.next_run_at_ms = next;
    Some(CronChange::of_job(CronJobChange::Put(job.to_row(next, row.origin.clone()))))
}
