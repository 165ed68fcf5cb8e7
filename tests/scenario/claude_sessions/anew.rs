//! An answer that breaks off while it is thought about.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{Claude, of_type};
use crate::stage::{Api, admin, call, config, history, serve, until};
use crate::support::{Gateway, GatewayOptions};

fn events(values: &[Value]) -> String {
    let event =
        |value: &Value| format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap());
    values.iter().map(event).collect()
}

/// The beginning of an answer: a thought.
fn thought(text: &str) -> String {
    let start = json!({"type": "thinking", "thinking": "", "signature": ""});
    let delta = json!({"type": "thinking_delta", "thinking": text});
    events(&[
        json!({"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 3}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": start}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
    ])
}

/// A call behind it, in the middle of which it breaks off.
fn cut_call() -> String {
    let start = json!({"type": "tool_use", "id": "c", "name": "process", "input": {}});
    let delta = json!({"type": "input_json_delta", "partial_json": "{\"act"});
    events(&[
        json!({"type": "content_block_start", "index": 1, "content_block": start}),
        json!({"type": "content_block_delta", "index": 1, "delta": delta}),
    ])
}

/// The rest of it.
fn words(text: &str) -> String {
    let start = json!({"type": "text", "text": ""});
    let delta = json!({"type": "text_delta", "text": text});
    events(&[
        json!({"type": "content_block_start", "index": 1, "content_block": start}),
        json!({"type": "content_block_delta", "index": 1, "delta": delta}),
        json!({"type": "content_block_stop", "index": 1}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 5}}),
        json!({"type": "message_stop"}),
    ])
}

#[tokio::test]
async fn what_was_thought_before_a_cut_is_thrown_away_and_thought_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let app = Router::new().fallback(move || {
        let said = match count.fetch_add(1, Ordering::Relaxed) {
            0 => thought("first"),
            _ => thought("second") + &words("fine"),
        };
        async move { ([("content-type", "text/event-stream")], said) }
    });
    let (port, _server) = serve(app).await;
    let config = config(&format!("127.0.0.1:{port}"), Api::Anthropic);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut main = admin(&gateway).await;
    let made = call(&mut main, "sessions.create", json!({"label": "claude"})).await;
    let mut claude = Claude::open(&gateway, made["sessionId"].as_str().unwrap(), "").await;

    let frames = claude.ask("hello").await;
    let blocks = |frame: &&Value| frame["message"]["content"][0].clone();
    let said: Vec<_> = of_type(&frames, "assistant").iter().map(blocks).collect();
    let thoughts: Vec<_> = said.iter().filter_map(|block| block["thinking"].as_str()).collect();
    assert_eq!(thoughts, ["first", "second"], "each is told");
    assert_eq!(said.last().unwrap()["text"], "fine");
    assert_eq!(calls.load(Ordering::Relaxed), 2);

    let messages = history(&mut main, made["key"].as_str().unwrap()).await;
    let content =
        json!([{"type": "thinking", "thinking": "second"}, {"type": "text", "text": "fine"}]);
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_eq!(messages[1]["content"], content);
}

#[tokio::test]
async fn who_comes_after_a_cut_is_told_nothing_of_what_was_thrown_away() {
    let (calls, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (count, shut) = (Arc::clone(&calls), Arc::clone(&gate));
    let app = Router::new().fallback(move || {
        let (number, shut) = (count.fetch_add(1, Ordering::Relaxed), Arc::clone(&shut));
        async move {
            let said = if number == 0 {
                thought("a dead end") + &cut_call()
            } else {
                shut.notified().await;
                thought("second") + &words("fine")
            };
            ([("content-type", "text/event-stream")], said)
        }
    });
    let (port, _server) = serve(app).await;
    let config = config(&format!("127.0.0.1:{port}"), Api::Anthropic);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut main = admin(&gateway).await;
    let made = call(&mut main, "sessions.create", json!({"label": "claude"})).await;
    let id = made["sessionId"].as_str().unwrap();
    let mut first = Claude::open(&gateway, id, "").await;
    first.say("hello").await;
    until("the second call", async || (calls.load(Ordering::Relaxed) == 2).then_some(())).await;
    let late = until("the end of what was thrown away", async || {
        let mut late = Claude::open(&gateway, id, "").await;
        let request = json!({"subtype": "initialize"});
        late.send(json!({"type": "control_request", "request_id": "r", "request": request})).await;
        late.find("answer", |frame| frame["type"] == "control_response").await;
        let is_told = late.frames().iter().any(|it| it.to_string().contains("a dead end"));
        (!is_told).then_some(late)
    })
    .await;
    gate.notify_one();
    for client in [&first, &late] {
        client.turns(1).await;
    }
    let said = late.frames();
    assert!(said.iter().any(|frame| frame.to_string().contains("second")), "{said:?}");
    let frames = first.frames();
    assert!(frames.iter().any(|frame| frame.to_string().contains("a dead end")));
    let is_call = |frame: &&Value| frame["message"]["content"][0]["type"] == "tool_use";
    assert!(!of_type(&frames, "assistant").iter().any(is_call), "a call that was cut is no whole");
}
