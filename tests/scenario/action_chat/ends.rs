//! `done` comes last and once, however a response ends.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use serde_json::json;

use super::{Chat, names, place, said};
use crate::stage::{admin, call, until};
use crate::support::client::SOON;

#[tokio::test]
async fn an_error_of_the_provider_is_told_and_then_done() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    chat.begin().await;
    let frames = chat.say(r#"@mock err status=400 msg="no such thing""#).await;
    assert_eq!(names(&frames), ["error", "done"]);
    let after_words = chat.say("@mock err status=400 after=3").await;
    assert_eq!(names(&after_words).last(), Some(&"done"), "{after_words:?}");
    assert_eq!(names(&after_words).iter().filter(|name| **name == "error").count(), 1);
    assert_eq!(said(&chat.say("@mock text text=fine").await), "fine");
}

#[tokio::test]
async fn each_message_has_one_done_whatever_becomes_of_it() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    chat.begin().await;
    let mut kinds = [
        "plain",
        "@mock stream n=5 delay=5",
        r#"@mock text text="" n=1"#,
        "@mock silent",
        "@mock err status=400",
        "@mock err status=500 after=2",
        "@mock err status=401",
        r#"@mock tool name=nothing args={} then="x""#,
        r#"@mock tool name=exec args={"command":"false"} then="x""#,
        r#"@mock tool name=exec args={"wrong":1} then="x""#,
        "@mock long kb=32",
        "/help",
        "/context",
        "/stop",
        "nul \u{0} byte",
        "plain again",
    ];
    shuffle(&mut kinds);
    // All at once: they are answered one after the other, in order.
    for text in kinds {
        chat.send(text).await;
    }
    let mut told = Vec::new();
    for text in kinds {
        let frames = chat.response().await;
        let dones = frames.iter().filter(|frame| frame["type"] == "done").count();
        assert_eq!(dones, 1, "{text} of {kinds:?}: {frames:?}");
        if text.starts_with("@mock tool") {
            told.push(said(&frames));
        }
    }
    // A stop does not wait in line: it may have met one of them.
    let answered = told.iter().filter(|text| *text == "x").count();
    assert!(answered >= told.len() - 1, "{told:?} of {kinds:?}");
    chat.nothing_comes().await;
}

/// Another order each time; a failure shows it.
fn shuffle<T>(all: &mut [T]) {
    for last in (1..all.len()).rev() {
        // std seeds every `RandomState` differently.
        let random = RandomState::new().build_hasher().finish();
        let other = random % u64::try_from(last + 1).unwrap();
        all.swap(last, usize::try_from(other).unwrap());
    }
}

#[tokio::test]
async fn a_response_that_is_stopped_elsewhere_is_done() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    let id = chat.begin().await;
    chat.send("@mock stream n=400 delay=50").await;
    chat.until("delta").await;
    let mut client = admin(&gateway).await;
    let key = super::key_of(&mut client, &id).await;
    call(&mut client, "chat.abort", json!({"sessionKey": key})).await;
    let frames = chat.response().await;
    assert!(!names(&frames).contains(&"error"), "{frames:?}");
    chat.nothing_comes().await;
}

#[tokio::test]
async fn a_gateway_that_stops_says_done_before_it_closes() {
    let (mut gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    chat.begin().await;
    chat.send("@mock stream n=4000 delay=50").await;
    chat.until("delta").await;
    gateway.signal_term();
    let closed = chat.socket.wait_closed(Duration::from_secs(20)).await.unwrap();
    assert_eq!((closed.code, closed.reason.as_str()), (1012, "service restart"));
    let frames = chat.socket.frames();
    assert_eq!(frames.last().unwrap(), &json!({"type": "done"}));
    assert_eq!(frames.iter().filter(|frame| frame["type"] == "done").count(), 1);
    gateway.wait_exit(SOON).await;
}

#[tokio::test]
async fn what_runs_goes_on_when_its_client_goes() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    let id = chat.begin().await;
    chat.send("@mock stream n=20 delay=30").await;
    chat.until("delta").await;
    chat.send("this was not begun").await;
    drop(chat);
    let mut client = admin(&gateway).await;
    let key = super::key_of(&mut client, &id).await;
    until("the end of the run", async || {
        let told = crate::stage::told(&mut client, &key).await;
        let is_over =
            told.len() == 2 && crate::stage::row(&mut client, &key).await["hasActiveRun"] == false;
        is_over.then_some(())
    })
    .await;
    let told = crate::stage::told(&mut client, &key).await;
    assert_eq!(told.len(), 2, "{told:?}");
}
