//! What the last process left of runs.

use crate::store::{CronRunRow, StoreError};

use super::job::Job;
use super::outcome::Outcome;
use super::service::{Cron, Ticket};

/// What is told of a run that the gateway's end cut off.
const INTERRUPTED: &str = "interrupted by a stop of the gateway; it is not run again";

impl Cron {
    /// Ends the runs that the last process began: whatever they did was done
    /// once.
    pub(super) async fn recover(&self) -> Result<(), StoreError> {
        for row in self.parts.store.open_cron_runs().await? {
            tracing::warn!(job = %row.job_id, run = %row.id, "run of a job was interrupted");
            self.interrupt(row).await?;
        }
        Ok(())
    }

    async fn interrupt(&self, row: CronRunRow) -> Result<(), StoreError> {
        let now = self.now_ms();
        let entry: serde_json::Value = serde_json::from_str(&row.entry).unwrap_or_default();
        let outcome = Outcome::failed(INTERRUPTED, "cron-setup", now);
        let started_at = entry["runAtMs"].as_u64().unwrap_or(row.at);
        let run_id = entry["runId"].as_str().map(str::to_owned);
        let ticket = move |job: Job| Ticket {
            job,
            origin: None,
            row_id: row.id.clone(),
            run_id: run_id.clone(),
            instant: row.instant,
            started_at,
        };
        let (job_id, name) = (row.job_id.clone(), entry["jobName"].as_str().unwrap_or_default());
        let nameless = Job { name: name.to_owned(), ..Job::nameless(&job_id) };
        let gone = ticket(nameless);
        let (in_edit, of_end) = (ticket, outcome.clone());
        let retry = self.parts.settings.now().cron.retry.clone();
        let edited = self.edit(&job_id, move |row| {
            let ticket = in_edit(Job::of_row(row).ok()?);
            Some(of_end.change(row, &ticket, &retry, now)?.change)
        });
        if edited.await?.is_none() {
            let entry = outcome.entry(&gone, now, None);
            self.parts.store.end_cron_run(outcome.row(&gone, &entry, now)).await?;
        }
        Ok(())
    }
}
