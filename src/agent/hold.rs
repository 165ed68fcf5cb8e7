//! The lane of a session, held without a message in it.
//!
//! Promises: nothing else runs in the session meanwhile, and whoever waits is
//! started afterwards, however it ends. It is stopped as runs are, with the run that it
//! is held for; so is who waits for it in line for a run. Clients stop none that clears a
//! session.

use std::sync::Arc;

use tokio::time::timeout;

use crate::auth::Owner;
use crate::protocol::message::UserMessage;
use crate::sessions::SessionKey;
use crate::support::sync::Notify;

use super::abort::{ABORT_WAIT, StillActive};
use super::queue::QueueRules;
use super::report::Family;
use super::request::SendRequest;
use super::run::{AbortReason, ActiveRun, RunEnd};
use super::runs::Runs;
use super::terms::RunTerms;

/// Why a lane is not held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HoldError {
    /// Something runs in the session and does not end.
    #[error("the session is still active; try again in a moment")]
    Active,
    /// The gateway is about to stop.
    #[error("gateway is stopping; try again after it has restarted")]
    Stopping,
}

/// A lane that is taken until this is dropped.
pub struct Hold {
    runs: Arc<Runs>,
    pub(super) run: Arc<ActiveRun>,
    is_ended: bool,
}

/// A place in line for the lane of a session, until this is dropped.
pub struct InLine {
    runs: Arc<Runs>,
    run: Arc<ActiveRun>,
    /// Rung when it has the lane.
    bell: Arc<Notify>,
    is_held: bool,
}

impl Runs {
    /// Waits in line for the lane of a session from now on, for the run with this id where
    /// clients know one. Messages get the lane meanwhile; those that come while it wants the
    /// lane get it later.
    ///
    /// # Errors
    /// [`HoldError::Stopping`].
    pub fn line_up(
        self: &Arc<Self>,
        key: &SessionKey,
        owner: Owner,
        run_id: Option<&str>,
    ) -> Result<InLine, HoldError> {
        let run = Arc::new(self.holder(key, key.as_str(), owner));
        if let Some(run_id) = run_id {
            run.stand_for(run_id);
        }
        self.enter_line(run, false)
    }

    fn enter_line(
        self: &Arc<Self>,
        run: Arc<ActiveRun>,
        is_first: bool,
    ) -> Result<InLine, HoldError> {
        if !self.lanes.table().line_up(&run, is_first) {
            return Err(HoldError::Stopping);
        }
        let runs = Arc::clone(self);
        Ok(InLine { runs, run, bell: Arc::default(), is_held: false })
    }

    /// Takes the lane of a session as soon as what runs in it, and who came before, has ended.
    ///
    /// # Errors
    /// [`HoldError::Stopping`].
    pub async fn hold_behind(
        self: &Arc<Self>,
        key: &SessionKey,
        owner: Owner,
    ) -> Result<Hold, HoldError> {
        let line = self.line_up(key, owner, None)?;
        line.turn().await;
        self.hold_now(line).await
    }

    /// Takes the lane of a session. What runs there is stopped first; who waits in line for it
    /// has his turn afterwards.
    ///
    /// # Errors
    /// When that does not end, or the gateway stops.
    pub(super) async fn hold_first(
        self: &Arc<Self>,
        key: &SessionKey,
        written_key: &str,
        owner: Owner,
    ) -> Result<Hold, HoldError> {
        let holder = Arc::new(self.holder(key, written_key, owner));
        let line = self.enter_line(holder, true)?;
        match timeout(ABORT_WAIT, self.comes_first(&line)).await {
            Ok(Ok(())) => self.hold_now(line).await,
            Ok(Err(StillActive)) | Err(_) => Err(HoldError::Active),
        }
    }

    /// Stops what has the lane of a session until somebody has it who goes before all. Who
    /// may still go back into line is let be until he keeps it.
    async fn comes_first(self: &Arc<Self>, line: &InLine) -> Result<(), StillActive> {
        loop {
            // Listening before looking, so nothing that happens between is missed.
            let mut decided = std::pin::pin!(self.decided.notified());
            decided.as_mut().enable();
            if line.take() {
                return Ok(());
            }
            let (key, who) = (&line.run.key, Some(&*line.run.owner));
            self.interrupt_runs(who, key, AbortReason::Rpc).await?;
            tokio::select! {
                biased;
                () = line.turn() => return Ok(()),
                () = decided => {}
            }
        }
    }

    /// Takes the lane of a session of which nothing goes on: what runs there is stopped, with
    /// its sub-agents, and who waits in line for a run. Messages that come from now on wait
    /// for the end of this.
    ///
    /// # Errors
    /// When that does not end, or the gateway stops.
    pub async fn hold_cleared(
        self: &Arc<Self>,
        key: &SessionKey,
        written_key: &str,
        owner: Owner,
    ) -> Result<Hold, HoldError> {
        // Clients know of nothing that runs here, and stop nothing.
        let holder = self.holder(key, written_key, owner).hidden();
        let line = self.enter_line(Arc::new(holder), true)?;
        // Wanted before it is looked who there is: nobody begins in between.
        line.take();
        let mut others = self.lanes.table().everyone(key);
        loop {
            others.retain(|run| !Arc::ptr_eq(run, &line.run));
            let who = Some(&*line.run.owner);
            let cleared = self.quiet(who, key, &others, AbortReason::Interrupt).await;
            cleared.map_err(|_| HoldError::Active)?;
            if line.take() {
                return self.hold_now(line).await;
            }
            // Who went before it has the lane now, and is stopped, too. Who waits by now
            // came later.
            others = self.lanes.table().active(key).into_iter().collect();
        }
    }

    /// Keeps the lane that somebody in line has.
    async fn hold_now(&self, line: InLine) -> Result<Hold, HoldError> {
        if self.is_stopping() { Err(HoldError::Stopping) } else { Ok(line.hold().await) }
    }

    /// Waits until nothing has the lane of a session, nor holds it.
    pub async fn lane_is_free(&self, key: &SessionKey) {
        loop {
            let active = self.lanes.table().active(key);
            let Some(run) = active else { return };
            self.leaves_lane(&run).await;
        }
    }

    /// Waits until a run does not have its lane any more: it has ended, or waits in line for
    /// something else first.
    pub async fn leaves_lane(&self, run: &ActiveRun) {
        loop {
            // Listening before looking, so nothing that happens between is missed.
            let mut decided = std::pin::pin!(self.decided.notified());
            decided.as_mut().enable();
            if self.lanes.table().is_in_line(run) {
                return;
            }
            tokio::select! {
                biased;
                _ = run.ended() => return,
                () = decided => {}
            }
        }
    }

    /// What stands in the lane. There is no message that would have to be put anywhere.
    fn holder(&self, key: &SessionKey, written_key: &str, owner: Owner) -> ActiveRun {
        let parts = self.parts();
        let request = SendRequest {
            family: Family::Hold,
            key: key.clone(),
            written_key: written_key.to_owned(),
            idempotency_key: parts.ids.uuid(),
            message: UserMessage::text("", 0),
            media: None,
            thinking: None,
            owner,
            dedupe_text: None,
            limit: None,
            terms: RunTerms::default(),
        };
        let rules = QueueRules::of(&parts.settings.now().messages.queue, None, None);
        let run = ActiveRun::new(request, rules, String::new(), parts.clock.now_ms());
        run.set_stored();
        run
    }
}

impl InLine {
    /// Takes the lane if nothing has it and nobody is before; whether it has it now. Else it
    /// goes on to want it.
    pub fn take(&self) -> bool {
        let mut table = self.runs.lanes.table();
        if !table.is_active(&self.run) {
            table.want(&self.run, &self.bell);
        }
        table.is_active(&self.run)
    }

    /// Waits until it has the lane.
    pub async fn turn(&self) {
        while !self.take() {
            self.bell.notified().await;
        }
    }

    /// Lets the others have the lane, and keeps its place.
    pub fn step_back(&self) {
        let next = self.runs.lanes.table().step_back(&self.run);
        self.runs.decided.notify_waiters();
        if let Some(next) = next {
            self.runs.drive_waiting(next);
        }
    }

    /// The lane that it has.
    pub async fn hold(mut self) -> Hold {
        self.is_held = true;
        self.run.set_keeps();
        self.runs.decided.notify_waiters();
        let (runs, run) = (Arc::clone(&self.runs), Arc::clone(&self.run));
        let hold = Hold { runs, run, is_ended: false };
        self.runs.lanes.settle(hold.key()).await;
        hold
    }

    /// Waits until somebody stops what it waits for.
    pub async fn stopped(&self) -> AbortReason {
        self.run.aborted().await
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        if self.is_held {
            return;
        }
        let was_in_line = self.runs.lanes.table().leave_line(&self.run);
        let (runs, run) = (Arc::clone(&self.runs), Arc::clone(&self.run));
        // Where it has the lane already, that is free again as this goes.
        let hold = Hold { runs, run, is_ended: was_in_line };
        let end = given_up(&self.run);
        hold.tell_own(&end);
        if was_in_line {
            self.runs.lanes.tell_ended(&self.run, end);
        }
    }
}

/// The end of what is held, or waits, for nothing any more.
fn given_up(run: &ActiveRun) -> RunEnd {
    let failed = || RunEnd::Failed("what held the session was given up".into());
    run.abort_reason().map_or_else(failed, RunEnd::Aborted)
}

impl Hold {
    /// The session.
    pub fn key(&self) -> &SessionKey {
        &self.run.key
    }

    /// It is held for the run with this id: clients are told that run when it is stopped,
    /// and when that run comes into this lane it is the next.
    pub fn stand_for(&self, run_id: &str) {
        self.run.stand_for(run_id);
    }

    /// The id of the run that it is held for.
    pub fn stands_for(&self) -> Option<&str> {
        self.run.stands_for().map(|id| &**id)
    }

    /// Why somebody has stopped what it is held for, if anybody has.
    pub fn stop_reason(&self) -> Option<AbortReason> {
        self.run.abort_reason()
    }

    /// Waits until somebody stops what it is held for.
    pub async fn stopped(&self) -> AbortReason {
        self.run.aborted().await
    }

    /// Lets the run go on that it was held for, which is the next in its lane. Who has
    /// stopped the one has stopped the other, and waits for the end of this.
    pub async fn hand_over(self) {
        let Some(reason) = self.stop_reason() else { return self.end(RunEnd::Answered).await };
        let own = self.runs.lanes.table().own_of(&self.run);
        self.runs.stop(&own.iter().collect::<Vec<_>>(), reason).await;
        self.end(RunEnd::Aborted(reason)).await;
    }

    /// Lets the session go on: the run that it was held for was stopped before it came.
    pub async fn stop(self, reason: AbortReason) {
        let end = RunEnd::Aborted(reason);
        self.tell_own(&end);
        self.end(end).await;
    }

    /// Tells who waits for the run that it was held for how that ended, without having come.
    fn tell_own(&self, end: &RunEnd) {
        if matches!(end, RunEnd::Aborted(_)) {
            self.runs.lanes.never_came(&self.run, end);
        }
    }

    /// Lets the session go on.
    pub async fn end(mut self, end: RunEnd) {
        self.is_ended = true;
        self.runs.release(&self.run, end).await;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.is_ended {
            return;
        }
        // Whoever asked for it is gone, or does not need it after all, or it panicked.
        let (runs, run) = (Arc::clone(&self.runs), Arc::clone(&self.run));
        self.runs.parts().tasks.spawn("release a lane", async move {
            runs.release(&run, given_up(&run)).await;
        });
    }
}
