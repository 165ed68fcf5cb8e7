//! Commands, and what a client of the action chat asks for by HTTP.

use reqwest::{Method, StatusCode};
use serde_json::Value;

use super::{Chat, find};
use crate::control_ui::http;
use crate::support::{Gateway, SECRET};

impl Chat {
    /// What a command says.
    pub async fn command(&mut self, text: &str) -> String {
        message(&self.say(text).await)
    }
}

/// The text of the `message` frame of a response.
pub fn message(frames: &[Value]) -> String {
    find(frames, "message")["content"].as_str().unwrap().to_owned()
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
