//! Many sessions, and much in one of them, on our page.

use std::fmt::Write as _;
use std::fs;

use serde_json::{Value, json};

use super::Place;
use crate::stage::{admin, call, row};

#[tokio::test]
async fn sessions_beyond_the_first_ones_are_listed_on_demand_and_the_focus_stays_in_the_list() {
    let place = Place::new().await;
    let mut client = admin(&place.gateway).await;
    let oldest = json!({"agentId": "main", "label": "the oldest needle"});
    call(&mut client, "sessions.create", oldest).await;
    let deleted = json!({"agentId": "main", "label": "a needle that goes"});
    call(&mut client, "sessions.create", deleted).await;
    for _ in 0..305 {
        call(&mut client, "sessions.create", json!({"agentId": "main"})).await;
    }
    assert_eq!(place.run("sessions", "lists", json!({})).await, 306);
}

/// Puts notes up to this one into the transcript of the main session.
async fn write_notes(place: &Place, count: usize) {
    let mut client = admin(&place.gateway).await;
    call(&mut client, "sessions.create", json!({"key": "main"})).await;
    let first = json!({"sessionKey": "main", "message": "note 1."});
    call(&mut client, "chat.inject", first).await;
    let row = row(&mut client, "agent:main:main").await;
    let file = format!("agents/main/sessions/{}.jsonl", row["sessionId"].as_str().unwrap());
    let path = place.gateway.state_dir().join(file);
    let text = fs::read_to_string(&path).unwrap();
    let mut line: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let mut more = String::new();
    for number in 2..=count {
        line["parentId"] = line["id"].take();
        line["id"] = json!(format!("note-{number}"));
        line["message"]["content"][0]["text"] = json!(format!("note {number}."));
        writeln!(more, "{line}").unwrap();
    }
    fs::write(&path, text + &more).unwrap();
}

#[tokio::test]
async fn a_conversation_is_read_back_to_its_first_message() {
    let place = Place::new().await;
    let count = 1100;
    write_notes(&place, count).await;
    // And one more, a question, and an answer.
    let shown = place.run("sessions", "goes_back", json!({"count": count})).await;
    assert_eq!(shown, count + 2);
}

#[tokio::test]
async fn a_session_that_is_pressed_on_opens_whatever_changes_meanwhile() {
    Place::new().await.run("sessions", "is_pressed", json!({})).await;
}

#[tokio::test]
async fn a_day_has_another_name_when_the_next_one_begins() {
    let told = Place::new().await.run("sessions", "names_days", json!({})).await;
    assert_eq!(told, json!([["Today"], ["Yesterday"], ["Yesterday", "Today"]]));
}

#[tokio::test]
async fn what_was_read_back_is_shown_without_a_hole_before_the_newest() {
    let place = Place::new().await;
    let told = place.run("sessions", "has_no_hole", json!({})).await;
    assert_eq!(told, json!([[1, 1001, false], [1, 1011, false], [5012, 1000, true]]));
}
