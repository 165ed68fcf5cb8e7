//! Messages that go into the run of another, and those that give way.
//!
//! Promises: a message that a run has taken in is in the transcript before its
//! own `final` names that run, and its record ends as that run ends.

use std::sync::Arc;

use futures_util::future::join_all;

use crate::config::{DropPolicy, QueueMode};
use crate::sessions::SessionError;
use crate::store::Teller;

use super::lanes::unbroken;
use super::recovery;
use super::report::{Family, Progress};
use super::run::{AbortReason, ActiveRun, RunEnd};
use super::runs::Runs;

/// Most characters of a message that gave way which the next turn hears.
const SUMMARY_CHARS: usize = 160;

impl Runs {
    /// The messages that steer the run from its next model call on.
    pub(super) fn steering(&self, run: &ActiveRun) -> Vec<Arc<ActiveRun>> {
        // Who speaks into a heartbeat would not see the answer, one that was stopped answers
        // nobody, and a bare one answers its own message: what waits has a run of its own.
        let is_deaf = run.terms.is_heartbeat || run.terms.is_bare();
        if is_deaf || run.abort_reason().is_some() {
            return Vec::new();
        }
        self.lanes.table().steer(run)
    }

    /// Puts messages that a run has taken in into the transcript, in order,
    /// and tells their senders which run has them.
    pub(super) async fn take_in(
        &self,
        run: &ActiveRun,
        taken: &[Arc<ActiveRun>],
    ) -> Result<(), SessionError> {
        for message in taken {
            if !message.owned.get() {
                run.owned.give_up();
            }
            let stored = recovery::append_user_message(&self.parts, message).await?;
            self.parts.announce(&message.key, &stored);
        }
        recovery::settle_taken(&self.parts, taken).await;
        // One that has a turn of its own is not over yet.
        for message in taken.iter().filter(|message| !message.has_steered()) {
            self.emitter(message).taken_into(&run.id);
        }
        Ok(())
    }

    /// Waits until a collecting run has been quiet for long enough, then takes
    /// in what has come meanwhile.
    pub(super) async fn collect(&self, run: &Arc<ActiveRun>) -> Result<(), SessionError> {
        loop {
            match self.lanes.collect(run) {
                Ok(taken) => return self.take_in(run, &taken).await,
                Err(quiet_at) => tokio::select! {
                    _ = run.aborted() => return Ok(()),
                    () = tokio::time::sleep_until(quiet_at) => {}
                },
            }
        }
    }

    /// Ends the runs whose messages `run` has taken in, as it ended itself.
    pub(super) async fn end_joined(&self, run: &ActiveRun, end: &RunEnd) {
        let joined = self.lanes.table().joined(run);
        let ends = joined.iter().map(|message| async move {
            let progress = Progress { answered_by: Some(Arc::clone(&run.id)), ..run.progress() };
            message.note(|of_message| *of_message = progress);
            unbroken(message, async {
                // The run may have ended before it could take the message in.
                self.keep_message(message).await;
                self.parts.record_end(message, end).await;
                self.tell_late(message, end);
            })
            .await;
            self.lanes.keep_report(message, end);
        });
        join_all(ends).await;
    }

    /// Ends what gives way to a run that has just begun to wait.
    pub(super) async fn make_way(self: &Arc<Self>, run: &ActiveRun, dropped: Vec<Arc<ActiveRun>>) {
        for old in &dropped {
            if run.queue.drop == DropPolicy::Summarize {
                let said: String = old.message.content.text().chars().take(SUMMARY_CHARS).collect();
                let notice = format!("A message was dropped, too many waited. It began: {said}");
                let teller = Teller::owner_if(old.owned.get());
                self.parts.notices.add(&old.key, &notice, teller);
            }
            // Its sender is told that it is gone, so nothing need keep it.
            old.set_stored();
            let error = format!(
                "dropped: more than {} messages waited in this session (messages.queue.cap)",
                run.queue.cap
            );
            let end = RunEnd::Failed(error.clone());
            self.end_outside(old, end, async { drop(self.fail_early(old, error).await) }).await;
        }
        if run.queue.mode == QueueMode::Interrupt {
            let all = self.lanes.table().of_session(&run.key);
            // Those behind it came later, and it may itself be over by now.
            let place = all.iter().position(|other| std::ptr::eq(&raw const **other, run));
            let before = all.iter().take(place.unwrap_or_default());
            // A lane that is only held is nobody's answer: the message waits.
            let others: Vec<_> = before.filter(|other| other.family != Family::Hold).collect();
            self.stop_by(Some(&*run.owner), &others, AbortReason::Interrupt).await;
        }
    }
}
