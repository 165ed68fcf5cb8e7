//! The lanes of sessions.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::FutureExt;
use shuttle::future::{JoinHandle, block_on, spawn, yield_now};
use shuttle::rand::{Rng, thread_rng};

use crate::agent::run::{AbortReason, ActiveRun, RunEnd};
use crate::config::QueueMode;
use crate::office::{InLine, Office, dropped, run, run_of_hook};
use crate::store::OutboxAddress;

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

/// The same, answered in a place of its own or where others without one are.
fn somewhere(mut run: Arc<ActiveRun>) -> Arc<ActiveRun> {
    let place = OutboxAddress {
        channel: "webhook".into(),
        account: "default".into(),
        target: "ann".into(),
        thread: String::new(),
    };
    if thread_rng().r#gen() {
        Arc::get_mut(&mut run).unwrap().terms.hearer = place.into();
    }
    run
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
/// each runs once or goes into another that does and that is answered in the same place, and
/// whoever waits hears of its end. What was stopped while it waited is kept before the next one
/// begins.
pub fn however_a_run_ends_the_next_one_starts() {
    block_on(async {
        let office = Office::new(None);
        let ids = ["answers-badly", "panics-1", "endless-1", "answers-2"];
        let runs = ids.map(|id| somewhere(run(id, some_mode())));
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

/// What a hook does: waits in line, goes back there so often since it has no place, and has
/// its run; whether it had. Only who may be stopped is, before he has begun.
async fn hook(line: InLine, goes_back: usize, may_be_stopped: bool) -> bool {
    let waiting = async {
        for _ in 0..goes_back {
            line.turn().await;
            line.step_back();
            yield_now().await;
        }
        line.turn().await;
    };
    let is_stopped = tokio::select! {
        biased;
        _ = line.run.aborted() => true,
        () = waiting => false,
    };
    if is_stopped {
        assert!(may_be_stopped, "{} is stopped while it waits", line.run.id);
        line.leave().await;
        return false;
    }
    let own = run_of_hook(line.run.known_as());
    let was_sent = line.hold(Some(&own)).await;
    if was_sent {
        let end = own.ended().await;
        assert!(end == RunEnd::Answered || own.abort_reason().is_some(), "{}: {end:?}", own.id);
    }
    was_sent
}

/// Hooks wait in line for a session in which people talk. They, and who wants nothing but
/// the lane, have it one after the other, hooks in the order in which they came, also when
/// they go back into line; one that is stopped meanwhile has left. Nobody is forgotten.
pub fn who_waits_in_line_has_the_lane_in_his_turn() {
    block_on(async {
        let office = Office::new(None);
        let early = ["answers-1", "quick-2"].map(|id| run(id, some_mode()));
        let mut sent = send_all(&office, &early);
        let ids = ["answers-first", "quick-second", "answers-third"];
        let lines = ids.map(|id| office.line_up(Some(id), false));
        let stopped = thread_rng().gen_range(0..lines.len());
        let (of_stopper, victim) = (Arc::clone(&office), Arc::clone(&lines[stopped].run));
        let hooks = lines.into_iter().enumerate().map(|(index, line)| {
            let goes_back = thread_rng().gen_range(0..2);
            spawn(hook(line, goes_back, index == stopped))
        });
        let hooks: Vec<_> = hooks.collect();
        let stopper = spawn(async move { of_stopper.stop(&victim).await });
        let late = [run("answers-late", some_mode())];
        sent.extend(send_all(&office, &late));
        let cut = office.line_up(None, false);
        let cutting = spawn(async move {
            cut.turn().await;
            cut.hold(None).await
        });
        for sent in sent {
            assert!(sent.await.unwrap());
        }
        for (index, hook) in hooks.into_iter().enumerate() {
            assert!(hook.await.unwrap() || index == stopped, "{} never ran", ids[index]);
        }
        stopper.await.unwrap();
        cutting.await.unwrap();
        for run in early.iter().chain(&late) {
            run.ended().await;
        }
        office.close_up().await;
    });
}

/// A compaction stops what runs and has the lane before all that wait, who cuts a session
/// waits for his turn; each has it without a message. Who comes meanwhile waits, and is
/// started by the end. A hook in line is not stopped before it has begun, also when it has
/// the lane and goes back for want of a place.
pub fn who_waits_for_a_lane_that_is_held_gets_it() {
    block_on(async {
        let office = Office::new(None);
        let runs = ["answers-1", "answers-2"].map(|id| run(id, QueueMode::Followup));
        let (sent, waiting) = (send_all(&office, &runs), wait_for_all(&office, &runs));
        let hooked = spawn(hook(office.line_up(Some("answers-hook"), false), 1, false));
        let stops: bool = thread_rng().r#gen();
        let of_holder = Arc::clone(&office);
        let holder = spawn(async move {
            let line = of_holder.line_up(None, stops);
            if stops && !line.take() {
                of_holder.make_room(&line.run.key).await;
            }
            line.turn().await;
            line.hold(None).await
        });
        for sent in sent {
            assert!(sent.await.unwrap());
        }
        holder.await.unwrap();
        assert!(hooked.await.unwrap() || stops);
        for (run, waiting) in runs.iter().zip(waiting) {
            let end = waiting.await.unwrap();
            let is_stopped = stops && end == RunEnd::Aborted(AbortReason::Rpc);
            assert!(end == RunEnd::Answered || is_stopped, "{}: {end:?}", run.id);
        }
        office.close_up().await;
        assert!(stops || office.book.lock().done.len() == runs.len() + 1);
    });
}
