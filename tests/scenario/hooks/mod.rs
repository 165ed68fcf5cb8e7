//! Requests of other programs: by which token, what they come to, what is kept.

mod durable;
mod mapped;
mod recorded;
mod runs;
mod settings;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::stage::{Api, call, config, until};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

pub const TOKEN: &str = "a-token-for-hooks-of-tests";

/// What a request was answered.
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.body))
    }

    /// The id of the run that was begun.
    pub fn run_id(&self) -> String {
        assert_eq!(self.status, 200, "{}", self.body);
        self.json()["runId"].as_str().unwrap_or_else(|| panic!("{}", self.body)).to_owned()
    }

    /// Why it was refused.
    pub fn refusal(&self) -> (u16, String) {
        (self.status, self.json()["error"].as_str().unwrap_or_default().to_owned())
    }
}

/// Sends a request as it is; a length is said where there is a body.
pub async fn send(
    gateway: &Gateway,
    line: &str,
    headers: &[(&str, &str)],
    body: Option<&str>,
) -> Answer {
    let mut text = format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(body) = body {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    text.push_str(body.unwrap_or_default());
    let mut tcp = TcpStream::connect(gateway.address()).await.unwrap();
    tcp.write_all(text.as_bytes()).await.unwrap();
    read(&mut tcp).await
}

/// The answer that comes over a connection.
pub async fn read(tcp: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    tcp.read_to_end(&mut bytes).await.unwrap();
    let answer = String::from_utf8(bytes).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    Answer { status, headers, body: body.to_owned() }
}

/// Posts to a path with the token.
pub async fn post(gateway: &Gateway, path: &str, body: &Value) -> Answer {
    post_with(gateway, path, TOKEN, &[], body).await
}

/// The same with this token and these headers.
pub async fn post_with(
    gateway: &Gateway,
    path: &str,
    token: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Answer {
    let bearer = format!("Bearer {token}");
    let mut all = vec![("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
    all.extend_from_slice(headers);
    send(gateway, &format!("POST {path}"), &all, Some(&body.to_string())).await
}

/// The config of a gateway with these hooks.
pub fn with_hooks(mock: &MockProvider, hooks: &Value) -> Value {
    let mut config = config(mock.address(), Api::OpenAi);
    config["hooks"] = json!({"enabled": true, "token": TOKEN});
    for (name, value) in hooks.as_object().unwrap() {
        config["hooks"][name] = value.clone();
    }
    config
}

/// A gateway with these hooks.
pub async fn hooked(hooks: &Value) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let config = with_hooks(&mock, hooks);
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

/// Waits for the end of a run; how it ended.
pub async fn end(client: &mut WsClient, run_id: &str) -> Value {
    let params = json!({"runId": run_id, "timeoutMs": 20_000});
    call(client, "agent.wait", params).await
}

/// What models were asked with this text in it, the last message of each.
pub fn asked(mock: &MockProvider, part: &str) -> Vec<String> {
    let mut found = Vec::new();
    for request in mock.requests() {
        let messages = request.body["messages"].as_array().into_iter().flatten().rev();
        let user = messages.into_iter().find(|message| message["role"] == "user");
        found.extend(user.map(crate::stage::text_of).filter(|text| text.contains(part)));
    }
    found
}

/// Waits until a model is asked with this text in it.
pub async fn is_asked(mock: &MockProvider, part: &str) -> String {
    until(&format!("a question with {part:?}"), async || asked(mock, part).pop()).await
}
