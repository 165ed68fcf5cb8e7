//! Per-session run queue.
//!
//! Owns: which run is active in each session and who waits. Promises: no order
//! of enqueue and finish leaves a waiter behind a session where nothing runs
//! (#91909). Plain data: the caller locks.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::sessions::SessionKey;

use super::run::ActiveRun;

/// Most runs that may wait in one session.
const MAX_WAITING: usize = 100;

/// What became of a run that wanted to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// Nothing else runs in the session: start it.
    First,
    /// It waits for the one that runs.
    Waiting,
    /// Too many wait already.
    Refused,
    /// A run that another method started has this id.
    Taken,
}

#[derive(Debug)]
struct Lane {
    active: Arc<ActiveRun>,
    waiting: VecDeque<Arc<ActiveRun>>,
}

/// All sessions in which something runs.
#[derive(Debug, Default)]
pub struct LaneTable {
    lanes: HashMap<SessionKey, Lane>,
    by_id: HashMap<Arc<str>, Arc<ActiveRun>>,
}

impl LaneTable {
    /// Adds a run.
    pub fn enter(&mut self, run: &Arc<ActiveRun>) -> Placed {
        if self.by_id.get(&run.id).is_some_and(|other| other.family != run.family) {
            return Placed::Taken;
        }
        let placed = match self.lanes.get_mut(&run.key) {
            None => {
                let lane = Lane { active: Arc::clone(run), waiting: VecDeque::new() };
                self.lanes.insert(run.key.clone(), lane);
                Placed::First
            }
            Some(lane) if lane.waiting.len() >= MAX_WAITING => return Placed::Refused,
            Some(lane) => {
                lane.waiting.push_back(Arc::clone(run));
                Placed::Waiting
            }
        };
        self.by_id.insert(Arc::clone(&run.id), Arc::clone(run));
        placed
    }

    /// The active run of the session has ended; answers the one to start next.
    pub fn finish(&mut self, run: &ActiveRun) -> Option<Arc<ActiveRun>> {
        // Its key may have been used again already.
        if self.by_id.get(&run.id).is_some_and(|found| std::ptr::eq(&raw const **found, run)) {
            self.by_id.remove(&run.id);
        }
        let lane = self.lanes.get_mut(&run.key)?;
        if let Some(next) = lane.waiting.pop_front() {
            lane.active = Arc::clone(&next);
            Some(next)
        } else {
            self.lanes.remove(&run.key);
            None
        }
    }

    /// Takes a run out of the queue it waits in; `false` when it does not wait
    /// (any more).
    pub fn withdraw(&mut self, run: &ActiveRun) -> bool {
        let Some(lane) = self.lanes.get_mut(&run.key) else { return false };
        let before = lane.waiting.len();
        lane.waiting.retain(|waiting| waiting.id != run.id);
        let withdrawn = lane.waiting.len() < before;
        if withdrawn {
            self.by_id.remove(&run.id);
        }
        withdrawn
    }

    /// The run with this id, running or waiting.
    pub fn get(&self, run_id: &str) -> Option<Arc<ActiveRun>> {
        self.by_id.get(run_id).cloned()
    }

    /// The run that is active in a session.
    pub fn active(&self, key: &SessionKey) -> Option<Arc<ActiveRun>> {
        self.lanes.get(key).map(|lane| Arc::clone(&lane.active))
    }

    /// All runs of a session, the active one first.
    pub fn of_session(&self, key: &SessionKey) -> Vec<Arc<ActiveRun>> {
        self.lanes.get(key).map_or_else(Vec::new, |lane| {
            std::iter::once(&lane.active).chain(&lane.waiting).cloned().collect()
        })
    }

    /// All runs there are.
    pub fn all(&self) -> Vec<Arc<ActiveRun>> {
        self.by_id.values().cloned().collect()
    }

    /// How many run, and how many wait.
    pub fn counts(&self) -> (usize, usize) {
        (self.lanes.len(), self.by_id.len() - self.lanes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::run::tests::run;

    #[test]
    fn waiters_start_in_order_and_an_empty_lane_is_forgotten() {
        let mut table = LaneTable::default();
        let runs: Vec<_> = (0..3).map(|index| run(&index.to_string(), "main")).collect();
        assert_eq!(table.enter(&runs[0]), Placed::First);
        assert_eq!(table.enter(&runs[1]), Placed::Waiting);
        assert_eq!(table.enter(&runs[2]), Placed::Waiting);
        assert_eq!(table.enter(&run("other", "elsewhere")), Placed::First);
        assert_eq!(table.finish(&runs[0]).unwrap().id, runs[1].id);
        assert_eq!(table.finish(&runs[1]).unwrap().id, runs[2].id);
        assert!(table.finish(&runs[2]).is_none());
        assert_eq!(table.counts(), (1, 0));
    }

    #[test]
    fn a_waiter_that_ends_early_does_not_disturb_the_lane() {
        let mut table = LaneTable::default();
        let (first, second) = (run("1", "main"), run("2", "main"));
        table.enter(&first);
        table.enter(&second);
        assert!(table.withdraw(&second));
        assert!(!table.withdraw(&second) && !table.withdraw(&first));
        assert_eq!(table.active(&first.key).unwrap().id, first.id);
        assert!(table.finish(&first).is_none());
        assert_eq!(table.counts(), (0, 0));
    }

    proptest::proptest! {
        #[test]
        fn nobody_waits_where_nothing_runs(steps in proptest::collection::vec((0..3_u8, proptest::prelude::any::<bool>()), 0..80)) {
            let mut table = LaneTable::default();
            let mut active: HashMap<u8, Arc<ActiveRun>> = HashMap::new();
            let (mut entered, mut started) = (0, 0);
            for (index, (session, enters)) in steps.into_iter().enumerate() {
                if enters {
                    let new = run(&index.to_string(), &session.to_string());
                    entered += 1;
                    if table.enter(&new) == Placed::First {
                        started += 1;
                        proptest::prop_assert!(active.insert(session, new).is_none());
                    }
                } else if let Some(ended) = active.remove(&session)
                    && let Some(next) = table.finish(&ended)
                {
                    started += 1;
                    active.insert(session, next);
                }
            }
            for session in 0..3 {
                while let Some(ended) = active.remove(&session) {
                    if let Some(next) = table.finish(&ended) {
                        started += 1;
                        active.insert(session, next);
                    }
                }
            }
            proptest::prop_assert_eq!(entered, started);
            proptest::prop_assert_eq!(table.counts(), (0, 0));
        }
    }
}
