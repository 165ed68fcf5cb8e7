//! The scripted provider says what its directives ask for.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::MockProvider;

/// The whole answer to one POST, head and body.
async fn post(provider: &MockProvider, path: &str, body: &Value) -> String {
    let body = body.to_string();
    let mut stream = TcpStream::connect(provider.address()).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A scripted cut ends the connection in the middle.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

async fn openai(provider: &MockProvider, messages: Value, stream: bool) -> String {
    let body = json!({ "model": "mock-1", "stream": stream, "messages": messages });
    post(provider, "/v1/chat/completions", &body).await
}

fn user(text: &str) -> Value {
    json!([{ "role": "user", "content": text }])
}

/// The JSON body of an answer that is not streamed.
fn json_body(answer: &str) -> Value {
    serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap()
}

/// The pieces of text in a streamed answer.
fn pieces(answer: &str, pointer: &str) -> Vec<String> {
    let events = answer.lines().filter_map(|line| line.strip_prefix("data: "));
    events
        .filter_map(|event| serde_json::from_str::<Value>(event).ok())
        .filter_map(|event| event.pointer(pointer)?.as_str().map(str::to_owned))
        .filter(|text| !text.is_empty())
        .collect()
}

const DELTA: &str = "/choices/0/delta/content";

#[tokio::test]
async fn text_is_cut_into_the_pieces_of_the_script() {
    let provider = MockProvider::start().await;
    let script = "@mock text text=\"full key\" n=2 delay=1";
    let whole = json_body(&openai(&provider, user(script), false).await);
    assert_eq!(whole["choices"][0]["message"]["content"], "full key");
    let streamed = openai(&provider, user(script), true).await;
    assert_eq!(pieces(&streamed, DELTA), ["full", " key"]);
    assert!(streamed.contains("data: [DONE]"));
    assert_eq!(provider.requests().len(), 2);
    assert_eq!(provider.requests()[1].body["stream"], true);
}

#[tokio::test]
async fn stream_counts_words_and_anything_else_is_echoed() {
    let provider = MockProvider::start().await;
    let streamed = openai(&provider, user("x @mock stream n=3 delay=1"), true).await;
    assert_eq!(pieces(&streamed, DELTA), ["w1 ", "w2 ", "w3 "]);
    let echoed = json_body(&openai(&provider, user("two\nlines"), false).await);
    assert_eq!(echoed["choices"][0]["message"]["content"], "Echo: lines");
}

#[tokio::test]
async fn a_failure_has_its_status_and_can_cut_the_stream() {
    let provider = MockProvider::start().await;
    let script = "@mock err status=429 type=rate_limit_error msg=\"slow down\" retryAfter=1";
    let refused = openai(&provider, user(script), true).await;
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("retry-after: 1"), "{refused}");
    assert_eq!(json_body(&refused)["error"]["message"], "slow down");
    let cut = openai(&provider, user("@mock err after=2 delay=1"), true).await;
    assert_eq!(pieces(&cut, DELTA), ["w1 ", "w2 "]);
    assert!(!cut.contains("[DONE]"));
}

#[tokio::test]
async fn a_held_message_gets_no_answer_and_others_do() {
    let provider = MockProvider::start().await;
    provider.hold("text=\"held\"");
    let held = user("@mock text text=\"held\" delay=1");
    let mut waiting = Box::pin(openai(&provider, held, true));
    let other = tokio::select! {
        answer = &mut waiting => panic!("{answer}"),
        answer = openai(&provider, user("@mock text text=\"told\" delay=50"), true) => answer,
    };
    assert_eq!(pieces(&other, DELTA).concat(), "told");
    assert_eq!(provider.requests().len(), 2);
}

#[tokio::test]
async fn a_tool_is_called_once_and_then_spoken_of() {
    let provider = MockProvider::start().await;
    let script = "@mock tool name=read args={\"path\":\"a.txt\"} pre=\"Look.\" then=\"Read.\"";
    let first = json_body(&openai(&provider, user(script), false).await);
    let call = &first["choices"][0]["message"]["tool_calls"][0];
    assert_eq!(call["function"]["name"], "read");
    assert_eq!(call["function"]["arguments"], "{\"path\":\"a.txt\"}");
    assert_eq!(first["choices"][0]["message"]["content"], "Look.");
    let turn = json!([
        { "role": "user", "content": script },
        { "role": "assistant", "content": null, "tool_calls": [call] },
        { "role": "tool", "tool_call_id": call["id"], "content": "alpha" },
    ]);
    let second = json_body(&openai(&provider, turn, false).await);
    assert_eq!(second["choices"][0]["message"]["content"], "Read.");
    assert_eq!(second["choices"][0]["finish_reason"], "stop");
}

#[tokio::test]
async fn the_anthropic_dialect_thinks_and_speaks() {
    let provider = MockProvider::start().await;
    let body = json!({ "stream": true, "messages": user("@mock think n=2 delay=1") });
    let streamed = post(&provider, "/v1/messages", &body).await;
    assert_eq!(pieces(&streamed, "/delta/thinking"), ["w1 ", "w2 "]);
    assert_eq!(pieces(&streamed, "/delta/text"), ["After ", "thinking."]);
    assert!(streamed.contains("event: message_stop"));
}
