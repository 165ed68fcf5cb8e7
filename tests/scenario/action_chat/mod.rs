//! The action chat, row by row of its tables: its WebSocket, its slash commands, its
//! guardrails, and what is asked for by HTTP.

mod actions;
mod approvals;
mod asking;
mod commands;
mod ends;
mod guardrails;
mod http;
mod lane;
mod media;
mod resume;
mod tools;
mod turn;

use std::time::Duration;

use serde_json::{Value, json};

use crate::stage::{Api, RUN_LIMIT, config};
use crate::support::client::{Incoming, Refusal, SOON};
use crate::support::config::SECRET;
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

/// A client of the dialect.
pub struct Chat {
    pub socket: WsClient,
}

impl Chat {
    pub async fn open(gateway: &Gateway) -> Self {
        Self::open_with(gateway, SECRET).await.expect("let in")
    }

    pub async fn open_with(gateway: &Gateway, token: &str) -> Result<Self, Refusal> {
        let path = format!("/api/chat/ws?token={token}");
        let socket = WsClient::open_with(&gateway.address(), &path, &[]).await?;
        Ok(Self { socket })
    }

    pub async fn act(&mut self, frame: Value) {
        self.socket.send(&frame).await;
    }

    /// The next frame.
    pub async fn next(&mut self) -> Value {
        match self.socket.recv(RUN_LIMIT).await {
            Some(Incoming::Frame(frame)) => frame,
            Some(Incoming::Ping) => Box::pin(self.next()).await,
            other => panic!("no frame but {other:?} after {:?}", self.socket.frames()),
        }
    }

    /// Whatever comes in a moment when nothing should.
    pub async fn nothing_comes(&mut self) {
        let more = self.socket.recv(Duration::from_millis(300)).await;
        assert_eq!(more, None, "{:?}", self.socket.frames());
    }

    /// The frames up to and with `done`.
    pub async fn response(&mut self) -> Vec<Value> {
        let mut frames = Vec::new();
        loop {
            let frame = self.next().await;
            let is_last = frame["type"] == "done";
            frames.push(frame);
            if is_last {
                return frames;
            }
        }
    }

    /// The frames up to and with one that is called so.
    pub async fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut frames = Vec::new();
        loop {
            frames.push(self.next().await);
            if frames.last().is_some_and(|frame| name(frame) == kind) {
                return frames;
            }
        }
    }

    pub async fn send(&mut self, text: &str) {
        self.act(json!({"action": "send", "text": text})).await;
    }

    /// Says something and waits for the end of the response.
    pub async fn say(&mut self, text: &str) -> Vec<Value> {
        self.send(text).await;
        self.response().await
    }

    /// Begins a conversation; its id.
    pub async fn begin(&mut self) -> String {
        self.act(json!({"action": "new_session"})).await;
        let created = self.next().await;
        assert_eq!(created["type"], "session_created", "{created}");
        created["session_id"].as_str().unwrap().to_owned()
    }

    /// Goes on with a conversation; how many messages it has.
    pub async fn resume(&mut self, id: &str) -> u64 {
        self.act(json!({"action": "resume_session", "session_id": id})).await;
        let resumed = self.next().await;
        let count = resumed["message_count"].clone();
        assert_eq!(
            resumed,
            json!({"type": "session_resumed", "session_id": id, "message_count": count})
        );
        assert_eq!(self.next().await, json!({"type": "session_created", "session_id": id}));
        count.as_u64().unwrap()
    }
}

/// The name of an event, or the type of another frame.
pub fn name(frame: &Value) -> &str {
    frame["event"].as_str().or(frame["type"].as_str()).unwrap_or_default()
}

/// What the frames are, several deltas in a row as one, and progress as well.
pub fn names(frames: &[Value]) -> Vec<&str> {
    let mut names: Vec<_> = frames.iter().map(name).collect();
    names.dedup_by(|a, b| a == b && ["delta", "tool_progress"].contains(a));
    names
}

/// All that was said.
pub fn said(frames: &[Value]) -> String {
    let deltas = frames.iter().filter(|frame| frame["type"] == "delta");
    deltas.filter_map(|frame| frame["content"].as_str()).collect()
}

/// The first frame that is called so.
pub fn find<'a>(frames: &'a [Value], kind: &str) -> &'a Value {
    frames.iter().find(|frame| name(frame) == kind).unwrap_or_else(|| panic!("{kind}: {frames:?}"))
}

/// A gateway whose scripted models the messages direct.
pub async fn place(change: impl FnOnce(&mut Value)) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    change(&mut config);
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

/// The key of a conversation, which other clients know it by.
pub async fn key_of(client: &mut WsClient, id: &str) -> String {
    let found = crate::stage::call(client, "sessions.resolve", json!({"sessionId": id})).await;
    found["key"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn nobody_gets_in_without_a_credential_and_the_refusal_is_that_of_the_dialect() {
    let (gateway, _mock) = place(|_| {}).await;
    for path in ["/api/chat/ws", "/api/chat/ws?token=wrong", "/api/chat/ws?secret=wrong"] {
        let refusal = WsClient::open_with(&gateway.address(), path, &[]).await.err().unwrap();
        assert_eq!(refusal.status, 401, "{path}");
        let body: Value = serde_json::from_str(&refusal.body).unwrap_or_default();
        let expected =
            json!({"status": "unauthorized", "message": "Invalid or missing admin secret"});
        assert!(refusal.body.is_empty() || body == expected, "{body}");
    }
    let bearer = [("authorization".to_owned(), format!("Bearer {SECRET}"))];
    let paths = ["/api/chat/ws".to_owned(), format!("/api/chat/ws?secret={SECRET}")];
    for (path, headers) in paths.iter().zip([&bearer[..], &[]]) {
        let mut socket = WsClient::open_with(&gateway.address(), path, headers).await.unwrap();
        socket.send(&json!({"action": "new_session"})).await;
        let created = socket.wait_for(SOON, |frame| frame["type"] == "session_created").await;
        assert!(created.is_some());
    }
}
