//! A run of a job, from its start to its end.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::protocol::methods::cron::Payload;
use crate::store::{CronJobRow, StoreError};
use crate::support::json;
use crate::telemetry::metrics::NUMBERS;

use super::admission::{Begun, NotBegun};
use super::alert::Failure;
use super::claim;
use super::outcome::{Ended, Outcome};
use super::scheduler::Worker;
use super::service::{Cron, Ticket};

/// Why a run does not begin that somebody asked for before the gateway stopped.
const STOPPED: &str = "skipped: the gateway stopped before it began";

/// The job of a run that is about to end: it is free once this is dropped, also when what
/// writes or tells its end breaks.
struct Busy<'a>(&'a Cron, &'a str);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.release(self.1);
        self.0.changed.notify_one();
    }
}

impl Worker {
    /// Runs a job whose row is written; how that has ended. `None` when it has not begun, and
    /// is for the next process, or its job is due again.
    pub(super) async fn run(self: &Arc<Self>, ticket: &Ticket) -> Option<Outcome> {
        let outcome = match Box::pin(self.admit(ticket)).await {
            Ok(begun) => self.perform(begun).await,
            Err(NotBegun::Stopping) => {
                if self.leave(ticket).await {
                    return None;
                }
                Outcome::skipped(STOPPED)
            }
            // It is due again already, at its new instant.
            Err(NotBegun::Moved) => {
                self.cron.changed.notify_one();
                return None;
            }
            Err(NotBegun::Ended(outcome)) => *outcome,
        };
        self.skip_passed(&ticket.job.id).await;
        Some(outcome)
    }

    /// Writes down that a run has begun: if it is cut off from here on, it is not run again.
    async fn note_begun(&self, ticket: &Ticket) -> Result<(), StoreError> {
        let of_ticket = ticket.clone();
        let change = move |_: &CronJobRow| Some(claim::begun(&of_ticket));
        self.cron.edit(&ticket.job.id, change).await.map(drop)
    }

    /// Does what a job wants.
    async fn perform(self: &Arc<Self>, begun: Begun<'_>) -> Outcome {
        let Begun { ticket, hold, place: _place } = begun;
        let job = &ticket.job;
        if ticket.run_id.is_none() {
            let late = self.cron.now_ms().saturating_sub(ticket.instant);
            NUMBERS.cron_late.note(Duration::from_millis(late));
        }
        let since = json!({"runAtMs": ticket.started_at});
        self.cron.tell_now(&job.id, "started", Some(since)).await;
        if let Err(error) = self.note_begun(&ticket).await {
            return Outcome::failed(&error.to_string(), "cron-setup", self.cron.now_ms());
        }
        // It may have been removed since the job was made.
        let agent = self.cron.check_agent(job.agent_id.as_deref());
        match (agent, &job.payload) {
            (Err(error), _) => {
                Outcome::failed(&error.to_string(), "cron-setup", self.cron.now_ms())
            }
            (Ok(()), Payload::SystemEvent { text }) => Box::pin(self.remind(&ticket, text)).await,
            (Ok(()), Payload::AgentTurn(turn)) => {
                Box::pin(self.ask_agent(&ticket, turn, hold)).await
            }
        }
    }

    /// Leaves a run that has not begun to the next process; `false` when it is not
    /// one of an instant, which would come again.
    async fn leave(&self, ticket: &Ticket) -> bool {
        let (of_ticket, id) = (ticket.clone(), &ticket.job.id);
        let edited = self.cron.edit(id, move |row| claim::left(row, &of_ticket)).await;
        let is_left = edited.as_ref().is_ok_and(Option::is_some);
        if let Err(error) = edited {
            tracing::error!(job = %id, %error, "run of a job not left to the next start");
        }
        if is_left {
            self.cron.release(id);
        }
        is_left
    }

    /// Writes down how a run ended, and tells of it.
    pub(super) async fn finish(&self, ticket: &Ticket, outcome: &Outcome) {
        NUMBERS.cron.count(outcome.status);
        let busy = Busy(&self.cron, &ticket.job.id);
        let turn = self.cron.telling.lock().await;
        let now = self.cron.now_ms();
        let (sender, mut told) = tokio::sync::oneshot::channel();
        let (of_end, of_ticket) = (outcome.clone(), ticket.clone());
        let retry = self.cron.parts.settings.now().cron.retry.clone();
        let edited = self.cron.edit(&ticket.job.id, move |row| {
            let ended = of_end.change(row, &of_ticket, &retry, now)?;
            let change = ended.change.clone();
            // The receiver waits for the commit.
            let _ = sender.send(ended);
            Some(change)
        });
        let store = &self.cron.parts.store;
        let written = match edited.await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => {
                // Somebody has removed it meanwhile: it neither runs nor will.
                let entry = outcome.entry(ticket, now, None);
                let mut job = ticket.job.clone();
                (job.state.running_at_ms, job.state.next_run_at_ms) = (None, None);
                let ended = store.end_cron_run(outcome.row(ticket, &entry, now)).await;
                ended.map(|_| self.cron.tell_finished(&job, &entry))
            }
            Err(error) => Err(error),
        };
        // Whoever hears of the end may run it again, and it may be due. A stop waits no longer.
        drop(busy);
        if let Err(error) = written {
            tracing::error!(job = %ticket.job.id, %error,
                "end of a run not written; the next start tells that it was interrupted");
            return;
        }
        let ended = told.try_recv().ok();
        if let Some(ended) = &ended {
            self.cron.tell_finished(&ended.job, &ended.entry);
            if ended.goes {
                self.cron.tell("removed", &ended.job, &Value::Null);
            }
        }
        drop(turn);
        let failure = outcome.error.as_ref().filter(|_| outcome.status == "error");
        if let (Some(Ended { job, .. }), Some(error)) = (&ended, failure) {
            let origin = ticket.origin.as_ref();
            self.alert(Failure { job, origin, error, row_id: &ticket.row_id }).await;
        }
        self.cron.prune(&ticket.job.id).await;
    }
}
