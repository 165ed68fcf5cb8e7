//! What the last process left of runs.

use std::sync::Arc;

use serde_json::Value;

use crate::protocol::message::AgentMessage;
use crate::sessions::SessionKey;
use crate::store::{CronRunRow, StoreError};
use crate::support::trouble;

use super::alert::Failure;
use super::claim;
use super::job::Job;
use super::missed::Usual;
use super::outcome::Outcome;
use super::scheduler::Worker;
use super::service::Ticket;

/// What is told of a run that the gateway's end cut off.
pub(super) const INTERRUPTED: &str = "interrupted by a stop of the gateway; it is not run again";

impl Worker {
    /// Ends the runs that the last process began: whatever they did was done
    /// once. Those of instants that still waited for their beginning wait on, or are due again.
    pub(super) async fn recover(self: &Arc<Self>) -> Result<(), StoreError> {
        for row in self.cron.parts.store.open_cron_runs().await? {
            // Somebody may have asked for it since this process began.
            if self.cron.is_running_since(&row.job_id, row.at) {
                continue;
            }
            self.interrupt(row).await?;
        }
        // The first look at how all is may have been before this.
        trouble::outdate();
        Ok(())
    }

    async fn interrupt(self: &Arc<Self>, row: CronRunRow) -> Result<(), StoreError> {
        let now = self.cron.now_ms();
        let entry: Value = serde_json::from_str(&row.entry).unwrap_or_default();
        let job_id = row.job_id.clone();
        let gone = Ticket {
            job: as_begun(&job_id, &entry),
            origin: None,
            row_id: row.id,
            run_id: entry["runId"].as_str().map(str::to_owned),
            instant: row.instant,
            started_at: entry["runAtMs"].as_u64().unwrap_or(row.at),
        };
        if entry["waits"] == true {
            if self.resume(&gone).await? {
                return Ok(());
            }
            let of_run = gone.clone();
            let edited = self.cron.edit(&job_id, move |row| claim::put_back(row, &of_run)).await?;
            if edited.is_some() {
                return Ok(());
            }
        }
        tracing::warn!(job = %job_id, run = %gone.row_id, "run of a job was interrupted");
        let (session_key, session_id) = self.session_of_run(&gone).await.unzip();
        let outcome = Outcome {
            session_id,
            session_key: session_key.map(|key| key.to_string()),
            is_cut: true,
            ..Outcome::failed(INTERRUPTED, "cron-setup", now)
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

    /// Goes on with a run that waited for its beginning, if it is still to begin.
    async fn resume(self: &Arc<Self>, gone: &Ticket) -> Result<bool, StoreError> {
        let cron = &self.cron;
        let settings = cron.parts.settings.now();
        let Some(row) = cron.parts.store.cron_job(&gone.job.id).await? else { return Ok(false) };
        let usual = Usual::of(&settings.cron);
        let ticket = claim::resumed(&row, gone, cron.now_ms(), usual);
        let Some(ticket) = ticket.filter(|_| settings.cron.enabled) else { return Ok(false) };
        // Somebody may have asked for the job since this process began.
        let is_free = cron.begin(&row.id, gone.started_at);
        if is_free {
            self.start(ticket);
        }
        Ok(is_free)
    }

    /// The session that a run was in when it was cut off, and the id of that; `None` when
    /// it had not come to that.
    async fn session_of_run(&self, ticket: &Ticket) -> Option<(SessionKey, String)> {
        let (cron, job) = (&self.cron, &ticket.job);
        let sessions = &cron.parts.sessions;
        let key = if let Some(named) = cron.named_session(job) {
            // Others run there as well, also while this one waits for them.
            let said = sessions.context(&named).await.ok()?;
            said.iter().rev().find(|message| is_asked_by(ticket, message))?;
            named
        } else {
            let row = SessionKey::job(&cron.agent_of(job), &job.id);
            let shown = sessions.entry(&row).await.ok().flatten()?;
            row.run_of_row(&shown.session_id)
        };
        let entry = sessions.entry(&key).await.ok().flatten()?;
        // Else the run before was the last one there.
        let begun_at = entry.session_started_at.max(entry.started_at)?;
        (begun_at >= ticket.started_at).then_some((key, entry.session_id))
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

/// Whether a message is what a run has asked.
fn is_asked_by(ticket: &Ticket, message: &AgentMessage) -> bool {
    let AgentMessage::User(message) = message else { return false };
    let provenance = message.extra.get("provenance");
    let job = provenance.and_then(|it| it.get("jobId")).and_then(Value::as_str);
    job == Some(ticket.job.id.as_str()) && message.timestamp >= ticket.started_at
}

/// What the row of a run that began says of its job, which may be gone or another by now.
fn as_begun(job_id: &str, entry: &Value) -> Job {
    let said = |name: &str| entry[name].as_str().map(str::to_owned);
    let nameless = Job::nameless(job_id);
    Job {
        name: said("jobName").unwrap_or_default(),
        agent_id: said("agentId"),
        session_target: said("sessionTarget").unwrap_or(nameless.session_target),
        ..nameless
    }
}
