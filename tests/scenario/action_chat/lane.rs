//! Several clients in one conversation.

use serde_json::json;

use super::{Chat, key_of, names, place, said};
use crate::stage::{admin, ask, end_of, lines, start, told};

#[tokio::test]
async fn a_conversation_that_begins_here_goes_on_in_the_protocol_and_the_reverse() {
    let (gateway, mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    let id = chat.begin().await;
    chat.say("from the chat").await;
    let mut client = admin(&gateway).await;
    let key = key_of(&mut client, &id).await;
    ask(&mut client, &key, "from the protocol", "run-1").await;
    chat.nothing_comes().await;
    chat.say("from the chat again").await;
    let expected = lines(&[
        ("user", "from the chat"),
        ("assistant", "Echo: from the chat"),
        ("user", "from the protocol"),
        ("assistant", "Echo: from the protocol"),
        ("user", "from the chat again"),
        ("assistant", "Echo: from the chat again"),
    ]);
    assert_eq!(told(&mut client, &key).await, expected);
    // The model has heard all of it.
    let last = mock.requests().pop().unwrap().body["messages"].to_string();
    assert!(last.contains("from the chat") && last.contains("from the protocol"), "{last}");

    // One that began there, by its id and by its key.
    ask(&mut client, "main", "begun there", "run-2").await;
    let row = crate::stage::row(&mut client, "agent:main:main").await;
    let id = row["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(chat.resume(&id).await, 2);
    chat.say("gone on here").await;
    chat.act(json!({"action": "resume_session", "session_id": "main"})).await;
    assert_eq!(chat.next().await["message_count"], 4);
    assert_eq!(chat.next().await["session_id"], json!(id));
    let told = told(&mut client, "main").await;
    assert_eq!(told.last().unwrap().1, "Echo: gone on here");
}

#[tokio::test]
async fn a_message_waits_for_what_others_have_begun_and_is_done_with_its_own_answer() {
    let (gateway, _mock) =
        place(|config| config["messages"]["queue"] = json!({"mode": "queue", "debounceMs": 0}))
            .await;
    let mut chat = Chat::open(&gateway).await;
    let id = chat.begin().await;
    let mut client = admin(&gateway).await;
    let key = key_of(&mut client, &id).await;
    start(&mut client, &key, "@mock stream n=20 delay=30", "run-1").await;
    crate::stage::deltas(&client, "run-1", 1).await;
    let frames = chat.say("mine").await;
    // Nothing of the other's answer is told here.
    assert_eq!((names(&frames), said(&frames).as_str()), (vec!["delta", "done"], "Echo: mine"));
    end_of(&client, "run-1").await;
}

#[tokio::test]
async fn a_message_that_another_run_takes_in_is_answered_by_that_one() {
    let (gateway, _mock) =
        place(|config| config["messages"]["queue"] = json!({"mode": "steer", "debounceMs": 0}))
            .await;
    let mut chat = Chat::open(&gateway).await;
    let id = chat.begin().await;
    let mut client = admin(&gateway).await;
    let key = key_of(&mut client, &id).await;
    start(&mut client, &key, "@mock stream n=20 delay=30", "run-1").await;
    crate::stage::deltas(&client, "run-1", 1).await;
    let frames = chat.say("taken in").await;
    assert_eq!(names(&frames), ["delta", "done"], "{frames:?}");
    assert!(said(&frames).ends_with("Echo: taken in"), "{frames:?}");
    end_of(&client, "run-1").await;
    chat.nothing_comes().await;
}

#[tokio::test]
async fn who_comes_back_in_the_middle_of_a_response_gets_all_of_it_and_its_done() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    let id = chat.begin().await;
    chat.send("@mock stream n=40 delay=40").await;
    chat.until("delta").await;
    drop(chat);
    let mut chat = Chat::open(&gateway).await;
    chat.resume(&id).await;
    let frames = chat.response().await;
    assert_eq!(names(&frames), ["delta", "done"]);
    let mut client = admin(&gateway).await;
    let key = key_of(&mut client, &id).await;
    assert_eq!(told(&mut client, &key).await.last().unwrap().1, said(&frames).trim_end());
    assert_eq!(said(&chat.say("next").await), "Echo: next");
}
