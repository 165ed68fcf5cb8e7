//! The WebSocket of Claude sessions: the real binary, real sockets, a scripted
//! model.

mod anew;
mod burst;
mod commands;
mod connecting;
mod permissions;
mod saying;
mod theirs;
mod turns;

use std::time::Duration;

use serde_json::{Value, json};

use crate::stage::{Api, admin, call, config};
use crate::support::config::SECRET;
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

/// How long a turn may take that a test waits for.
pub const TURN: Duration = Duration::from_secs(60);

/// A gateway with a session, its id, and a client of the main protocol.
pub struct Scene {
    pub gateway: Gateway,
    pub mock: MockProvider,
    pub main: WsClient,
    pub key: String,
    pub id: String,
}

impl Scene {
    pub async fn new(api: Api) -> Self {
        Self::with(api, json!({})).await
    }

    /// With these settings of commands.
    pub async fn with(api: Api, exec: Value) -> Self {
        Self::with_tools(api, json!({ "exec": exec })).await
    }

    /// With these settings of tools.
    pub async fn with_tools(api: Api, tools: Value) -> Self {
        let mock = MockProvider::start().await;
        let mut config = config(mock.address(), api);
        for (name, section) in tools.as_object().unwrap() {
            config["tools"][name] = section.clone();
        }
        config["agents"]["defaults"]["compaction"] = json!({"keepRecentTokens": 1});
        config["messages"]["queue"] = json!({"mode": "followup", "debounceMs": 0});
        let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
        let mut main = admin(&gateway).await;
        let made = call(&mut main, "sessions.create", json!({"label": "claude"})).await;
        let (key, id) = (&made["key"], &made["sessionId"]);
        let (key, id) = (key.as_str().unwrap().to_owned(), id.as_str().unwrap().to_owned());
        Self { gateway, mock, main, key, id }
    }

    /// A client of the session.
    pub async fn claude(&self) -> Claude {
        Claude::open(&self.gateway, &self.id, "").await
    }
}

/// A client of the dialect.
pub struct Claude(pub WsClient);

impl Claude {
    /// Looks at a session; `query` follows the token.
    pub async fn open(gateway: &Gateway, id: &str, query: &str) -> Self {
        let path = format!("/api/claude/sessions/{id}/subscribe?access_token={SECRET}{query}");
        Self(WsClient::open_with(&gateway.address(), &path, &[]).await.expect("let in"))
    }

    pub async fn send(&mut self, frame: Value) {
        self.0.send(&frame).await;
    }

    pub async fn say(&mut self, text: &str) {
        self.send(json!({"type": "user_message", "content": text})).await;
    }

    /// Everything so far.
    pub fn frames(&self) -> Vec<Value> {
        self.0.frames()
    }

    /// The first frame that is so.
    pub async fn find(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let found = self.0.wait_for(TURN, is_it).await;
        found.unwrap_or_else(|| panic!("no {what} in {:#?}", self.frames()))
    }

    /// Waits until so many turns are over.
    pub async fn turns(&self, count: usize) {
        let is_end = |frame: &Value| frame["type"] == "queue-operation";
        let over = self.0.wait_until(TURN, |received| {
            let ends = received.iter().rev().filter_map(|it| it.what.frame()).take(400);
            (ends.filter(|frame| is_end(frame)).count() >= count).then_some(())
        });
        over.await.unwrap_or_else(|| panic!("{count} turns are not over: {:#?}", self.frames()));
    }

    /// Says something and waits for the end of its turn, the first of this client.
    pub async fn ask(&mut self, text: &str) -> Vec<Value> {
        self.say(text).await;
        self.turns(1).await;
        self.frames()
    }
}

/// The frames of a type.
pub fn of_type<'f>(frames: &'f [Value], name: &str) -> Vec<&'f Value> {
    frames.iter().filter(|frame| frame["type"] == name).collect()
}

/// What frames are, in order: their type, and which of it. Pieces of one block that
/// follow each other are one.
pub fn kinds(frames: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = |frame: &Value| match frame["type"].as_str().unwrap_or_default() {
        "stream_event" => text(&frame["event"]["type"]),
        "assistant" => format!("assistant {}", text(&frame["message"]["content"][0]["type"])),
        "user" => format!("user {}", text(&frame["message"]["content"][0]["type"])),
        "system" => format!("system {}", text(&frame["subtype"])),
        "result" => format!("result {}", text(&frame["subtype"])),
        other => other.to_owned(),
    };
    let mut kinds: Vec<_> = frames.iter().map(kind).collect();
    kinds.dedup();
    kinds
}

/// The texts that stream, put together.
pub fn streamed(frames: &[Value]) -> String {
    let deltas = frames.iter().filter_map(|frame| frame["event"]["delta"]["text"].as_str());
    deltas.collect()
}

/// The uuids of frames.
pub fn uuids(frames: &[Value]) -> Vec<String> {
    frames.iter().filter_map(|frame| frame["uuid"].as_str()).map(str::to_owned).collect()
}
