//! Drives runs: one after the other in each lane, bounded over all lanes.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use crate::store::RunOutcome;

use super::emitter::Emitter;
use super::run::{AbortReason, ActiveRun, RunEnd};
use super::runs::Runs;
use super::{recovery, turn};

impl Runs {
    /// Runs a lane until nobody waits in it.
    pub(super) fn drive(self: &Arc<Self>, first: Arc<ActiveRun>) {
        let runs = Arc::clone(self);
        self.parts.tasks.spawn("run", async move {
            let mut current = Some(first);
            while let Some(run) = current {
                let end = runs.execute(&run).await;
                current = match runs.end(&run, end).await {
                    Some(next) => runs.begin_waiting(next).await,
                    None => None,
                };
            }
        });
    }

    /// Ends a run that could not start, and starts whoever waits behind it.
    pub(super) async fn end_and_go_on(self: &Arc<Self>, run: &Arc<ActiveRun>, end: RunEnd) {
        if let Some(next) = self.end(run, end).await
            && let Some(next) = self.begin_waiting(next).await
        {
            self.drive(next);
        }
    }

    /// Executes one run; a panic in it is its failure, not the lane's.
    async fn execute(&self, run: &Arc<ActiveRun>) -> RunEnd {
        let limit = Duration::from_secs(self.parts.settings.agents.defaults.timeout_seconds);
        let timeout = async {
            tokio::time::sleep(limit).await;
            run.abort(AbortReason::Timeout);
            std::future::pending::<RunEnd>().await
        };
        // Without a permit when it is stopped meanwhile: the turn sees that
        // before it asks the model. The semaphore is never closed.
        let permit = tokio::select! {
            permit = self.permits.acquire() => permit.ok(),
            _ = run.aborted() => None,
        };
        let executed = AssertUnwindSafe(turn::execute(&self.parts, run)).catch_unwind();
        let outcome = tokio::select! {
            outcome = executed => outcome,
            end = timeout => Ok(end),
        };
        drop(permit);
        outcome.unwrap_or_else(|_| {
            tracing::error!(run = %run.id, "run panicked");
            let message = "the run failed inside the gateway; see its log";
            self.emitter(run).fail(message, "unknown");
            RunEnd::Failed(message.into())
        })
    }

    /// Ends a run that never started. Its message is kept like any other.
    pub(super) async fn end_waiter(&self, run: &Arc<ActiveRun>, reason: AbortReason) {
        match recovery::append_user_message(&self.parts, run).await {
            Ok(stored) => self.parts.announce(&run.key, &stored),
            Err(error) => tracing::error!(run = %run.id, %error, "message not in its transcript"),
        }
        self.emitter(run).abort(reason);
        let end = RunEnd::Aborted(reason);
        self.record_end(run, &end).await;
        run.set_ended(end);
    }

    /// Puts the message of a waiter into the transcript. Waiters that were
    /// stopped meanwhile end here; answers the first that can start.
    async fn begin_waiting(&self, mut next: Arc<ActiveRun>) -> Option<Arc<ActiveRun>> {
        loop {
            let stored = recovery::append_user_message(&self.parts, &next).await;
            let end = match (stored, next.abort_reason()) {
                (Ok(stored), None) => {
                    self.parts.announce(&next.key, &stored);
                    return Some(next);
                }
                (_, Some(reason)) => {
                    self.emitter(&next).abort(reason);
                    RunEnd::Aborted(reason)
                }
                (Err(error), None) => {
                    let message = format!("transcript not writable: {error}");
                    self.emitter(&next).fail(&message, "unknown");
                    RunEnd::Failed(message)
                }
            };
            next = self.end(&next, end).await?;
        }
    }

    fn emitter(&self, run: &Arc<ActiveRun>) -> Emitter {
        Emitter::new(Arc::clone(run), self.parts.bus.clone(), Arc::clone(&self.parts.clock))
    }

    /// Records the end, frees the lane, tells those who wait; answers the next.
    async fn end(&self, run: &Arc<ActiveRun>, end: RunEnd) -> Option<Arc<ActiveRun>> {
        self.record_end(run, &end).await;
        let next = self.state.lock().lanes.finish(run);
        run.set_ended(end);
        next
    }

    /// Writes down how a run ended. A message that did not reach its transcript
    /// stays in the record, for the next start to put there.
    pub(super) async fn record_end(&self, run: &ActiveRun, end: &RunEnd) {
        self.parts.tally.count(end);
        let outcome = match end {
            RunEnd::Answered => RunOutcome::Done,
            RunEnd::Failed(error) => RunOutcome::Failed(error.clone()),
            RunEnd::Aborted(_) => RunOutcome::Aborted,
        };
        let (is_stored, now_ms) = (run.is_stored(), self.parts.clock.now_ms());
        let recorded = self.parts.store.finish_run(&run.id, outcome, is_stored, now_ms).await;
        if let Err(error) = recorded {
            tracing::error!(run = %run.id, %error, "end of run not recorded");
        }
    }
}
