//! Drives runs: one after the other in each lane, bounded over all lanes.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

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
                current = match runs.end(&run, end) {
                    Some(next) => runs.begin_waiting(next).await,
                    None => None,
                };
            }
        });
    }

    /// Ends a run that could not start, and starts whoever waits behind it.
    pub(super) async fn end_and_go_on(self: &Arc<Self>, run: &Arc<ActiveRun>, end: RunEnd) {
        self.parts.record_end(run, &end).await;
        self.release(run, end).await;
    }

    /// Frees a lane that was held without a message, and starts whoever waits.
    pub(super) async fn release(self: &Arc<Self>, run: &Arc<ActiveRun>, end: RunEnd) {
        if let Some(next) = self.end(run, end)
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
        if let Ok(end) = outcome {
            return end;
        }
        tracing::error!(run = %run.id, "run panicked");
        self.fail_early(run, "the run failed inside the gateway; see its log".into()).await
    }

    /// Ends a run outside of its turn.
    async fn fail_early(&self, run: &Arc<ActiveRun>, message: String) -> RunEnd {
        let end = RunEnd::Failed(message);
        self.parts.record_end(run, &end).await;
        if let RunEnd::Failed(message) = &end {
            self.emitter(run).fail(message, "unknown");
        }
        end
    }

    /// Ends a run that was stopped before its turn came.
    async fn abort_early(&self, run: &Arc<ActiveRun>, reason: AbortReason) -> RunEnd {
        let end = RunEnd::Aborted(reason);
        self.parts.record_end(run, &end).await;
        self.emitter(run).abort(reason);
        end
    }

    /// Ends a run that never started. Its message is kept like any other.
    pub(super) async fn end_waiter(&self, run: &Arc<ActiveRun>, reason: AbortReason) {
        match recovery::append_user_message(&self.parts, run).await {
            Ok(stored) => self.parts.announce(&run.key, &stored),
            Err(error) => tracing::error!(run = %run.id, %error, "message not in its transcript"),
        }
        let end = self.abort_early(run, reason).await;
        self.keep_report(run, &end);
        self.tell_ended(run, end);
    }

    /// Puts the message of a waiter into the transcript. Waiters that were
    /// stopped meanwhile end here; answers the first that can start.
    async fn begin_waiting(&self, mut next: Arc<ActiveRun>) -> Option<Arc<ActiveRun>> {
        loop {
            let stored = recovery::open_turn(&self.parts, &next).await;
            let end = match (stored, next.abort_reason()) {
                (Ok(stored), None) => {
                    self.parts.announce(&next.key, &stored);
                    return Some(next);
                }
                (_, Some(reason)) => self.abort_early(&next, reason).await,
                (Err(error), None) => {
                    self.fail_early(&next, format!("transcript not writable: {error}")).await
                }
            };
            next = self.end(&next, end)?;
        }
    }

    fn emitter(&self, run: &Arc<ActiveRun>) -> Emitter {
        Emitter::new(Arc::clone(run), self.parts.bus.clone(), Arc::clone(&self.parts.clock))
    }

    /// Frees the lane and tells those who wait; answers the next.
    fn end(&self, run: &Arc<ActiveRun>, end: RunEnd) -> Option<Arc<ActiveRun>> {
        self.keep_report(run, &end);
        let next = self.state.lock().lanes.finish(run);
        self.tell_ended(run, end);
        next
    }
}
