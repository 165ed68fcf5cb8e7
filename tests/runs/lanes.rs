//! Lanes that are held without a message, and who waits for them.

use clawgate::agent::{AbortReason, Family, RunEnd};
use clawgate::auth::{Owner, Principal};
use tokio::time::timeout;

use super::{LIMIT, key, place};

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
    place.sessions.ensure(&session, std::path::Path::new("/")).await.unwrap();
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
    let place = place().await;
    let (session, admin) = (key(0), Principal::of_this_machine());
    place.sessions.ensure(&session, std::path::Path::new("/")).await.unwrap();
    let held = place.runs.hold_behind(&session, Owner::gateway()).await.unwrap();
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
