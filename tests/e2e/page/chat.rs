//! Chat, sessions and approvals on our page.

use serde_json::{Value, json};

use super::Place;
use crate::stage::{admin, call};
use crate::support::SECRET;

/// Runs steps that the test has to do nothing for.
async fn run(place: &Place, name: &str) -> Value {
    place.run("chat", name, json!({})).await
}

/// The last message that a model was asked with.
fn last_of(body: &Value) -> String {
    body["messages"].as_array().unwrap().last().unwrap().to_string()
}

#[tokio::test]
async fn a_browser_signs_in_with_the_token_and_is_let_in_by_itself_afterwards() {
    let place = Place::new().await;
    let told = run(&place, "signs_in").await;
    assert_eq!(told["foreign"], json!([]), "{told}");
    assert_eq!(told["isTokenKept"], false, "{told}");
    assert!(!told.to_string().contains(SECRET), "{told}");
}

#[tokio::test]
async fn hostile_markdown_becomes_text_and_nothing_is_asked_of_other_places() {
    let place = Place::new().await;
    let told = run(&place, "hostile").await;
    assert_eq!(told["asked"], json!([]), "{told}");
    assert_eq!(told["harm"], Value::Null, "{told}");
    assert_eq!(told["handlers"], json!([]), "{told}");
    let links = told["links"].as_array().unwrap();
    assert_eq!(links.len(), 3, "{told}");
    for link in links {
        assert!(link[0].as_str().unwrap().starts_with("https://"), "{told}");
        assert_eq!((&link[1], &link[2]), (&json!("noopener noreferrer"), &json!("_blank")));
    }
    let kinds = told["kinds"].as_array().unwrap();
    let unwanted = ["script", "img", "iframe", "style", "form", "b"];
    assert!(!kinds.iter().any(|kind| unwanted.contains(&kind.as_str().unwrap())), "{told}");
    assert_eq!(told["code"], "<b onclick='harm()'>code</b>", "{told}");
}

#[tokio::test]
async fn code_is_shown_and_copied_as_it_was_written() {
    let place = Place::new().await;
    let (python, make) = ("import os\n\n\ndef f():\n    pass", "all:\n\tcc *.c");
    let args = json!({"python": python, "make": make});
    let told = place.run("chat", "shows_code", args).await;
    assert_eq!(told, json!({"copied": [python, make], "items": 2, "last": ["That is all."]}));
}

#[tokio::test]
async fn an_answer_streams_and_can_be_stopped_and_tools_show_what_they_do() {
    let place = Place::new().await;
    run(&place, "talks").await;
    // The message that came while a run was active went into that run.
    let bodies: Vec<_> = place.mock.requests().iter().map(|call| call.body.to_string()).collect();
    assert!(bodies.iter().any(|body| body.contains("to the second")), "{bodies:?}");
}

#[tokio::test]
async fn a_page_loaded_in_the_middle_of_a_run_shows_it_from_the_beginning_to_the_end() {
    let place = Place::new().await;
    run(&place, "reloads").await;
}

#[tokio::test]
async fn a_gateway_that_is_killed_and_started_again_finds_the_page_as_it_was() {
    let mut place = Place::new().await;
    let mut steps = place.begin("chat", "comes_back", json!({}));
    for _ in 0..2 {
        place.killed_and_started(&mut steps).await;
    }
    let told = steps.await.unwrap();
    let keys = told["keys"].as_array().unwrap();
    assert_eq!(keys.len(), 3, "each message was sent once: {told}");
    let calls = place.mock.requests();
    let is_of_it = |body: &str| body.contains("text=\\\"after\\\"");
    let answered = calls.iter().map(|call| last_of(&call.body)).filter(|said| is_of_it(said));
    assert_eq!(answered.count(), 1, "it was answered once");
}

#[tokio::test]
async fn a_message_whose_answer_was_lost_is_sent_again_and_is_there_once() {
    let place = Place::new().await;
    assert_eq!(run(&place, "sends_again").await, 2);
    assert_eq!(place.mock.requests().len(), 1, "the provider was asked once");
}

#[tokio::test]
async fn what_is_typed_is_sent_where_the_browser_makes_no_ids() {
    let place = Place::new().await;
    let told = run(&place, "makes_ids").await;
    let keys: Vec<_> = told.as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect();
    assert!(keys.len() == 2 && keys[0] != keys[1], "{keys:?}");
    let is_of_hex = |key: &&str| key.len() == 32 && key.bytes().all(|it| it.is_ascii_hexdigit());
    assert!(keys.iter().all(is_of_hex), "{keys:?}");
}

/// Commands wait for a decision.
async fn asking() -> Place {
    Place::with(|config| {
        config["tools"] = json!({"exec": {"security": "allowlist", "ask": "on-miss"}});
    })
    .await
}

#[tokio::test]
async fn a_call_that_waits_says_so_also_after_a_reload_until_it_runs() {
    run(&asking().await, "waits").await;
}

#[tokio::test]
async fn a_call_that_was_lost_with_the_gateway_can_be_asked_for_again() {
    let mut place = asking().await;
    let mut steps = place.begin("chat", "loses_a_call", json!({}));
    place.killed_and_started(&mut steps).await;
    steps.await.unwrap();
}

#[tokio::test]
async fn a_message_that_waited_when_the_answer_was_stopped_can_be_asked_again() {
    run(&Place::new().await, "drops").await;
}

#[tokio::test]
async fn commands_wait_for_a_decision_on_every_view_and_in_every_tab() {
    let told = run(&asking().await, "approves").await;
    assert!(told["once"].as_str().unwrap().starts_with("Linux"), "{told}");
    assert_eq!(told["denied"], 1, "{told}");
}

#[tokio::test]
async fn model_thinking_level_and_pictures_arrive_at_the_provider_and_pasted_text_is_text() {
    let place = Place::new().await;
    run(&place, "chooses").await;
    let calls = place.mock.requests();
    assert_eq!(calls.len(), 2);
    let [first, second] = [&calls[0].body, &calls[1].body];
    assert_eq!(first["model"], "mock-think", "{first}");
    assert!(first["thinking"]["budget_tokens"].as_u64().is_some_and(|most| most > 0), "{first}");
    let said = second["messages"].as_array().unwrap().last().unwrap();
    let parts = said["content"].as_array().unwrap();
    let pictures: Vec<_> = parts.iter().filter(|part| part["type"] == "image").collect();
    assert_eq!(pictures.len(), 1, "{said}");
    assert_eq!(pictures[0]["source"]["media_type"], "image/png", "{said}");
    assert!(!second.to_string().contains("unwanted"), "a file that was taken back is not sent");
}

#[tokio::test]
async fn everything_works_by_keyboard_and_drafts_stay_with_their_sessions() {
    let place = Place::new().await;
    run(&place, "types").await;
}

#[tokio::test]
async fn commands_that_come_late_are_shown_to_whoever_typed_a_slash_before() {
    let place = Place::new().await;
    run(&place, "completes_late").await;
}

#[tokio::test]
async fn on_a_phone_nothing_is_cut_off_and_a_long_conversation_keeps_its_place() {
    let place = Place::new().await;
    run(&place, "phone").await;
}

/// 150 notes are in the main session.
async fn noted() -> Place {
    let place = Place::new().await;
    let mut client = admin(&place.gateway).await;
    call(&mut client, "sessions.create", json!({"key": "main"})).await;
    for number in 1..=150 {
        let note = json!({"sessionKey": "main", "message": format!("note {number}.")});
        call(&mut client, "chat.inject", note).await;
    }
    place
}

#[tokio::test]
async fn older_messages_come_when_somebody_scrolls_up() {
    let place = noted().await;
    let limits = run(&place, "scrolls_up").await;
    assert_eq!(limits[0], 60, "{limits}");
    assert!(limits.as_array().unwrap().contains(&json!(240)), "{limits}");
}

#[tokio::test]
async fn an_answer_that_breaks_off_stays_with_the_reason_below_it() {
    run(&Place::new().await, "breaks_off").await;
}

#[tokio::test]
async fn escape_stops_the_answer_wherever_the_focus_is_but_where_it_has_another_use() {
    run(&asking().await, "escapes").await;
}

#[tokio::test]
async fn what_is_read_stays_in_sight_while_older_messages_come() {
    let place = noted().await;
    run(&place, "reads_on").await;
}

#[tokio::test]
async fn a_long_result_of_a_tool_is_copied_and_shown_whole_after_a_reload() {
    run(&Place::new().await, "shows_a_whole_result").await;
}

#[tokio::test]
async fn a_conversation_that_is_left_takes_no_memory() {
    run(&Place::new().await, "forgets_rooms").await;
}
