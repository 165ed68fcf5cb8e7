//! Lanes that are held without a message, and who waits for them.

use std::path::Path;

use clawgate::agent::{AbortReason, Family, Hold, RunEnd};
use clawgate::auth::{Owner, Principal};
use clawgate::sessions::SessionKey;
use tokio::time::timeout;

use super::{LIMIT, Place, key, place};

/// A session whose lane is held.
async fn held_session() -> (Place, SessionKey, Hold) {
    let (place, session) = (place().await, key(0));
    place.sessions.ensure(&session, Path::new("/")).await.unwrap();
    let held = place.runs.hold_behind(&session, Owner::gateway()).await.unwrap();
    (place, session, held)
}

#[tokio::test]
async fn a_lane_that_is_held_is_no_run_but_a_restart_waits_for_it() {
    let place = place().await;
    let held = place.runs.hold_behind(&key(0), Owner::gateway()).await.unwrap();
    assert_eq!(place.runs.counts(), (0, 0));
    let work = place.runs.work();
    assert_eq!((work.queued, work.replies, work.runs), (1, 0, 0));
    let mut idle = Box::pin(place.runs.idle());
    assert!(futures_util::poll!(&mut idle).is_pending());
    // That run would count by itself.
    held.stand_for("own");
    assert_eq!(place.runs.work().total(), 0);
    let mut again = Box::pin(place.runs.idle());
    assert!(futures_util::poll!(&mut again).is_pending());
    held.end(RunEnd::Answered).await;
    timeout(LIMIT, idle).await.expect("it is not idle");
    timeout(LIMIT, again).await.expect("it is not idle");
}

#[tokio::test]
async fn who_stops_a_session_stops_the_run_that_it_is_held_for_also_on_its_way() {
    let place = place().await;
    let session = key(0);
    place.sessions.ensure(&session, Path::new("/")).await.unwrap();
    let admin = Principal::of_this_machine();
    for run_id in [None, Some("on-its-way")] {
        let held = place.runs.hold_behind(&session, Owner::gateway()).await.unwrap();
        held.stand_for("on-its-way");
        let stopping = place.runs.abort(&session, run_id, &admin, AbortReason::Rpc);
        let mut stopping = Box::pin(stopping);
        // It looks who is there, and waits for the end of that.
        assert!(futures_util::poll!(&mut stopping).is_pending());
        assert_eq!(held.stop_reason(), Some(AbortReason::Rpc));
        if let Some(run_id) = run_id {
            assert!(place.send(0, run_id, "hi", Family::Agent).await);
        }
        let (stopped, ()) = tokio::join!(stopping, held.hand_over());
        assert_eq!(stopped.unwrap(), ["on-its-way"]);
        assert_eq!(place.runs.counts(), (0, 0));
    }
    assert_eq!(place.end_of("on-its-way").await, RunEnd::Aborted(AbortReason::Rpc));
}

#[tokio::test]
async fn who_waits_in_line_has_the_lane_before_later_messages_and_is_stopped_with_it() {
    let (place, session, held) = held_session().await;
    let admin = Principal::of_this_machine();
    let first = place.runs.line_up(&session, Owner::gateway(), Some("first")).unwrap();
    let second = place.runs.line_up(&session, Owner::gateway(), Some("second")).unwrap();
    assert!(!first.take() && !second.take());
    assert!(place.send(0, "later", "hi", Family::Agent).await);

    // One that is stopped is known by its run, and who waits for that hears of it.
    let stopping = place.runs.abort(&session, Some("first"), &admin, AbortReason::Rpc);
    let leaving = async { assert_eq!(first.stopped().await, AbortReason::Rpc) };
    let mut stopping = Box::pin(stopping);
    assert!(futures_util::poll!(&mut stopping).is_pending());
    leaving.await;
    drop(first);
    assert_eq!(stopping.await.unwrap(), ["first"]);
    assert_eq!(place.end_of("first").await, RunEnd::Aborted(AbortReason::Rpc));

    held.end(RunEnd::Answered).await;
    timeout(LIMIT, second.turn()).await.expect("the lane is its");
    assert!(place.runs.message_id("later").is_some(), "it waits");
    second.hold().await.end(RunEnd::Answered).await;
    assert_eq!(place.end_of("later").await, RunEnd::Answered);
    timeout(LIMIT, place.runs.idle()).await.expect("it is not idle");
}

#[tokio::test]
async fn who_waits_until_a_lane_is_left_goes_on_as_who_had_it_steps_back_into_line() {
    let place = place().await;
    let line = place.runs.line_up(&key(0), Owner::gateway(), Some("own")).unwrap();
    assert!(line.take());
    let active = place.runs.active(&key(0)).unwrap();
    let mut leaving = Box::pin(place.runs.leaves_lane(&active));
    assert!(futures_util::poll!(&mut leaving).is_pending());
    line.step_back();
    timeout(LIMIT, leaving).await.expect("the lane is free");
    assert!(place.runs.active(&key(0)).is_none());
    assert!(place.runs.is_in_use(&key(0)) && !place.runs.is_busy(&key(0)));
    timeout(LIMIT, place.runs.leaves_lane(&active)).await.expect("it has left before");

    assert!(line.take());
    let mut leaving = Box::pin(place.runs.leaves_lane(&active));
    assert!(futures_util::poll!(&mut leaving).is_pending());
    line.hold().await.end(RunEnd::Answered).await;
    timeout(LIMIT, leaving).await.expect("it has ended");
}

#[tokio::test]
async fn who_has_the_lane_and_has_not_begun_is_not_stopped_by_who_steers_or_compacts() {
    let place = place().await;
    let session = key(0);
    place.sessions.ensure(&session, Path::new("/")).await.unwrap();
    let line = place.runs.line_up(&session, Owner::gateway(), Some("own")).unwrap();
    assert!(line.take());
    let steering = Box::pin(place.runs.make_room(&session, AbortReason::Rpc));
    assert!(!timeout(LIMIT, steering).await.expect("nothing is in the way").unwrap());
    let mut compacting = Box::pin(place.runs.compact(&session, "s0", Owner::gateway(), None));
    assert!(futures_util::poll!(&mut compacting).is_pending());
    assert!(futures_util::poll!(Box::pin(line.stopped())).is_pending());
    line.step_back();
    let compacted = timeout(LIMIT, compacting).await.expect("it has the lane");
    let nothing = compacted.unwrap_err().to_string();
    assert!(!nothing.contains("still active"), "{nothing}");

    // Once it has begun it is stopped as runs are.
    timeout(LIMIT, line.turn()).await.expect("the lane is its");
    let held = line.hold().await;
    assert_eq!(held.stop_reason(), None);
    let mut steering = Box::pin(place.runs.make_room(&session, AbortReason::Rpc));
    assert!(futures_util::poll!(&mut steering).is_pending());
    assert_eq!(held.stop_reason(), Some(AbortReason::Rpc));
    let (stopped, ()) = tokio::join!(steering, held.hand_over());
    assert!(stopped.unwrap());
    timeout(LIMIT, place.runs.idle()).await.expect("it is not idle");
}

#[tokio::test]
async fn what_comes_while_a_session_becomes_another_one_is_said_in_that_one() {
    let (place, session, busy) = held_session().await;
    let clear = || place.runs.hold_cleared(&session, "s0", Owner::gateway());
    let mut given_up = Box::pin(clear());
    assert!(futures_util::poll!(&mut given_up).is_pending());
    drop(given_up);
    let mut clearing = Box::pin(clear());
    assert!(futures_util::poll!(&mut clearing).is_pending());
    assert_eq!(busy.stop_reason(), Some(AbortReason::Interrupt));
    assert!(place.send(0, "meanwhile", "hi", Family::Agent).await);
    busy.end(RunEnd::Answered).await;
    let held = timeout(LIMIT, clearing).await.expect("the lane is its").unwrap();
    let begun = place.sessions.reset(&session, Path::new("/")).await.unwrap();
    assert_eq!((place.runs.counts(), begun.transcript.message_count), ((0, 1), 0));
    held.end(RunEnd::Answered).await;
    assert_eq!(place.end_of("meanwhile").await, RunEnd::Answered);
    let after = place.sessions.entry(&session).await.unwrap().unwrap();
    assert_eq!((after.session_id, after.transcript.message_count), (begun.session_id, 2));

    // Whoever has it and is gone keeps nobody waiting.
    let held = timeout(LIMIT, Box::pin(clear())).await.expect("nothing is there").unwrap();
    // To clients nothing runs there, and they stop nothing; within the gateway it counts.
    let admin = Principal::of_this_machine();
    let stopped = Box::pin(place.runs.abort(&session, None, &admin, AbortReason::Rpc)).await;
    assert_eq!(stopped.unwrap(), Vec::<String>::new());
    assert_eq!(held.stop_reason(), None);
    assert!(place.runs.active(&session).is_none());
    let mut free = Box::pin(place.runs.lane_is_free(&session));
    assert!(futures_util::poll!(&mut free).is_pending());
    assert!(place.send(0, "next", "hi", Family::Agent).await);
    drop(held);
    assert_eq!(place.end_of("next").await, RunEnd::Answered);
    timeout(LIMIT, free).await.expect("nothing has the lane");
    timeout(LIMIT, place.runs.idle()).await.expect("it is not idle");
}

#[tokio::test]
async fn who_clears_a_session_stops_who_gets_the_lane_before_it_too() {
    let (place, session, busy) = held_session().await;
    let clear = || Box::pin(place.runs.hold_cleared(&session, "s0", Owner::gateway()));
    let (mut first, mut second) = (clear(), clear());
    assert!(futures_util::poll!(&mut first).is_pending());
    assert!(futures_util::poll!(&mut second).is_pending());
    assert!(place.send(0, "later", "hi", Family::Agent).await);
    busy.end(RunEnd::Answered).await;
    let before = timeout(LIMIT, first).await.expect("the lane is its").unwrap();
    assert_eq!(before.stop_reason(), None, "the second has looked already");
    let ending = async {
        assert_eq!(before.stopped().await, AbortReason::Interrupt);
        before.end(RunEnd::Answered).await;
    };
    let both = async { tokio::join!(second, ending) };
    let (after, ()) = timeout(LIMIT, both).await.expect("it looks again");
    after.unwrap().end(RunEnd::Answered).await;
    assert_eq!(place.end_of("later").await, RunEnd::Answered, "it came after both had looked");
    timeout(LIMIT, place.runs.idle()).await.expect("it is not idle");
}

#[tokio::test]
async fn a_compaction_stops_who_keeps_the_lane_after_it_has_looked() {
    let (place, session, busy) = held_session().await;
    let mut cutting = Box::pin(place.runs.hold_behind(&session, Owner::gateway()));
    assert!(futures_util::poll!(&mut cutting).is_pending());
    // The lane is that one's, who has not heard of it.
    busy.end(RunEnd::Answered).await;
    let mut compacting = Box::pin(place.runs.compact(&session, "s0", Owner::gateway(), None));
    assert!(futures_util::poll!(&mut compacting).is_pending());
    let cut = timeout(LIMIT, cutting).await.expect("the lane is its").unwrap();
    assert_eq!(cut.stop_reason(), None, "the compaction has looked already");
    let ending = async {
        assert_eq!(cut.stopped().await, AbortReason::Rpc);
        cut.end(RunEnd::Answered).await;
    };
    let both = async { tokio::join!(compacting, ending) };
    let (compacted, ()) = timeout(LIMIT, both).await.expect("it looks again");
    let nothing = compacted.unwrap_err().to_string();
    assert!(!nothing.contains("still active"), "{nothing}");
    timeout(LIMIT, place.runs.idle()).await.expect("it is not idle");
}
