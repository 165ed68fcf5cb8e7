//! Lanes and their lines, whatever is done to them in whatever order.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;

use super::tests::{rules, to};
use super::*;
use crate::agent::run::tests::{run, run_with};
use crate::support::sync::Notify;

/// How a message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Answered,
    Aborted,
    Failed,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Send {
        session: u8,
        mode: QueueMode,
        cap: usize,
        drop: DropPolicy,
        agent: bool,
        /// To whom it is answered.
        person: Option<&'static str>,
    },
    /// The active run of a session comes to a model call.
    Steer(u8),
    /// It collects what waits.
    Collect(u8),
    /// It ends: with an answer, an error or a panic. A lane that is held is let go.
    Finish(u8, End),
    /// Somebody stops the n-th run there is.
    Stop(usize),
    /// Somebody waits in line for a session.
    LineUp(u8, Kind),
    /// The n-th of those who have done so does something.
    InLine(usize, Move),
}

/// What somebody waits in line for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The lane, as who cuts a session.
    Lane,
    /// The lane before all others, as a compaction.
    LaneFirst,
    /// A run, as a hook.
    Run,
}

#[derive(Debug, Clone, Copy)]
enum Move {
    /// He takes the lane from now on.
    Want,
    /// He waits for something else first.
    StepBack,
    /// He gives up, and lets the lane go if he has it.
    Leave,
    /// The run comes that he has the lane for.
    SendOwn,
    /// Somebody stops him.
    Stop,
}

fn step() -> impl proptest::strategy::Strategy<Value = Step> {
    use proptest::prelude::*;
    let mode = prop_oneof![
        Just(QueueMode::Steer),
        Just(QueueMode::Queue),
        Just(QueueMode::Followup),
        Just(QueueMode::Collect),
        Just(QueueMode::SteerBacklog),
        Just(QueueMode::Interrupt)
    ];
    let drop =
        prop_oneof![Just(DropPolicy::Old), Just(DropPolicy::New), Just(DropPolicy::Summarize)];
    let end = prop_oneof![Just(End::Answered), Just(End::Failed), Just(End::Aborted)];
    let kind = prop_oneof![1 => Just(Kind::Lane), 1 => Just(Kind::LaneFirst), 3 => Just(Kind::Run)];
    let of_line = prop_oneof![
        5 => Just(Move::Want),
        2 => Just(Move::StepBack),
        1 => Just(Move::Leave),
        2 => Just(Move::SendOwn),
        1 => Just(Move::Stop),
    ];
    let person = prop_oneof![3 => Just(None), 2 => Just(Some("ann")), 1 => Just(Some("bob"))];
    let session = 0..3_u8;
    prop_oneof![
        6 => (session.clone(), mode, 1..4_usize, drop, prop::bool::weighted(0.2), person).prop_map(
            |(session, mode, cap, drop, agent, person)| {
                Step::Send { session, mode, cap, drop, agent, person }
            }),
        3 => session.clone().prop_map(Step::Steer),
        1 => session.clone().prop_map(Step::Collect),
        5 => (session.clone(), end).prop_map(|(session, end)| Step::Finish(session, end)),
        2 => any::<usize>().prop_map(Step::Stop),
        3 => (session, kind).prop_map(|(session, kind)| Step::LineUp(session, kind)),
        8 => (any::<usize>(), of_line).prop_map(|(which, what)| Step::InLine(which, what)),
    ]
}

fn key(session: u8) -> SessionKey {
    run("k", &session.to_string()).key.clone()
}

/// The run of a step: it came after those of the steps before.
fn dated(mut run: Arc<ActiveRun>, index: usize, family: Family) -> Arc<ActiveRun> {
    let own = Arc::get_mut(&mut run).unwrap();
    own.entered += Duration::from_millis(u64::try_from(index).unwrap());
    own.family = family;
    run
}

/// Where one stands who has waited in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// In line, for something else first.
    Aside,
    /// In line, for the lane.
    Wants,
    /// He has the lane.
    Holds,
    Gone,
}

#[derive(Debug)]
struct Waiter {
    run: Arc<ActiveRun>,
    bell: Arc<Notify>,
    is_first: bool,
    stand: Stand,
    /// Whether the run has come that he waits for.
    is_sent: bool,
}

impl Waiter {
    const fn is_in_line(&self) -> bool {
        matches!(self.stand, Stand::Aside | Stand::Wants)
    }

    fn is_for_run(&self) -> bool {
        self.run.stands_for().is_some()
    }
}

/// Does to the table what `Runs` does, and books every message and who waits in line.
#[derive(Default)]
struct Model {
    table: LaneTable,
    accepted: Vec<Arc<ActiveRun>>,
    ends: HashMap<Arc<str>, Vec<End>>,
    /// What was started in each session and has not ended, or holds it.
    running: HashMap<SessionKey, Arc<ActiveRun>>,
    /// Who has waited in line, in the order in which they came.
    waiters: Vec<Waiter>,
}

impl Model {
    fn end(&mut self, run: &ActiveRun, end: End) {
        self.ends.entry(Arc::clone(&run.id)).or_default().push(end);
    }

    fn begin(&mut self, run: Arc<ActiveRun>) {
        let before = self.running.insert(run.key.clone(), run);
        assert!(before.is_none(), "two runs at a time: {before:?}");
    }

    fn stop(&mut self, run: &Arc<ActiveRun>) {
        if self.table.stop(run, AbortReason::Rpc) == Stopped::Waiter {
            self.end(run, End::Aborted);
        }
    }

    /// The run that is active in a session, when it is a run.
    fn working(&self, session: u8) -> Option<Arc<ActiveRun>> {
        self.running.get(&key(session)).filter(|run| run.family != Family::Hold).cloned()
    }

    /// Who is in line for a session, as it should be: who goes before all, and the others,
    /// each as they came.
    fn line(&self, key: &SessionKey) -> Vec<usize> {
        let here = |first: bool| {
            let is_here = move |(_, waiter): &(usize, &Waiter)| {
                waiter.run.key == *key && waiter.is_in_line() && waiter.is_first == first
            };
            self.waiters.iter().enumerate().filter(is_here).map(|(at, _)| at)
        };
        here(true).chain(here(false)).collect()
    }

    /// Who of them has to get the lane, before the message that came at this instant: the
    /// first who wants it. None that waits for a run goes before another such one.
    fn called(&self, key: &SessionKey, message: Option<Instant>) -> Option<usize> {
        let all = self.line(key);
        let foremost = all.iter().find(|at| self.waiters[**at].is_for_run());
        let may_go = |at: &&usize| {
            let waiter = &self.waiters[**at];
            waiter.stand == Stand::Wants && (!waiter.is_for_run() || foremost == Some(*at))
        };
        let next = *all.iter().find(may_go)?;
        let waiter = &self.waiters[next];
        let is_before = |message: Instant| waiter.run.entered < message;
        (waiter.is_first || message.is_none_or(is_before)).then_some(next)
    }

    /// Somebody in line has the lane, and was told so.
    fn hold(&mut self, at: usize) {
        let waiter = &mut self.waiters[at];
        waiter.stand = Stand::Holds;
        assert!(waiter.bell.notified().now_or_never().is_some(), "nobody tells him");
        let run = Arc::clone(&waiter.run);
        self.begin(run);
    }

    /// `act` takes the lane from who has it, and answers the run that the table starts: the
    /// right one of those who wait gets it.
    fn free(
        &mut self,
        run: &ActiveRun,
        act: impl FnOnce(&mut LaneTable) -> Option<Arc<ActiveRun>>,
    ) {
        let first = self.table.lanes[&run.key].waiting.front().cloned();
        let is_own = first.as_ref().is_some_and(|first| run.stands_for() == Some(&first.id));
        let came = first.as_ref().map(|first| first.entered);
        let called = if is_own { None } else { self.called(&run.key, came) };
        let next = act(&mut self.table);
        self.running.remove(&run.key);
        let expected = first.filter(|_| called.is_none());
        assert_eq!(next.as_ref().map(|it| &it.id), expected.as_ref().map(|it| &it.id));
        match (called, next) {
            (Some(at), _) => self.hold(at),
            (None, Some(next)) => self.begin(next),
            (None, None) => {}
        }
    }

    /// A lane that nothing has is that of the next in line.
    fn fill(&mut self, key: &SessionKey) {
        if !self.running.contains_key(key)
            && let Some(at) = self.called(key, None)
        {
            self.hold(at);
        }
    }

    fn finish(&mut self, run: &ActiveRun, end: End) {
        // A run that was stopped never ends otherwise.
        let end = if run.abort_reason().is_some() { End::Aborted } else { end };
        if let Some(waiter) = self.waiters.iter_mut().find(|waiter| is_same(&waiter.run, run)) {
            waiter.stand = Stand::Gone;
        }
        let mut all_joined = Vec::new();
        self.free(run, |table| {
            let Finished { next, joined } = table.finish(run);
            all_joined = joined;
            next
        });
        self.end(run, end);
        for joined in all_joined {
            self.end(&joined, end);
        }
    }

    fn send(&mut self, run: &Arc<ActiveRun>) {
        match self.table.enter(run) {
            Placed::First => self.begin(Arc::clone(run)),
            Placed::Waiting(dropped) => {
                for old in dropped {
                    self.end(&old, End::Failed);
                }
                if run.queue.mode == QueueMode::Interrupt {
                    let all = self.table.of_session(&run.key);
                    let before = all.iter().take_while(|other| !is_same(other, run));
                    for other in before.filter(|other| other.family != Family::Hold) {
                        self.stop(other);
                    }
                }
            }
            Placed::Refused | Placed::IdTaken | Placed::Closed => return,
        }
        self.accepted.push(Arc::clone(run));
    }

    fn apply(&mut self, index: usize, step: Step) {
        match step {
            Step::Send { session, mode, cap, drop, agent, person } => {
                let mut rules = rules(mode, cap, drop);
                if agent {
                    rules = rules.of_family(Family::Agent);
                }
                let sent = run_with(&index.to_string(), &session.to_string(), rules);
                let sent = match person {
                    Some(person) => to(person, sent),
                    None => sent,
                };
                self.send(&dated(sent, index, Family::Chat));
            }
            Step::Steer(session) => {
                if let Some(run) = self.working(session) {
                    let taken = self.table.steer(&run);
                    assert!(taken.iter().all(|it| it.shares_place(&run)), "{taken:?}");
                }
            }
            Step::Collect(session) => {
                if let Some(run) = self.working(session) {
                    let taken = self.table.collect(&run);
                    assert!(taken.iter().all(|it| it.shares_place(&run)), "{taken:?}");
                }
            }
            Step::Finish(session, end) => {
                if let Some(run) = self.running.get(&key(session)).cloned() {
                    self.finish(&run, end);
                }
            }
            Step::Stop(which) => {
                if !self.accepted.is_empty() {
                    let run = Arc::clone(&self.accepted[which % self.accepted.len()]);
                    self.stop(&run);
                }
            }
            Step::LineUp(session, kind) => {
                let waits = run(&format!("waits-{index}"), &session.to_string());
                let waits = dated(waits, index, Family::Hold);
                if kind == Kind::Run {
                    waits.stand_for(&format!("own-{index}"));
                }
                let is_first = kind == Kind::LaneFirst;
                assert!(self.table.line_up(&waits, is_first));
                let (bell, stand) = (Arc::default(), Stand::Aside);
                self.waiters.push(Waiter { run: waits, bell, is_first, stand, is_sent: false });
            }
            Step::InLine(which, what) => {
                if !self.waiters.is_empty() {
                    self.go(index, which % self.waiters.len(), what);
                }
            }
        }
    }

    /// Who has waited in line does something, also when he is gone.
    fn go(&mut self, index: usize, at: usize, what: Move) {
        let Waiter { run, bell, stand, is_sent, .. } = &self.waiters[at];
        let (run, bell, stand, is_sent) = (Arc::clone(run), Arc::clone(bell), *stand, *is_sent);
        let (key, is_in_line) = (run.key.clone(), self.waiters[at].is_in_line());
        match what {
            Move::Want if stand == Stand::Holds => {}
            Move::Want => {
                self.table.want(&run, &bell);
                if is_in_line {
                    self.waiters[at].stand = Stand::Wants;
                }
                self.fill(&key);
            }
            Move::StepBack if is_in_line => {
                assert!(self.table.step_back(&run).is_none());
                self.waiters[at].stand = Stand::Aside;
            }
            Move::StepBack if stand == Stand::Holds && !is_sent => {
                self.waiters[at].stand = Stand::Aside;
                self.waiters[at].is_first = false;
                self.free(&run, |table| table.step_back(&run));
            }
            Move::Leave => {
                assert_eq!(self.table.leave_line(&run), is_in_line);
                if stand == Stand::Holds {
                    self.finish(&run, End::Failed);
                } else {
                    self.waiters[at].stand = Stand::Gone;
                    self.fill(&key);
                }
            }
            Move::SendOwn if stand == Stand::Holds && !is_sent => {
                let Some(id) = run.stands_for() else { return };
                let rules = rules(QueueMode::Steer, 1, DropPolicy::New).of_family(Family::Agent);
                self.waiters[at].is_sent = true;
                self.send(&dated(run_with(id, key.as_str(), rules), index, Family::Agent));
            }
            Move::Stop => {
                let is_there = stand != Stand::Gone;
                let expected = if is_there { Stopped::Active } else { Stopped::Nothing };
                assert_eq!(self.table.stop(&run, AbortReason::Rpc), expected);
            }
            Move::StepBack | Move::SendOwn => {}
        }
    }

    /// Nobody waits where nothing runs, and nobody is lost.
    fn check(&self) {
        for session in 0..3_u8 {
            let key = key(session);
            let there = self.table.of_session(&key);
            let active = self.table.active(&key);
            assert_eq!(active.is_some(), !there.is_empty(), "a queue without a run");
            let running = self.running.get(&key).map(|run| &run.id);
            assert_eq!(active.as_ref().map(|run| &run.id), running);
            assert!(active.is_some() || self.called(&key, None).is_none(), "a line without a run");
        }
        for run in &self.accepted {
            let is_there = self.table.of_session(&run.key).iter().any(|there| is_same(there, run));
            let ends = self.ends.get(&run.id).map_or(0, Vec::len);
            assert_eq!(ends, usize::from(!is_there), "{} has ended {ends} times", run.id);
            assert_eq!(self.table.get(&run.id).is_some(), is_there);
        }
        for Waiter { run, bell, stand, .. } in &self.waiters {
            assert_eq!(self.table.is_active(run), *stand == Stand::Holds, "{}", run.id);
            assert!(bell.notified().now_or_never().is_none(), "{} is told too much", run.id);
        }
        let is_right = |it: &Waiter| self.table.is_in_line(&it.run) == it.is_in_line();
        assert!(self.waiters.iter().all(is_right), "somebody is in line wrongly");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(500))]
    #[test]
    fn every_accepted_message_ends_once_and_nobody_waits_where_nothing_runs(
        steps in proptest::collection::vec(step(), 0..120)
    ) {
        let mut model = Model::default();
        for (index, step) in steps.into_iter().enumerate() {
            model.apply(index, step);
            model.check();
        }
        for at in 0..model.waiters.len() {
            model.go(0, at, Move::Leave);
            model.check();
        }
        for session in 0..3_u8 {
            while let Some(run) = model.running.get(&key(session)).cloned() {
                model.finish(&run, End::Answered);
                model.check();
            }
        }
        assert_eq!(model.table.counts(), (0, 0));
        assert!(model.table.by_id.is_empty() && model.table.lines.is_empty());
        for run in &model.accepted {
            assert_eq!(model.ends.get(&run.id).map(Vec::len), Some(1));
        }
    }
}
