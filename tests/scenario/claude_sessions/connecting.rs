//! Who is let in, and what stays without an answer.

use std::fs;
use std::path::Path;

use serde_json::json;
use tempfile::TempDir;

use super::{Claude, Scene, TURN, of_type};
use crate::stage::{Api, admin, call, config, row};
use crate::support::client::Incoming;
use crate::support::config::SECRET;
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient, now_ms};

#[tokio::test]
async fn an_unknown_session_is_not_found_and_nobody_comes_in_without_a_credential() {
    let scene = Scene::new(Api::OpenAi).await;
    let address = scene.gateway.address();
    let open = async |id: &str, query: &str| {
        let path = format!("/api/claude/sessions/{id}/subscribe{query}");
        WsClient::open_with(&address, &path, &[]).await.err().unwrap()
    };
    let refusal =
        open("7c9e6679-7425-40de-944b-e07fc1f90ae7", &format!("?access_token={SECRET}")).await;
    assert_eq!((refusal.status, refusal.body.as_str()), (404, r#"{"error":"Session not found"}"#));
    let refusal = open(&scene.id, "").await;
    assert_eq!(refusal.status, 401);
    assert_eq!(refusal.body, r#"{"error":"Unauthorized","code":"INVALID_TOKEN"}"#);
}

#[tokio::test]
async fn what_nobody_understands_is_passed_over() {
    let scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    claude.0.send_text("no json").await;
    claude.0.send_binary(vec![1, 2, 3]).await;
    claude.send(json!({"type": "unheard_of"})).await;
    claude
        .send(json!({"type": "control_request", "request_id": "r", "request": {"subtype": "x"}}))
        .await;
    claude.send(json!([1])).await;
    let big = "x".repeat(9 * 1024 * 1024);
    claude.say(&big).await;
    // It is written down, read and told, by a program that is not built for speed.
    let echo = claude.0.wait_for(5 * TURN, |it| it["type"] == "user").await.expect("the echo");
    assert_eq!(echo["message"]["content"][0]["text"], big.as_str());
    let frames = claude.frames();
    assert!(frames.iter().all(|it| it["type"] != "error"));
    assert!(!claude.0.received().iter().any(|it| matches!(it.what, Incoming::Close(_))));
}

#[tokio::test]
async fn half_of_an_emoji_takes_no_message_with_it() {
    let scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    claude.0.send_text(r#"{"type":"user_message","content":"half \ud83d of it"}"#).await;
    claude.turns(1).await;
    let echo = claude.find("echo", |it| it["type"] == "user").await;
    assert_eq!(echo["message"]["content"][0]["text"], "half \u{fffd} of it");
}

#[tokio::test]
async fn typing_is_told_to_the_others_only() {
    let scene = Scene::new(Api::OpenAi).await;
    let (mut one, two) = (scene.claude().await, Claude::open(&scene.gateway, &scene.id, "").await);
    two.find("session", |it| it["type"] == "session_info").await;
    one.send(json!({"type": "typing", "isTyping": true})).await;
    let told = two.find("typing", |it| it["type"] == "typing").await;
    assert_eq!(told, json!({"type": "typing", "isTyping": true}));
    assert!(one.frames().iter().all(|it| it["type"] != "typing"));
}

#[tokio::test]
async fn under_the_id_of_a_conversation_that_was_begun_anew_nothing_more_is_said() {
    let mut scene = Scene::new(Api::OpenAi).await;
    let mut old = scene.claude().await;
    old.ask("@mock text text=\"tomatoes\"").await;
    let reset = call(&mut scene.main, "sessions.reset", json!({"key": scene.key})).await;
    let id = reset["entry"]["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(id, scene.id);
    let before = old.frames().len();
    let mut new = Claude::open(&scene.gateway, &id, "").await;
    new.ask("@mock text text=\"peppers\"").await;
    // An answer to what it says comes behind all that was told before.
    old.say("more tomatoes").await;
    old.find("refusal", |it| it["type"] == "error").await;
    let told = &old.frames()[before..];
    assert_eq!(told.len(), 1, "{told:#?}");
}

#[tokio::test]
async fn under_the_id_of_a_conversation_that_was_begun_anew_no_other_is_told_or_changed() {
    let mut scene = Scene::new(Api::OpenAi).await;
    let mut old = scene.claude().await;
    old.ask("@mock text text=\"tomatoes\"").await;
    let reset = call(&mut scene.main, "sessions.reset", json!({"key": scene.key})).await;
    let id = reset["entry"]["sessionId"].as_str().unwrap().to_owned();
    let mut new = Claude::open(&scene.gateway, &id, "").await;
    new.ask("@mock text text=\"peppers\"").await;
    let before = old.frames().len();
    let request = |subtype: &str| {
        json!({"type": "control_request", "request_id": subtype,
            "request": {"subtype": subtype, "mode": "plan"}})
    };
    let said = [
        json!({"type": "subscribe"}),
        request("interrupt"),
        request("set_permission_mode"),
        // Heard behind them.
        json!({"type": "tool_result", "tool_use_id": "none"}),
    ];
    let count = before + said.len();
    for frame in said {
        old.send(frame).await;
    }
    let told = old.0.wait_until(TURN, |received| {
        let frames = received.iter().filter_map(|it| it.what.frame());
        (frames.count() >= count).then_some(())
    });
    told.await.unwrap_or_else(|| panic!("{:#?}", old.frames()));
    let told = &old.frames()[before..];
    let refused = told.iter().filter(|it| it["error"].is_string() && it.to_string().contains(&id));
    assert_eq!((told.len(), refused.count()), (4, 3), "{told:#?}");
    new.say("@mock text text=\"beans\"").await;
    new.turns(2).await;
    let frames = new.frames();
    let modes = frames.iter().filter(|it| it["subtype"] == "init").map(|it| &it["permissionMode"]);
    assert_eq!(modes.collect::<Vec<_>>(), ["default", "default"]);
}

/// A state folder with one session of yesterday, `s-old`.
fn with_yesterday(state: &Path, key: &str) {
    let folder = state.join("agents/main/sessions");
    fs::create_dir_all(&folder).unwrap();
    let now = now_ms();
    let index = json!({key: {"sessionId": "s-old", "updatedAt": now, "chatType": "direct",
        "sessionStartedAt": now - 25 * 3_600_000, "lastInteractionAt": now}});
    fs::write(folder.join("sessions.json"), index.to_string()).unwrap();
    let header = json!({"type": "session", "version": 3, "id": "s-old"});
    let message = json!({"type": "message", "id": "a", "parentId": null,
        "message": {"role": "user", "content": "long ago", "timestamp": now}});
    fs::write(folder.join("s-old.jsonl"), format!("{header}\n{message}\n")).unwrap();
}

#[tokio::test]
async fn who_speaks_after_the_hour_of_the_day_hears_where_the_conversation_goes_on() {
    for text in ["@mock text text=well", "/status"] {
        let mock = MockProvider::start().await;
        let root = TempDir::with_prefix("clawgate-test-").unwrap();
        let key = "agent:main:main";
        with_yesterday(&root.path().join("state"), key);
        let options = GatewayOptions::with_config(config(mock.address(), Api::OpenAi));
        let gateway = Gateway::start_in(root, options).await.unwrap();
        let mut old = Claude::open(&gateway, "s-old", "").await;
        let told = old.ask(text).await;
        let new = row(&mut admin(&gateway).await, key).await["sessionId"].clone();
        assert_ne!(new, "s-old");
        let errors = of_type(&told, "error");
        assert_eq!(errors.len(), 1, "{told:#?}");
        assert!(errors[0]["message"].as_str().unwrap().contains(new.as_str().unwrap()));
        assert_eq!(of_type(&told, "result").len(), 1, "{told:#?}");
        let goes_on = Claude::open(&gateway, new.as_str().unwrap(), "").await;
        goes_on.find("answer", |it| it["type"] == "assistant").await;
    }
}
