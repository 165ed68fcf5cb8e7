//! Drives runs: one after the other in each lane, bounded over all lanes.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tracing::Instrument;

use crate::config::QueueMode;
use crate::protocol::message::{AgentMessage, StopReason, Usage};
use crate::sessions::SessionError;
use crate::support::millis;
use crate::telemetry::metrics::NUMBERS;
use crate::telemetry::traces::{self, Kind, Span};

use super::abort::ABORT_WAIT;
use super::emitter::Emitter;
use super::lanes::{Duty, unbroken};
use super::run::{AbortReason, ActiveRun, RunEnd};
use super::runs::Runs;
use super::{recovery, turn};

impl Runs {
    /// Runs a lane, beginning with a run whose message is in the transcript,
    /// until nobody waits in it.
    pub(super) fn drive(self: &Arc<Self>, first: Arc<ActiveRun>) {
        self.drive_from(first, true);
    }

    /// Runs a lane, beginning with a run that has waited.
    pub(super) fn drive_waiting(self: &Arc<Self>, first: Arc<ActiveRun>) {
        self.drive_from(first, false);
    }

    fn drive_from(self: &Arc<Self>, first: Arc<ActiveRun>, has_begun: bool) {
        let runs = Arc::clone(self);
        self.parts.tasks.spawn("run", async move {
            runs.lanes.drive(&runs, first, has_begun).await;
        });
    }

    /// A run as a span, below the request that asked for it.
    fn span_of(&self, run: &ActiveRun, began: Instant) -> Span {
        let mut span = Span::begin("openclaw.run", Kind::Internal, run.trace);
        if span.context().is_some() {
            span.set("openclaw.run.family", run.family.as_str());
            span.set("openclaw.agent", self.parts.agent_of(&run.key).id.as_str());
            span.set("openclaw.lane.wait_ms", millis(began.duration_since(run.entered)));
        }
        span
    }

    /// Frees a lane that was held without a message, and starts whoever waits.
    pub(super) async fn release(self: &Arc<Self>, run: &Arc<ActiveRun>, end: RunEnd) {
        if let Some(next) = self.lanes.end(self, run, end).await {
            self.drive_waiting(next);
        }
    }

    /// Puts the message of a waiter into the transcript, with those that it
    /// collects. `Err` when it ends here.
    async fn begin(&self, run: &Arc<ActiveRun>) -> Result<(), RunEnd> {
        let begun = async {
            // What went into the run before is said again for its own turn.
            let stored = if run.is_stored() {
                let message = AgentMessage::User(run.message.clone());
                self.parts.append(&run.key, message, None).await?
            } else {
                recovery::open_turn(&self.parts, run).await?
            };
            self.parts.announce(&run.key, &stored);
            if run.queue.mode == QueueMode::Collect && run.abort_reason().is_none() {
                self.collect(run).await?;
            }
            Ok::<_, SessionError>(())
        };
        match (begun.await, run.abort_reason()) {
            (Ok(()), None) => Ok(()),
            (_, Some(reason)) => Err(self.abort_early(run, reason).await),
            (Err(error), None) => {
                Err(self.fail_early(run, format!("transcript not writable: {error}")).await)
            }
        }
    }

    /// Executes one run.
    async fn execute(self: &Arc<Self>, run: &Arc<ActiveRun>) -> RunEnd {
        let of_agents =
            Duration::from_secs(self.parts.settings.now().agents.defaults.timeout_seconds);
        let limit = run.limit.map_or(of_agents, |limit| limit.min(of_agents));
        let timeout = async {
            tokio::time::sleep(limit).await;
            run.abort(AbortReason::Timeout);
            std::future::pending::<RunEnd>().await
        };
        // Without a permit when it is stopped meanwhile: the turn sees that
        // before it asks the model. The semaphore is never closed.
        let permit = tokio::select! {
            permit = self.permits.acquire() => permit,
            _ = run.aborted() => None,
        };
        let end = tokio::select! {
            end = turn::execute(self, run) => end,
            end = timeout => end,
        };
        drop(permit);
        end
    }

    /// Tells the end of a run that could not do it itself, if it did not.
    pub(super) fn tell_late(&self, run: &Arc<ActiveRun>, end: &RunEnd) {
        if run.is_over() {
            return;
        }
        match end {
            RunEnd::Failed(error) => self.emitter(run).fail(error, "unknown"),
            RunEnd::Aborted(reason) => self.emitter(run).abort(*reason),
            // What it said is in the transcript.
            RunEnd::Answered => self.emitter(run).finish(&Usage::default(), StopReason::Stop),
        }
    }

    /// Ends a run outside of its turn.
    pub(super) async fn fail_early(&self, run: &Arc<ActiveRun>, message: String) -> RunEnd {
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

    /// Ends a run that never started. Its message is kept like any other, after what those
    /// have said who end `before`; until then it is in the record of the run.
    pub(super) async fn end_waiter(
        &self,
        run: &Arc<ActiveRun>,
        before: &[Arc<ActiveRun>],
        reason: AbortReason,
    ) {
        let all_end = async {
            for other in before {
                other.ended().await;
            }
        };
        if timeout(ABORT_WAIT, all_end).await.is_err() {
            tracing::warn!(run = %run.id, "its message comes before the end of what it waited for");
        }
        // Boxed: it is large, and held by each that stops.
        let keep_and_tell = Box::pin(async {
            self.keep_message(run).await;
            self.abort_early(run, reason).await;
        });
        self.end_outside(run, RunEnd::Aborted(reason), keep_and_tell).await;
    }

    /// Puts the message of a run that ends into the transcript, if it is not
    /// there. If that fails the next start tries again, unless its session is gone.
    pub(super) async fn keep_message(&self, run: &ActiveRun) {
        if run.is_stored() {
            return;
        }
        match recovery::append_user_message(&self.parts, run).await {
            Ok(stored) => self.parts.announce(&run.key, &stored),
            Err(gone @ (SessionError::NotFound(_) | SessionError::Replaced(_))) => {
                run.set_stored();
                tracing::warn!(run = %run.id, %gone, "message went with its session");
            }
            Err(error) => tracing::error!(run = %run.id, %error, "message not in its transcript"),
        }
    }

    /// Ends a run that is in no lane any more.
    pub(super) async fn end_outside(
        &self,
        run: &Arc<ActiveRun>,
        end: RunEnd,
        telling: impl Future<Output = ()>,
    ) {
        unbroken(run, telling).await;
        let late = async { self.tell_late(run, &end) };
        self.lanes.end_outside(run, &end, late).await;
    }

    pub(super) fn emitter(&self, run: &Arc<ActiveRun>) -> Emitter {
        self.parts.emitter(run)
    }
}

impl Duty for Arc<Runs> {
    async fn perform(&self, run: &Arc<ActiveRun>, has_begun: bool) -> RunEnd {
        if !has_begun && let Err(end) = self.begin(run).await {
            return end;
        }
        // Boxed: it is large, and held by every task that runs a lane.
        Box::pin(self.execute(run)).await
    }

    async fn mend(&self, run: &Arc<ActiveRun>) -> RunEnd {
        let failed = || RunEnd::Failed("the run failed inside the gateway; see its log".into());
        let end = run.decided().cloned().unwrap_or_else(failed);
        unbroken(run, async {
            let row = turn::close_broken(&self.parts, run).await;
            self.parts.record_end(run, &end).await;
            self.tell_late(run, &end);
            if let Some(row) = row {
                self.parts.events.phase(&run.key, &row, "error", &run.id);
            }
        })
        .await;
        end
    }

    async fn end_joined(&self, run: &ActiveRun, end: &RunEnd) {
        Runs::end_joined(self, run, end).await;
    }

    async fn account(&self, run: &ActiveRun, whole: impl Future<Output = RunEnd> + Send) -> RunEnd {
        let began = Instant::now();
        NUMBERS.run_lane.note(began.duration_since(run.entered));
        let mut span = self.span_of(run, began);
        let of_trace = run.marked.in_scope(|| span.for_log());
        let end = traces::within(span.context(), whole.instrument(of_trace)).await;
        match &end {
            RunEnd::Answered => {}
            RunEnd::Failed(_) => span.fail("failed"),
            RunEnd::Aborted(reason) => span.fail(reason.as_str()),
        }
        drop(span);
        NUMBERS.runs.note(began.elapsed());
        end
    }
}
