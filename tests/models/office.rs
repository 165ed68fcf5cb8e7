//! Who sends, works, stops and waits in the models of lanes: what `Runs` does with them,
//! with work that is nothing but its end.

use std::collections::{HashMap, HashSet};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use shuttle::future::{JoinHandle, spawn, yield_now};

use crate::agent::lane::{LaneTable, Placed, Stopped};
use crate::agent::lanes::{Duty, Lanes};
use crate::agent::queue::QueueRules;
use crate::agent::report::{Family, Progress, RunReport};
use crate::agent::run::tests::run_with;
use crate::agent::run::{AbortReason, ActiveRun, RunEnd};
use crate::config::{DropPolicy, QueueMode};
use crate::records::{Records, RunOutcome, RunState};
use crate::sessions::SessionKey;
use crate::support::SystemClock;
use crate::sync::{Mutex, Notify};

/// What has happened.
#[derive(Default)]
pub struct Book {
    /// The run that has each session to itself.
    running: HashMap<SessionKey, Arc<str>>,
    /// Which runs were performed, or taken in by one that was.
    pub done: Vec<Arc<str>>,
    /// Tasks that run lanes.
    drivers: Vec<JoinHandle<()>>,
    /// Runs that were turned away.
    refused: HashSet<Arc<str>>,
    /// Runs that waited behind one that was stopped, with that one.
    behind: Vec<(Arc<str>, Arc<str>)>,
    /// Those of the stopped ones whose messages are kept.
    kept: HashSet<Arc<str>>,
    /// Who has waited in line, in the order in which they came.
    in_line: Vec<Arc<ActiveRun>>,
}

pub struct Office {
    pub lanes: Lanes,
    pub book: Mutex<Book>,
    /// For models of keys.
    pub records: Option<Records>,
}

/// A run whose work ends as the first word of its id says.
pub fn run(id: &str, mode: QueueMode) -> Arc<ActiveRun> {
    let rules = QueueRules { mode, cap: 2, drop: DropPolicy::Old, debounce: Duration::ZERO };
    run_with(id, "main", rules)
}

/// The run of a hook, which nobody makes give way.
pub fn run_of_hook(id: &str) -> Arc<ActiveRun> {
    let mut run = run(id, QueueMode::Followup);
    let own = Arc::get_mut(&mut run).unwrap();
    own.family = Family::Agent;
    own.queue = own.queue.of_family(Family::Agent);
    run
}

/// How a run ends that had to give way.
pub fn dropped() -> RunEnd {
    RunEnd::Failed("dropped".into())
}

impl Office {
    pub fn new(records: Option<Records>) -> Arc<Self> {
        let lanes = Lanes::new(Arc::new(SystemClock));
        Arc::new(Self { lanes, book: Mutex::default(), records })
    }

    /// Sends; `false` when it was turned away.
    pub async fn send(self: &Arc<Self>, run: &Arc<ActiveRun>) -> bool {
        match self.lanes.enter(run) {
            Placed::First => {
                let leaving = self.lanes.table().leaving(&run.key);
                self.lanes.settle(&run.key).await;
                let is_kept = |before: &Arc<ActiveRun>| self.book.lock().kept.contains(&before.id);
                assert!(leaving.iter().all(is_kept), "{} begins too early", run.id);
                self.drive(Arc::clone(run), true);
            }
            Placed::Waiting(all) => {
                for old in all {
                    self.lanes.end_outside(&old, &dropped(), yield_now()).await;
                }
            }
            Placed::Refused | Placed::IdTaken | Placed::Closed => {
                self.book.lock().refused.insert(Arc::clone(&run.id));
                self.record(&run.id, &RunOutcome::Aborted("rpc"));
                self.lanes.turn_away(run);
                return false;
            }
        }
        true
    }

    pub fn drive(self: &Arc<Self>, first: Arc<ActiveRun>, has_begun: bool) {
        let office = Arc::clone(self);
        let driver = spawn(async move { office.lanes.drive(&office, first, has_begun).await });
        self.book.lock().drivers.push(driver);
    }

    /// Stops a run as `chat.abort` does, and the one that it holds its lane for.
    pub async fn stop(&self, run: &Arc<ActiveRun>) {
        let stopped = {
            let mut table = self.lanes.table();
            let all = table.of_session(&run.key);
            let mut stopped = table.stop_with_own(run, AbortReason::Rpc);
            stopped.retain(|(_, how)| *how == Stopped::Waiter);
            for (waiter, _) in &stopped {
                let behind = all.iter().skip_while(|other| other.id != waiter.id).skip(1);
                let behind = behind.map(|other| (Arc::clone(&other.id), Arc::clone(&waiter.id)));
                self.book.lock().behind.extend(behind);
            }
            stopped
        };
        for (waiter, _) in &stopped {
            let end = RunEnd::Aborted(AbortReason::Rpc);
            let keep_and_tell = async {
                yield_now().await;
                self.book.lock().kept.insert(Arc::clone(&waiter.id));
                self.record(&waiter.id, &RunOutcome::Aborted("rpc"));
            };
            self.lanes.end_outside(waiter, &end, keep_and_tell).await;
        }
    }

    /// Makes room in a session, as `sessions.steer` and a compaction do.
    pub async fn make_room(&self, key: &SessionKey) {
        let runs = self.lanes.table().in_the_way(key);
        for run in &runs {
            self.stop(run).await;
        }
        for run in &runs {
            run.ended().await;
        }
    }

    /// Waits in line from now on, for the run with this id if there is one.
    pub fn line_up(self: &Arc<Self>, run_id: Option<&str>, is_first: bool) -> InLine {
        let mut table = self.lanes.table();
        let mut book = self.book.lock();
        let mut waits = run(&format!("waits-{}", book.in_line.len()), QueueMode::Followup);
        Arc::get_mut(&mut waits).unwrap().family = Family::Hold;
        if let Some(run_id) = run_id {
            waits.stand_for(run_id);
        }
        assert!(table.line_up(&waits, is_first), "nothing is taken any more");
        book.in_line.push(Arc::clone(&waits));
        InLine { office: Arc::clone(self), run: waits, bell: Arc::default() }
    }

    /// A run has its session to itself from now on.
    fn alone(&self, run: &ActiveRun) -> Alone<'_> {
        let before = self.book.lock().running.insert(run.key.clone(), Arc::clone(&run.id));
        assert_eq!(before, None, "two at a time");
        Alone(self, run.key.clone())
    }

    /// Waits as `agent.wait` does for the end of a run, also of one that is not there yet.
    pub async fn wait(&self, run_id: &str) -> RunEnd {
        let recorded = || async { Ok::<_, ()>(self.recorded(run_id)) };
        self.lanes.ends(None, run_id, recorded).await.unwrap().end.clone()
    }

    fn recorded(&self, run_id: &str) -> Option<RunReport> {
        let was_refused = self.book.lock().refused.contains(run_id);
        let state = self.records.as_ref().and_then(|records| records.state(run_id));
        let end = match state {
            Some(RunState::Done) => RunEnd::Answered,
            Some(RunState::Active) => return None,
            Some(_) => RunEnd::Aborted(AbortReason::Rpc),
            None if was_refused => RunEnd::Aborted(AbortReason::Rpc),
            None => return None,
        };
        Some(RunReport {
            family: Family::Chat,
            run_id: run_id.into(),
            end,
            accepted_at: 0,
            ended_at: 0,
            progress: Progress::default(),
        })
    }

    fn record(&self, run_id: &str, outcome: &RunOutcome) {
        if let Some(records) = &self.records {
            records.finish("chat", run_id, outcome);
        }
    }

    /// Waits for the tasks of lanes; then nobody runs, and nobody waits.
    pub async fn close_up(&self) {
        while let Some(driver) = { self.book.lock().drivers.pop() } {
            driver.await.unwrap();
        }
        assert_eq!(self.lanes.table().counts(), (0, 0), "somebody waits where nothing runs");
        assert!(self.lanes.table().all().is_empty());
        let main = run("any", QueueMode::Followup).key.clone();
        assert!(self.lanes.table().leaving(&main).is_empty(), "who was stopped never left");
        let in_line = { std::mem::take(&mut self.book.lock().in_line) };
        let is_there = |run: &Arc<ActiveRun>| self.lanes.table().is_in_line(run);
        assert!(!in_line.iter().any(is_there), "who waited in line never left");
    }
}

/// A place in line for the lane of a session; what `InLine` and `Hold` of the gateway do.
pub struct InLine {
    office: Arc<Office>,
    pub run: Arc<ActiveRun>,
    /// Rung when it has the lane.
    bell: Arc<Notify>,
}

impl InLine {
    /// Takes the lane if nothing has it and nobody is before; whether it has it now.
    pub fn take(&self) -> bool {
        let mut table = self.office.lanes.table();
        if !table.is_active(&self.run) {
            table.want(&self.run, &self.bell);
        }
        let has_it = table.is_active(&self.run);
        if has_it {
            self.check_order(&table);
        }
        has_it
    }

    /// None that waits for a run has the lane while another such one, who came before, waits.
    fn check_order(&self, table: &LaneTable) {
        let book = self.office.book.lock();
        let mut before = book.in_line.iter().take_while(|other| other.id != self.run.id);
        let waits =
            |other: &Arc<ActiveRun>| other.stands_for().is_some() && table.is_in_line(other);
        assert!(self.run.stands_for().is_none() || !before.any(waits), "{} overtakes", self.run.id);
    }

    /// Waits until it has the lane.
    pub async fn turn(&self) {
        while !self.take() {
            self.bell.notified().await;
        }
        drop(self.office.alone(&self.run));
    }

    /// Lets the others have the lane, and keeps its place.
    pub fn step_back(&self) {
        let next = self.office.lanes.table().step_back(&self.run);
        if let Some(next) = next {
            self.office.drive(next, false);
        }
    }

    /// Waits no more. The lane that it has already is free again.
    pub async fn leave(self) {
        let (was_in_line, has_it) = {
            let mut table = self.office.lanes.table();
            (table.leave_line(&self.run), table.is_active(&self.run))
        };
        assert_ne!(was_in_line, has_it, "{} was lost, or has left and has it", self.run.id);
        let end = RunEnd::Aborted(AbortReason::Rpc);
        if was_in_line {
            self.office.lanes.tell_ended(&self.run, end);
        } else {
            self.release(end).await;
        }
    }

    /// Keeps the lane that it has, until the run is in it that it is held for; whether that
    /// came. It does not when somebody has stopped this before.
    pub async fn hold(self, own: Option<&Arc<ActiveRun>>) -> bool {
        let (office, run) = (&self.office, &self.run);
        run.set_keeps();
        let alone = office.alone(run);
        office.lanes.settle(&run.key).await;
        yield_now().await;
        assert!(office.lanes.table().is_active(run), "{} has lost it", run.id);
        let sent = own.filter(|_| run.abort_reason().is_none());
        if let Some(own) = sent {
            assert!(office.send(own).await, "{} is turned away", own.id);
        }
        let reason = run.abort_reason();
        if let Some(own) = sent.filter(|_| reason.is_some()) {
            office.stop(own).await;
        }
        drop(alone);
        let next = self.release(reason.map_or(RunEnd::Answered, RunEnd::Aborted)).await;
        if let Some(own) = sent.filter(|own| own.abort_reason().is_none()) {
            assert_eq!(next.as_ref(), Some(&own.id), "it was held for another");
        }
        sent.is_some()
    }

    /// The lane is free; the id of the run that it starts.
    async fn release(&self, end: RunEnd) -> Option<Arc<str>> {
        let next = self.office.lanes.end(&self.office, &self.run, end).await?;
        let id = Arc::clone(&next.id);
        self.office.drive(next, false);
        Some(id)
    }
}

/// A session that one run has to itself while this is there.
struct Alone<'a>(&'a Office, SessionKey);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.book.lock().running.remove(&self.1);
    }
}

impl Duty for Arc<Office> {
    async fn perform(&self, run: &Arc<ActiveRun>, _: bool) -> RunEnd {
        let alone = self.alone(run);
        {
            let mut book = self.book.lock();
            let before = book.behind.iter().filter(|(id, _)| *id == run.id);
            let mut before = before.map(|(_, stopped)| stopped);
            let is_kept = before.all(|stopped| book.kept.contains(stopped));
            assert!(is_kept, "{} begins before what was said earlier", run.id);
            book.done.push(Arc::clone(&run.id));
        }
        if run.id.starts_with("quick") {
            return RunEnd::Answered;
        }
        yield_now().await;
        if run.queue.mode == QueueMode::Collect {
            drop(self.lanes.collect(run));
        }
        drop(self.lanes.table().steer(run));
        let end = match run.id.split('-').next() {
            // No hook is called: for the scheduler a panic would be a finding.
            Some("panics") => resume_unwind(Box::new("the work panics")),
            Some("endless") => RunEnd::Aborted(run.aborted().await),
            _ => run.abort_reason().map_or(RunEnd::Answered, RunEnd::Aborted),
        };
        let outcome =
            if end == RunEnd::Answered { RunOutcome::Done } else { RunOutcome::Aborted("rpc") };
        self.record(&run.id, &outcome);
        drop(alone);
        end
    }

    async fn mend(&self, _: &Arc<ActiveRun>) -> RunEnd {
        yield_now().await;
        RunEnd::Failed("panicked".into())
    }

    async fn end_joined(&self, run: &ActiveRun, end: &RunEnd) {
        let joined = self.lanes.table().joined(run);
        for message in &joined {
            assert!(message.shares_place(run), "{} is answered elsewhere", message.id);
            self.book.lock().done.push(Arc::clone(&message.id));
            self.lanes.keep_report(message, end);
        }
        // Telling of an end may panic, too.
        if run.id.ends_with("badly") {
            resume_unwind(Box::new("telling panics"));
        }
    }

    async fn account(&self, _: &ActiveRun, whole: impl Future<Output = RunEnd> + Send) -> RunEnd {
        whole.await
    }
}
