//! Who waits for the lane of a session to hold it, and stands among no messages meanwhile.
//!
//! Owns: their order. Promises: who came first is first; of those that wait for more than
//! the lane none overtakes another. Plain data, as the lanes are.

use std::sync::Arc;

use tokio::time::Instant;

use super::{ActiveRun, Family, Lane, LaneTable, is_same};
use crate::sessions::SessionKey;
use crate::support::sync::Notify;

/// Those who wait for one lane, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Line(Vec<InLine>);

#[derive(Debug)]
struct InLine {
    run: Arc<ActiveRun>,
    /// Rung when it has the lane; none while it would not take it.
    bell: Option<Arc<Notify>>,
    /// Whether it goes before all that waits, also of what came before.
    is_first: bool,
}

impl Line {
    /// One who goes before all but those who came before to do so.
    pub fn add_first(&mut self, run: &Arc<ActiveRun>) {
        let place = self.0.partition_point(|other| other.is_first);
        self.0.insert(place, InLine { run: Arc::clone(run), bell: None, is_first: true });
    }

    /// One more, who does not want the lane yet. Who came before is before.
    pub fn add(&mut self, run: &Arc<ActiveRun>) {
        let is_before = |other: &InLine| other.is_first || other.run.entered <= run.entered;
        let place = self.0.partition_point(is_before);
        self.0.insert(place, InLine { run: Arc::clone(run), bell: None, is_first: false });
    }

    /// Whether somebody wants the lane: `bell` is rung when it is his.
    pub fn set_bell(&mut self, run: &ActiveRun, bell: Option<&Arc<Notify>>) {
        if let Some(own) = self.0.iter_mut().find(|other| is_same(&other.run, run)) {
            own.bell = bell.cloned();
        }
    }

    /// One waits no more; whether it did.
    pub fn remove(&mut self, run: &ActiveRun) -> bool {
        let before = self.0.len();
        self.0.retain(|other| !is_same(&other.run, run));
        self.0.len() < before
    }

    /// Takes the next out who wants the lane, if he came before this instant, and rings. A
    /// run is known to clients that wait for it: no other one goes before it.
    pub fn call(&mut self, before: Option<Instant>) -> Option<Arc<ActiveRun>> {
        let mut is_kept = false;
        let next = self.0.iter().position(|one| {
            let is_for_run = one.run.stands_for().is_some();
            let goes = one.bell.is_some() && !(is_for_run && is_kept);
            is_kept |= is_for_run;
            goes
        })?;
        let InLine { run, is_first, .. } = self.0.get(next)?;
        if !is_first && before.is_some_and(|before| before < run.entered) {
            return None;
        }
        let InLine { run, bell, .. } = self.0.remove(next);
        if let Some(bell) = bell {
            bell.notify_one();
        }
        Some(run)
    }

    /// Those that wait for a run of theirs, as clients know it.
    pub fn for_runs(&self) -> impl Iterator<Item = &Arc<ActiveRun>> {
        self.0.iter().map(|one| &one.run).filter(|run| run.stands_for().is_some())
    }

    /// Whether somebody is in it.
    pub fn has(&self, run: &ActiveRun) -> bool {
        self.0.iter().any(|other| is_same(&other.run, run))
    }

    /// Whether nobody is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl LaneTable {
    /// Waits in line to hold a lane, also before all others; `false` when nothing is taken
    /// any more.
    pub fn line_up(&mut self, run: &Arc<ActiveRun>, is_first: bool) -> bool {
        if self.is_closed {
            return false;
        }
        let line = self.lines.entry(run.key.clone()).or_default();
        if is_first {
            line.add_first(run);
        } else {
            line.add(run);
        }
        true
    }

    /// Who is in line takes the lane from now on, when nothing has it and he is the next:
    /// `bell` is rung then.
    pub fn want(&mut self, run: &ActiveRun, bell: &Arc<Notify>) {
        if let Some(line) = self.lines.get_mut(&run.key) {
            line.set_bell(run, Some(bell));
        }
        self.fill(&run.key);
    }

    /// Who is in line, or has the lane from there, waits for something else first, in his
    /// place. Answers the run to start next.
    pub fn step_back(&mut self, run: &Arc<ActiveRun>) -> Option<Arc<ActiveRun>> {
        let line = self.lines.entry(run.key.clone()).or_default();
        if line.has(run) {
            line.set_bell(run, None);
            return None;
        }
        line.add(run);
        self.finish(run).next
    }

    /// Whether somebody waits in line.
    pub fn is_in_line(&self, run: &ActiveRun) -> bool {
        self.lines.get(&run.key).is_some_and(|line| line.has(run))
    }

    /// What has to end before a session is somebody's own: its runs, and those that leave it.
    /// Who has the lane from the line, and may still go back there, is none of them.
    pub fn in_the_way(&self, key: &SessionKey) -> Vec<Arc<ActiveRun>> {
        let mut all = self.unfinished(key);
        all.retain(|run| run.family != Family::Hold || run.keeps_lane());
        all
    }

    /// Whoever was in line is there no more; whether he was.
    pub fn leave_line(&mut self, run: &ActiveRun) -> bool {
        let Some(line) = self.lines.get_mut(&run.key) else { return false };
        let was_there = line.remove(run);
        if line.is_empty() {
            self.lines.remove(&run.key);
        }
        // Others may have waited for him.
        self.fill(&run.key);
        was_there
    }

    /// Gives a lane that nothing has to the next in line.
    fn fill(&mut self, key: &SessionKey) {
        if !self.lanes.contains_key(key)
            && let Some(active) = self.call(key, None)
        {
            self.lanes.insert(key.clone(), Lane::of(active));
        }
    }

    /// The next in line, if he came before this instant. The lane is his.
    pub(super) fn call(
        &mut self,
        key: &SessionKey,
        before: Option<Instant>,
    ) -> Option<Arc<ActiveRun>> {
        let line = self.lines.get_mut(key)?;
        let run = line.call(before)?;
        if line.is_empty() {
            self.lines.remove(key);
        }
        self.by_id.insert(Arc::clone(&run.id), Arc::clone(&run));
        Some(run)
    }
}
