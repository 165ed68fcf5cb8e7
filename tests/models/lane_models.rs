//! The lanes of sessions.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::FutureExt;
use shuttle::future::{JoinHandle, block_on, spawn};
use shuttle::rand::{Rng, thread_rng};

use crate::agent::lane::Placed;
use crate::agent::queue::QueueRules;
use crate::agent::run::tests::run_with;
use crate::agent::run::{AbortReason, ActiveRun, RunEnd};
use crate::config::{QueueMode, QueueSettings};
use crate::office::{Office, dropped, run};

const MODES: [QueueMode; 5] = [
    QueueMode::Steer,
    QueueMode::Followup,
    QueueMode::Collect,
    QueueMode::Queue,
    QueueMode::SteerBacklog,
];

fn some_mode() -> QueueMode {
    MODES[thread_rng().gen_range(0..MODES.len())]
}

/// Sends each run in a task of its own; the answers say whether they were taken.
fn send_all(office: &Arc<Office>, runs: &[Arc<ActiveRun>]) -> Vec<JoinHandle<bool>> {
    let each = runs.iter().map(|run| {
        let (office, run) = (Arc::clone(office), Arc::clone(run));
        spawn(async move { office.send(&run).await })
    });
    each.collect()
}

/// Waits for each run by its id, from before it is there.
fn wait_for_all(office: &Arc<Office>, runs: &[Arc<ActiveRun>]) -> Vec<JoinHandle<RunEnd>> {
    let each = runs.iter().map(|run| {
        let (office, id) = (Arc::clone(office), Arc::clone(&run.id));
        spawn(async move { office.wait(&id).await })
    });
    each.collect()
}

/// One comes in the moment in which another ends. There is little else to do, so that
/// this moment is met often.
pub fn who_comes_as_another_ends_gets_his_turn() {
    block_on(async {
        let office = Office::new(None);
        let runs = ["quick-1", "quick-2"].map(|id| run(id, QueueMode::Followup));
        for sent in send_all(&office, &runs) {
            assert!(sent.await.unwrap());
        }
        for run in &runs {
            assert_eq!(run.ended().await, RunEnd::Answered);
        }
        office.close_up().await;
    });
}

/// Return, panic, a panic while the end is told, a stop, too long: the next one starts,
/// each runs once or goes into another that does, and whoever waits hears of its end. What
/// was stopped while it waited is kept before the next one begins.
pub fn however_a_run_ends_the_next_one_starts() {
    block_on(async {
        let office = Office::new(None);
        let ids = ["answers-badly", "panics-1", "endless-1", "answers-2"];
        let runs = ids.map(|id| run(id, some_mode()));
        let (sent, waiting) = (send_all(&office, &runs), wait_for_all(&office, &runs));
        let timed_out = Arc::clone(&runs[2]);
        let timer = spawn(async move { timed_out.abort(AbortReason::Timeout) });
        let stopped = Arc::clone(&runs[thread_rng().gen_range(0..runs.len())]);
        let of_stopper = Arc::clone(&office);
        let stopper = spawn(async move { of_stopper.stop(&stopped).await });
        for sent in sent {
            assert!(sent.await.unwrap());
        }
        timer.await.unwrap();
        stopper.await.unwrap();
        for (run, waiting) in runs.iter().zip(waiting) {
            assert_eq!(waiting.await.unwrap(), run.ended().await, "{}", run.id);
        }
        office.close_up().await;
        let book = office.book.lock();
        let once: HashSet<_> = book.done.iter().collect();
        assert_eq!(once.len(), book.done.len(), "done twice: {:?}", book.done);
        for run in &runs {
            // What was neither stopped nor dropped was done.
            let end = run.ended().now_or_never().unwrap();
            let was_left = matches!(end, RunEnd::Aborted(_)) || end == dropped();
            assert!(was_left || once.contains(&run.id), "{} was never done", run.id);
        }
    });
}

/// Once the lanes are closed, those that are in them are all that there will be: after
/// their ends nothing runs, and who came too late has been told.
pub fn after_a_stop_nothing_runs_and_everybody_was_told() {
    block_on(async {
        let office = Office::new(None);
        let runs = ["answers-1", "panics-1", "answers-2"].map(|id| run(id, some_mode()));
        let (sent, waiting) = (send_all(&office, &runs), wait_for_all(&office, &runs));
        let there = office.lanes.table().close();
        for run in &there {
            run.ended().await;
        }
        assert_eq!(office.lanes.table().counts(), (0, 0), "something runs after the stop");
        let done = office.book.lock().done.len();
        for sent in sent {
            sent.await.unwrap();
        }
        for waiting in waiting {
            waiting.await.unwrap();
        }
        office.close_up().await;
        assert_eq!(office.book.lock().done.len(), done, "something began after the stop");
    });
}

/// A compaction holds a lane without a message. Who comes meanwhile waits for it and is
/// started by its end.
pub fn who_waits_for_a_lane_that_is_held_gets_it() {
    block_on(async {
        let office = Office::new(None);
        let runs = ["answers-1", "answers-2"].map(|id| run(id, QueueMode::Followup));
        let (sent, waiting) = (send_all(&office, &runs), wait_for_all(&office, &runs));
        let of_holder = Arc::clone(&office);
        let holder = spawn(async move {
            let rules = QueueRules::of(&QueueSettings::default(), None);
            let hold = run_with("hold", "main", rules);
            let has_it = {
                let mut table = of_holder.lanes.table();
                table.active(&hold.key).is_none() && matches!(table.enter(&hold), Placed::First)
            };
            if has_it {
                shuttle::future::yield_now().await;
                assert_eq!(of_holder.lanes.table().active(&hold.key).unwrap().id, hold.id);
                let next = of_holder.lanes.end(&of_holder, &hold, RunEnd::Answered).await;
                if let Some(next) = next {
                    of_holder.drive(next, false);
                }
            }
        });
        for sent in sent {
            assert!(sent.await.unwrap());
        }
        holder.await.unwrap();
        for waiting in waiting {
            assert_eq!(waiting.await.unwrap(), RunEnd::Answered);
        }
        office.close_up().await;
        assert_eq!(office.book.lock().done.len(), runs.len());
    });
}
