//! The lanes of all sessions, as those share them who send, run, stop and wait.
//!
//! Owns: the lock around the lanes, how the last runs ended, who waits for a run that
//! is not there. Promises: however a run ends, the next one in its lane starts; its
//! end is told once it can be looked up; whoever waits for a run hears of its end; what
//! was stopped while it waited has ended before the next one begins.
//! Must not: know what is done for a run. `tests/models` tries every interleaving.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::time::Instant;
use tracing::Instrument;

use crate::auth::Owner;
use crate::sessions::SessionKey;
use crate::support::Clock;
use crate::support::sync::{Mutex, MutexGuard};

use super::calls::Calls;
use super::lane::{LaneTable, Placed};
use super::report::{Family, Reports, RunReport};
use super::run::{ActiveRun, RunEnd};

/// What is done for a run while it has its lane.
pub trait Duty: Sync {
    /// Takes a run to its end. It may panic.
    fn perform(&self, run: &Arc<ActiveRun>, has_begun: bool)
    -> impl Future<Output = RunEnd> + Send;

    /// Ends a run whose performance has panicked.
    fn mend(&self, run: &Arc<ActiveRun>) -> impl Future<Output = RunEnd> + Send;

    /// Ends the runs whose messages this one has taken in, as it ended itself.
    fn end_joined(&self, run: &ActiveRun, end: &RunEnd) -> impl Future<Output = ()> + Send;

    /// Accounts for the time that a run takes.
    fn account(
        &self,
        run: &ActiveRun,
        whole: impl Future<Output = RunEnd> + Send,
    ) -> impl Future<Output = RunEnd> + Send;
}

/// The lanes of all sessions.
pub struct Lanes {
    // Never held across an await; see docs/locks.md.
    table: Mutex<LaneTable>,
    /// Runs that have ended.
    reports: Reports,
    /// Who waits for a run that is not there yet.
    calls: Calls,
    clock: Arc<dyn Clock>,
}

impl Lanes {
    /// Nothing runs yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let (table, reports, calls) = (Mutex::default(), Reports::default(), Calls::default());
        Self { table, reports, calls, clock }
    }

    /// Who runs and who waits, while the answer is held.
    pub fn table(&self) -> MutexGuard<'_, LaneTable> {
        self.table.lock()
    }

    /// Puts a run into its lane, and tells those who wait for it to come.
    pub fn enter(&self, run: &Arc<ActiveRun>) -> Placed {
        let placed = self.table().enter(run);
        self.calls.call(&run.id);
        placed
    }

    /// Tells those who wait for a run that it will not come.
    pub fn turn_away(&self, run: &ActiveRun) {
        self.calls.call(&run.id);
    }

    /// What a collecting run answers along with its own message, or when it is to
    /// look again because it has not been quiet for long enough.
    pub fn collect(&self, run: &ActiveRun) -> Result<Vec<Arc<ActiveRun>>, Instant> {
        let mut table = self.table();
        let mut all = table.of_session(&run.key);
        all.retain(|other| other.shares_place(run));
        let newest = all.iter().map(|run| run.entered).max().unwrap_or(run.entered);
        let quiet_at = newest + run.queue.debounce;
        if all.len() <= run.queue.cap && Instant::now() < quiet_at {
            return Err(quiet_at);
        }
        Ok(table.collect(run))
    }

    /// Runs a lane, beginning with this run, until nobody waits in it.
    pub async fn drive(&self, duty: &impl Duty, first: Arc<ActiveRun>, mut has_begun: bool) {
        let mut current = Some(first);
        while let Some(run) = current {
            let marked = run.marked.clone();
            let whole = async {
                if !has_begun {
                    self.settle(&run.key).await;
                }
                let end = duty.account(&run, to_end(duty, &run, has_begun)).await;
                self.end(duty, &run, end).await
            };
            current = whole.instrument(marked).await;
            has_begun = false;
        }
    }

    /// Frees the lane and tells those who wait; answers the next. Nothing here
    /// may keep the lane from going on.
    pub async fn end(
        &self,
        duty: &impl Duty,
        run: &Arc<ActiveRun>,
        end: RunEnd,
    ) -> Option<Arc<ActiveRun>> {
        unbroken(run, duty.end_joined(run, &end)).await;
        self.keep_report(run, &end);
        let finished = self.table().finish(run);
        for joined in &finished.joined {
            self.tell_ended(joined, end.clone());
        }
        self.tell_ended(run, end);
        finished.next
    }

    /// Waits for the ends of those that were stopped while they waited in this session:
    /// what begins now comes after their messages.
    pub async fn settle(&self, key: &SessionKey) {
        let leaving = self.table().leaving(key);
        for run in leaving {
            run.ended().await;
        }
    }

    /// Ends a run that is in no lane any more.
    pub async fn end_outside(
        &self,
        run: &ActiveRun,
        end: &RunEnd,
        telling: impl Future<Output = ()>,
    ) {
        unbroken(run, telling).await;
        self.keep_report(run, end);
        self.tell_ended(run, end.clone());
        self.table().has_left(run);
    }

    /// Keeps how a run ends. Comes before it leaves its lane, so that it is
    /// always found in one of the two places.
    pub fn keep_report(&self, run: &ActiveRun, end: &RunEnd) {
        self.reports.add(RunReport::of(run, end.clone(), self.clock.now_ms()));
    }

    /// Tells how the run ended that a lane was, or was to be, held for, and that is in none.
    pub fn never_came(&self, hold: &ActiveRun, end: &RunEnd) {
        if let Some(id) = hold.stands_for() {
            let report = RunReport::of(hold, end.clone(), self.clock.now_ms());
            let (family, run_id) = (Family::Agent, Arc::clone(id));
            self.tell_report(RunReport { family, run_id, ..report });
        }
    }

    /// Tells how something ended that was no run, under the id of one.
    pub fn tell_report(&self, report: RunReport) {
        let run_id = Arc::clone(&report.run_id);
        self.reports.add(report);
        self.calls.call(&run_id);
    }

    /// Keeps how a run in no lane ends that is done. Who asks for its end hears of it once
    /// that is told, after clients have been shown it.
    pub fn begin_to_tell(&self, run: &Arc<ActiveRun>, end: &RunEnd) {
        self.table().tells(run);
        self.keep_report(run, end);
    }

    /// Tells the end of such a run.
    pub fn end_to_tell(&self, run: &ActiveRun, end: RunEnd) {
        // Who is woken looks again, and finds the report.
        self.table().has_told(run);
        self.tell_ended(run, end);
    }

    /// Waits until the ends of such runs of one owner are told.
    pub async fn told(&self, owner: &Owner) {
        let telling = self.table().telling_of(owner);
        for run in telling {
            run.ended().await;
        }
    }

    /// Tells those who wait for this run, and those who wait for its id.
    pub fn tell_ended(&self, run: &ActiveRun, end: RunEnd) {
        run.set_ended(end);
        self.calls.call(&run.id);
    }

    /// How a run ended, of one family of ids or of any, as soon as it has; `recorded`
    /// looks up those that nobody here remembers.
    pub async fn ends<E, F: Future<Output = Result<Option<RunReport>, E>>>(
        &self,
        family: Option<Family>,
        run_id: &str,
        recorded: impl Fn() -> F,
    ) -> Result<Arc<RunReport>, E> {
        let listener = self.calls.listen(run_id);
        loop {
            // Listening before looking, so nothing that happens between is missed.
            let mut called = std::pin::pin!(listener.bell.notified());
            called.as_mut().enable();
            let run = self.unended(family, run_id);
            if let Some(run) = run {
                run.ended().await;
            } else if let Some(report) = self.ended(family, run_id, &recorded).await? {
                return Ok(report);
            } else {
                called.await;
            }
        }
    }

    /// How a run ended, if it has; see [`Self::ends`].
    pub async fn ended<E, F: Future<Output = Result<Option<RunReport>, E>>>(
        &self,
        family: Option<Family>,
        run_id: &str,
        recorded: impl Fn() -> F,
    ) -> Result<Option<Arc<RunReport>>, E> {
        if self.unended(family, run_id).is_some() {
            return Ok(None);
        }
        let kept = self.remembered(family, run_id);
        if kept.is_some() {
            return Ok(kept);
        }
        let report = recorded().await?;
        Ok(report
            .filter(|report| family.is_none_or(|family| family == report.family))
            .map(Arc::new))
    }

    /// How a run ended, if this process remembers that.
    pub fn remembered(&self, family: Option<Family>, run_id: &str) -> Option<Arc<RunReport>> {
        match family {
            Some(family) => self.reports.get(family, run_id),
            None => self.reports.newest(run_id),
        }
    }

    /// The run with this id whose end nobody is to hear of yet.
    fn unended(&self, family: Option<Family>, run_id: &str) -> Option<Arc<ActiveRun>> {
        let table = self.table();
        table.get(run_id).or_else(|| table.telling(family, run_id))
    }
}

/// Takes a run to its end; a panic in it is its failure, not the lane's.
async fn to_end(duty: &impl Duty, run: &Arc<ActiveRun>, has_begun: bool) -> RunEnd {
    // Boxed: it is large, and held by every task that runs a lane.
    let whole = Box::pin(duty.perform(run, has_begun));
    if let Ok(end) = AssertUnwindSafe(whole).catch_unwind().await {
        return end;
    }
    tracing::error!(run = %run.id, "run panicked");
    duty.mend(run).await
}

/// What a run's end depends on goes on when telling of it, or recording it, panics.
pub async fn unbroken(run: &ActiveRun, telling: impl Future<Output = ()>) {
    if AssertUnwindSafe(telling).catch_unwind().await.is_err() {
        tracing::error!(run = %run.id, "a panic while the end of a run was told or recorded");
    }
}
