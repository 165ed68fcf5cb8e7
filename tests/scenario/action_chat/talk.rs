//! A client of the action chat, and what it asks for by HTTP.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::control_ui::http;
use crate::stage::{Api, RUN_LIMIT, config};
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET, WsClient};

/// A connection of the dialect.
pub struct Talk(pub WsClient);

impl Talk {
    pub async fn open(gateway: &Gateway) -> Self {
        let path = format!("/api/chat/ws?token={SECRET}");
        Self(WsClient::open_with(&gateway.address(), &path, &[]).await.expect("upgrade"))
    }

    pub async fn send(&mut self, text: &str) {
        self.0.send(&json!({"action": "send", "text": text})).await;
    }

    /// The frames up to the next `done`, without it.
    pub async fn response(&mut self) -> Vec<Value> {
        let mut frames = Vec::new();
        loop {
            let next = self.0.recv(RUN_LIMIT).await.unwrap_or_else(|| panic!("{frames:?}"));
            let frame = next.frame().unwrap_or_else(|| panic!("{next:?}")).clone();
            if frame["type"] == "done" {
                return frames;
            }
            frames.push(frame);
        }
    }

    /// What a command says.
    pub async fn command(&mut self, text: &str) -> String {
        self.send(text).await;
        message(&self.response().await)
    }

    /// What a model answers.
    pub async fn ask(&mut self, text: &str) -> Vec<Value> {
        self.send(text).await;
        self.response().await
    }
}

/// The text of the `message` frame of a response.
pub fn message(frames: &[Value]) -> String {
    let found = frames.iter().find(|frame| frame["type"] == "message");
    let content = found.and_then(|frame| frame["content"].as_str());
    content.unwrap_or_else(|| panic!("no message: {frames:?}")).to_owned()
}

/// The text of the deltas of a response.
pub fn said(frames: &[Value]) -> String {
    let deltas = frames.iter().filter(|frame| frame["type"] == "delta");
    deltas.filter_map(|frame| frame["content"].as_str()).collect()
}

/// The events of a response with this name.
pub fn events(frames: &[Value], name: &str) -> Vec<Value> {
    frames.iter().filter(|frame| frame["event"] == name).cloned().collect()
}

/// A gateway whose models follow the `@mock` lines, with these changes of its config.
pub async fn place(change: impl FnOnce(&mut Value)) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    change(&mut config);
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

/// Asks by HTTP with the gateway's token.
pub async fn request(
    gateway: &Gateway,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> (StatusCode, Value) {
    let url = format!("http://{}{path}", gateway.address());
    let mut request = http().request(method, url).bearer_auth(SECRET);
    if let Some(body) = body {
        request = request.header("content-type", "application/json").body(body.to_string());
    }
    let answer = request.send().await.unwrap();
    let status = answer.status();
    let text = answer.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// What a GET answers that must be answered well.
pub async fn get(gateway: &Gateway, path: &str) -> Value {
    let (status, body) = request(gateway, Method::GET, path, None).await;
    assert_eq!(status, StatusCode::OK, "{path}: {body}");
    body
}

/// What a change answers that must be answered well.
pub async fn change(gateway: &Gateway, method: Method, path: &str, body: Value) -> Value {
    let (status, answer) = request(gateway, method, path, Some(body)).await;
    assert_eq!(status, StatusCode::OK, "{path}: {answer}");
    answer
}

/// The config file.
pub fn written(gateway: &Gateway) -> Value {
    let text = std::fs::read_to_string(gateway.config_path()).unwrap();
    json5::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}
