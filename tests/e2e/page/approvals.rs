//! What waits for a decision, on our page.

use serde_json::json;

use super::Place;

#[tokio::test]
async fn a_question_that_comes_or_goes_moves_the_focus_to_no_button_of_another_one() {
    let place = Place::new().await;
    let focused = place.run("approvals", "holds", json!({})).await;
    assert_eq!(focused, json!(["h2", "echo 3"]));
}

#[tokio::test]
async fn an_answer_that_was_overtaken_takes_no_question_away() {
    let place = Place::new().await;
    let shown = place.run("approvals", "asks_again", json!({})).await;
    assert_eq!(shown, json!([1, 1]));
}

#[tokio::test]
async fn characters_that_nobody_sees_are_written_out() {
    let place = Place::new().await;
    let command = "rm a\u{3164}b\u{115f}\u{2800}\u{34f}\u{fe0f}\u{e0041}\u{1d173}c";
    let shown = place.run("approvals", "unmasks", json!({"command": command})).await;
    assert_eq!(shown, r"rm a\u3164b\u115f\u2800\u034f\ufe0f\u{e0041}\u{1d173}c");
}
