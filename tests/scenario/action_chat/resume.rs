//! Going on with a conversation.

use serde_json::{Value, json};

use super::{Chat, key_of, place, said};
use crate::stage::{admin, call, history, told};

#[tokio::test]
async fn a_conversation_outlives_its_connection_and_a_kill() {
    let (mut gateway, mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    let id = chat.begin().await;
    chat.say("remember blue").await;
    chat.send("@mock stream n=4000 delay=50").await;
    chat.until("delta").await;
    gateway.kill9();
    gateway.restart().await;
    let mut chat = Chat::open(&gateway).await;
    // The message that was being answered is there, and nothing runs.
    assert!(chat.resume(&id).await >= 3);
    chat.nothing_comes().await;
    assert_eq!(said(&chat.say("@mock text text=back").await), "back");
    let context = mock.requests().pop().unwrap().body["messages"].to_string();
    assert!(context.contains("remember blue"), "{context}");
}

#[tokio::test]
async fn a_conversation_that_began_anew_brings_its_last_messages_along_unseen() {
    let (gateway, mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    let old = chat.begin().await;
    for index in 0..11 {
        chat.say(&format!("old message {index}")).await;
    }
    let mut client = admin(&gateway).await;
    let key = key_of(&mut client, &old).await;
    call(&mut client, "sessions.reset", json!({"key": key})).await;
    assert_eq!(chat.resume(&old).await, 22);
    chat.say("go on").await;
    let body = mock.requests().pop().unwrap().body;
    let context = body["messages"].as_array().unwrap();
    let asked = context.last().unwrap()["content"].to_string();
    assert!(asked.contains("[user] old message 1\\n[assistant] Echo: old message 1\\n"), "{asked}");
    assert!(asked.contains("[assistant] Echo: old message 10"), "{asked}");
    // Twenty messages, and no more.
    assert!(!asked.contains("old message 0"), "{asked}");
    assert!(asked.contains("go on"));
    // People see what was said, in a conversation of its own.
    let list = call(&mut client, "sessions.list", json!({})).await;
    let rows = list["sessions"].as_array().unwrap();
    let new = rows.iter().find(|row| row["key"] != json!(key) && is_ours(row)).unwrap();
    let new = new["key"].as_str().unwrap().to_owned();
    let shown = told(&mut client, &new).await;
    assert_eq!(shown[0], ("user".to_owned(), "go on".to_owned()));
    let whole = serde_json::to_string(&history(&mut client, &new).await).unwrap();
    assert!(!whole.contains("old message 5"), "{whole}");
    // It is told once, and stays in the context.
    chat.say("more").await;
    let later = mock.requests().pop().unwrap().body["messages"].to_string();
    assert_eq!(later.matches("Echo: old message 5").count(), 1, "{later}");
    // The old id leads to where it goes on.
    chat.act(json!({"action": "send", "text": "by the old id", "session_id": old})).await;
    chat.response().await;
    assert_eq!(chat.resume(&old).await, 6);
    assert_eq!(told(&mut client, &new).await.len(), 6);
}

#[tokio::test]
async fn what_is_sent_behind_a_message_to_a_conversation_that_began_anew_goes_on_with_it() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    let put_away = chat.begin().await;
    chat.say("remember blue").await;
    let mut client = admin(&gateway).await;
    let key = key_of(&mut client, &put_away).await;
    call(&mut client, "sessions.reset", json!({"key": key})).await;
    let other = chat.begin().await;
    chat.send("@mock stream n=20 delay=30").await;
    chat.until("delta").await;
    chat.act(json!({"action": "send", "text": "go on", "session_id": put_away})).await;
    chat.send("and on").await;
    for _ in 0..2 {
        chat.response().await;
    }
    assert_eq!(said(&chat.response().await), "Echo: and on");
    assert_eq!(chat.resume(&other).await, 2);
    assert_eq!(chat.resume(&put_away).await, 4);
}

fn is_ours(row: &Value) -> bool {
    row["key"].as_str().is_some_and(|key| key.starts_with("agent:main:chat:"))
}

#[tokio::test]
async fn a_deleted_conversation_is_not_found() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    let id = chat.begin().await;
    chat.say("x").await;
    let mut client = admin(&gateway).await;
    let key = key_of(&mut client, &id).await;
    call(&mut client, "sessions.delete", json!({"key": key, "deleteTranscript": true})).await;
    chat.act(json!({"action": "resume_session", "session_id": id})).await;
    let content = format!("Session {id} not found");
    assert_eq!(chat.next().await, json!({"type": "error", "content": content}));
}
