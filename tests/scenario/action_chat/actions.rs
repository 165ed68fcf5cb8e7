//! What a client can ask for, and what is wrong with the rest.

use serde_json::{Value, json};

use super::{Chat, find, key_of, name, names, place, said};
use crate::stage::{admin, call, row};

#[tokio::test]
async fn a_conversation_is_begun_with_an_id_and_a_recognisable_key() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    let id = chat.begin().await;
    let mut client = admin(&gateway).await;
    let key = key_of(&mut client, &id).await;
    assert!(key.starts_with("agent:main:chat:"), "{key}");
    assert_eq!(row(&mut client, &key).await["sessionId"], json!(id));
    assert_ne!(chat.begin().await, id);
}

#[tokio::test]
async fn a_message_without_a_conversation_begins_one_silently() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    let frames = chat.say("hello").await;
    assert_eq!(names(&frames), ["delta", "done"]);
    assert_eq!(said(&frames), "Echo: hello");
    // The next is said in the same.
    chat.say("again").await;
    let mut client = admin(&gateway).await;
    let list = call(&mut client, "sessions.list", json!({})).await;
    let keys = list["sessions"].as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap());
    let ours: Vec<_> = keys.filter(|key| key.starts_with("agent:main:chat:")).collect();
    assert_eq!(ours.len(), 1, "{list}");
}

#[tokio::test]
async fn text_and_message_say_the_same_and_empty_says_nothing() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    for empty in [json!({}), json!({"text": ""}), json!({"message": " \n"})] {
        let mut frame = json!({"action": "send"});
        frame.as_object_mut().unwrap().extend(empty.as_object().unwrap().clone());
        chat.act(frame).await;
    }
    chat.act(json!({"action": "send", "message": "by message"})).await;
    assert_eq!(said(&chat.response().await), "Echo: by message");
    chat.nothing_comes().await;
}

#[tokio::test]
async fn a_message_can_name_its_conversation() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    let first = chat.begin().await;
    let second = chat.begin().await;
    chat.act(json!({"action": "send", "text": "to the first", "session_id": first})).await;
    chat.response().await;
    assert_eq!(chat.resume(&first).await, 2);
    assert_eq!(chat.resume(&second).await, 0);
    chat.act(json!({"action": "send", "text": "x", "session_id": "none"})).await;
    let frames = chat.response().await;
    assert_eq!(frames[0], json!({"type": "error", "content": "Session none not found"}));
    assert_eq!(names(&frames), ["error", "done"]);
}

#[tokio::test]
async fn what_is_wrong_is_said_and_the_connection_stays_open() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    for (frame, content) in [
        ("{", "Invalid JSON"),
        ("[1]", "Invalid JSON"),
        (r#"{"action":"dance"}"#, "Unknown action: dance"),
        (r#"{"hello":1}"#, "Unknown action: "),
        (r#"{"action":"resume_session","session_id":"abc-123"}"#, "Session abc-123 not found"),
        (
            r#"{"action":"resume_session","session_id":"../../etc/passwd"}"#,
            "Session ../../etc/passwd not found",
        ),
        (r#"{"action":"approve_tool"}"#, "call_id is required"),
        (r#"{"action":"send","text":7}"#, "text must be a string"),
    ] {
        chat.socket.send_text(frame).await;
        assert_eq!(chat.next().await, json!({"type": "error", "content": content}), "{frame}");
    }
    chat.socket.send_binary(br#"{"action":"new_session"}"#.to_vec()).await;
    assert_eq!(said(&chat.say("still here").await), "Echo: still here");
}

#[tokio::test]
async fn more_messages_than_wait_are_refused_and_each_has_its_done() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    chat.begin().await;
    chat.send("@mock stream n=40 delay=50").await;
    chat.until("delta").await;
    for index in 0..120 {
        chat.send(&format!("/unknown-{index}")).await;
    }
    let mut frames = Vec::new();
    for _ in 0..121 {
        frames.push(chat.response().await);
    }
    let refused = |frames: &&Vec<Value>| {
        frames
            .iter()
            .any(|frame| frame["content"].as_str().is_some_and(|it| it.starts_with("Too many")))
    };
    assert_eq!(frames.iter().filter(refused).count(), 20);
    assert!(frames.iter().rev().take(20).all(|it| refused(&it)), "the last are refused");
    chat.nothing_comes().await;
}

#[tokio::test]
async fn a_command_of_the_dialect_is_answered_with_a_message() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    let first = chat.begin().await;
    let frames = chat.say("/help").await;
    assert_eq!(names(&frames), ["message", "done"]);
    let frames = chat.say("/new").await;
    assert_eq!(names(&frames), ["session_created", "message", "done"]);
    assert_eq!(find(&frames, "message")["content"], "New session started.");
    assert_ne!(frames[0]["session_id"], json!(first));
    let second = frames[0]["session_id"].as_str().unwrap().to_owned();
    chat.say("in the new one").await;
    assert_eq!(chat.resume(&second).await, 2);
    assert_eq!(chat.resume(&first).await, 0);
    // What is no command of the dialect nor of the gateway goes to the model.
    assert_eq!(said(&chat.say("/unknown thing").await), "Echo: /unknown thing");
}

#[tokio::test]
async fn what_is_sent_behind_a_command_that_begins_a_conversation_is_said_in_that_one() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    for command in ["/new", "/model mock/mock-2"] {
        let old = chat.begin().await;
        chat.send("@mock stream n=20 delay=30").await;
        chat.until("delta").await;
        // Both wait for the answer to the first.
        chat.send(command).await;
        chat.send("hello").await;
        chat.response().await;
        let moved = chat.response().await;
        let new = find(&moved, "session_created")["session_id"].as_str().unwrap();
        assert_eq!(said(&chat.response().await), "Echo: hello", "{command}");
        assert_eq!(chat.resume(new).await, 2, "{command}");
        assert_eq!(chat.resume(&old).await, 2, "{command}");
    }
    // Where no conversation is open.
    let mut chat = Chat::open(&gateway).await;
    chat.send("/new").await;
    chat.send("hello").await;
    let moved = chat.response().await;
    let new = find(&moved, "session_created")["session_id"].as_str().unwrap();
    assert_eq!(said(&chat.response().await), "Echo: hello");
    assert_eq!(chat.resume(new).await, 2);
}

#[tokio::test]
async fn what_is_sent_behind_a_message_that_names_a_conversation_is_said_there_as_well() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    let named = chat.begin().await;
    let old = chat.begin().await;
    chat.send("@mock stream n=40 delay=40").await;
    chat.until("delta").await;
    chat.act(json!({"action": "send", "text": "by its name", "session_id": named})).await;
    chat.send("behind it").await;
    chat.act(json!({"action": "new_session"})).await;
    let created = chat.until("session_created").await.pop().unwrap();
    let later = created["session_id"].as_str().unwrap();
    chat.send("in the last").await;
    chat.response().await;
    for text in ["by its name", "behind it", "in the last"] {
        assert_eq!(said(&chat.response().await), format!("Echo: {text}"));
    }
    assert_eq!(chat.resume(&old).await, 2);
    assert_eq!(chat.resume(&named).await, 4);
    // What was said there after it had been opened stays there.
    assert_eq!(chat.resume(later).await, 2);
}

#[tokio::test]
async fn what_is_sent_after_a_conversation_was_opened_is_said_there() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    let old = chat.begin().await;
    chat.send("@mock stream n=40 delay=40").await;
    chat.until("delta").await;
    chat.send("/new").await;
    chat.act(json!({"action": "resume_session", "session_id": old})).await;
    chat.until("session_created").await;
    chat.send("hello").await;
    for _ in 0..2 {
        chat.response().await;
    }
    assert_eq!(said(&chat.response().await), "Echo: hello");
    assert_eq!(chat.resume(&old).await, 4);
}

#[tokio::test]
async fn a_stop_word_stops_the_response_that_is_under_way() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    chat.begin().await;
    chat.send("@mock stream n=400 delay=50").await;
    chat.until("delta").await;
    chat.send("stop").await;
    let stopped = chat.response().await;
    assert!(stopped.iter().all(|frame| ["delta", "done"].contains(&name(frame))), "{stopped:?}");
    assert_eq!(names(&chat.response().await), ["message", "done"]);
    chat.nothing_comes().await;
}
