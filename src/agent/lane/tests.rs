use std::time::Duration;

use super::*;
use crate::agent::queue::QueueRules;
use crate::agent::run::tests::{run, run_with};
use crate::config::QueueSettings;
use crate::store::OutboxAddress;
use crate::support::sync::Notify;

pub(super) fn rules(mode: QueueMode, cap: usize, drop: DropPolicy) -> QueueRules {
    QueueRules { mode, cap, drop, ..QueueRules::of(&QueueSettings::default(), None, None) }
}

fn with(id: &str, mode: QueueMode) -> Arc<ActiveRun> {
    run_with(id, "main", rules(mode, 20, DropPolicy::Old))
}

fn ids(runs: &[Arc<ActiveRun>]) -> Vec<&str> {
    runs.iter().map(|run| &*run.id).collect()
}

#[test]
fn waiters_start_in_order_and_an_empty_lane_is_forgotten() {
    let mut table = LaneTable::default();
    let runs: Vec<_> = (0..3).map(|index| run(&index.to_string(), "main")).collect();
    assert!(matches!(table.enter(&runs[0]), Placed::First));
    assert!(matches!(table.enter(&runs[1]), Placed::Waiting(_)));
    assert!(matches!(table.enter(&runs[2]), Placed::Waiting(_)));
    assert!(matches!(table.enter(&run("other", "elsewhere")), Placed::First));
    assert_eq!(table.counts(), (2, 2));
    assert_eq!(table.finish(&runs[0]).next.unwrap().id, runs[1].id);
    assert_eq!(table.finish(&runs[1]).next.unwrap().id, runs[2].id);
    assert!(table.finish(&runs[2]).next.is_none());
    assert_eq!(table.counts(), (1, 0));
}

#[test]
fn a_waiter_that_is_stopped_does_not_disturb_the_lane() {
    let mut table = LaneTable::default();
    let (first, second) = (run("1", "main"), run("2", "main"));
    table.enter(&first);
    table.enter(&second);
    assert_eq!(table.stop(&second, AbortReason::Rpc), Stopped::Waiter);
    assert_eq!(table.stop(&second, AbortReason::Rpc), Stopped::Nothing);
    assert_eq!(ids(&table.leaving(&second.key)), ["2"], "its message is not kept yet");
    assert_eq!(ids(&table.unfinished(&second.key)), ["1", "2"]);
    let family = second.family.as_str();
    assert_eq!(&*table.stopping(family, "2").unwrap().id, "2", "its key is about to be free");
    assert!(table.stopping(family, "1").is_none() && table.stopping("other", "2").is_none());
    assert_eq!(first.abort_reason(), None);
    assert_eq!(table.stop(&first, AbortReason::Stop), Stopped::Active);
    assert_eq!(first.abort_reason(), Some(AbortReason::Stop));
    assert_eq!(&*table.stopping(family, "1").unwrap().id, "1");
    assert_eq!(table.active(&first.key).unwrap().id, first.id);
    assert!(table.finish(&first).next.is_none());
    assert_eq!(table.counts(), (0, 0));
    assert_eq!(table.leaving(&second.key).len(), 1, "also of a session where nothing runs");
    assert_eq!(ids(&table.close()), ["2"], "a stop waits until its message is kept");
    table.has_left(&first);
    table.has_left(&second);
    assert!(table.leaving.is_empty());
}

#[test]
fn who_is_stopped_behind_what_is_stopped_ends_after_it_and_before_the_next() {
    let mut table = LaneTable::default();
    let runs: Vec<_> = (0..4).map(|index| run(&index.to_string(), "main")).collect();
    let key = runs[0].key.clone();
    for run in &runs {
        table.enter(run);
    }
    for run in &runs[..3] {
        table.stop(run, AbortReason::Rpc);
    }
    assert_eq!(ids(&table.before(&runs[1])), ["0"]);
    assert_eq!(ids(&table.before(&runs[2])), ["0", "1"]);
    assert!(table.leaving(&key).is_empty(), "what has the lane does not wait for them");
    assert_eq!(ids(&table.everyone(&key)), ["0", "3", "1", "2"]);
    assert_eq!(table.finish(&runs[0]).next.unwrap().id, runs[3].id);
    assert_eq!(ids(&table.leaving(&key)), ["1", "2"], "the next waits for them");

    let late = run("4", "main");
    table.enter(&late);
    table.stop(&late, AbortReason::Rpc);
    assert!(table.before(&late).is_empty(), "the lane goes on");
}

#[test]
fn steering_messages_go_into_the_run_together_and_queued_ones_one_at_a_time() {
    use QueueMode::{Followup, Queue, Steer};
    let mut table = LaneTable::default();
    let active = with("active", Steer);
    table.enter(&active);
    let waiting = [("a", Steer), ("b", Followup), ("c", Steer), ("d", Queue), ("e", Queue)];
    for (id, mode) in waiting {
        table.enter(&with(id, mode));
    }
    assert_eq!(ids(&table.steer(&active)), ["a", "c"]);
    assert_eq!(ids(&table.steer(&active)), ["d"]);
    assert_eq!(ids(&table.steer(&active)), ["e"]);
    assert_eq!(ids(&table.steer(&active)), Vec::<&str>::new());
    let taken = table.get("a").unwrap();
    assert_eq!(table.stop(&taken, AbortReason::Rpc), Stopped::Nothing, "another run has it");
    for (id, by) in [("a", "active"), ("e", "active"), ("b", "b"), ("active", "active")] {
        assert_eq!(&*table.answering(id).unwrap().id, by);
    }
    assert!(table.answering("unknown").is_none());
    assert_eq!(table.counts(), (1, 1));
    let finished = table.finish(&active);
    assert_eq!(ids(&finished.joined), ["a", "c", "d", "e"]);
    assert_eq!(&*finished.next.unwrap().id, "b");
    assert!(table.get("a").is_none() && table.get("b").is_some());
}

#[test]
fn a_backlog_message_steers_once_and_keeps_its_turn() {
    let mut table = LaneTable::default();
    let (active, both) = (with("1", QueueMode::Steer), with("2", QueueMode::SteerBacklog));
    table.enter(&active);
    table.enter(&both);
    assert_eq!(ids(&table.steer(&active)), ["2"]);
    assert!(table.steer(&active).is_empty());
    let finished = table.finish(&active);
    assert!(finished.joined.is_empty());
    assert_eq!(finished.next.unwrap().id, both.id);
}

#[test]
fn collected_messages_end_with_the_run_that_answers_them() {
    let mut table = LaneTable::default();
    let active = with("0", QueueMode::Collect);
    table.enter(&active);
    for (id, mode) in [
        ("1", QueueMode::Collect),
        ("2", QueueMode::Collect),
        ("3", QueueMode::Followup),
        ("4", QueueMode::Collect),
    ] {
        table.enter(&with(id, mode));
    }
    let first = table.finish(&active).next.unwrap();
    assert_eq!(ids(&table.collect(&first)), ["2", "4"]);
    assert_eq!(table.waiting_in(&first.key), 1, "what is taken in waits no more");
    let finished = table.finish(&first);
    assert_eq!(ids(&finished.joined), ["2", "4"]);
    assert_eq!(&*finished.next.unwrap().id, "3");
}

/// The same, answered to this person of a channel.
pub(super) fn to(person: &str, mut run: Arc<ActiveRun>) -> Arc<ActiveRun> {
    let place = OutboxAddress {
        channel: "webhook".into(),
        account: "default".into(),
        target: person.into(),
        thread: String::new(),
    };
    Arc::get_mut(&mut run).unwrap().terms.hearer = place.into();
    run
}

#[test]
fn what_is_answered_elsewhere_has_a_turn_of_its_own_and_is_in_nobodys_way() {
    use QueueMode::{Collect, Queue, Steer, SteerBacklog};
    let mut table = LaneTable::default();
    let active = to("ann", with("active", Steer));
    table.enter(&active);
    for (id, person, mode) in [
        ("1", Some("bob"), Steer),
        ("2", None, Steer),
        ("3", Some("bob"), Queue),
        ("4", Some("bob"), SteerBacklog),
        ("5", Some("ann"), Steer),
        ("6", Some("ann"), Queue),
        ("7", Some("ann"), SteerBacklog),
    ] {
        let run = with(id, mode);
        table.enter(&match person {
            Some(person) => to(person, run),
            None => run,
        });
    }
    assert_eq!(ids(&table.steer(&active)), ["5", "7"]);
    assert_eq!(ids(&table.steer(&active)), ["6"]);
    assert!(table.steer(&active).is_empty());
    let finished = table.finish(&active);
    assert_eq!(ids(&finished.joined), ["5", "6"]);
    let bobs = finished.next.unwrap();
    assert_eq!(&*bobs.id, "1");
    assert_eq!(ids(&table.steer(&bobs)), ["3", "4"]);
    let of_the_web = table.finish(&bobs).next.unwrap();
    assert_eq!(&*of_the_web.id, "2");
    assert!(table.steer(&of_the_web).is_empty(), "the answer would go to somebody as well");

    let mut table = LaneTable::default();
    let first = to("ann", with("first", Collect));
    table.enter(&first);
    for (id, person) in [("bobs", "bob"), ("anns", "ann")] {
        table.enter(&to(person, with(id, Collect)));
    }
    table.enter(&with("web", Collect));
    assert_eq!(ids(&table.collect(&first)), ["anns"]);
}

#[test]
fn over_the_cap_the_oldest_gives_way_or_the_new_one_is_refused() {
    let mut table = LaneTable::default();
    table.enter(&with("active", QueueMode::Steer));
    let collected = |id: &str, drop| run_with(id, "main", rules(QueueMode::Collect, 2, drop));
    for id in ["1", "2"] {
        assert!(matches!(table.enter(&collected(id, DropPolicy::New)), Placed::Waiting(_)));
    }
    assert!(matches!(table.enter(&collected("3", DropPolicy::New)), Placed::Refused));
    assert!(table.get("3").is_none());
    let Placed::Waiting(dropped) = table.enter(&collected("4", DropPolicy::Summarize)) else {
        panic!("it has room")
    };
    assert_eq!(ids(&dropped), ["1"]);
    assert!(table.get("1").is_none());
    let steering = with("5", QueueMode::Steer);
    assert!(matches!(table.enter(&steering), Placed::Waiting(dropped) if dropped.is_empty()));
}

/// What holds a lane without a message.
fn hold(session: &str) -> Arc<ActiveRun> {
    let mut hold = run("hold", session);
    Arc::get_mut(&mut hold).unwrap().family = Family::Hold;
    hold
}

#[test]
fn a_lane_that_is_held_is_no_run_and_yet_not_idle() {
    let mut table = LaneTable::default();
    assert!(table.is_idle());
    let (hold, own) = (hold("row"), run("own", "session"));
    table.enter(&hold);
    table.enter(&run("waits", "row"));
    assert_eq!((table.counts(), table.held(), table.is_idle()), ((0, 1), 1, false));
    hold.stand_for("own");
    assert_eq!((hold.known_as(), own.known_as()), ("own", "own"));
    table.enter(&own);
    assert_eq!((table.counts(), table.held(), table.is_idle()), ((1, 1), 0, false), "one run");
    assert_eq!(&*table.finish(&hold).next.unwrap().id, "waits");
    assert_eq!((table.counts(), table.held()), ((2, 0), 0));
}

#[test]
fn the_run_that_a_lane_was_held_for_is_the_next_in_it() {
    let mut table = LaneTable::default();
    let hold = hold("main");
    table.enter(&hold);
    table.enter(&run("came-meanwhile", "main"));
    hold.stand_for("own");
    table.enter(&run("own", "main"));
    table.enter(&run("came-later", "main"));
    let own = table.finish(&hold).next.unwrap();
    assert_eq!(&*own.id, "own");
    assert_eq!(&*table.finish(&own).next.unwrap().id, "came-meanwhile");
}

#[test]
fn the_run_that_a_lane_was_held_for_comes_into_it_however_many_wait() {
    let mut table = LaneTable::default();
    let hold = hold("main");
    hold.stand_for("own");
    table.enter(&hold);
    for index in 0..MAX_WAITING {
        table.enter(&with(&index.to_string(), QueueMode::Steer));
    }
    assert!(matches!(table.enter(&with("late", QueueMode::Steer)), Placed::Refused));
    assert!(matches!(table.enter(&run("own", "main")), Placed::Waiting(_)));
    assert_eq!(&*table.finish(&hold).next.unwrap().id, "own");
}

#[test]
fn what_waited_when_the_run_came_that_a_lane_was_held_for_does_not_steer_it() {
    let mut table = LaneTable::default();
    let hold = hold("main");
    hold.stand_for("own");
    table.enter(&hold);
    let before = [made_at("before", 1), made_at("behind-it", 1)];
    for run in &before {
        table.enter(run);
    }
    let own = made_at("own", 2);
    table.enter(&own);
    assert_eq!(&*table.finish(&hold).next.unwrap().id, "own");
    table.enter(&made_at("meanwhile", 0));
    assert_eq!(ids(&table.steer(&own)), ["meanwhile"]);
    assert_eq!(&*table.finish(&own).next.unwrap().id, "before");
    assert_eq!(ids(&table.steer(&before[0])), ["behind-it"], "it has let only that one pass");
    assert_eq!(table.counts(), (1, 0));
}

/// A steering message that was made so long after others, which is not when it enters.
fn made_at(id: &str, seconds: u64) -> Arc<ActiveRun> {
    let mut run = with(id, QueueMode::Steer);
    Arc::get_mut(&mut run).unwrap().entered += Duration::from_secs(seconds);
    run
}

#[test]
fn messages_steer_a_run_also_when_they_were_made_before_it_and_come_later() {
    let mut table = LaneTable::default();
    let active = made_at("active", 1);
    table.enter(&active);
    table.enter(&made_at("late", 0));
    assert_eq!(ids(&table.steer(&active)), ["late"]);
}

#[test]
fn of_those_who_go_before_all_the_first_who_came_is_first() {
    let mut table = LaneTable::default();
    let active = run("active", "main");
    table.enter(&active);
    let (usual, bell) = in_line(&mut table, "usual", None);
    table.want(&usual, &bell);
    let firsts = ["one", "two"].map(|id| {
        let mut first = run(id, "main");
        Arc::get_mut(&mut first).unwrap().family = Family::Hold;
        assert!(table.line_up(&first, true));
        table.want(&first, &Arc::default());
        first
    });
    assert!(table.finish(&active).next.is_none());
    for run in firsts.iter().chain([&usual]) {
        assert!(table.is_active(run), "{}", run.id);
        assert!(table.finish(run).next.is_none());
    }
    assert!(table.is_idle());
}

/// Waits in line, for a run when there is an id.
fn in_line(table: &mut LaneTable, id: &str, run_id: Option<&str>) -> (Arc<ActiveRun>, Arc<Notify>) {
    let mut waits = run(id, "main");
    Arc::get_mut(&mut waits).unwrap().family = Family::Hold;
    if let Some(run_id) = run_id {
        waits.stand_for(run_id);
    }
    assert!(table.line_up(&waits, false));
    (waits, Arc::default())
}

#[test]
fn who_waits_in_line_has_the_lane_before_what_came_later() {
    let mut table = LaneTable::default();
    let (active, before) = (run("active", "main"), run("before", "main"));
    table.enter(&active);
    table.enter(&before);
    let (first, bell) = in_line(&mut table, "first", Some("own"));
    let (second, other) = in_line(&mut table, "second", Some("other"));
    table.enter(&run("later", "main"));
    table.want(&first, &bell);
    table.want(&second, &other);
    assert_eq!(&*table.finish(&active).next.unwrap().id, "before");
    assert!(table.finish(&before).next.is_none());
    assert!(table.is_active(&first) && !table.is_active(&second));
    // What it is held for comes before all that waits.
    let own = run("own", "main");
    table.enter(&own);
    assert_eq!(&*table.finish(&first).next.unwrap().id, "own");
    assert!(table.finish(&own).next.is_none());
    assert!(table.is_active(&second));
    assert_eq!(&*table.finish(&second).next.unwrap().id, "later");
}

#[test]
fn who_steps_back_lets_messages_pass_and_nobody_of_its_kind() {
    let mut table = LaneTable::default();
    let (first, bell) = in_line(&mut table, "first", Some("own"));
    let (second, other) = in_line(&mut table, "second", Some("other"));
    table.want(&second, &other);
    assert!(table.is_idle(), "the first came before");
    table.want(&first, &bell);
    assert!(table.is_active(&first));
    table.enter(&run("message", "main"));
    let message = table.step_back(&first).unwrap();
    assert_eq!(&*message.id, "message");
    assert!(table.finish(&message).next.is_none());
    assert!(table.is_idle(), "the first comes before the second still");
    // Once that waits no more it is the turn of the other.
    assert!(table.leave_line(&first));
    assert!(table.is_active(&second));
}

#[test]
fn who_has_the_lane_and_may_go_back_into_line_is_in_nobodys_way() {
    let mut table = LaneTable::default();
    let (first, bell) = in_line(&mut table, "first", Some("own"));
    table.want(&first, &bell);
    table.enter(&run("message", "main"));
    assert_eq!(ids(&table.unfinished(&first.key)), ["first", "message"]);
    assert_eq!(ids(&table.in_the_way(&first.key)), ["message"]);
    first.set_keeps();
    assert_eq!(ids(&table.in_the_way(&first.key)), ["first", "message"]);
}

#[test]
fn who_waits_in_line_for_a_run_is_stopped_and_that_run_with_its_lane() {
    let mut table = LaneTable::default();
    let (waits, bell) = in_line(&mut table, "waits", Some("own"));
    let (nameless, _) = in_line(&mut table, "nameless", None);
    assert_eq!(ids(&table.stoppable(&waits.key)), ["waits"]);
    assert_eq!(table.stop(&waits, AbortReason::Rpc), Stopped::Active);
    assert_eq!(waits.abort_reason(), Some(AbortReason::Rpc));
    assert!(table.leave_line(&waits) && !table.leave_line(&waits));
    assert_eq!(table.stop(&waits, AbortReason::Rpc), Stopped::Nothing);
    assert!(table.leave_line(&nameless));

    let (hold, own) = (in_line(&mut table, "hold", Some("own")).0, run("own", "main"));
    table.want(&hold, &bell);
    table.enter(&own);
    let stopped = table.stop_with_own(&hold, AbortReason::Stop);
    let stopped: Vec<_> = stopped.iter().map(|(run, how)| (&*run.id, *how)).collect();
    assert_eq!(stopped, [("hold", Stopped::Active), ("own", Stopped::Waiter)]);
    assert!(table.finish(&hold).next.is_none());
}
