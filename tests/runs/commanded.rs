//! Commands, and when clients are told of their ends.

use std::time::Duration;

use clawgate::agent::{Accepted, CommandAnswer, Family, RunEnd};
use serde_json::Value;
use tokio::time::Instant;

use super::held::Hold;
use super::{LIMIT, Place, place, request};

/// What a client needs to take in the answer to its request.
const GAP: Duration = Duration::from_millis(40);

/// How the run ended, as often as clients were told.
fn ends(place: &Place, id: &str) -> Vec<String> {
    place.ear.ends.lock().get(id).cloned().unwrap_or_default()
}

#[tokio::test]
async fn the_end_of_a_command_comes_some_time_after_its_answer_and_before_a_stop() {
    for is_later in [false, true] {
        let place = place().await;
        let order = request(0, "order", "/status", Family::Chat);
        let answer = async { CommandAnswer::Note("done".to_owned()) };
        let (accepted, rest) = if is_later {
            place.runs.answer_command_later(order, answer).await.unwrap()
        } else {
            place.runs.answer_command(order, answer).await.unwrap()
        };
        assert_eq!(accepted, Accepted::Started);
        let waited = place.runs.wait("order", Duration::ZERO).await.unwrap();
        assert!(waited.is_none(), "who waits for it is told before clients are");
        let answered = Instant::now();
        drop(rest);
        assert!(ends(&place, "order").is_empty(), "told at once");
        let waited = place.runs.wait("order", LIMIT).await.unwrap();
        assert!(waited.is_some_and(|report| report.end == RunEnd::Answered));
        assert_eq!(ends(&place, "order"), ["final"]);
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
        let order = request(0, "order", "/status", Family::Chat);
        let answer = async { CommandAnswer::Note("done".to_owned()) };
        let (_, rest) = if is_later {
            place.runs.answer_command_later(order, answer).await.unwrap()
        } else {
            place.runs.answer_command(order, answer).await.unwrap()
        };
        drop(rest);
        let waited = place.runs.wait("order", LIMIT).await.unwrap();
        assert!(waited.is_some_and(|report| report.end == RunEnd::Answered), "{is_later}");
        assert_eq!(ends(&place, "order"), ["final"], "{is_later}");
    }
}
