//! Who sends, works, stops and waits in the models of lanes: what `Runs` does with them,
//! with work that is nothing but its end.

use std::collections::{HashMap, HashSet};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use shuttle::future::{JoinHandle, spawn, yield_now};

use crate::agent::lane::{Placed, Stopped};
use crate::agent::lanes::{Duty, Lanes};
use crate::agent::queue::QueueRules;
use crate::agent::report::{Family, Progress, RunReport};
use crate::agent::run::tests::run_with;
use crate::agent::run::{AbortReason, ActiveRun, RunEnd};
use crate::config::{DropPolicy, QueueMode};
use crate::records::{Records, RunOutcome, RunState};
use crate::sessions::SessionKey;
use crate::support::SystemClock;
use crate::sync::Mutex;

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

    /// Stops a run as `chat.abort` does.
    pub async fn stop(&self, run: &ActiveRun) {
        let stopped = {
            let mut table = self.lanes.table();
            let all = table.of_session(&run.key);
            let stopped = table.stop(run, AbortReason::Rpc);
            if stopped == Stopped::Waiter {
                let behind = all.iter().skip_while(|other| other.id != run.id).skip(1);
                let behind = behind.map(|other| (Arc::clone(&other.id), Arc::clone(&run.id)));
                self.book.lock().behind.extend(behind);
            }
            stopped
        };
        if stopped == Stopped::Waiter {
            let end = RunEnd::Aborted(AbortReason::Rpc);
            let keep_and_tell = async {
                yield_now().await;
                self.book.lock().kept.insert(Arc::clone(&run.id));
                self.record(&run.id, &RunOutcome::Aborted("rpc"));
            };
            self.lanes.end_outside(run, &end, keep_and_tell).await;
        }
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
        let before = self.book.lock().running.insert(run.key.clone(), Arc::clone(&run.id));
        assert_eq!(before, None, "two runs at a time");
        let alone = Alone(self, run.key.clone());
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
