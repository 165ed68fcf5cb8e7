//! The one task that waits for instants.
//!
//! Promises: it sleeps until the next one; without jobs, until there are some.
//! A run begins after its row is committed.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use crate::agent::Runs;
use crate::store::StoreError;

use super::outcome::Outcome;
use super::service::{Cron, Ticket};

/// While a job waits for its instant the clock is looked at this often: it may
/// be set, and a machine that slept has not counted the time.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// After a fault of the database nothing is tried for so long.
const REST: Duration = Duration::from_secs(5);

/// What is told of a run that broke; without it the job would count as running
/// for ever.
pub(super) const BROKEN: &str = "it failed inside the gateway; see its log";

/// Runs jobs.
pub(super) struct Worker {
    /// The jobs.
    pub cron: Arc<Cron>,
    /// The agents.
    pub runs: Arc<Runs>,
}

impl Cron {
    /// Runs jobs when they are due, until the gateway stops.
    pub async fn schedule(self: Arc<Self>, runs: Arc<Runs>) {
        let worker = Arc::new(Worker { cron: self, runs });
        let cron = &worker.cron;
        if let Err(error) = cron.adopt().await {
            tracing::error!(%error, "jobs of OpenClaw not taken over");
        }
        while let Err(error) = cron.recover().await {
            tracing::error!(%error, "runs of jobs of the last process not ended");
            tokio::time::sleep(REST).await;
        }
        while let Err(error) = worker.recover_hooks().await {
            tracing::error!(%error, "hooks of the last process not looked at");
            tokio::time::sleep(REST).await;
        }
        // Of the last process nobody knows how its clock was.
        let mut looked_at = u64::MAX;
        while !cron.is_stopped() {
            let now = cron.now_ms();
            if now < looked_at
                && let Err(error) = cron.bring_forward(now).await
            {
                tracing::error!(%error, "jobs may be put off by a clock that was ahead");
            }
            looked_at = now;
            let pause = match worker.start_due(now).await {
                Ok(()) => cron.pause(now).await,
                Err(error) => Err(error),
            };
            let pause = pause.unwrap_or_else(|error| {
                tracing::error!(%error, "jobs not looked at");
                Some(REST)
            });
            tokio::select! {
                () = cron.changed.notified() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// How long nothing is due; `None` when nothing ever is.
    async fn pause(&self, now: u64) -> Result<Option<Duration>, StoreError> {
        if !self.parts.settings.now().cron.enabled {
            return Ok(None);
        }
        let next = self.parts.store.next_cron_job().await?;
        let wait = next.map(|next| Duration::from_millis(next.saturating_sub(now)));
        Ok(wait.map(|wait| wait.min(LOOK_AGAIN)))
    }
}

async fn sleep(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}

impl Worker {
    /// Starts what somebody has asked for, and what is due.
    async fn start_due(self: &Arc<Self>, now: u64) -> Result<(), StoreError> {
        loop {
            let ticket = self.cron.state.lock().waiting.pop_front();
            let Some(ticket) = ticket else { break };
            self.start(ticket);
        }
        if !self.cron.parts.settings.now().cron.enabled {
            return Ok(());
        }
        for id in self.cron.parts.store.due_cron_jobs(now).await? {
            if self.cron.is_stopped() {
                break;
            }
            if let Some(ticket) = self.cron.claim_due(&id).await? {
                self.start(ticket);
            }
        }
        Ok(())
    }

    fn start(self: &Arc<Self>, ticket: Ticket) {
        let worker = Arc::clone(self);
        let tasks = &self.runs.parts().tasks;
        tasks.spawn("job", async move {
            let running = AssertUnwindSafe(worker.run(&ticket)).catch_unwind();
            if running.await.is_err() {
                let now = worker.cron.now_ms();
                worker.finish(&ticket, &Outcome::failed(BROKEN, "cron-setup", now)).await;
            }
        });
    }
}
