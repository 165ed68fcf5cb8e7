//! The channel `telegram`, against a Bot API server of the tests' own.

use serde_json::{Value, json};

use super::bot_api::{BotApi, OTHER_TOKEN, TOKEN};
use super::receiver::post;
use super::results::asking;
use super::{patch, with_bot};
use crate::stage::{admin, call, connect, history, lines, refusal, row, told, until};
use crate::support::client::standard_connect;
use crate::support::{Gateway, MockProvider};

struct Place {
    gateway: Gateway,
    api: BotApi,
    mock: MockProvider,
}

async fn place(settings: &Value) -> Place {
    let (api, mock) = (BotApi::start().await, MockProvider::start().await);
    let gateway = with_bot(&api, &mock, settings).await;
    Place { gateway, api, mock }
}

impl Place {
    async fn connected(&self) {
        let mut client = admin(&self.gateway).await;
        until("the bot is connected", async || {
            let status = call(&mut client, "channels.status", json!({})).await;
            (status["channels"]["telegram"]["connected"] == true).then_some(())
        })
        .await;
    }
}

const KEY: &str = "agent:main:telegram:direct:7";

#[tokio::test]
async fn a_message_to_the_bot_is_answered_there_and_its_update_confirmed() {
    let place = place(&json!({"replyToMode": "first"})).await;
    let update = place.api.direct(1, 7, "hello **you** <b");
    let shown = place.api.shows(&["Echo: hello you <b"]).await;
    assert_eq!((shown[0].chat.as_str(), shown[0].thread), ("7", None));
    assert_eq!(shown[0].params["text"], "Echo: hello <b>you</b> &lt;b");
    assert_eq!(shown[0].params["reply_parameters"]["message_id"], 1);
    until("it is confirmed", async || (place.api.confirmed() == update + 1).then_some(())).await;
    let mut client = admin(&place.gateway).await;
    let row = row(&mut client, KEY).await;
    assert_eq!((&row["lastChannel"], &row["lastTo"]), (&json!("telegram"), &json!("7")));
    assert!(!place.gateway.stderr().contains(TOKEN));

    let status = call(&mut client, "channels.status", json!({"probe": true})).await;
    let account = &status["channelAccounts"]["telegram"][0];
    assert_eq!((&account["running"], &account["mode"]), (&json!(true), &json!("polling")));
    assert_eq!(account["probe"]["bot"]["username"], "claw_bot");
    let labels = json!({"telegram": "Telegram", "webhook": "Webhook"});
    assert_eq!(status["channelLabels"], labels);
    assert!(!status.to_string().contains(TOKEN));
}

#[tokio::test]
async fn a_probe_that_fails_is_told_with_its_account() {
    let place = place(&json!({})).await;
    place.connected().await;
    let mut client = admin(&place.gateway).await;
    place.api.refuse("getMe", 401, None);
    for (probe, is_told) in [(true, true), (false, false)] {
        let status = call(&mut client, "channels.status", json!({"probe": probe})).await;
        let account = &status["channelAccounts"]["telegram"][0];
        assert_eq!(account["lastError"].is_string(), is_told, "{account}");
        assert_eq!(account["lastError"], account["probe"]["error"], "{account}");
    }
}

#[tokio::test]
async fn another_bot_in_the_same_account_is_heard_and_answers_its_own_messages() {
    let place = place(&json!({})).await;
    let update = place.api.direct(1, 7, "hello");
    place.api.shows(&["Echo: hello"]).await;
    until("it is confirmed", async || (place.api.confirmed() == update + 1).then_some(())).await;
    // Its update has a lower number, and its message that of the first one's.
    let other = BotApi::start_other().await;
    assert!(other.direct(1, 7, "hello, other") < update);
    let bot = |token: &str, api: &BotApi| json!({"channels": {"telegram": {"botToken": token, "apiRoot": api.url()}}});
    let mut client = admin(&place.gateway).await;
    patch(&mut client, &bot(OTHER_TOKEN, &other)).await;
    other.shows(&["Echo: hello, other"]).await;
    // The first one goes on where it was.
    place.api.direct(2, 7, "again");
    patch(&mut client, &bot(TOKEN, &place.api)).await;
    place.api.shows(&["Echo: hello", "Echo: again"]).await;
}

#[tokio::test]
async fn a_kill_loses_no_update_and_answers_none_twice() {
    let mut place = place(&json!({})).await;
    place.connected().await;
    for round in 0..4 {
        for message in 0..3 {
            place.api.direct(round * 10 + message, 7, &format!("m{round}.{message}"));
        }
        if round % 2 == 1 {
            place.api.shows_at_least(usize::try_from(round).unwrap() / 2 + 1).await;
        }
        place.gateway.kill9();
        place.gateway.restart().await;
    }
    let mut client = admin(&place.gateway).await;
    // Every message is in the transcript once, in order, whenever the kills were.
    let expected: Vec<_> =
        (0..4).flat_map(|round| (0..3).map(move |it| format!("m{round}.{it}"))).collect();
    until("all are there", async || {
        let messages = told(&mut client, KEY).await;
        let said: Vec<_> =
            messages.into_iter().filter(|it| it.0 == "user").map(|it| it.1).collect();
        (said == expected).then_some(())
    })
    .await;
    place.api.direct(99, 7, "last");
    until("the last is answered", async || {
        place.api.shown().iter().any(|it| it.text == "Echo: last").then_some(())
    })
    .await;
    let answers = place.api.shown();
    for text in &expected {
        let times = answers.iter().filter(|it| it.text == format!("Echo: {text}")).count();
        assert!(times <= 1, "{text} was answered {times} times");
    }
}

#[tokio::test]
async fn a_kill_between_sending_and_noting_it_sends_nothing_twice() {
    let mut place = place(&json!({})).await;
    place.api.hang();
    place.api.direct(1, 7, "hello");
    place.api.shows(&["Echo: hello"]).await;
    place.gateway.kill9();
    place.gateway.restart().await;
    place.api.direct(2, 7, "next");
    place.api.shows(&["Echo: hello", "Echo: next"]).await;
}

#[tokio::test]
async fn the_api_is_asked_again_when_it_says_and_long_answers_fit_its_limit() {
    let place = place(&json!({})).await;
    place.api.refuse("sendMessage", 429, Some(1));
    place.api.direct(1, 7, "hello");
    place.api.shows(&["Echo: hello"]).await;
    assert_eq!(place.api.calls("sendMessage").len(), 2);
    place.api.direct(2, 7, "@mock long kb=10");
    until("all parts are there", async || {
        let shown = place.api.shown();
        let length: usize = shown.iter().skip(1).map(|it| it.text.len()).sum();
        (length == 10 * 1024).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_long_text_for_a_bot_that_is_stopped_fits_its_limit_too() {
    let place = place(&json!({})).await;
    place.connected().await;
    let mut client = admin(&place.gateway).await;
    let channel = json!({"channel": "telegram"});
    call(&mut client, "channels.stop", channel.clone()).await;
    // Each of these is one character and two units of what is limited.
    let text = "\u{1f980} ".repeat(1900);
    let params = json!({"channel": "telegram", "to": "7", "message": text, "idempotencyKey": "s1"});
    call(&mut client, "send", params).await;
    call(&mut client, "channels.start", channel).await;
    place.api.shows_at_least(2).await;
    let shown: String = place.api.shown().into_iter().map(|it| it.text).collect();
    assert_eq!(shown.matches('\u{1f980}').count(), 1900);
}

#[tokio::test]
async fn groups_and_topics_have_sessions_of_their_own() {
    let place = place(&json!({"groups": {"-100": {}}})).await;
    let said = |id: i64, from: i64, text: &str, topic: Option<i64>| {
        let mut message = json!({"message_id": id, "date": 1, "text": text,
            "from": {"id": from, "is_bot": false, "first_name": "Ann"},
            "chat": {"id": -100, "type": "supergroup", "title": "Team", "is_forum": true}});
        if let Some(topic) = topic {
            message["is_topic_message"] = json!(true);
            message["message_thread_id"] = json!(topic);
        }
        if let Some(at) = text.find("@claw_bot") {
            message["entities"] = json!([{"type": "mention", "offset": at, "length": 9}]);
        }
        message
    };
    place.api.say(said(1, 7, "nobody is meant", None));
    place.api.say(said(2, 8, "@claw_bot who is unknown", None));
    place.api.say(said(3, 7, "@claw_bot in general", None));
    place.api.say(said(4, 7, "@claw_bot in a topic", Some(5)));
    until("both are answered", async || (place.api.shown().len() == 2).then_some(())).await;
    let mut threads: Vec<_> = place.api.shown().iter().map(|it| it.thread).collect();
    threads.sort_unstable();
    assert_eq!(threads, [None, Some(5)]);
    let mut client = admin(&place.gateway).await;
    for (key, text) in [
        (
            "agent:main:telegram:group:-100",
            "[Chat messages since your last reply - for context]\n[Ann (7)] nobody is meant\n\n\
             [Current message - respond to this]\n[Ann (7)]\n@claw_bot in general",
        ),
        ("agent:main:telegram:group:-100:topic:5", "[Ann (7)]\n@claw_bot in a topic"),
    ] {
        assert_eq!(told(&mut client, key).await[0].1, text);
    }
}

#[tokio::test]
async fn typing_is_shown_where_something_is_said_and_never_where_nobody_wants_it() {
    let place = place(&json!({"groups": {"-100": {"requireMention": false}}})).await;
    // The agent may have nothing to say to what it hears.
    let args = json!({"command": "sleep 5"});
    place.api.say(json!({"message_id": 1, "date": 1,
        "text": format!("@mock tool name=exec args={args} then=NO_REPLY"),
        "from": {"id": 7, "is_bot": false, "first_name": "Ann"},
        "chat": {"id": -100, "type": "group", "title": "Team"}}));
    let has_run = async || (place.mock.requests().len() == 2).then_some(());
    until("its command has ended", has_run).await;
    assert_eq!(place.api.calls("sendChatAction"), [Value::Null; 0]);
    let mut client = admin(&place.gateway).await;
    patch(&mut client, &json!({"session": {"typingMode": "never"}})).await;
    place.api.direct(2, 7, "@mock stream n=60 delay=80");
    let whole: Vec<_> = (1..=60).map(|index| format!("w{index}")).collect();
    place.api.shows(&[whole.join(" ").as_str()]).await;
    assert_eq!(place.api.calls("sendChatAction"), [Value::Null; 0]);
}

#[tokio::test]
async fn an_answer_is_shown_while_it_is_written_and_ends_as_one_message() {
    let place = place(&json!({"streaming": "partial"})).await;
    place.api.direct(1, 7, "@mock stream n=60 delay=80");
    until("a preview is there", async || {
        place.api.shown().first().is_some_and(|it| it.edits > 0).then_some(())
    })
    .await;
    let whole: Vec<_> = (1..=60).map(|index| format!("w{index}")).collect();
    let shown = place.api.shows(&[whole.join(" ").as_str()]).await;
    assert!(shown[0].edits > 0);
    assert!(!place.api.calls("sendChatAction").is_empty());
    // Cut off while it is shown: what tells of it takes its place.
    let mut place = place;
    place.api.direct(2, 7, "@mock stream n=500 delay=80");
    until("it is shown", async || (place.api.shown().len() == 2).then_some(())).await;
    until("it is noted", async || place.api.shown()[1].edits.checked_sub(1)).await;
    place.gateway.kill9();
    place.gateway.restart().await;
    until("it is told", async || {
        place.api.shown()[1].text.contains("stopped before it had answered").then_some(())
    })
    .await;
    assert_eq!(place.api.shown().len(), 2);
}

#[tokio::test]
async fn an_answer_to_a_result_takes_the_place_of_what_a_kill_has_left_of_it() {
    let mut place = place(&json!({"streaming": "partial"})).await;
    place.api.direct(1, 7, &asking("stream n=60 delay=80"));
    place.api.shows_at_least(2).await;
    until("it is noted", async || place.api.shown()[1].edits.checked_sub(1)).await;
    place.gateway.kill9();
    place.gateway.restart().await;
    let whole: Vec<_> = (1..=60).map(|index| format!("w{index}")).collect();
    place.api.shows(&["spawned", whole.join(" ").as_str()]).await;
}

#[tokio::test]
async fn an_answer_whose_last_edit_meets_a_fault_of_the_service_is_shown_after_it() {
    let place = place(&json!({"streaming": "partial"})).await;
    place.api.direct(1, 7, "@mock stream n=40 delay=80");
    place.api.shows_at_least(1).await;
    // More than there are edits while it is written, of which none is missed.
    for _ in 0..4 {
        place.api.refuse("editMessageText", 502, None);
    }
    let whole: Vec<_> = (1..=40).map(|index| format!("w{index}")).collect();
    place.api.shows(&[whole.join(" ").as_str()]).await;
}

#[tokio::test]
async fn an_answer_whose_last_edit_is_too_long_with_its_marks_is_whole_in_its_place() {
    let place = place(&json!({"streaming": "partial"})).await;
    // Each of them is shown with its own number.
    let list = "1. x\n".repeat(700);
    let list = list.trim_end();
    place.api.direct(1, 7, &format!("@mock text n=30 delay=100 text={}", json!(list)));
    let shown = place.api.shows(&[list]).await;
    assert!(shown[0].edits > 0, "{shown:?}");
}

#[tokio::test]
async fn an_answer_that_cannot_take_the_place_of_what_was_shown_is_a_message_of_its_own() {
    let place = place(&json!({"streaming": "partial"})).await;
    place.api.refuse_last_edit();
    place.api.direct(1, 7, "@mock stream n=40 delay=80");
    place.api.shows_at_least(2).await;
    let whole: Vec<_> = (1..=40).map(|index| format!("w{index}")).collect();
    let last = &place.api.shown()[1];
    assert_eq!((last.text.as_str(), last.edits), (whole.join(" ").as_str(), 0));
}

#[tokio::test]
async fn an_answer_waits_as_long_as_what_was_shown_of_it_was_to_wait() {
    let place = place(&json!({"streaming": "partial"})).await;
    place.api.direct(1, 7, "@mock stream n=60 delay=80");
    place.api.shows_at_least(1).await;
    place.api.refuse("editMessageText", 429, Some(5));
    let whole: Vec<_> = (1..=60).map(|index| format!("w{index}")).collect();
    place.api.shows(&[whole.join(" ").as_str()]).await;
    assert_eq!(place.api.calls_too_early(), 0);
}

#[tokio::test]
async fn another_bot_that_goes_on_with_an_answer_changes_and_quotes_no_message_of_its_own() {
    let mut place = place(&json!({"streaming": "partial", "replyToMode": "first"})).await;
    // Each bot counts its own: this one has the number of what is shown by the other.
    let other = BotApi::start_other().await;
    other.has_said("7", "said before");
    place.api.direct(1, 7, "@mock stream n=120 delay=80");
    place.api.shows_at_least(1).await;
    assert_eq!(place.api.shown()[0].params["reply_parameters"]["message_id"], 1);
    other.hang();
    let mut client = admin(&place.gateway).await;
    let bot = json!({"botToken": OTHER_TOKEN, "apiRoot": other.url()});
    patch(&mut client, &json!({"channels": {"telegram": bot}})).await;
    let whole: Vec<_> = (1..=120).map(|index| format!("w{index}")).collect();
    let shown = other.shows(&["said before", whole.join(" ").as_str()]).await;
    assert!(shown[1].params["reply_parameters"].is_null(), "{shown:?}");
    assert_eq!(place.api.shown().len(), 1);
    // It may have said that before the kill: it does not say it again.
    place.gateway.kill9();
    place.gateway.restart().await;
    other.direct(2, 7, "next");
    until("the next is answered", async || {
        other.shown().iter().any(|it| it.text == "Echo: next").then_some(())
    })
    .await;
    assert_eq!(other.shown().len(), 3, "{:?}", other.shown());
}

#[tokio::test]
async fn a_kill_during_the_last_edit_leaves_no_half_answer() {
    let mut place = place(&json!({"streaming": "partial"})).await;
    place.api.hold_last_edit();
    place.api.direct(1, 7, "@mock stream n=40 delay=80");
    until("the last edit is made", async || {
        let edits = place.api.calls("editMessageText");
        edits.iter().any(|edit| !edit["parse_mode"].is_null()).then_some(())
    })
    .await;
    let whole: Vec<_> = (1..=40).map(|index| format!("w{index}")).collect();
    let whole = whole.join(" ");
    place.gateway.kill9();
    place.gateway.restart().await;
    place.api.shows(&[whole.as_str()]).await;
}

#[tokio::test]
async fn an_answer_that_a_kill_may_have_left_beside_its_preview_is_not_sent_twice() {
    let mut place = place(&json!({"streaming": "partial"})).await;
    place.api.direct(1, 7, "@mock stream n=60 delay=80");
    place.api.shows_at_least(1).await;
    // There the answer is a message of its own.
    place.api.upgrade(7, -1007);
    place.api.hang();
    place.api.shows_at_least(2).await;
    place.gateway.kill9();
    place.gateway.restart().await;
    place.api.direct(2, 7, "next");
    until("the next is answered", async || {
        place.api.shown().iter().any(|it| it.text == "Echo: next").then_some(())
    })
    .await;
    assert_eq!(place.api.shown().len(), 3, "{:?}", place.api.shown());
}

#[tokio::test]
async fn a_preview_that_nobody_knows_of_is_not_shown_a_second_time() {
    let place = place(&json!({"streaming": "partial"})).await;
    place.api.lose_answer();
    place.api.direct(1, 7, "@mock stream n=60 delay=80");
    let whole: Vec<_> = (1..=60).map(|index| format!("w{index}")).collect();
    let whole = whole.join(" ");
    until("the answer is there", async || {
        place.api.shown().iter().any(|it| it.text == whole).then_some(())
    })
    .await;
    let shown = place.api.shown();
    assert!(shown.len() == 2 && whole.starts_with(&shown[0].text), "{shown:?}");
    assert_eq!((&shown[1].text, shown[1].edits), (&whole, 0));
}

#[tokio::test]
async fn a_preview_that_the_api_wants_later_is_shown_later() {
    let place = place(&json!({"streaming": "partial"})).await;
    place.api.refuse("sendMessage", 401, None);
    place.api.direct(1, 7, "@mock stream n=60 delay=80");
    let whole: Vec<_> = (1..=60).map(|index| format!("w{index}")).collect();
    let shown = place.api.shows(&[whole.join(" ").as_str()]).await;
    assert!(shown[0].edits > 0, "{shown:?}");
}

#[tokio::test]
async fn a_text_of_marks_alone_is_sent_as_it_was_written() {
    let place = place(&json!({})).await;
    place.connected().await;
    let mut client = admin(&place.gateway).await;
    let links = "[1]: https://x.test/a\n[2]: https://x.test/b";
    for (key, text) in [("s1", "#"), ("s2", links)] {
        let params = json!({"to": "7", "message": text, "idempotencyKey": key});
        call(&mut client, "send", params).await;
    }
    place.api.shows(&["#", links]).await;
}

#[tokio::test]
async fn a_phone_rings_for_an_answer_that_is_shown_while_it_is_written() {
    let place = place(&json!({"streaming": "partial"})).await;
    place.api.direct(1, 7, "@mock stream n=60 delay=80");
    until("it is edited", async || {
        place.api.shown().first().is_some_and(|it| it.edits > 0).then_some(())
    })
    .await;
    let first = &place.api.calls("sendMessage")[0];
    assert!(first["disable_notification"].is_null(), "no edit rings: {first}");
}

#[tokio::test]
async fn an_answer_that_somebody_else_stops_says_so_in_the_place_of_what_was_shown() {
    let place = place(&json!({"streaming": "partial"})).await;
    place.api.direct(1, 7, "@mock stream n=2000 delay=20");
    place.api.shows_at_least(1).await;
    let mut client = admin(&place.gateway).await;
    call(&mut client, "chat.abort", json!({"sessionKey": KEY})).await;
    until("it is told", async || {
        let shown = place.api.shown();
        let [only] = shown.as_slice() else { panic!("{shown:?}") };
        let is_whole = only.text.starts_with("w1 w2 ");
        (is_whole && only.text.ends_with("\n\n⚠️ It was stopped.")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_is_there_is_not_lost_to_a_message_that_came_meanwhile_and_fails() {
    for streaming in ["partial", "off"] {
        let place = place(&json!({"streaming": streaming})).await;
        let mut client = admin(&place.gateway).await;
        place.api.direct(1, 7, "@mock stream n=160 delay=50");
        until("it is being answered", async || {
            (row(&mut client, KEY).await["hasActiveRun"] == true).then_some(())
        })
        .await;
        // It goes into the run of the first.
        place.api.direct(2, 7, "@mock err status=400 type=invalid_request_error");
        until("both are told of", async || {
            let shown = place.api.shown();
            let text = &shown.first()?.text;
            let is_both = text.starts_with("w1 w2 ") && text.contains("w160\n\n⚠️ No answer: ");
            is_both.then_some(())
        })
        .await;
        until("nothing is left to send", async || {
            let status = call(&mut client, "channels.status", json!({})).await;
            (status["channels"]["telegram"]["outbox"]["waiting"] == 0).then_some(())
        })
        .await;
        assert_eq!(place.api.shown().len(), 1, "{streaming}: {:?}", place.api.shown());
    }
}

#[tokio::test]
async fn an_answer_to_two_messages_takes_the_place_of_what_was_shown_of_it() {
    let place = place(&json!({"streaming": "partial"})).await;
    place.api.direct(1, 7, "@mock stream n=60 delay=80");
    until("a preview is there", async || {
        place.api.shown().first().is_some_and(|it| it.edits > 0).then_some(())
    })
    .await;
    // It goes into the run of the first.
    place.api.direct(2, 7, "@mock text text=second n=1");
    until("both are answered", async || {
        let shown = place.api.shown();
        (shown[0].text.contains("w60") && shown[0].text.ends_with("second")).then_some(())
    })
    .await;
    let mut client = admin(&place.gateway).await;
    until("nothing is left to send", async || {
        let status = call(&mut client, "channels.status", json!({})).await;
        (status["channels"]["telegram"]["outbox"]["waiting"] == 0).then_some(())
    })
    .await;
    assert_eq!(place.api.shown().len(), 1, "{:?}", place.api.shown());
}

/// As `openclaw message poll` and `message send --reply-to` of 2026.9.6 send it.
#[tokio::test]
async fn a_poll_is_an_action_too() {
    let place = place(&json!({})).await;
    let mut params = standard_connect(&["operator.admin"]);
    params["maxProtocol"] = json!(4);
    let mut client = connect(&place.gateway, &params).await;
    until("the bot listens", async || (!place.api.calls("getUpdates").is_empty()).then_some(()))
        .await;
    let action = |name: &str, key: &str, params: Value| json!({"channel": "telegram", "action": name, "idempotencyKey": key, "params": params});
    let poll = json!({"to": "telegram:7", "pollQuestion": "tea?", "pollOption": ["yes", "no"],
        "pollMulti": true, "pollPublic": true, "pollDurationSeconds": "60"});
    call(&mut client, "message.action", action("poll", "p1", poll.clone())).await;
    call(&mut client, "message.action", action("poll", "p1", poll)).await;
    let sent = place.api.calls("sendPoll");
    assert_eq!(sent.len(), 1, "the same key again sends nothing again");
    assert_eq!((&sent[0]["question"], &sent[0]["chat_id"]), (&json!("tea?"), &json!("7")));
    assert_eq!(
        (&sent[0]["allows_multiple_answers"], &sent[0]["is_anonymous"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(sent[0]["open_period"], 60, "the command sends numbers as they were typed");
    for (params, text) in [
        (
            json!({"to": "7", "pollQuestion": "q", "pollOption": ["a", "b"],
                "pollDurationHours": "soon"}),
            "invalid poll params: at /durationHours: must be integer",
        ),
        (
            json!({"to": "7", "pollOption": ["a", "b"]}),
            "invalid poll params: must have required property 'question'",
        ),
        (
            json!({"to": "7", "pollQuestion": "q", "pollOption": ["a", 5]}),
            "invalid poll params: at /options/1: must be string",
        ),
    ] {
        let wrong = action("poll", "p2", params);
        assert_eq!(refusal(&mut client, "message.action", wrong).await, text);
    }
    let mut reply = action("send", "s1", json!({"to": "7", "message": "yes", "replyTo": "101"}));
    reply["reply"] = json!({"replyToId": "101", "source": "explicit"});
    call(&mut client, "message.action", reply).await;
    let sent = &place.api.calls("sendMessage")[0];
    assert_eq!(sent["reply_parameters"]["message_id"], 101, "{sent}");
}

#[tokio::test]
async fn files_come_and_go() {
    let place = place(&json!({})).await;
    place.api.add_file("doc-1", b"the text of a file");
    place.api.say(json!({"message_id": 1, "date": 1, "caption": "read this",
        "from": {"id": 7, "is_bot": false, "first_name": "Ann"},
        "chat": {"id": 7, "type": "private"},
        "document": {"file_id": "doc-1", "file_name": "a.txt", "mime_type": "text/plain"}}));
    until("it is answered", async || (place.api.shown().len() == 1).then_some(())).await;
    let mut client = admin(&place.gateway).await;
    let messages = history(&mut client, KEY).await;
    assert!(messages[0].to_string().contains("the text of a file"), "{}", messages[0]);
    // A stranger's file is not even fetched.
    place.api.say(json!({"message_id": 2, "date": 1, "from": {"id": 8, "first_name": "Eve"},
        "chat": {"id": 8, "type": "private"}, "document": {"file_id": "doc-1"}}));
    until("a code is told", async || (place.api.shown().len() == 2).then_some(())).await;
    assert_eq!(place.api.calls("getFile").len(), 1);

    let params = json!({"to": "7", "message": "a **cat**", "mediaUrl": "https://x.test/cat.png",
        "idempotencyKey": "s1"});
    let sent = call(&mut client, "send", params).await;
    assert_eq!(sent["messageId"], "3");
    let photo = &place.api.calls("sendPhoto")[0];
    assert_eq!(photo["photo"], "https://x.test/cat.png");
    assert_eq!(photo["caption"], "a <b>cat</b>");
    let poll = json!({"to": "7", "question": "tea?", "options": ["yes", "no"],
        "idempotencyKey": "p1"});
    assert_eq!(call(&mut client, "poll", poll).await["messageId"], "4");
    let gone = json!({"to": "404", "message": "x", "idempotencyKey": "s2"});
    let error = refusal(&mut client, "send", gone).await;
    assert_eq!(error, "Error: the Bot API answered 400: Bad Request: chat not found");
    let edit = json!({"channel": "telegram", "action": "edit", "idempotencyKey": "e1",
        "params": {"to": "7", "messageId": "1", "message": "changed"}});
    call(&mut client, "message.action", edit).await;
    assert_eq!(place.api.shown()[0].text, "changed");

    // An agent sends a file of its workspace, and none from elsewhere.
    std::fs::write(place.gateway.workspace().join("plan.txt"), "the plan").unwrap();
    for (id, path) in [(10, "plan.txt"), (11, "../state/openclaw.json")] {
        let text =
            format!("@mock tool name=message args={{\"action\":\"send\",\"media\":\"{path}\"}}");
        place.api.direct(id, 7, &text);
        let messages = 5 + usize::try_from(id).unwrap() - 10;
        place.api.shows_at_least(messages + 1).await;
    }
    let files = place.api.calls("sendDocument");
    assert_eq!(files.len(), 1);
    assert_eq!(
        (&files[0]["document"], &files[0]["chat_id"]),
        (&json!("file of 8 bytes"), &json!("7"))
    );
}

#[tokio::test]
async fn telegram_may_bring_updates_and_has_to_prove_that_it_is_telegram() {
    let hook = "https://claw.example/telegram-webhook";
    let place = place(&json!({"webhookUrl": hook, "webhookSecret": "hook-secret-1234"})).await;
    let told_where = until("it is registered", async || place.api.webhook()).await;
    assert_eq!(
        (&told_where["url"], &told_where["secret_token"]),
        (&json!(hook), &json!("hook-secret-1234"))
    );
    place.connected().await;
    let update = json!({"update_id": 1, "message": {"message_id": 1, "text": "hello",
        "from": {"id": 7, "is_bot": false, "first_name": "Ann"},
        "chat": {"id": 7, "type": "private"}}});
    let path = "/telegram-webhook";
    let bring = async |secret: &str| {
        let headers = [("x-telegram-bot-api-secret-token", secret.to_owned())];
        post(&place.gateway, path, update.to_string().into_bytes(), &headers).await.0
    };
    assert_eq!(bring("wrong").await, 401);
    assert_eq!(bring("hook-secret-1234").await, 200);
    assert_eq!(bring("hook-secret-1234").await, 200);
    place.api.shows(&["Echo: hello"]).await;
    let mut client = admin(&place.gateway).await;
    let both = [("user", "hello"), ("assistant", "Echo: hello")];
    assert_eq!(told(&mut client, KEY).await, lines(&both));
}

#[tokio::test]
async fn what_telegram_brings_of_a_chat_is_taken_in_its_order() {
    let settings = json!({"webhookUrl": "https://claw.example/telegram-webhook",
        "webhookSecret": "hook-secret-1234", "allowFrom": [7, 8]});
    let place = place(&settings).await;
    place.connected().await;
    place.api.add_file("slow", b"the text of a file");
    place.api.hold_file("slow");
    let bring = async |update: Value| {
        let headers = [("x-telegram-bot-api-secret-token", "hook-secret-1234".to_owned())];
        let body = update.to_string().into_bytes();
        assert_eq!(post(&place.gateway, "/telegram-webhook", body, &headers).await.0, 200);
    };
    let chat = |id: i64| json!({"id": id, "type": "private"});
    let who = |id: i64| json!({"id": id, "is_bot": false, "first_name": "Ann"});
    let first = json!({"update_id": 1, "message": {"message_id": 1, "caption": "read this",
        "from": who(7), "chat": chat(7),
        "document": {"file_id": "slow", "file_name": "a.txt", "mime_type": "text/plain"}}});
    let second = json!({"update_id": 2, "callback_query": {"id": "4001", "data": "yes",
        "from": who(7), "message": {"message_id": 2, "chat": chat(7)}}});
    let other = json!({"update_id": 3, "message": {"message_id": 1, "text": "hello",
        "from": who(8), "chat": chat(8)}});
    let later = async {
        until("its file is asked for", async || place.api.calls("getFile").first().cloned()).await;
        let others = async {
            let pressed = async || place.api.calls("answerCallbackQuery").first().cloned();
            until("the press has come", pressed).await;
            bring(other).await;
            // Whoever is elsewhere waits for nobody.
            place.api.shows(&["Echo: hello"]).await;
            place.api.let_files_go();
        };
        tokio::join!(bring(second), others);
    };
    tokio::join!(bring(first), later);
    let mut client = admin(&place.gateway).await;
    let said = until("both are there", async || {
        let messages = told(&mut client, KEY).await.into_iter();
        let said: Vec<_> = messages.filter(|it| it.0 == "user").map(|it| it.1).collect();
        (said.len() == 2).then_some(said)
    })
    .await;
    assert!(said[0].contains("read this") && said[1] == "yes", "{said:?}");
}

#[tokio::test]
async fn a_bot_whose_api_fails_comes_back_and_hurts_nobody() {
    let place = place(&json!({})).await;
    place.api.refuse("getUpdates", 500, None);
    place.api.refuse("getMe", 401, None);
    place.api.direct(1, 7, "hello");
    place.api.shows(&["Echo: hello"]).await;
    let mut client = admin(&place.gateway).await;
    assert_eq!(call(&mut client, "health", json!({})).await["ok"], true);
}

#[tokio::test]
async fn an_api_that_fails_again_and_again_is_asked_ever_less_often() {
    let place = place(&json!({})).await;
    place.connected().await;
    for _ in 0..2 {
        place.api.refuse("getUpdates", 500, None);
    }
    // That it answers before it fails changes nothing.
    until("it waits twice as long", async || {
        let log = place.gateway.stderr();
        let mut lost = log.lines().filter(|line| line.contains("channel lost"));
        lost.any(|line| line.contains("wait=2s")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_api_that_wants_to_be_asked_for_updates_later_is_not_begun_anew() {
    let place = place(&json!({})).await;
    place.connected().await;
    place.api.refuse("getUpdates", 429, Some(1));
    let asked = place.api.calls("getUpdates").len();
    until("it is asked", async || (place.api.calls("getUpdates").len() > asked).then_some(()))
        .await;
    place.api.direct(1, 7, "hello");
    place.api.shows(&["Echo: hello"]).await;
    assert_eq!(place.api.calls("getMe").len(), 1);
}

#[tokio::test]
async fn a_text_that_its_marks_make_too_long_is_sent_as_it_was_written() {
    let place = place(&json!({})).await;
    place.connected().await;
    let mut client = admin(&place.gateway).await;
    // Each of them is shown with its own number.
    let list = "1. x\n".repeat(700);
    let params = json!({"to": "7", "message": list, "idempotencyKey": "s1"});
    call(&mut client, "send", params).await;
    place.api.shows(&[list.trim_end()]).await;
}
