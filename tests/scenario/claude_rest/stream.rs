//! The stream of what happens to sessions, over a real socket.

use std::time::Duration;

use futures_util::StreamExt;
use reqwest::{Method, Response};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{ask as by_http, begin, good, path, post};
use crate::control_ui::http;
use crate::stage::{Api, admin, ask, call, row, scripted};
use crate::support::{Gateway, SECRET};

const LIMIT: Duration = Duration::from_secs(60);

/// What a stream has told.
pub struct Told {
    stream: std::pin::Pin<Box<dyn futures_util::Stream<Item = reqwest::Result<bytes::Bytes>>>>,
    rest: String,
}

impl Told {
    pub async fn open(gateway: &Gateway) -> Self {
        let url = format!("http://{}/api/notifications/stream", gateway.address());
        let answer: Response = http().get(url).bearer_auth(SECRET).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let mut told = Self { stream: Box::pin(answer.bytes_stream()), rest: String::new() };
        assert_eq!(told.next().await, Some(json!({"type": "connected"})));
        told
    }

    /// The next line; none at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((line, rest)) = self.rest.split_once("\n\n") {
                let line = line.to_owned();
                self.rest = rest.to_owned();
                if let Some(data) = line.strip_prefix("data: ") {
                    return Some(serde_json::from_str(data).unwrap());
                }
                continue;
            }
            let part = timeout(LIMIT, self.stream.next()).await.expect("it says or ends")?;
            self.rest.push_str(std::str::from_utf8(&part.ok()?).unwrap());
        }
    }

    /// The operations of a session up to and with this one, without repetitions.
    pub async fn until(&mut self, id: &str, last: &str) -> Vec<String> {
        let mut operations = Vec::new();
        loop {
            let line = self.next().await.expect("it goes on");
            assert_eq!(line["type"], "claude-session-updated");
            assert!(line["timestamp"].as_u64().unwrap() > 1_500_000_000_000);
            if line["data"]["sessionId"] == id {
                operations.push(line["data"]["operation"].as_str().unwrap().to_owned());
                operations.dedup();
            }
            if operations.last().is_some_and(|operation| operation == last) {
                return operations;
            }
        }
    }
}

#[tokio::test]
async fn the_stream_tells_of_each_operation_and_of_nothing_else() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut told = Told::open(&gateway).await;
    let id = begin(&gateway, json!({"title": "Garden"})).await;
    assert_eq!(told.until(&id, "created").await, ["created"]);
    let mut client = admin(&gateway).await;
    let found = call(&mut client, "sessions.resolve", json!({"sessionId": id})).await;
    let key = found["key"].as_str().unwrap();
    ask(&mut client, key, "@mock text text=\"yes\"", "run-1").await;
    let operations = told.until(&id, "activated").await;
    assert_eq!(operations.last().unwrap(), "activated", "{operations:?}");
    assert!(!operations.contains(&"created".to_owned()), "{operations:?}");
    assert_eq!(told.until(&id, "updated").await, ["updated"]);
    good(post(&gateway, &path(&id, "/archive"), Value::Null)).await;
    good(post(&gateway, &path(&id, "/deactivate"), Value::Null)).await;
    assert_eq!(told.until(&id, "deactivated").await.last().unwrap(), "deactivated");
    let gone = by_http(&gateway, Method::DELETE, &path(&id, ""), Value::Null).await;
    assert_eq!(gone.0, 200);
    assert_eq!(told.until(&id, "deleted").await, ["deleted"]);
    drop(client);
    gateway.signal_term();
    while told.next().await.is_some() {}
    assert!(gateway.wait_exit(LIMIT).await.is_some());
}

#[tokio::test]
async fn a_session_that_begins_with_a_message_is_created_too() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut told = Told::open(&gateway).await;
    let mut client = admin(&gateway).await;
    let key = "agent:main:talked";
    ask(&mut client, key, "@mock text text=\"yes\"", "run-1").await;
    let id = row(&mut client, key).await["sessionId"].as_str().unwrap().to_owned();
    let operations = told.until(&id, "activated").await;
    assert_eq!(operations[0], "created", "{operations:?}");
    ask(&mut client, key, "@mock text text=\"again\"", "run-2").await;
    let operations = told.until(&id, "activated").await;
    assert!(!operations.contains(&"created".to_owned()), "{operations:?}");
}
