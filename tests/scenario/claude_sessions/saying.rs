//! What of a message is refused, and who may say what.

use serde_json::{Value, json};

use super::{Scene, of_type};
use crate::stage::{Api, call, told};

#[tokio::test]
async fn a_message_that_is_not_taken_is_an_error_for_its_sender() {
    let mut scene = Scene::new(Api::OpenAi).await;
    let (mut one, two) = (scene.claude().await, scene.claude().await);
    two.find("session", |it| it["type"] == "session_info").await;
    call(&mut scene.main, "sessions.patch", json!({"key": scene.key, "sendPolicy": "deny"})).await;
    one.say("hello").await;
    let error = one.find("error", |it| it["type"] == "error").await;
    assert_eq!(error["error"], "Failed to send message to session");
    assert!(error["message"].as_str().unwrap().contains("session policy"), "{error}");
    assert!(two.frames().iter().all(|it| it["type"] != "error"));
}

#[tokio::test]
async fn the_same_words_twice_are_two_messages_though_the_first_is_being_answered() {
    let mut scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    let text = "@mock stream n=20 delay=40";
    claude.say(text).await;
    claude.find("piece", |it| it["type"] == "stream_event").await;
    claude.say(text).await;
    claude.turns(2).await;
    let frames = claude.frames();
    let is_it = |it: &&Value| it["message"]["content"][0]["text"] == text;
    let said: Vec<_> = of_type(&frames, "user").into_iter().filter(is_it).collect();
    assert_eq!(said.len(), 2, "{said:#?}");
    assert_ne!(said[0]["uuid"], said[1]["uuid"]);
    let key = scene.key.clone();
    let kept = told(&mut scene.main, &key).await;
    assert_eq!(kept.iter().filter(|(role, _)| role == "user").count(), 2, "{kept:?}");
}

#[tokio::test]
async fn a_session_that_was_deleted_takes_no_messages_and_says_so() {
    let mut scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    claude.find("session", |it| it["type"] == "session_info").await;
    call(&mut scene.main, "sessions.delete", json!({"key": scene.key})).await;
    claude.say("hello").await;
    let error = claude.find("error", |it| it["type"] == "error").await;
    assert_eq!(error["message"], "the session was deleted", "{error}");
}

#[tokio::test]
async fn results_of_clients_have_no_call_here() {
    let scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    claude.send(json!({"type": "tool_result", "tool_use_id": "t", "content": "x"})).await;
    let error = claude.find("error", |it| it["type"] == "error").await;
    assert!(error["message"].as_str().unwrap().contains("tools itself"), "{error}");
}

#[tokio::test]
async fn what_was_begun_anew_takes_no_more_messages_under_its_old_id() {
    let mut scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    claude.ask("@mock text text=one").await;
    call(&mut scene.main, "sessions.reset", json!({"key": scene.key})).await;
    claude.say("@mock text text=two").await;
    let error = claude.find("error", |it| it["type"] == "error").await;
    assert!(error["message"].as_str().unwrap().contains("begun anew"), "{error}");
}

#[tokio::test]
async fn sub_agents_are_seen_with_the_call_that_began_them() {
    let scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    let arguments = json!({"task": "@child text text=found", "label": "look"});
    claude.say(&format!("@mock tool name=sessions_spawn args={arguments} then=begun")).await;
    let of_child = |it: &Value| it["parent_tool_use_id"].is_string() && it["type"] == "assistant";
    let said = claude.find("sub-agent", of_child).await;
    assert_eq!(said["message"]["content"][0]["text"], "found");
    assert_eq!(said["session_id"], scene.id.as_str());
    let call = claude.find("call", |it| it["message"]["content"][0]["name"] == "Task").await;
    assert_eq!(said["parent_tool_use_id"], call["message"]["content"][0]["id"]);
}
