//! What was said before, and coming again.

use serde_json::{Value, json};

use super::{Claude, Scene, of_type, streamed, uuids};
use crate::stage::{Api, ask, call};

#[tokio::test]
async fn who_comes_later_reads_what_was_said_under_the_same_uuids() {
    let scene = Scene::new(Api::Anthropic).await;
    let mut claude = scene.claude().await;
    let arguments = json!({"command": "echo x"});
    claude.ask(&format!("@mock tool name=exec args={arguments} pre=look then=done")).await;
    let is_line = |it: &&Value| matches!(it["type"].as_str(), Some("user" | "assistant"));
    let live: Vec<_> = claude.frames().iter().filter(is_line).cloned().collect();
    let later = scene.claude().await;
    later.find("end", |it| it["uuid"] == live.last().unwrap()["uuid"]).await;
    let burst = later.frames();
    assert_eq!(burst[0], json!({"type": "session_info", "totalPages": 1, "lowestBurstPage": 0}));
    assert_eq!(uuids(&burst), uuids(&live));
    let mut before = Value::Null;
    for line in &burst[1..] {
        assert_eq!(line["parentUuid"], before, "each follows the one before it");
        assert_eq!(line["sessionId"], scene.id.as_str());
        before = line["uuid"].clone();
    }
}

#[tokio::test]
async fn who_comes_in_the_middle_of_an_answer_has_all_of_it() {
    let scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    claude.say("@mock stream n=40 delay=40").await;
    claude
        .find("piece", |it| it["event"]["delta"]["text"].as_str().is_some_and(|t| t.contains("w5")))
        .await;
    let later = scene.claude().await;
    claude.turns(1).await;
    later.turns(1).await;
    assert_eq!(streamed(&later.frames()), streamed(&claude.frames()));
    let starts = later.frames().iter().filter(|it| it["subtype"] == "init").count();
    assert_eq!(starts, 1, "it learns that the session works");
}

#[tokio::test]
async fn who_was_alone_and_comes_again_reads_on() {
    let scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    claude.say("@mock stream n=40 delay=40").await;
    claude
        .find("piece", |it| it["event"]["delta"]["text"].as_str().is_some_and(|t| t.contains("w5")))
        .await;
    drop(claude);
    let later = scene.claude().await;
    later.turns(1).await;
    let expected: String = (1..=40).map(|i| format!("w{i} ")).collect();
    assert_eq!(streamed(&later.frames()).trim_end(), expected.trim_end());
}

#[tokio::test]
async fn after_a_line_comes_only_what_follows_it_and_after_an_unknown_one_everything() {
    let mut scene = Scene::new(Api::OpenAi).await;
    let key = scene.key.clone();
    for number in 1..=3 {
        ask(&mut scene.main, &key, &format!("@mock text text=n{number}"), &number.to_string())
            .await;
    }
    let claude = scene.claude().await;
    claude.find("end", |it| it["message"]["content"][0]["text"] == "n3").await;
    let all = uuids(&claude.frames());
    assert_eq!(all.len(), 6);
    let rest = Claude::open(&scene.gateway, &scene.id, &format!("&fromUuid={}", all[3])).await;
    rest.find("end", |it| it["uuid"] == all[5].as_str()).await;
    assert_eq!(uuids(&rest.frames()), all[4..]);
    let mut asked = scene.claude().await;
    asked.find("end", |it| it["uuid"] == all[5].as_str()).await;
    // Each is done when the one before it has been, however fast they come.
    let mut expected = all.clone();
    for _ in 0..10 {
        asked.send(json!({"type": "subscribe", "fromUuid": all[4]})).await;
        asked.send(json!({"type": "subscribe", "fromUuid": "unknown"})).await;
        expected.extend_from_slice(&all[5..]);
        expected.extend_from_slice(&all);
    }
    let again = asked.0.wait_until(super::TURN, |received| {
        let frames = received.iter().filter_map(|it| it.what.frame());
        let lines = frames.filter(|frame| frame["uuid"].is_string());
        (lines.count() >= expected.len()).then_some(())
    });
    again.await.unwrap_or_else(|| panic!("{:#?}", asked.frames()));
    assert_eq!(uuids(&asked.frames()), expected);
}

#[tokio::test]
async fn long_conversations_come_in_pages_the_last_two_at_once() {
    let mut scene = Scene::new(Api::OpenAi).await;
    let key = scene.key.clone();
    for number in 0..5 {
        let run = format!("run-{number}");
        ask(&mut scene.main, &key, &format!("@mock long kb=300 {number}"), &run).await;
    }
    let claude = scene.claude().await;
    let info = claude.find("session", |it| it["type"] == "session_info").await;
    let (total, lowest) =
        (info["totalPages"].as_u64().unwrap(), info["lowestBurstPage"].as_u64().unwrap());
    assert!(total >= 3 && lowest == total - 2, "{info}");
    let last = scene.claude().await;
    let again = last.find("session", |it| it["type"] == "session_info").await;
    assert_eq!(again, info);
    claude.find("end", |it| it["type"] == "assistant").await;
    assert!(of_type(&claude.frames(), "assistant").len() < 5);
}

#[tokio::test]
async fn who_is_too_far_behind_a_line_reads_the_last_pages_instead() {
    let mut scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    let first = uuids(&claude.ask("@mock text text=first").await)[0].clone();
    for number in 0..10 {
        let message = format!("{number}{}", "x".repeat(2 * 1024 * 1024));
        call(&mut scene.main, "chat.inject", json!({"sessionKey": scene.key, "message": message}))
            .await;
    }
    let late = Claude::open(&scene.gateway, &scene.id, &format!("&fromUuid={first}")).await;
    late.find("session", |it| it["type"] == "session_info").await;
    let info = late.frames()[0].clone();
    assert_eq!(info["type"], "session_info");
    assert!(info["lowestBurstPage"].as_u64().unwrap() > 0, "{info}");
    let is_last = |it: &Value| {
        let text = it["message"]["content"][0]["text"].as_str();
        text.is_some_and(|text| text.starts_with("9x"))
    };
    late.find("end", is_last).await;
    assert!(of_type(&late.frames(), "assistant").len() < 10);
}

#[tokio::test]
async fn what_a_command_or_a_stop_word_was_is_not_told_to_who_comes_later() {
    let scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    claude.ask("/status").await;
    claude.say("stop").await;
    claude.turns(2).await;
    claude.say("@mock text text=after").await;
    claude.turns(3).await;
    let mut later = scene.claude().await;
    // What is refused is told behind all that was told before.
    later.send(json!({"type": "tool_result", "tool_use_id": "none"})).await;
    later.find("refusal", |it| it["type"] == "error").await;
    let frames = later.frames();
    let said: Vec<_> = of_type(&frames, "user").iter().map(|it| it["message"].clone()).collect();
    assert_eq!(said.len(), 1, "{frames:#?}");
    assert!(said[0].to_string().contains("text=after"), "{frames:#?}");
}

#[tokio::test]
async fn after_a_kill_the_conversation_is_there_and_goes_on() {
    let mut scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    claude.ask("@mock text text=before").await;
    let before =
        uuids(&of_type(&claude.frames(), "assistant").into_iter().cloned().collect::<Vec<_>>());
    scene.gateway.kill9();
    scene.gateway.restart_in_place().await;
    let mut again = scene.claude().await;
    again.find("history", |it| it["uuid"] == before[0].as_str()).await;
    again.ask("@mock text text=after").await;
    assert_eq!(of_type(&again.frames(), "result")[0]["result"], "after");
}

#[tokio::test]
async fn what_was_being_said_at_a_kill_is_not_said_to_go_on() {
    let mut scene = Scene::new(Api::OpenAi).await;
    let mut claude = scene.claude().await;
    claude.say("@mock stream n=400 delay=40").await;
    claude.find("piece", |it| it["event"]["delta"]["text"].is_string()).await;
    scene.gateway.kill9();
    scene.gateway.restart_in_place().await;
    let mut again = scene.claude().await;
    let said = again.find("message", |it| it["type"] == "user").await;
    assert_eq!(said["message"]["content"], "@mock stream n=400 delay=40");
    assert!(again.frames().iter().all(|it| it["subtype"] != "init"));
    again.ask("@mock text text=after").await;
}
