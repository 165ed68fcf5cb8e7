//! Per-session run queue.
//!
//! Owns: which run is active in each session, who waits, also to hold the lane
//! without a message, whose messages the active run has taken in, and who was
//! stopped while it waited and is about to leave. Promises: no order of enqueue,
//! steering and finish leaves a waiter behind a session where nothing runs
//! (#91909). Plain data: the caller locks.

// Named: `tests/models` takes this file by its path.
#[path = "lane/line.rs"]
mod line;
#[path = "lane/lookup.rs"]
mod lookup;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::config::{DropPolicy, QueueMode};
use crate::sessions::SessionKey;

use super::report::Family;
use super::run::{AbortReason, ActiveRun};
use line::Line;

/// Most runs that may wait in one session.
const MAX_WAITING: usize = 100;

/// Most messages that one run takes in; those behind get runs of their own.
const MAX_JOINED: usize = 500;

/// What became of a run that wanted to start.
#[derive(Debug)]
pub enum Placed {
    /// Nothing else runs in the session: start it.
    First,
    /// It waits. For it these had to give way and wait no more.
    Waiting(Vec<Arc<ActiveRun>>),
    /// Too many wait already.
    Refused,
    /// A run that another method started has this id.
    IdTaken,
    /// Nothing is taken any more.
    Closed,
}

/// What became of a run that was to be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// It waited, and does no more: end it. Until then it is leaving.
    Waiter,
    /// It is active, or waits to hold the lane, and will see it.
    Active,
    /// There is nothing to stop: it is over, or another run has its message.
    Nothing,
}

/// What the end of a run leaves.
#[derive(Debug, Default)]
pub struct Finished {
    /// The run to start next.
    pub next: Option<Arc<ActiveRun>>,
    /// The runs whose messages it had taken in; they end with it.
    pub joined: Vec<Arc<ActiveRun>>,
}

#[derive(Debug)]
struct Lane {
    active: Arc<ActiveRun>,
    waiting: VecDeque<Arc<ActiveRun>>,
    joined: Vec<Arc<ActiveRun>>,
    /// Who waited when the run came that the lane was held for, and has let it pass.
    passed: Vec<Arc<ActiveRun>>,
}

impl Lane {
    /// With nothing in it but what has it.
    const fn of(active: Arc<ActiveRun>) -> Self {
        Self { active, waiting: VecDeque::new(), joined: Vec::new(), passed: Vec::new() }
    }

    fn is_active(&self, run: &ActiveRun) -> bool {
        is_same(&self.active, run)
    }

    /// Whether what has it is no message.
    fn is_held(&self) -> bool {
        self.active.family == Family::Hold
    }

    /// Makes room for one more that waits for its own turn; `None` when there
    /// is none and nobody is to give way.
    fn make_room(&mut self, run: &ActiveRun) -> Option<Vec<Arc<ActiveRun>>> {
        let mut dropped = Vec::new();
        if !run.queue.mode.has_own_turn() {
            return Some(dropped);
        }
        loop {
            let may_go = |waiting: &Arc<ActiveRun>| {
                waiting.family == Family::Chat && waiting.queue.mode.has_own_turn()
            };
            if self.waiting.iter().filter(|waiting| may_go(waiting)).count() < run.queue.cap {
                return Some(dropped);
            }
            if run.queue.drop == DropPolicy::New {
                return None;
            }
            let oldest = self.waiting.iter().position(may_go)?;
            dropped.extend(self.waiting.remove(oldest));
        }
    }
}

/// Who was stopped while he waited, and has not ended yet.
#[derive(Debug)]
struct Leaving {
    run: Arc<ActiveRun>,
    /// What had the lane and was about to end: its last words come before his message.
    behind: Option<Arc<ActiveRun>>,
}

/// All sessions in which something runs.
#[derive(Debug, Default)]
pub struct LaneTable {
    lanes: HashMap<SessionKey, Lane>,
    by_id: HashMap<Arc<str>, Arc<ActiveRun>>,
    /// Runs that were stopped while they waited and have not ended yet.
    leaving: HashMap<SessionKey, Vec<Leaving>>,
    /// Runs in no lane that are done, and whose ends are not told yet.
    telling: HashMap<Arc<str>, Arc<ActiveRun>>,
    /// Who waits to hold a lane.
    lines: HashMap<SessionKey, Line>,
    is_closed: bool,
}

impl LaneTable {
    /// Takes nothing any more; answers what is there, and what leaves: its message may not be
    /// kept yet. Nothing else will have to be waited for.
    pub fn close(&mut self) -> Vec<Arc<ActiveRun>> {
        self.is_closed = true;
        let mut all = self.all();
        all.extend(self.leaving.values().flatten().map(|one| Arc::clone(&one.run)));
        all
    }

    /// Whether nothing is taken any more.
    pub const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Adds a run.
    pub fn enter(&mut self, run: &Arc<ActiveRun>) -> Placed {
        if self.is_closed {
            return Placed::Closed;
        }
        if self.by_id.get(&run.id).is_some_and(|other| other.family != run.family) {
            return Placed::IdTaken;
        }
        let placed = match self.lanes.get_mut(&run.key) {
            None => {
                self.lanes.insert(run.key.clone(), Lane::of(Arc::clone(run)));
                Placed::First
            }
            // Whoever has held the lane for it has waited in its place, however many wait.
            Some(lane) if lane.active.stands_for() == Some(&run.id) => {
                lane.passed = lane.waiting.iter().cloned().collect();
                lane.waiting.push_front(Arc::clone(run));
                Placed::Waiting(Vec::new())
            }
            Some(lane) if lane.waiting.len() >= MAX_WAITING => return Placed::Refused,
            Some(lane) => {
                let Some(dropped) = lane.make_room(run) else { return Placed::Refused };
                lane.waiting.push_back(Arc::clone(run));
                Placed::Waiting(dropped)
            }
        };
        if let Placed::Waiting(dropped) = &placed {
            for run in dropped {
                self.forget(run);
            }
        }
        self.by_id.insert(Arc::clone(&run.id), Arc::clone(run));
        placed
    }

    /// The active run is about to ask the model: the messages that steer it
    /// now, in order. Those that only steer are its own from here on. What waited before it
    /// came, and let it pass since the lane was held for it, has its turn later; so has what is
    /// answered elsewhere.
    pub fn steer(&mut self, run: &ActiveRun) -> Vec<Arc<ActiveRun>> {
        let mut has_one = false;
        let passed = self.lanes.get(&run.key).map_or_else(Vec::new, |lane| lane.passed.clone());
        self.take(run, |waiting| {
            let mode = waiting.queue.mode;
            let is_next = mode != QueueMode::Queue || !has_one;
            let is_meant = !waiting.has_steered() && !passed.iter().any(|it| is_same(it, waiting));
            let steers = mode.is_steering() && is_next && is_meant;
            has_one |= steers;
            steers
        })
    }

    /// A collecting run is about to start: the messages that it answers along
    /// with its own and in the same place, in order.
    pub fn collect(&mut self, run: &ActiveRun) -> Vec<Arc<ActiveRun>> {
        self.take(run, |waiting| waiting.queue.mode == QueueMode::Collect)
    }

    fn take(
        &mut self,
        run: &ActiveRun,
        mut is_wanted: impl FnMut(&ActiveRun) -> bool,
    ) -> Vec<Arc<ActiveRun>> {
        let Some(lane) = self.lanes.get_mut(&run.key) else { return Vec::new() };
        if !lane.is_active(run) {
            return Vec::new();
        }
        let room = MAX_JOINED.saturating_sub(lane.joined.len());
        let mut taken = Vec::new();
        lane.waiting.retain(|waiting| {
            if taken.len() >= room || !waiting.shares_place(run) || !is_wanted(waiting) {
                return true;
            }
            taken.push(Arc::clone(waiting));
            let stays = waiting.queue.mode == QueueMode::SteerBacklog;
            if stays {
                waiting.set_steered();
            } else {
                lane.joined.push(Arc::clone(waiting));
            }
            stays
        });
        taken
    }

    /// The active run of the session has ended.
    pub fn finish(&mut self, run: &ActiveRun) -> Finished {
        self.forget(run);
        let lane = self.lanes.get_mut(&run.key).filter(|lane| lane.is_active(run));
        let Some(lane) = lane else { return Finished::default() };
        let joined = std::mem::take(&mut lane.joined);
        let first = lane.waiting.front().cloned();
        // What the lane was held for is the next in it.
        let is_own = first.as_ref().is_some_and(|first| run.stands_for() == Some(&first.id));
        lane.passed.retain(|_| is_own);
        let held = if is_own { None } else { self.call(&run.key, first.map(|it| it.entered)) };
        let mut next = None;
        if let Some(lane) = self.lanes.get_mut(&run.key) {
            if held.is_none() {
                next = lane.waiting.pop_front();
            }
            match held.or_else(|| next.clone()) {
                Some(active) => lane.active = active,
                None => drop(self.lanes.remove(&run.key)),
            }
        }
        for run in &joined {
            self.forget(run);
        }
        Finished { next, joined }
    }

    /// Stops a run, and the one that its lane was held for: that may have come since it was
    /// looked who there is.
    pub fn stop_with_own(
        &mut self,
        run: &Arc<ActiveRun>,
        reason: AbortReason,
    ) -> Vec<(Arc<ActiveRun>, Stopped)> {
        let both: Vec<_> = std::iter::once(Arc::clone(run)).chain(self.own_of(run)).collect();
        let stop = |run: Arc<ActiveRun>| {
            let stopped = self.stop(&run, reason);
            (run, stopped)
        };
        both.into_iter().map(stop).collect()
    }

    /// Stops a run, for this reason.
    pub fn stop(&mut self, run: &ActiveRun, reason: AbortReason) -> Stopped {
        if self.is_in_line(run) {
            run.abort(reason);
            return Stopped::Active;
        }
        let Some(lane) = self.lanes.get_mut(&run.key) else { return Stopped::Nothing };
        if lane.is_active(run) {
            run.abort(reason);
            return Stopped::Active;
        }
        let Some(place) = lane.waiting.iter().position(|waiting| is_same(waiting, run)) else {
            return Stopped::Nothing;
        };
        let waiter = lane.waiting.remove(place);
        run.abort(reason);
        let is_ending = lane.active.abort_reason().is_some() || lane.active.is_over();
        // What is only held says nothing, and may wait for the end of this.
        let behind = (is_ending && !lane.is_held()).then(|| Arc::clone(&lane.active));
        let leaving = waiter.map(|run| Leaving { run, behind });
        self.leaving.entry(run.key.clone()).or_default().extend(leaving);
        self.forget(run);
        Stopped::Waiter
    }

    /// A run has ended that was in no lane any more.
    pub fn has_left(&mut self, run: &ActiveRun) {
        let Some(leaving) = self.leaving.get_mut(&run.key) else { return };
        leaving.retain(|other| !is_same(&other.run, run));
        if leaving.is_empty() {
            self.leaving.remove(&run.key);
        }
    }

    /// A run in no lane is done, and its end is to be told.
    pub fn tells(&mut self, run: &Arc<ActiveRun>) {
        self.telling.insert(Arc::clone(&run.id), Arc::clone(run));
    }

    /// The end of such a run was told.
    pub fn has_told(&mut self, run: &ActiveRun) {
        if self.telling.get(&run.id).is_some_and(|found| is_same(found, run)) {
            self.telling.remove(&run.id);
        }
    }

    /// Its key may have been used again already, for another run.
    fn forget(&mut self, run: &ActiveRun) {
        if self.by_id.get(&run.id).is_some_and(|found| is_same(found, run)) {
            self.by_id.remove(&run.id);
        }
    }
}

fn is_same(one: &Arc<ActiveRun>, other: &ActiveRun) -> bool {
    std::ptr::eq(&raw const **one, other)
}

// Named: `tests/models` takes these files by their paths.
#[cfg(test)]
#[path = "lane/properties.rs"]
mod properties;
#[cfg(test)]
#[path = "lane/tests.rs"]
mod tests;
