//! Several clients in one conversation.

use serde_json::json;

use super::{Chat, key_of, names, place, said};
use crate::stage::{admin, ask, call, end_of, lines, row, start, told, until};
use crate::support::{Gateway, MockProvider, WsClient};

/// What somebody else has asked, and is being answered.
const ASKED: &str = "@mock stream n=20 delay=30";

/// A conversation in which that is so.
struct Busy {
    chat: Chat,
    client: WsClient,
    key: String,
    _place: (Gateway, MockProvider),
}

/// The same, where messages that come meanwhile are queued in this mode.
async fn busy(mode: &str) -> Busy {
    let queue = json!({"mode": mode, "debounceMs": 0});
    let (gateway, mock) = place(|config| config["messages"]["queue"] = queue).await;
    let mut chat = Chat::open(&gateway).await;
    let id = chat.begin().await;
    let mut client = admin(&gateway).await;
    let key = key_of(&mut client, &id).await;
    start(&mut client, &key, ASKED, "run-1").await;
    crate::stage::deltas(&client, "run-1", 1).await;
    Busy { chat, client, key, _place: (gateway, mock) }
}

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
    let Busy { mut chat, client, _place, .. } = busy("queue").await;
    let frames = chat.say("mine").await;
    // Nothing of the other's answer is told here.
    assert_eq!((names(&frames), said(&frames).as_str()), (vec!["delta", "done"], "Echo: mine"));
    end_of(&client, "run-1").await;
}

#[tokio::test]
async fn the_same_words_as_what_is_being_answered_are_a_message_of_their_own() {
    let Busy { mut chat, mut client, key, _place } = busy("queue").await;
    chat.say(ASKED).await;
    end_of(&client, "run-1").await;
    let kept = told(&mut client, &key).await;
    assert_eq!(kept.iter().filter(|(role, _)| role == "user").count(), 2, "{kept:?}");
}

#[tokio::test]
async fn what_is_said_here_goes_into_no_answer_to_somebody_else() {
    let Busy { mut chat, client, _place, .. } = busy("steer").await;
    let frames = chat.say("mine").await;
    assert_eq!((names(&frames), said(&frames).as_str()), (vec!["delta", "done"], "Echo: mine"));
    end_of(&client, "run-1").await;
    chat.nothing_comes().await;
}

#[tokio::test]
async fn of_two_that_speak_in_one_conversation_each_is_told_its_own_answer() {
    let steering = json!({"mode": "steer", "debounceMs": 0});
    let (gateway, _mock) = place(|config| config["messages"]["queue"] = steering).await;
    let (mut one, mut two) = (Chat::open(&gateway).await, Chat::open(&gateway).await);
    let id = one.begin().await;
    let arguments = json!({"command": "touch begun; while [ ! -e go ]; do sleep 0.1; done"});
    one.send(&format!("@mock tool name=exec args={arguments} then=first")).await;
    let begun = gateway.workspace().join("begun");
    until("the call goes on", async || begun.exists().then_some(())).await;
    two.act(json!({"action": "send", "text": "second", "session_id": id})).await;
    let mut client = admin(&gateway).await;
    until("the other message waits", async || {
        let status = call(&mut client, "status", json!({})).await;
        (status["tasks"]["byStatus"]["queued"] == 1).then_some(())
    })
    .await;
    std::fs::write(gateway.workspace().join("go"), "").unwrap();
    assert_eq!(said(&one.response().await), "first");
    assert_eq!(said(&two.response().await), "Echo: second");
    one.nothing_comes().await;
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
    let kept = told(&mut client, &key).await.pop().unwrap().1;
    assert_eq!(kept.trim_end(), said(&frames).trim_end());
    assert_eq!(said(&chat.say("next").await), "Echo: next");
}

#[tokio::test]
async fn who_leaves_a_conversation_does_not_wait_for_its_response() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "@mock stream n=4000 delay=50", "run-1").await;
    crate::stage::deltas(&client, "run-1", 1).await;
    let mut chat = Chat::open(&gateway).await;
    chat.act(json!({"action": "resume_session", "session_id": "main"})).await;
    chat.until("delta").await;
    chat.act(json!({"action": "new_session"})).await;
    chat.until("session_created").await;
    chat.send("@mock text text=elsewhere").await;
    let mut frames = chat.response().await;
    // The response that was watched is over for this client.
    if said(&frames) != "elsewhere" {
        frames = chat.response().await;
    }
    assert_eq!(said(&frames), "elsewhere");
    crate::stage::call(&mut client, "chat.abort", json!({"sessionKey": "main"})).await;
}

#[tokio::test]
async fn what_a_command_does_later_has_an_end_and_keeps_nobody_out() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut chat = Chat::open(&gateway).await;
    let id = chat.begin().await;
    chat.say("hello").await;
    let mut client = admin(&gateway).await;
    let key = key_of(&mut client, &id).await;
    for command in ["/compact", "/btw @mock text text=aside"] {
        chat.say(command).await;
        ask(&mut client, &key, "@mock text text=after", command).await;
    }
}

#[tokio::test]
async fn a_stop_word_stops_the_conversation_that_it_names_and_no_other() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut client = admin(&gateway).await;
    let (mut one, mut two) = (Chat::open(&gateway).await, Chat::open(&gateway).await);
    let (first, second) = (one.begin().await, two.begin().await);
    for chat in [&mut one, &mut two] {
        chat.send("@mock stream n=4000 delay=50").await;
        chat.until("delta").await;
    }
    two.act(json!({"action": "send", "text": "stop", "session_id": first})).await;
    assert_eq!(names(&one.response().await).last(), Some(&"done"));
    let key = key_of(&mut client, &second).await;
    assert_eq!(row(&mut client, &key).await["hasActiveRun"], true);
    call(&mut client, "chat.abort", json!({"sessionKey": key})).await;
    two.response().await;
    assert_eq!(names(&two.response().await), ["message", "done"]);
}

#[tokio::test]
async fn in_lock_down_a_stop_word_stops_nothing() {
    let (gateway, _mock) = place(|_| {}).await;
    let mut client = admin(&gateway).await;
    let (mut chat, mut other) = (Chat::open(&gateway).await, Chat::open(&gateway).await);
    let id = chat.begin().await;
    chat.send("@mock stream n=4000 delay=50").await;
    chat.until("delta").await;
    other.say("/lockdown on").await;
    chat.send("stop").await;
    chat.act(json!({"action": "new_session"})).await;
    chat.until("error").await;
    let key = key_of(&mut client, &id).await;
    assert_eq!(row(&mut client, &key).await["hasActiveRun"], true);
    call(&mut client, "chat.abort", json!({"sessionKey": key})).await;
    chat.response().await;
    let told = chat.response().await;
    assert!(told[0]["content"].as_str().unwrap().starts_with("Lock Down Mode"), "{told:?}");
}
