//! Who comes in the middle of a run sees what all the others see.

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::stage::{
    Api, RUN_LIMIT, admin, call, connect, deltas, end_of, ends_of, events, scripted,
    scripted_queueing, start, text_of, with_both_apis,
};
use crate::support::{SECRET, WsClient};

const STREAM: &str = "@mock stream n=30 delay=50";

/// The text that a client shows which sets it on `replace` and on the whole
/// text of version 3, and appends otherwise.
fn shown(client: &WsClient, run_id: &str, from: &str, appends: bool) -> String {
    let mut text = from.to_owned();
    for payload in events(client, "chat", run_id) {
        if payload["state"] != "delta" {
            continue;
        }
        let piece = text_of(&payload["message"]);
        if !appends || payload["replace"] == true {
            text = piece;
        } else {
            text.push_str(&piece);
        }
    }
    text
}

async fn who_refreshes_in_the_middle_ends_with_the_same_text(api: Api) {
    let (gateway, _mock) = scripted(api).await;
    let mut first = admin(&gateway).await;
    start(&mut first, "main", STREAM, "run-1").await;
    // Before that it would be taken into the first question.
    deltas(&first, "run-1", 1).await;
    start(&mut first, "main", "@mock text text=second", "run-2").await;
    let seen = deltas(&first, "run-1", 3).await;

    let simple = json!({"clientType": "web", "auth": {"token": SECRET}});
    let mut late = [(admin(&gateway).await, false), (connect(&gateway, &simple).await, true)];
    let mut texts = Vec::new();
    for (client, _) in &mut late {
        let page = call(client, "chat.history", json!({"sessionKey": "main"})).await;
        let active = &page["activeRun"];
        assert_eq!(active["runId"], "run-1", "{page}");
        assert!(active["startedAt"].is_u64(), "{page}");
        let text = active["text"].as_str().unwrap().to_owned();
        assert!(text.starts_with(&seen), "{text} after {seen}");
        texts.push(text);
        let messages = page["messages"].as_array().unwrap();
        assert_eq!(messages.len(), 2, "{page}");
        assert_eq!(messages[0]["__openclaw"].get("pending"), None);
        assert_eq!(text_of(&messages[1]), "@mock text text=second");
        assert_eq!(messages[1]["role"], "user");
        assert_eq!(messages[1]["__openclaw"]["pending"], true);
    }
    let whole = text_of(&end_of(&first, "run-1").await["message"]);
    assert_eq!(shown(&first, "run-1", "", false), whole);
    for ((client, appends), text) in late.iter().zip(texts) {
        assert_eq!(text_of(&end_of(client, "run-1").await["message"]), whole);
        assert_eq!(shown(client, "run-1", &text, *appends), whole);
    }

    end_of(&first, "run-2").await;
    let page = call(&mut first, "chat.history", json!({"sessionKey": "main"})).await;
    assert_eq!(page.get("activeRun"), None, "{page}");
    let messages = page["messages"].as_array().unwrap();
    let pending = |message: &&Value| message["__openclaw"]["pending"] == true;
    assert_eq!((messages.len(), messages.iter().filter(pending).count()), (4, 0), "{page}");
}

#[tokio::test]
async fn a_message_that_waits_is_shown_as_long_as_the_client_asks_for() {
    let (gateway, _mock) = scripted_queueing("followup").await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", STREAM, "run-1").await;
    let long = "x".repeat(9000);
    start(&mut client, "main", &long, "run-2").await;
    for (max_chars, shown) in [(4, "xxxx\n...(truncated)..."), (9000, &*long)] {
        let params = json!({"sessionKey": "main", "maxChars": max_chars});
        let page = call(&mut client, "chat.history", params).await;
        let last = page["messages"].as_array().and_then(|messages| messages.last()).unwrap();
        assert_eq!(last["__openclaw"]["pending"], true, "{last}");
        assert_eq!(text_of(last), shown);
    }
}

/// Sends ten messages and reads the history until all are answered.
async fn read_all_the_time(mode: &str, answers: std::ops::RangeInclusive<usize>) {
    let (gateway, _mock) = scripted_queueing(mode).await;
    let mut client = admin(&gateway).await;
    for index in 0..10 {
        start(&mut client, "main", &format!("message {index}"), &format!("run-{index}")).await;
    }
    let expected: Vec<_> = (0..10).map(|index| format!("message {index}")).collect();
    let deadline = Instant::now() + RUN_LIMIT;
    loop {
        assert!(Instant::now() < deadline, "they are not all answered");
        let is_over = (0..10).all(|index| !ends_of(&client, &format!("run-{index}")).is_empty());
        let page = call(&mut client, "chat.history", json!({"sessionKey": "main"})).await;
        let messages = page["messages"].as_array().unwrap();
        let users = messages.iter().filter(|message| message["role"] == "user").map(text_of);
        assert_eq!(users.collect::<Vec<_>>(), expected);
        if is_over {
            assert!(answers.contains(&(messages.len() - 10)), "{page}");
            break;
        }
    }
}

#[tokio::test]
async fn a_history_at_any_moment_has_every_message_once() {
    read_all_the_time("followup", 10..=10).await;
    read_all_the_time("steer", 1..=10).await;
    read_all_the_time("collect", 1..=10).await;
}

with_both_apis! {
    who_refreshes_in_the_middle_ends_with_the_same_text;
}

#[tokio::test]
async fn who_comes_in_the_middle_hears_that_nothing_runs_any_more() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut first = admin(&gateway).await;
    start(&mut first, "main", STREAM, "run-1").await;
    deltas(&first, "run-1", 1).await;
    let mut late = admin(&gateway).await;
    call(&mut late, "sessions.subscribe", json!({})).await;
    let is_active = |row: &Value| row["hasActiveRun"].clone();
    assert_eq!(is_active(&crate::stage::row(&mut late, "agent:main:main").await), true);
    let told = |phase: &'static str, run_id: &'static str| {
        move |frame: &Value| {
            let payload = &frame["payload"];
            payload["phase"] == phase && payload["runId"] == run_id
        }
    };
    let ended = late.wait_for(RUN_LIMIT, told("end", "run-1")).await.unwrap();
    assert_eq!(is_active(&ended["payload"]["session"]), false, "{ended}");
    start(&mut first, "main", "@mock text text=second", "run-2").await;
    let begun = late.wait_for(RUN_LIMIT, told("start", "run-2")).await.unwrap();
    assert_eq!(is_active(&begun["payload"]["session"]), true, "{begun}");
}

#[tokio::test]
async fn rows_in_events_have_the_tokens_of_the_last_answer_once_there_was_one() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.subscribe", json!({})).await;
    for (run, is_known) in [("run-1", false), ("run-2", true)] {
        start(&mut client, "main", "@mock text text=fine", run).await;
        for phase in ["start", "end"] {
            let told = client.wait_for(RUN_LIMIT, |frame| {
                frame["payload"]["phase"] == phase && frame["payload"]["runId"] == run
            });
            let payload = &told.await.unwrap()["payload"];
            for name in ["inputTokens", "outputTokens"] {
                let known = (payload[name].is_u64(), payload["session"][name].is_u64());
                assert_eq!(known, (is_known, is_known), "{name} of {payload}");
            }
        }
    }
}
