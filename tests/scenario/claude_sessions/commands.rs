//! Slash commands that a client of the dialect gives.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Claude, Scene, of_type};
use crate::channels::receiver::Receiver;
use crate::channels::{SIGNING, with_channels, with_webhook_running};
use crate::stage::{Api, ask, call, text_of, until};
use crate::support::{Gateway, GatewayOptions, MockProvider};

#[tokio::test]
async fn what_a_command_does_later_has_an_end_and_keeps_nobody_out() {
    let mut scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    claude.ask("hello").await;
    claude.say("/compact").await;
    claude.turns(2).await;
    claude.say("/btw @mock text text=aside").await;
    claude.turns(3).await;
    claude.find("answer", |it| it["message"]["content"][0]["text"] == "aside").await;
    let key = scene.key.clone();
    let end = ask(&mut scene.main, &key, "@mock text text=after", "run-1").await;
    assert_eq!(text_of(&end["message"]), "after");
}

/// Has a command run until there is the file that this gives.
async fn work(scene: &Scene, claude: &mut Claude) -> PathBuf {
    let [begun, gate] = ["begun", "gate"].map(|name| scene.gateway.workspace().join(name));
    let (touch, wait) = (begun.display(), gate.display());
    let command = format!("touch {touch}; until [ -e {wait} ]; do sleep 0.05; done; echo open");
    let arguments = json!({ "command": command });
    claude.say(&format!("@mock tool name=exec args={arguments} then=done")).await;
    until("the command", async || begun.exists().then_some(())).await;
    gate
}

#[tokio::test]
async fn a_side_question_in_the_middle_of_a_turn_ends_nothing() {
    let scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    let gate = work(&scene, &mut claude).await;
    claude.say("/btw @mock text text=aside").await;
    let is_aside = |it: &Value| it["message"]["content"][0]["text"] == "aside";
    claude.find("answer", is_aside).await;
    fs::write(&gate, "").unwrap();
    let is_end = |it: &Value| it["type"] == "result" && it["num_turns"] == 2;
    claude.find("end", is_end).await;
    let frames = claude.frames();
    assert_eq!(of_type(&frames, "result").len(), 1, "{frames:#?}");
}

#[tokio::test]
async fn what_is_answered_while_a_tool_runs_is_not_for_the_model_and_its_result_is_told_once() {
    let mut scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    let gate = work(&scene, &mut claude).await;
    let key = scene.key.clone();
    let note = ask(&mut scene.main, &key, "/status", "note").await;
    let note = text_of(&note["message"]);
    fs::write(&gate, "").unwrap();
    claude.turns(1).await;
    let asked = scene.mock.requests().pop().unwrap().body["messages"].clone();
    let heard = asked.as_array().unwrap();
    assert_eq!(heard.last().unwrap()["role"], "tool", "{asked}");
    let is_note = |message: &Value| text_of(message).contains(&note);
    assert!(!note.is_empty() && !heard.iter().any(is_note), "{asked}");
    let frames = claude.frames();
    let results =
        of_type(&frames, "user").into_iter().filter(|it| it.get("tool_use_result").is_some());
    let results: Vec<_> = results.map(|it| it["uuid"].clone()).collect();
    assert_eq!(results.len(), 1, "{frames:#?}");
    let end = of_type(&frames, "result")[0];
    let models: Vec<_> =
        end["modelUsage"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!((&end["num_turns"], models), (&json!(2), vec!["mock-1"]), "{end}");
    let later = scene.claude().await;
    later.find("result", |it| it["uuid"] == results[0]).await;
}

#[tokio::test]
async fn what_is_sent_elsewhere_is_seen_at_once_in_the_session_that_gets_to_know_it() {
    let (receiver, mock) = (Receiver::start().await, MockProvider::start().await);
    let webhook = json!({"secret": SIGNING, "url": receiver.url(), "allowFrom": ["bob"]});
    let config = with_channels(mock.address(), &json!({"webhook": webhook}));
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut main = with_webhook_running(&gateway).await;
    let made = call(&mut main, "sessions.create", json!({"label": "claude"})).await;
    let claude = Claude::open(&gateway, made["sessionId"].as_str().unwrap(), "").await;
    claude.find("its beginning", |frame| frame["type"] == "session_info").await;
    let sent = json!({"to": "bob", "message": "Tea is ready.", "sessionKey": made["key"],
        "idempotencyKey": "s1"});
    call(&mut main, "send", sent).await;
    let is_it = |frame: &Value| frame["message"]["content"][0]["text"] == "Tea is ready.";
    claude.find("what was sent", is_it).await;
}
