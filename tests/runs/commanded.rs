//! Commands, and when clients are told of their ends.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use clawgate::agent::{Accepted, AfterAnswer, CommandAnswer, Family, RunEnd};
use clawgate::auth::Owner;
use clawgate::store::RunState;
use clawgate::support::{Clock, SystemClock};
use futures_util::FutureExt;
use serde_json::Value;
use tokio::time::Instant;

use super::held::Hold;
use super::{LIMIT, Place, place, place_at, request};

/// What a client needs to take in the answer to its request.
const GAP: Duration = Duration::from_millis(40);

/// How the run ended, as often as clients were told.
fn ends(place: &Place, id: &str) -> Vec<String> {
    place.ear.ends.lock().get(id).cloned().unwrap_or_default()
}

/// Sends a command that is done at once, or after its answer; what follows the answer.
async fn order(
    place: &Place,
    is_later: bool,
    answer: impl Future<Output = CommandAnswer> + Send + 'static,
) -> Option<AfterAnswer> {
    let order = request(0, "order", "/status", Family::Chat);
    let taken = if is_later {
        place.runs.answer_command_later(order, answer).await
    } else {
        place.runs.answer_command(order, answer).await
    };
    let (accepted, rest) = taken.unwrap();
    assert_eq!(accepted, Accepted::Started);
    rest
}

fn done() -> Ready<CommandAnswer> {
    ready(CommandAnswer::Note("done".to_owned()))
}

/// Drops what follows the answer; the end is told once, to those who wait and to clients.
async fn ends_well(place: &Place, rest: Option<AfterAnswer>) {
    drop(rest);
    let waited = place.runs.wait("order", LIMIT).await.unwrap();
    assert!(waited.is_some_and(|report| report.end == RunEnd::Answered));
    assert_eq!(ends(place, "order"), ["final"]);
}

#[tokio::test]
async fn the_end_of_a_command_comes_some_time_after_its_answer_and_before_a_stop() {
    for is_later in [false, true] {
        let place = place().await;
        let rest = order(&place, is_later, done()).await;
        let waited = place.runs.wait("order", Duration::ZERO).await.unwrap();
        assert!(waited.is_none(), "who waits for it is told before clients are");
        let answered = Instant::now();
        drop(rest);
        assert!(ends(&place, "order").is_empty(), "told at once");
        ends_well(&place, None).await;
        place.runs.drain(LIMIT).await;
        assert!(answered.elapsed() >= GAP, "{:?}", answered.elapsed());
        assert_eq!(place.end_of("order").await, RunEnd::Answered);
    }
}

/// Panics when the note of a command is shown to those who watch its session.
fn breaks_at_the_note(event: &Value) -> bool {
    let is_note = event["messageId"].is_string() && event["message"]["role"] == "assistant";
    assert!(!is_note, "as the test wants it");
    false
}

#[tokio::test]
async fn a_command_whose_note_cannot_be_shown_ends_for_everybody_all_the_same() {
    for is_later in [false, true] {
        let place = place().await;
        let _held = Hold::of(&place, breaks_at_the_note);
        let rest = order(&place, is_later, done()).await;
        ends_well(&place, rest).await;
    }
}

/// Panics at the last of so many looks.
#[derive(Default)]
struct Breaking(AtomicU32);

impl Clock for Breaking {
    fn now_ms(&self) -> u64 {
        let fewer = |left: u32| left.checked_sub(1);
        let left = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer);
        assert_ne!(left, Ok(1), "as the test wants it");
        SystemClock.now_ms()
    }
}

#[tokio::test]
async fn a_command_whose_end_cannot_be_written_down_ends_for_everybody_all_the_same() {
    for is_later in [false, true] {
        let clock = Arc::new(Breaking::default());
        let place = place_at(Arc::clone(&clock) as Arc<dyn Clock>).await;
        let answer = async move {
            // When it was answered, when it has ended, and then in the record.
            clock.0.store(3, Ordering::SeqCst);
            CommandAnswer::Aside { question: "?".into(), text: "!".into(), is_error: false }
        };
        let rest = order(&place, is_later, answer).await;
        ends_well(&place, rest).await;
        let record = place.store.run("order").await.unwrap().unwrap();
        assert_eq!(record.state, RunState::Active, "nothing broke its record");
    }
}

#[tokio::test]
async fn who_leaves_waits_for_the_ends_of_his_own_commands_and_of_nobody_elses() {
    let place = place().await;
    let rest = order(&place, false, done()).await;
    let [own, other] = ["c", "d"].map(|id| Owner::Connection(id.into()));
    assert!(place.runs.commands_told(&other).now_or_never().is_some());
    assert!(place.runs.commands_told(&own).now_or_never().is_none());
    drop(rest);
    place.runs.commands_told(&own).await;
    assert_eq!(ends(&place, "order"), ["final"]);
}
