//! A group that becomes a supergroup has another id: what is sent to the old one, and what
//! holds in the new one.

use serde_json::{Value, json};

use super::bot_api::BotApi;
use super::{patch, with_bot};
use crate::stage::{admin, call, until};
use crate::support::{Gateway, MockProvider};

const OLD: i64 = -5;
const NEW: i64 = -1005;

/// A gateway with a bot that answers everything in the old group.
async fn place(api: &BotApi, streaming: &str) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let settings = json!({"streaming": streaming, "groups": {"-5": {"requireMention": false}}});
    (with_bot(api, &mock, &settings).await, mock)
}

fn said(chat: i64, id: i64, from: i64, text: &str) -> Value {
    json!({"message_id": id, "date": 1, "text": text,
        "from": {"id": from, "is_bot": false, "first_name": "Ann"},
        "chat": {"id": chat, "type": "supergroup", "title": "Team"}})
}

#[tokio::test]
async fn what_is_sent_to_the_old_id_arrives_under_the_new_one_once() {
    let api = BotApi::start().await;
    let (gateway, _mock) = place(&api, "off").await;
    std::fs::write(gateway.workspace().join("plan.txt"), "the plan").unwrap();
    api.upgrade(OLD, NEW);
    let mut client = admin(&gateway).await;
    let text = json!({"to": "-5", "message": "a **word**", "idempotencyKey": "s1"});
    call(&mut client, "send", text).await;
    let poll = json!({"to": "-5", "question": "tea?", "options": ["yes", "no"],
        "idempotencyKey": "p1"});
    call(&mut client, "poll", poll).await;
    let file = format!("@mock text text={}", json!("Here.\nMEDIA:plan.txt"));
    api.say(said(OLD, 1, 7, &file));
    let shown = api.shows(&["a word", "tea?", "Here."]).await;
    assert!(shown.iter().all(|it| it.chat == NEW.to_string()), "{shown:?}");
    for method in ["sendMessage", "sendPoll", "sendDocument"] {
        assert_eq!(api.calls(method).len(), 2, "{method}");
    }
    assert_eq!(api.calls("sendDocument")[1]["document"], "file of 8 bytes");
    // What is done with a message that is there would be done with another one.
    let edit = json!({"channel": "telegram", "action": "edit", "idempotencyKey": "e1",
        "params": {"to": "-5", "messageId": "1", "message": "changed"}});
    assert_eq!(client.request("message.action", edit).await["ok"], false);
    assert_eq!(api.shown()[0].text, "a word");
}

#[tokio::test]
async fn what_is_sent_to_a_thread_that_is_gone_arrives_in_its_chat() {
    let api = BotApi::start().await;
    let (gateway, _mock) = place(&api, "off").await;
    let mut client = admin(&gateway).await;
    let text = json!({"to": "-5", "threadId": "404", "message": "hi", "idempotencyKey": "s1"});
    call(&mut client, "send", text).await;
    let voice = json!({"to": "-5", "threadId": "404", "message": "hear", "asVoice": true,
        "mediaUrl": "http://127.0.0.1:9/a.ogg", "idempotencyKey": "s2"});
    call(&mut client, "send", voice).await;
    let shown = api.shows(&["hi", "hear"]).await;
    let places: Vec<_> = shown.iter().map(|it| (it.chat.as_str(), it.thread)).collect();
    assert_eq!(places, [("-5", None); 2]);
    for method in ["sendMessage", "sendVoice"] {
        assert_eq!(api.calls(method).len(), 2, "{method}");
    }
    // And its chat has another id.
    api.upgrade(OLD, NEW);
    let both = json!({"to": "-5", "threadId": "404", "message": "both", "idempotencyKey": "s3"});
    call(&mut client, "send", both).await;
    let last = api.shown().pop().unwrap();
    assert_eq!((last.chat, last.thread), (NEW.to_string(), None));
}

#[tokio::test]
async fn an_answer_that_was_being_shown_in_the_old_group_is_whole_in_the_new_one() {
    let api = BotApi::start().await;
    let (_gateway, _mock) = place(&api, "partial").await;
    api.say(said(OLD, 1, 7, "@mock stream n=60 delay=80"));
    api.shows_at_least(1).await;
    api.upgrade(OLD, NEW);
    api.shows_at_least(2).await;
    let whole: Vec<_> = (1..=60).map(|index| format!("w{index}")).collect();
    let shown = api.shown();
    assert_eq!((shown.len(), shown[0].chat.as_str()), (2, "-5"));
    assert_eq!((&*shown[1].chat, &*shown[1].text), ("-1005", &*whole.join(" ")));
}

#[tokio::test]
async fn the_rules_of_the_old_group_hold_in_the_new_one_until_that_is_named() {
    let api = BotApi::start().await;
    // What is said there may come before the news.
    api.say(said(NEW, 1, 7, "hello"));
    api.say(json!({"message_id": 9, "date": 1, "migrate_to_chat_id": NEW,
        "from": {"id": 7, "is_bot": false, "first_name": "Ann"},
        "chat": {"id": OLD, "type": "group", "title": "Team"}}));
    let (mut gateway, _mock) = place(&api, "off").await;
    api.shows(&["Echo: hello"]).await;
    let told = until("it is told", async || {
        let log = gateway.stderr();
        log.lines().find(|line| line.contains("channels.telegram.groups")).map(str::to_owned)
    })
    .await;
    assert!(told.contains("-5") && told.contains("-1005"), "{told}");

    api.say(said(NEW, 2, 8, "from somebody else"));
    api.say(said(-1006, 1, 7, "in another group"));
    gateway.kill9();
    gateway.restart().await;
    api.say(said(NEW, 3, 7, "after a restart"));
    api.shows(&["Echo: hello", "Echo: after a restart"]).await;

    let mut client = admin(&gateway).await;
    let groups = json!({"-1005": {"requireMention": true}});
    patch(&mut client, &json!({"channels": {"telegram": {"groups": groups}}})).await;
    api.say(said(NEW, 4, 7, "nobody is meant"));
    let mut meant = said(NEW, 5, 7, "@claw_bot hello");
    meant["entities"] = json!([{"type": "mention", "offset": 0, "length": 9}]);
    api.say(meant);
    let texts = ["Echo: hello", "Echo: after a restart", "Echo: @claw_bot hello"];
    let shown = api.shows(&texts).await;
    assert!(shown.iter().all(|it| it.chat == NEW.to_string()), "{shown:?}");
}
