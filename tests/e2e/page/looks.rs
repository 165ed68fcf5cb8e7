//! What can be read on our page: on a phone, in either direction, and without a connection.

use serde_json::json;

use super::Place;
use crate::stage::{admin, call};

#[tokio::test]
async fn a_table_that_is_wider_than_a_phone_is_scrolled_and_keeps_its_words_whole() {
    Place::new().await.run("looks", "wide_table", json!({})).await;
}

#[tokio::test]
async fn what_has_the_focus_is_not_behind_a_bar_that_stays() {
    Place::new().await.run("looks", "in_sight", json!({})).await;
}

#[tokio::test]
async fn each_part_of_a_text_has_the_direction_of_its_script_and_code_has_its_own() {
    Place::new().await.run("looks", "directions", json!({})).await;
}

#[tokio::test]
async fn nothing_is_covered_or_cut_off_while_there_is_no_connection() {
    Place::new().await.run("looks", "without_a_connection", json!({})).await;
}

#[tokio::test]
async fn views_and_dialogs_are_as_wide_as_a_phone_whatever_names_are_in_them() {
    let place = Place::new().await;
    let mut client = admin(&place.gateway).await;
    call(&mut client, "sessions.create", json!({"key": "main"})).await;
    let name = "longname".repeat(12);
    let job = json!({"name": name, "schedule": {"kind": "every", "everyMs": 3_600_000},
        "sessionTarget": "main", "payload": {"kind": "systemEvent", "text": "tick"}});
    call(&mut client, "cron.add", job).await;
    place.run("looks", "on_a_phone", json!({})).await;
}

#[tokio::test]
async fn what_is_told_covers_nothing_that_sends_or_stops_and_is_told_once() {
    Place::new().await.run("looks", "told", json!({})).await;
}

#[tokio::test]
async fn what_is_chosen_is_seen_in_the_colours_of_the_browser() {
    Place::new().await.run("looks", "forced_colours", json!({})).await;
}

#[tokio::test]
async fn a_long_draft_takes_nobody_away_from_the_end_and_nothing_lies_above_the_head() {
    Place::new().await.run("looks", "long_draft", json!({})).await;
}

#[tokio::test]
async fn all_words_are_as_large_as_the_browser_is_told_to_have_them() {
    Place::new().await.run("looks", "large_words", json!({})).await;
}

#[tokio::test]
async fn the_long_name_of_a_session_leaves_the_rest_of_its_row_in_sight() {
    let place = Place::new().await;
    let mut client = admin(&place.gateway).await;
    let label = "longname".repeat(20);
    call(&mut client, "sessions.create", json!({"agentId": "main", "label": label})).await;
    place.run("looks", "long_name", json!({})).await;
}

#[tokio::test]
async fn a_question_leaves_whoever_types_on_a_phone_the_field_and_what_sends() {
    Place::new().await.run("looks", "asked_while_typing", json!({})).await;
}

#[tokio::test]
async fn a_draft_of_several_lines_is_all_in_sight_when_somebody_comes_back_to_it() {
    Place::new().await.run("looks", "draft_again", json!({})).await;
}
