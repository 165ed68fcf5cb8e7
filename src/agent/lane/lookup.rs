//! Who there is in the lanes: what is asked of them, and changes nothing.

use std::sync::Arc;

use super::{ActiveRun, Family, Lane, LaneTable, Leaving, Line, SessionKey, is_same};
use crate::auth::Owner;

impl LaneTable {
    /// The run with this id, running, waiting or taken in by another.
    pub fn get(&self, run_id: &str) -> Option<Arc<ActiveRun>> {
        self.by_id.get(run_id).cloned()
    }

    /// The run that answers the message of the run with this id: itself, or
    /// the one that has taken it in.
    pub fn answering(&self, run_id: &str) -> Option<Arc<ActiveRun>> {
        let run = self.by_id.get(run_id)?;
        let lane = self.lanes.get(&run.key);
        let taker = lane.filter(|lane| lane.joined.iter().any(|joined| is_same(joined, run)));
        Some(Arc::clone(taker.map_or(run, |lane| &lane.active)))
    }

    /// The runs whose messages the active run has taken in.
    pub fn joined(&self, run: &ActiveRun) -> Vec<Arc<ActiveRun>> {
        let lane = self.lanes.get(&run.key).filter(|lane| lane.is_active(run));
        lane.map_or_else(Vec::new, |lane| lane.joined.clone())
    }

    /// The run that its lane was held for, once that is in it.
    pub fn own_of(&self, hold: &ActiveRun) -> Option<Arc<ActiveRun>> {
        let own = self.get(hold.stands_for()?)?;
        (own.key == hold.key).then_some(own)
    }

    /// Who waits in line for a lane to run what clients know by this id.
    pub fn in_line_for(&self, run_id: &str) -> Option<Arc<ActiveRun>> {
        let mut waiting = self.lines.values().flat_map(Line::for_runs);
        waiting.find(|run| run.known_as() == run_id).cloned()
    }

    /// The run that is active in a session.
    pub fn active(&self, key: &SessionKey) -> Option<Arc<ActiveRun>> {
        self.lanes.get(key).map(|lane| Arc::clone(&lane.active))
    }

    /// Whether a run has its lane.
    pub fn is_active(&self, run: &ActiveRun) -> bool {
        self.lanes.get(&run.key).is_some_and(|lane| lane.is_active(run))
    }

    /// All runs of a session: the active one, those it has taken in, those
    /// that wait.
    pub fn of_session(&self, key: &SessionKey) -> Vec<Arc<ActiveRun>> {
        self.lanes.get(key).map_or_else(Vec::new, |lane| {
            std::iter::once(&lane.active)
                .chain(&lane.joined)
                .chain(&lane.waiting)
                .cloned()
                .collect()
        })
    }

    /// How many wait in a session, for turns of their own or to go into the run there.
    pub fn waiting_in(&self, key: &SessionKey) -> usize {
        self.lanes.get(key).map_or(0, |lane| lane.waiting.len())
    }

    /// All that can be stopped in a session: its runs, and who waits in line for one.
    pub fn stoppable(&self, key: &SessionKey) -> Vec<Arc<ActiveRun>> {
        let mut all = self.of_session(key);
        all.extend(self.lines.get(key).into_iter().flat_map(Line::for_runs).cloned());
        all
    }

    /// The runs of a session that were stopped while they waited and end before what has the
    /// lane now begins: those that wait for the end of that are none of them.
    pub fn leaving(&self, key: &SessionKey) -> Vec<Arc<ActiveRun>> {
        let active = self.lanes.get(key).map(|lane| &*lane.active);
        let is_after = |one: &&Leaving| {
            one.behind.as_ref().zip(active).is_some_and(|(behind, active)| is_same(behind, active))
        };
        let all = self.leaving.get(key).into_iter().flatten();
        all.filter(|one| !is_after(one)).map(|one| Arc::clone(&one.run)).collect()
    }

    /// What ends before a run that leaves its session is written down: what had the lane and
    /// was about to end, and those that left before. Nothing when the lane went on.
    pub fn before(&self, run: &ActiveRun) -> Vec<Arc<ActiveRun>> {
        let all = self.leaving.get(&run.key).map_or(&[][..], Vec::as_slice);
        let earlier = all.iter().take_while(|one| !is_same(&one.run, run)).map(|one| &one.run);
        let behind = all.iter().find(|one| is_same(&one.run, run));
        let behind = behind.and_then(|one| one.behind.as_ref());
        behind.map_or_else(Vec::new, |it| std::iter::once(it).chain(earlier).cloned().collect())
    }

    /// All that were stopped while they waited and have not ended yet.
    fn all_leaving(&self, key: &SessionKey) -> impl Iterator<Item = Arc<ActiveRun>> {
        self.leaving.get(key).into_iter().flatten().map(|one| Arc::clone(&one.run))
    }

    /// All runs of a session, and those that leave it. Who waits in line is none yet.
    pub fn unfinished(&self, key: &SessionKey) -> Vec<Arc<ActiveRun>> {
        let mut all = self.of_session(key);
        all.extend(self.all_leaving(key));
        all
    }

    /// All that can be stopped in a session, and those that leave it.
    pub fn everyone(&self, key: &SessionKey) -> Vec<Arc<ActiveRun>> {
        let mut all = self.stoppable(key);
        all.extend(self.all_leaving(key));
        all
    }

    /// The run of this family and id that has been stopped and has not ended yet: its key,
    /// and the text of its message, are about to be free.
    pub fn stopping(&self, family: &str, run_id: &str) -> Option<Arc<ActiveRun>> {
        let is_it = |run: &&Arc<ActiveRun>| &*run.id == run_id && run.family.as_str() == family;
        // One that another run has taken in ends with that.
        let is_stopped = self.answering(run_id).is_some_and(|run| run.abort_reason().is_some());
        let here = self.by_id.get(run_id).filter(is_it).filter(|_| is_stopped);
        here.or_else(|| self.leaving.values().flatten().map(|one| &one.run).find(is_it)).cloned()
    }

    /// The run of this family, or of any, with this id whose end is not told yet.
    pub fn telling(&self, family: Option<Family>, run_id: &str) -> Option<Arc<ActiveRun>> {
        let run = self.telling.get(run_id)?;
        family.is_none_or(|family| family == run.family).then(|| Arc::clone(run))
    }

    /// Such runs of one owner.
    pub fn telling_of(&self, owner: &Owner) -> Vec<Arc<ActiveRun>> {
        self.telling.values().filter(|run| *run.owner == *owner).cloned().collect()
    }

    /// All runs there are.
    pub fn all(&self) -> Vec<Arc<ActiveRun>> {
        self.lanes.keys().flat_map(|key| self.of_session(key)).collect()
    }

    /// How many run, and how many wait. A lane that is only held is no run.
    pub fn counts(&self) -> (usize, usize) {
        let runs = self.lanes.values().filter(|lane| !lane.is_held()).count();
        (runs, self.lanes.values().map(|lane| lane.waiting.len()).sum())
    }

    /// How many lanes are held for what is no run, as while a session is summed up.
    pub fn held(&self) -> usize {
        let is_work = |lane: &&Lane| lane.is_held() && lane.active.stands_for().is_none();
        self.lanes.values().filter(is_work).count()
    }

    /// Whether nobody has a lane: nothing runs, and none is held.
    pub fn is_idle(&self) -> bool {
        self.lanes.is_empty()
    }
}
