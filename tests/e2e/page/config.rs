//! The config file, changed on our page.

use std::fs;

use serde_json::json;

use super::Place;
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET, default_config};

const COMMENT: &str = "// What the house is like.";

/// A gateway whose file has a comment, and a credential.
async fn commented() -> Place {
    let place = Place::new().await;
    let path = place.gateway.config_path();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{COMMENT}\n{text}")).unwrap();
    place
}

fn text(place: &Place) -> String {
    fs::read_to_string(place.gateway.config_path()).unwrap()
}

#[tokio::test]
async fn a_field_that_is_changed_is_in_the_file_and_comments_and_secrets_stay() {
    let place = commented().await;
    let told = place.run("config", "by_fields", json!({})).await;
    // A port that is none is told beside its field before anything is sent.
    assert_eq!(told["mistake"], "must be at most 65535", "{told}");
    assert_eq!((&told["canSave"], &told["secret"]), (&json!(false), &json!("")), "{told}");
    let diff = json!([
        ["cron.maxConcurrentRuns", "nothing", "3"],
        ["logging.level", "nothing", "\"debug\""]
    ]);
    assert_eq!(told["diff"], diff, "{told}");
    let text = text(&place);
    assert!(text.starts_with(COMMENT), "{text}");
    assert!(
        text.contains(SECRET) && text.contains("mock-key") && !text.contains("REDACTED"),
        "{text}"
    );
    let written: serde_json::Value = serde_json::from_str(&text[COMMENT.len()..]).unwrap();
    assert_eq!(written["cron"]["maxConcurrentRuns"], 3);
    assert_eq!(written["logging"]["level"], "debug");
    assert!(written["gateway"].get("port").is_none(), "{text}");
}

#[tokio::test]
async fn what_the_gateway_refuses_is_told_beside_its_field_and_the_file_stays() {
    let place = commented().await;
    let before = text(&place);
    let told = place.run("config", "is_refused", json!({})).await;
    assert_eq!(text(&place), before);
    assert!(told["beside"].as_str().unwrap().contains("nowhere/none"), "{told}");
    assert_eq!(told["invalid"], "true", "{told}");
}

#[tokio::test]
async fn who_is_typing_goes_on_typing_when_the_connection_comes_back() {
    let mut place = commented().await;
    let mut steps = place.begin("config", "goes_on", json!({}));
    let asked = place.asked_for("restart", &mut steps).await;
    place.gateway.restart_in_place().await;
    asked.done();
    let told = steps.await.unwrap();
    assert_eq!(told["typed"], "12", "{told}");
    assert_eq!(told["diff"], json!([["cron.maxConcurrentRuns", "nothing", "12"]]), "{told}");
}

#[tokio::test]
async fn the_text_is_changed_with_its_comments_and_mistakes_name_their_line() {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    for provider in ["mock", "mocka"] {
        config["models"]["providers"][provider]["apiKey"] = json!("${MOCK_KEY}");
    }
    config["gateway"]["auth"]["token"] = json!("${HOUSE_TOKEN}");
    let options = GatewayOptions::with_config(config);
    let options = options.env("MOCK_KEY", "mock-key").env("HOUSE_TOKEN", SECRET);
    let place = Place::of(Gateway::start(options).await, mock).await;
    let told = place.run("config", "by_text", json!({"comment": COMMENT})).await;
    assert!(told["syntax"].as_str().unwrap().contains("line 1, column 1"), "{told}");
    assert_eq!(told["marked"], "1", "{told}");
    assert!(told["type"].as_str().unwrap().contains("cron.enabled"), "{told}");
    let text = text(&place);
    assert!(text.starts_with(COMMENT), "{text}");
    assert!(text.contains("${MOCK_KEY}") && text.contains("${HOUSE_TOKEN}"), "{text}");
    assert!(text.contains("cron: { enabled: false }, // later"), "{text}");
}

#[tokio::test]
async fn a_change_of_somebody_else_is_shown_and_ours_comes_on_top_of_it() {
    let mut place = commented().await;
    let mut steps = place.begin("config", "meets_another", json!({}));
    let asked = place.asked_for("change", &mut steps).await;
    let theirs = text(&place).replacen('{', "{\"session\": {\"mainKey\": \"home\"},", 1);
    fs::write(place.gateway.config_path(), theirs).unwrap();
    asked.done();
    let told = steps.await.unwrap();
    let diff = json!([["session.mainKey", "nothing", "\"home\""]]);
    assert_eq!(told["theirs"], diff, "{told}");
    assert_eq!(told["kept"], true, "{told}");
    let text = text(&place);
    assert!(text.starts_with(COMMENT), "{text}");
    let written: serde_json::Value = serde_json::from_str(&text[COMMENT.len()..]).unwrap();
    assert_eq!(written["session"]["mainKey"], "home");
    assert_eq!(written["cron"]["maxConcurrentRuns"], 3);
}

#[tokio::test]
async fn lists_that_two_have_changed_are_put_together_by_ids_or_as_a_person_chooses() {
    let mut place = Place::with(|config| {
        config["agents"]["list"] = json!([{"id": "main"}, {"id": "b"}]);
        config["tools"] = json!({"deny": ["exec"]});
        config["cron"] = json!({"maxConcurrentRuns": 2});
    })
    .await;
    let mut steps = place.begin("config", "merges", json!({}));
    let asked = place.asked_for("change", &mut steps).await;
    let mut theirs: serde_json::Value = serde_json::from_str(&text(&place)).unwrap();
    theirs["agents"]["list"] = json!([{"id": "b"}, {"id": "c"}]);
    theirs["tools"]["deny"] = json!(["exec", "cron"]);
    theirs["cron"]["maxConcurrentRuns"] = json!(5);
    fs::write(place.gateway.config_path(), theirs.to_string()).unwrap();
    asked.done();
    let mut choices: Vec<String> = serde_json::from_value(steps.await.unwrap()).unwrap();
    choices.sort();
    assert_eq!(choices, ["cron.maxConcurrentRuns", "tools.deny"]);
    let written: serde_json::Value = serde_json::from_str(&text(&place)).unwrap();
    let list = json!([{"id": "b", "name": "Bee"}, {"id": "c"}]);
    assert_eq!(written["agents"]["list"], list, "{written}");
    assert_eq!(written["tools"]["deny"], json!(["exec", "cron"]), "{written}");
    assert_eq!(written["cron"]["maxConcurrentRuns"], 5, "{written}");
}

#[tokio::test]
async fn a_secret_that_is_typed_is_shown_in_its_field_only_and_given_up_keeps_the_stored_one() {
    let place = Place::new().await;
    let told = place.run("config", "masks", json!({})).await;
    let row = json!([["gateway.auth.token", "\"(a secret)\"", "\"(a new secret)\""]]);
    assert_eq!(told["rows"], row, "{told}");
    let shown = told["text"].as_str().unwrap();
    assert!(!shown.contains("typed-secret") && !shown.contains("REDACTED"), "{told}");
    assert_eq!(told["removed"], json!(["removed when you save", true]), "{told}");
}
