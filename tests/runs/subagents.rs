//! Sub-agents that are stopped or left behind just when that is awkward.

use std::path::Path;
use std::sync::Arc;

use clawgate::agent::subagents::{Said, SpawnRequest};
use clawgate::agent::{AbortReason, ActiveRun, Ended, Family, RunEnd};
use clawgate::auth::{Owner, Principal};
use clawgate::sessions::SessionKey;
use clawgate::store::{
    NewRun, RunOutcome, SessionEntry, SubagentQuery, SubagentRow, SubagentState,
};
use futures_util::FutureExt;
use tokio::task::JoinHandle;
use tokio::time::{Duration, sleep, timeout};

use super::faults::faults;
use super::held::Hold;
use super::{LIMIT, Place, key, place};

const HOUR: u64 = 3_600_000;

/// The run of a sub-agent that has this session.
fn row(run_id: &str, child: &SessionKey, parent: &SessionKey, state: SubagentState) -> SubagentRow {
    SubagentRow {
        run_id: run_id.into(),
        child_key: child.to_string(),
        parent_key: parent.to_string(),
        parent_run_id: None,
        owner: "connection:c".into(),
        label: None,
        task: "t".into(),
        message: "@mock text".into(),
        timeout_seconds: 0,
        is_temporary: false,
        state,
        outcome: None,
        created_at: 1,
        ended_at: None,
        place: None,
    }
}

async fn begin_sessions(place: &Place, keys: &[&SessionKey]) {
    for key in keys {
        place.sessions.ensure(key, Path::new("/")).await.unwrap();
    }
}

#[tokio::test]
async fn a_session_whose_sub_agent_was_never_written_down_does_not_run_after_the_next_start() {
    let (place, parent) = (place().await, key(0));
    let child = |name| SessionKey::from_canonical(format!("agent:main:subagent:{name}"));
    let (unborn, waiting) = (child("unborn"), child("waiting"));
    begin_sessions(&place, &[&unborn, &waiting]).await;
    for child in [&unborn, &waiting] {
        let begin = |entry: &mut SessionEntry| entry.status = Some("running".into());
        place.sessions.update(child, begin).await.unwrap();
    }
    let waits = row("waits", &waiting, &parent, SubagentState::Waiting);
    assert!(place.store.add_subagent(waits, 5).await.unwrap());
    place.runs.recover().await.unwrap();
    let status = async |key: &SessionKey| place.sessions.entry(key).await.unwrap().unwrap().status;
    assert_eq!(status(&unborn).await.as_deref(), Some("failed"));
    assert_eq!(status(&waiting).await.as_deref(), Some("running"), "it is begun by its row");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_on_its_way_is_not_told_to_a_session_that_somebody_stops() {
    let (place, parent) = (place().await, key(0));
    begin_sessions(&place, &[&parent]).await;
    // The end is written down, and the parent has not been told.
    let mut hold = Hold::of(&place, |event| event["reason"] == "subagent-status");
    let request = SpawnRequest { task: "@child text text=done".into(), ..SpawnRequest::default() };
    let spawned = place.runs.spawn_subagent(&parent, None, request).await.unwrap();
    hold.came().await;
    let ended = place.store.subagents(SubagentQuery::Run(spawned.run_id.clone())).await.unwrap();
    assert_eq!(ended[0].state, SubagentState::Ended);
    place.runs.interrupt(&parent, AbortReason::Rpc).await.unwrap();
    hold.let_go();
    place.idle().await;
    let telling = format!("announce:v1:{}:{}", spawned.child, spawned.run_id);
    assert!(place.store.run(&telling).await.unwrap().is_none(), "it is told all the same");
    let stopped = place.store.subagents(SubagentQuery::Run(spawned.run_id)).await.unwrap();
    assert_eq!(stopped[0].state, SubagentState::Stopped);
}

#[tokio::test]
async fn who_stops_a_run_stops_the_result_that_waits_for_its_end() {
    let (place, parent) = (place().await, key(0));
    begin_sessions(&place, &[&parent]).await;
    assert!(place.send(0, "asks", "@mock stream n=2000 delay=20", Family::Agent).await);
    for (index, is_temporary) in [false, true].into_iter().enumerate() {
        let run = place.runs.active(&parent);
        let task = "@child text text=done".into();
        let request = SpawnRequest { task, is_temporary, ..SpawnRequest::default() };
        let spawned = place.runs.spawn_subagent(&parent, run, request).await.unwrap();
        place.end_of(&spawned.run_id).await;
        let told = async {
            while place.runs.waiting_in(&parent) <= index {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(LIMIT, told).await.expect("its result does not come");
    }
    let other = "@mock text text=other";
    assert!(place.send(0, "other", other, Family::Agent).await);
    let admin = Principal::of_this_machine();
    let stopping = place.runs.abort(&parent, Some("asks"), &admin, AbortReason::Rpc);
    let stopped = Box::pin(stopping).await.unwrap();
    assert_eq!(stopped.len(), 3, "{stopped:?}");
    for id in &stopped {
        assert!(id == "asks" || id.starts_with("announce:v1:"), "{id}");
        assert_eq!(place.end_of(id).await, RunEnd::Aborted(AbortReason::Rpc), "{id}");
    }
    assert_eq!(place.end_of("other").await, RunEnd::Answered);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_that_comes_to_a_sub_agent_while_it_is_stopped_is_stopped_too() {
    let (place, parent, middle) = (place().await, key(0), key(1));
    begin_sessions(&place, &[&parent, &middle]).await;
    let waiting = row("middle", &middle, &parent, SubagentState::Waiting);
    assert!(place.store.add_subagent(waiting, 5).await.unwrap());
    let (hold, stopping) = half_stopped(&place, parent).await;
    let result = "announce:v1:below";
    assert!(place.send(1, result, "@mock stream n=2000 delay=20", Family::Agent).await);
    hold.let_go();
    let stopped = stopping.await.unwrap().unwrap();
    let stopped: Vec<_> = stopped.iter().map(|run| &*run.id).collect();
    assert_eq!(stopped, [result]);
    assert_eq!(place.end_of(result).await, RunEnd::Aborted(AbortReason::Rpc));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_clears_a_session_is_not_told_that_somebody_else_has_stopped_what_comes_meanwhile() {
    let (place, parent, child) = (place().await, key(0), key(1));
    begin_sessions(&place, &[&parent, &child]).await;
    let waiting = row("waits", &child, &parent, SubagentState::Waiting);
    assert!(place.store.add_subagent(waiting, 5).await.unwrap());
    let mut hold = Hold::of(&place, |event| event["reason"] == "subagent-status");
    let runs = Arc::clone(&place.runs);
    let clearing = place.tasks.spawn("clearing", async move {
        let who = Owner::Connection("c".into());
        Box::pin(runs.hold_cleared(&parent, "s0", who)).await.map(drop)
    });
    hold.came().await;
    let result = "announce:v1:below";
    assert!(place.send(0, result, "@mock text", Family::Agent).await);
    hold.let_go();
    clearing.await.unwrap().unwrap().unwrap();
    let report = timeout(LIMIT, place.runs.ends(Some(Family::Agent), result)).await;
    let report = report.expect("it is not stopped").unwrap();
    assert_eq!(report.end, RunEnd::Aborted(AbortReason::Interrupt));
    assert!(!report.progress.is_taken_away);
}

#[tokio::test]
async fn a_sub_agent_that_was_stopped_half_is_stopped_by_whoever_stops_it_again() {
    let (place, parent, child) = (place().await, key(0), key(1));
    begin_sessions(&place, &[&parent, &child]).await;
    let half = row("half", &child, &parent, SubagentState::Stopped);
    assert!(place.store.add_subagent(half, 5).await.unwrap());
    assert!(place.send(1, "half", "@mock stream n=2000 delay=20", Family::Agent).await);
    let stopped = place.runs.stop_subagents(&parent, None, None, AbortReason::Rpc).await;
    let stopped: Vec<_> = stopped.iter().map(|run| &*run.id).collect();
    assert_eq!(stopped, ["half"]);
    assert_eq!(place.end_of("half").await, RunEnd::Aborted(AbortReason::Rpc));
    assert!(!place.runs.stop_subagent("half", AbortReason::Rpc).await, "it is over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_below_a_sub_agent_is_stopped_though_whoever_stops_it_goes_away() {
    let (place, parent, middle, lowest) = (place().await, key(0), key(1), key(2));
    begin_sessions(&place, &[&parent, &middle, &lowest]).await;
    for (id, child, above) in [("middle", &middle, &parent), ("lowest", &lowest, &middle)] {
        let waiting = row(id, child, above, SubagentState::Waiting);
        assert!(place.store.add_subagent(waiting, 5).await.unwrap());
    }
    let (hold, stopping) = half_stopped(&place, parent).await;
    stopping.abort();
    hold.let_go();
    place.idle().await;
    let rows = place.store.subagents(SubagentQuery::Run("lowest".into())).await.unwrap();
    assert_eq!(rows[0].state, SubagentState::Stopped);
}

/// Somebody who stops what is below this session, held back between the first, which is
/// stopped, and what is below that, which is not yet.
async fn half_stopped(
    place: &Place,
    parent: SessionKey,
) -> (Hold, JoinHandle<Option<Vec<Arc<ActiveRun>>>>) {
    let mut hold = Hold::of(place, |event| event["reason"] == "subagent-status");
    let runs = Arc::clone(&place.runs);
    let stopping = place.tasks.spawn("stopping", async move {
        runs.stop_subagents(&parent, None, None, AbortReason::Rpc).await
    });
    hold.came().await;
    (hold, stopping)
}

/// A sub-agent that is over, whose session is there.
async fn over(place: &Place, parent: &SessionKey, child: &SessionKey) -> SubagentRow {
    begin_sessions(place, &[parent, child]).await;
    let above = parent.to_string();
    place.sessions.update(child, |entry| entry.spawned_by = Some(above)).await.unwrap();
    let over = row("over", child, parent, SubagentState::Announced);
    assert!(place.store.add_subagent(over.clone(), 5).await.unwrap());
    over
}

#[tokio::test]
async fn what_is_said_to_a_sub_agent_is_answered_though_whoever_says_it_goes_away() {
    let (place, parent, child) = (place().await, key(0), key(1));
    let over = over(&place, &parent, &child).await;
    let by = (Owner::Connection("c".into()), None);
    let telling = place.runs.tell_subagent(&over, "@mock text", Said::Send, by);
    // Gone as soon as there is something to wait for.
    assert!(telling.now_or_never().is_none());
    let begun_again = async {
        loop {
            let query = SubagentQuery::OfChild(child.to_string());
            let rows = place.store.subagents(query).await.unwrap();
            if let Some(row) = rows.into_iter().find(|row| row.run_id != "over") {
                return row;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    let again = timeout(LIMIT, begun_again).await.expect("it does not begin again");
    place.end_of(&format!("announce:v1:{child}:{}", again.run_id)).await;
}

#[tokio::test]
async fn a_run_that_is_stopped_while_it_speaks_to_a_sub_agent_begins_nothing_there() {
    let (place, parent, child) = (place().await, key(0), key(1));
    let over = over(&place, &parent, &child).await;
    let long = "@mock stream n=2000 delay=20";
    assert!(place.send(0, "asks", long, Family::Agent).await);
    let run = place.runs.active(&parent).unwrap();
    place.runs.interrupt(&parent, AbortReason::Rpc).await.unwrap();
    let by = (Owner::Connection("c".into()), Some(run));
    let again = place.runs.tell_subagent(&over, long, Said::Send, by).await.unwrap();
    let rows = place.store.subagents(SubagentQuery::Run(again)).await.unwrap();
    assert_eq!(rows[0].state, SubagentState::Stopped);
}

#[tokio::test]
async fn what_the_last_process_left_goes_on_though_the_clock_was_set_back_since() {
    let (place, parent, child, cut) = (place().await, key(0), key(1), key(2));
    begin_sessions(&place, &[&parent, &child]).await;
    let above = parent.to_string();
    place.sessions.update(&child, |entry| entry.spawned_by = Some(above)).await.unwrap();
    let later = place.runs.parts().clock.now_ms() + HOUR;
    for (id, child, state) in
        [("waits", &child, SubagentState::Waiting), ("cut", &cut, SubagentState::Active)]
    {
        let row = SubagentRow { created_at: later, ..row(id, child, &parent, state) };
        assert!(place.store.add_subagent(row, 5).await.unwrap());
    }
    let run = NewRun {
        scope: Family::Agent.as_str().into(),
        key: "cut".into(),
        run_id: "cut".into(),
        session_key: cut.to_string(),
        text_hash: None,
        message: None,
        now_ms: later,
    };
    place.store.claim_run(run).await.unwrap();
    let end = Ended { outcome: RunOutcome::Aborted("rpc"), is_stored: true, now_ms: later };
    place.runs.parts().unrecorded.record("agent", "cut", end).await.unwrap();
    place.tasks.spawn("subagents", Arc::clone(&place.runs).keep_subagents());
    for (id, child, told) in
        [("waits", &child, "\"ok\""), ("cut", &cut, "interrupted by a stop of the gateway")]
    {
        place.end_of(&format!("announce:v1:{child}:{id}")).await;
        let rows = place.store.subagents(SubagentQuery::Run(id.into())).await.unwrap();
        let outcome = rows[0].outcome.clone().unwrap();
        assert!(outcome.contains(told), "{id}: {outcome}");
    }
}

#[tokio::test]
async fn results_that_nobody_has_answered_are_told_again_and_those_of_others_are_not() {
    let (place, parent) = (place().await, key(0));
    begin_sessions(&place, &[&parent]).await;
    let mut ids = Vec::new();
    for (number, name) in [(1, "waits"), (2, "done")] {
        let child = key(number);
        let told = row(name, &child, &parent, SubagentState::Announced);
        assert!(place.store.add_subagent(told, 5).await.unwrap());
        let id = format!("announce:v1:{child}:{name}");
        let run = NewRun {
            scope: Family::Agent.as_str().into(),
            key: id.clone(),
            run_id: id.clone(),
            session_key: parent.to_string(),
            text_hash: None,
            message: (name == "waits").then(|| "{}".into()),
            now_ms: 1,
        };
        place.store.claim_run(run).await.unwrap();
        ids.push(id);
    }
    place.store.finish_run("agent", &ids[1], RunOutcome::Done, true, 2).await.unwrap();
    place.runs.recover().await.unwrap();
    let state = async |run: &str| {
        let rows = place.store.subagents(SubagentQuery::Run(run.into())).await.unwrap();
        rows[0].state
    };
    assert_eq!(state("waits").await, SubagentState::Ended);
    assert_eq!(state("done").await, SubagentState::Announced);
    assert!(place.store.run(&ids[0]).await.unwrap().is_none());
    assert!(place.store.run(&ids[1]).await.unwrap().is_some());
}

#[tokio::test]
async fn what_the_last_process_left_goes_on_once_the_database_says_what_that_is() {
    let (place, parent, child) = (place().await, key(0), key(1));
    begin_sessions(&place, &[&parent, &child]).await;
    let above = parent.to_string();
    place.sessions.update(&child, |entry| entry.spawned_by = Some(above)).await.unwrap();
    let left = row("waits", &child, &parent, SubagentState::Waiting);
    assert!(place.store.add_subagent(left, 5).await.unwrap());
    let database = place.database();
    database.execute_batch("ALTER TABLE subagents RENAME TO away").unwrap();
    let (faults, _log) = faults();
    place.tasks.spawn("subagents", Arc::clone(&place.runs).keep_subagents());
    timeout(LIMIT, faults.notified()).await.expect("the database does not fail");
    database.execute_batch("ALTER TABLE away RENAME TO subagents").unwrap();
    place.end_of(&format!("announce:v1:{child}:waits")).await;
}
