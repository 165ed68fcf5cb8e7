//! The frames of a response.

use serde_json::json;

use super::{Chat, find, name, names, place, said};
use crate::stage::{Api, config};
use crate::support::{Gateway, GatewayOptions, MockProvider};

#[tokio::test]
async fn words_come_as_deltas_and_done_comes_last() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    chat.begin().await;
    let frames = chat.say("@mock stream n=10 delay=30").await;
    assert_eq!(names(&frames), ["delta", "done"]);
    assert!(frames.len() > 5, "{frames:?}");
    for frame in &frames[..frames.len() - 1] {
        let content = frame["content"].as_str().unwrap();
        assert_eq!(*frame, json!({"type": "delta", "content": content}));
        assert!(!content.is_empty());
    }
    assert_eq!(frames.last().unwrap(), &json!({"type": "done"}));
    chat.nothing_comes().await;
}

#[tokio::test]
async fn text_that_comes_at_once_is_one_delta() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    let frames = chat.say(r#"@mock text text="all of it" n=1"#).await;
    assert_eq!(frames, [json!({"type": "delta", "content": "all of it"}), json!({"type": "done"})]);
}

#[tokio::test]
async fn thoughts_are_told_apart_from_words() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::Anthropic);
    config["agents"]["defaults"]["thinkingDefault"] = json!("low");
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut chat = Chat::open(&gateway).await;
    let frames = chat.say("@mock think n=3").await;
    assert_eq!(said(&frames), "After thinking.");
    let thoughts = frames.iter().filter(|frame| name(frame) == "reasoning");
    let thoughts: String = thoughts.map(|frame| frame["text"].as_str().unwrap()).collect();
    assert_eq!(thoughts.trim_end(), "w1 w2 w3", "{frames:?}");
    let at = |kind: &str| frames.iter().position(|frame| name(frame) == kind).unwrap();
    assert!(at("reasoning") < at("delta"));
    assert_eq!(names(&frames).last(), Some(&"done"));
}

#[tokio::test]
async fn a_silent_reply_is_done_and_no_error() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    assert_eq!(chat.say("@mock silent").await, [json!({"type": "done"})]);
}

#[tokio::test]
async fn an_answer_without_words_is_an_error_and_then_done() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    let frames = chat.say(r#"@mock text text="" n=1"#).await;
    let content = find(&frames, "error")["content"].as_str().unwrap();
    assert!(content.starts_with("The model did not respond. "), "{content}");
    assert_eq!(names(&frames), ["error", "done"]);
}

#[tokio::test]
async fn what_the_gateway_itself_answers_is_a_message() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    chat.begin().await;
    // A command of the gateway that the dialect does not have.
    let frames = chat.say("/context").await;
    assert_eq!(names(&frames), ["message", "done"], "{frames:?}");
}
