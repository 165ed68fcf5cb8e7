//! The one task that waits for instants.
//!
//! Promises: it sleeps until the next one; without jobs, until there are some.
//! A run begins after its row is committed. Instants of a job that runs already are
//! skipped together, and delay no other job. What cannot be taken over from OpenClaw now
//! is tried again beside that. It ends with the last run that was claimed before the stop.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use crate::agent::Runs;
use crate::store::StoreError;

use super::outcome::Outcome;
use super::service::{Claimed, Cron, Skipped, Ticket};

/// While a job waits for its instant the clock is looked at this often: it may
/// be set, and a machine that slept has not counted the time.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// After a fault of the database nothing is tried for so long.
const REST: Duration = Duration::from_secs(5);
/// Instants of jobs that run are skipped this often, in milliseconds: each time costs a
/// commit and an event, and an interval may be a millisecond.
const SKIP_AGAIN_MS: u64 = 1000;

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
        while !cron.is_stopped()
            && let Err(error) = worker.recover().await
        {
            tracing::error!(%error, "runs of jobs of the last process not ended");
            cron.rest().await;
        }
        while !cron.is_stopped()
            && let Err(error) = worker.recover_hooks().await
        {
            tracing::error!(%error, "hooks of the last process not looked at");
            cron.rest().await;
        }
        let mut is_adopted = false;
        // Of the last process nobody knows how its clock was.
        let mut looked_at = u64::MAX;
        let mut skipped_at = 0;
        while !cron.is_stopped() {
            if !is_adopted {
                let adopted = cron.adopt().await.inspect_err(|error| {
                    tracing::error!(%error, "jobs of OpenClaw not taken over");
                });
                is_adopted = adopted.is_ok();
            }
            let now = cron.now_ms();
            if now < std::mem::replace(&mut looked_at, now) {
                skipped_at = 0;
                if let Err(error) = cron.bring_forward(now).await {
                    tracing::error!(%error, "jobs may be put off by a clock that was ahead");
                    looked_at = u64::MAX;
                }
            }
            let pause = match worker.start_due(now, &mut skipped_at).await {
                Ok(failed) => {
                    cron.state.lock().stuck.clone_from(&failed);
                    cron.pause(skipped_at, failed).await
                }
                Err(error) => Err(error),
            };
            let pause = pause.unwrap_or_else(|error| {
                tracing::error!(%error, "jobs not looked at");
                Some(REST)
            });
            // What has failed above is tried again, though nothing is due.
            let is_done = is_adopted && looked_at != u64::MAX;
            let pause = if is_done { pause } else { Some(pause.unwrap_or(REST).min(REST)) };
            tokio::select! {
                () = cron.changed.notified() => {}
                () = sleep(pause) => {}
            }
        }
        // Who asked for a run before the stop may be answered after it. It does not begin:
        // it is put back, or its row says why.
        loop {
            worker.start_waiting();
            if cron.running() == 0 {
                return;
            }
            cron.changed.notified().await;
        }
    }

    /// Waits after a fault, until the gateway stops at the longest.
    async fn rest(&self) {
        let _ = self.stopped.run_until_cancelled(tokio::time::sleep(REST)).await;
    }

    /// How long nothing is to begin or to be skipped; `None` when nothing ever is. Jobs that
    /// have failed are tried again after a rest at the latest, and are not waited for.
    async fn pause(
        &self,
        skipped_at: u64,
        failed: Vec<String>,
    ) -> Result<Option<Duration>, StoreError> {
        let store = &self.parts.store;
        if !self.parts.settings.now().cron.enabled {
            return Ok(None);
        }
        let rest = (!failed.is_empty()).then_some(REST);
        let Some(next) = store.next_cron_job(failed.clone()).await? else { return Ok(rest) };
        let skips = next.max(skipped_at.saturating_add(SKIP_AGAIN_MS));
        let running = self.state.lock().running.keys().cloned().chain(failed).collect();
        let begins = store.next_cron_job(running).await?;
        let next = begins.map_or(skips, |begins| begins.min(skips));
        let wait = Duration::from_millis(next.saturating_sub(self.now_ms()));
        Ok(Some(wait.min(rest.unwrap_or(LOOK_AGAIN))))
    }
}

/// Waits so long, or for ever.
pub(super) async fn sleep(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}

impl Worker {
    /// Starts what somebody has asked for.
    fn start_waiting(self: &Arc<Self>) {
        loop {
            let ticket = self.cron.state.lock().waiting.pop_front();
            let Some(ticket) = ticket else { return };
            self.start(ticket);
        }
    }

    /// Starts what somebody has asked for, and what is due; answers the jobs that the
    /// database does not take, which delay no other. `skipped_at` is when instants were last
    /// skipped.
    async fn start_due(
        self: &Arc<Self>,
        now: u64,
        skipped_at: &mut u64,
    ) -> Result<Vec<String>, StoreError> {
        self.start_waiting();
        let mut failed = Vec::new();
        if !self.cron.parts.settings.now().cron.enabled {
            return Ok(failed);
        }
        let skips = now >= skipped_at.saturating_add(SKIP_AGAIN_MS);
        for id in self.cron.parts.store.due_cron_jobs(now).await? {
            if self.cron.is_stopped() {
                break;
            }
            if !skips && self.cron.is_running(&id) {
                continue;
            }
            match self.cron.claim_due(&id).await {
                Ok(Claimed::Begins(ticket)) => self.start(ticket),
                Ok(Claimed::Skipped(skipped)) => {
                    *skipped_at = now;
                    self.look_after(skipped);
                }
                Ok(Claimed::Nothing) => {}
                Err(error) => {
                    tracing::warn!(job = %id, %error, "job that is due not looked at");
                    failed.push(id);
                }
            }
        }
        Ok(failed)
    }

    /// Skips what came due while a job ran: it is not to begin when the job is free.
    pub(super) async fn skip_passed(self: &Arc<Self>, id: &str) {
        if self.cron.is_stopped() || !self.cron.parts.settings.now().cron.enabled {
            return;
        }
        match self.cron.claim_due(id).await {
            Ok(Claimed::Skipped(skipped)) => self.look_after(skipped),
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(job = %id, %error, "what came due during a run not skipped");
            }
        }
    }

    /// Forgets what the log of a job has no place for, and tells of what was skipped, beside
    /// what is due.
    fn look_after(self: &Arc<Self>, skipped: Skipped) {
        let worker = Arc::clone(self);
        self.runs.parts().tasks.spawn("skipped job", async move {
            worker.cron.prune(&skipped.job.id).await;
            worker.alert_of_skips(&skipped).await;
        });
    }

    /// Starts a run whose row is written.
    pub(super) fn start(self: &Arc<Self>, ticket: Ticket) {
        let worker = Arc::clone(self);
        let tasks = &self.runs.parts().tasks;
        tasks.spawn("job", async move {
            let running = AssertUnwindSafe(worker.run(&ticket)).catch_unwind();
            let broken = |_| Some(Outcome::failed(BROKEN, "cron-setup", worker.cron.now_ms()));
            let outcome = running.await.unwrap_or_else(broken);
            // A run ends once: what breaks from here on is not caught.
            if let Some(outcome) = outcome {
                worker.finish(&ticket, &outcome).await;
                worker.sweep().await;
            }
        });
    }
}
