//! What is written on our page and not in the conversation yet.

use std::time::Duration;

use serde_json::{Value, json};

use super::Place;
use crate::stage::{admin, told};

/// A run may go on for ten seconds after it was told to stop.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// What was said by a person in the main session.
async fn said(place: &Place) -> Vec<String> {
    let mut client = admin(&place.gateway).await;
    let told = told(&mut client, "main").await;
    told.into_iter().filter(|(role, _)| role == "user").map(|(_, text)| text).collect()
}

/// Runs steps in whose course the gateway is killed, and then started again.
async fn over_a_restart(place: &mut Place, name: &str) -> Value {
    let mut steps = place.begin("outbox", name, json!({}));
    place.killed_and_started(&mut steps).await;
    steps.await.unwrap()
}

#[tokio::test]
async fn what_waits_is_sent_while_another_view_is_shown() {
    let mut place = Place::new().await;
    let sent = over_a_restart(&mut place, "elsewhere").await;
    assert_eq!(sent, json!([["a text", null], ["a file", "note.txt"]]));
    let said = said(&place).await;
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("a text") && said[1].contains("a file"), "{said:?}");
    assert!(said[1].contains("in note.txt"), "{said:?}");
}

#[tokio::test]
async fn messages_are_sent_once_and_in_the_order_in_which_they_were_written() {
    let mut place = Place::new().await;
    let sent = over_a_restart(&mut place, "in_order").await;
    assert_eq!(sent, json!(["one", "two", "three", "four"]));
}

#[tokio::test]
async fn what_is_written_while_the_gateway_stops_waits_and_is_sent_under_the_same_key() {
    let mut place = Place::new().await;
    let mut steps = place.begin("outbox", "stopping", json!({}));
    let stop = place.asked_for("stop", &mut steps).await;
    place.gateway.signal_term();
    stop.done();
    let start = place.asked_for("start", &mut steps).await;
    assert!(place.gateway.wait_exit(STOP_LIMIT).await.is_some(), "it stops");
    place.gateway.restart_in_place().await;
    start.done();
    let sent = steps.await.unwrap();
    let texts: Vec<_> = sent.as_array().unwrap().iter().map(|one| one[0].clone()).collect();
    assert_eq!(json!(texts), json!(["one", "one", "two"]), "{sent}");
    assert_eq!(sent[0][1], sent[1][1], "{sent}");
    let said = said(&place).await;
    assert_eq!(said[1..], ["one", "two"]);
}

#[tokio::test]
async fn a_message_whose_answer_comes_when_another_session_is_shown_is_sent_once() {
    let place = Place::new().await;
    assert_eq!(place.run("outbox", "once", json!({})).await, json!(["once"]));
    assert_eq!(said(&place).await, ["once"]);
}

#[tokio::test]
async fn drafts_and_their_files_stay_over_other_views_and_what_other_tabs_type() {
    let place = Place::new().await;
    place.run("outbox", "keeps", json!({})).await;
}

#[tokio::test]
async fn keys_of_an_input_method_neither_send_nor_stop() {
    let place = Place::new().await;
    place.run("outbox", "composes", json!({})).await;
}
