//! What the last process left of runs.

use std::sync::Arc;

use serde_json::Value;

use crate::store::{CronRunRow, StoreError};

use super::alert::Failure;
use super::claim;
use super::job::Job;
use super::outcome::Outcome;
use super::scheduler::Worker;
use super::service::Ticket;

/// What is told of a run that the gateway's end cut off.
const INTERRUPTED: &str = "interrupted by a stop of the gateway; it is not run again";

impl Worker {
    /// Ends the runs that the last process began: whatever they did was done
    /// once.
    pub(super) async fn recover(self: &Arc<Self>) -> Result<(), StoreError> {
        for row in self.cron.parts.store.open_cron_runs().await? {
            tracing::warn!(job = %row.job_id, run = %row.id, "run of a job was interrupted");
            self.interrupt(row).await?;
        }
        Ok(())
    }

    async fn interrupt(self: &Arc<Self>, row: CronRunRow) -> Result<(), StoreError> {
        let now = self.cron.now_ms();
        let entry: Value = serde_json::from_str(&row.entry).unwrap_or_default();
        let outcome = Outcome::failed(INTERRUPTED, "cron-setup", now);
        let (job_id, name) = (row.job_id.clone(), entry["jobName"].as_str().unwrap_or_default());
        let nameless = Job { name: name.to_owned(), ..Job::nameless(&job_id) };
        let gone = Ticket {
            job: nameless,
            origin: None,
            row_id: row.id,
            run_id: entry["runId"].as_str().map(str::to_owned),
            instant: row.instant,
            started_at: entry["runAtMs"].as_u64().unwrap_or(row.at),
        };
        let (sender, mut told) = tokio::sync::oneshot::channel();
        let (of_run, of_end) = (gone.clone(), outcome.clone());
        let retry = self.cron.parts.settings.now().cron.retry.clone();
        let edited = self.cron.edit(&job_id, move |row| {
            let (job, origin) = (Job::of_row(row).ok()?, claim::origin(row));
            let mut ticket = Ticket { job, origin, ..of_run };
            let ended = of_end.change(row, &ticket, &retry, now)?;
            ticket.job = ended.job;
            // The receiver waits for the commit.
            let _ = sender.send(ticket);
            Some(ended.change)
        });
        if edited.await?.is_none() {
            let entry = outcome.entry(&gone, now, None);
            let row = outcome.row(&gone, &entry, now);
            self.cron.parts.store.end_cron_run(row).await?;
        } else if let Ok(ticket) = told.try_recv() {
            self.tell_interrupted(ticket);
        }
        Ok(())
    }

    /// Tells of a run that was cut off as of any other that failed, beside what is due.
    fn tell_interrupted(self: &Arc<Self>, ticket: Ticket) {
        let worker = Arc::clone(self);
        self.runs.parts().tasks.spawn("interrupted job", async move {
            let Ticket { job, origin, row_id, .. } = &ticket;
            let failure = Failure { job, origin: origin.as_ref(), error: INTERRUPTED, row_id };
            worker.alert(failure).await;
        });
    }
}
