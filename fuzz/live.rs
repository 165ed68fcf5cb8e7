//! Targets for a whole gateway: the real binary, asked over real sockets by somebody who
//! holds its secret. Whatever is sent, it answers, no part of it fails inside, and it goes
//! on.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::harness::Outcome;
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET, WsClient, default_config};

/// Longer than any answer takes.
const ANSWER: Duration = Duration::from_secs(20);
/// What marks a secret of the webhooks.
const HOOKS: &str = "a-token-for-hooks-of-fuzzing";

pub struct Live {
    runtime: Runtime,
    gateway: Gateway,
    _mock: MockProvider,
    /// The session that Claude sessions look at.
    session: String,
}

fn config(provider: &str) -> Value {
    let mut config = default_config(provider);
    config["gateway"]["http"]["endpoints"] =
        json!({"chatCompletions": {"enabled": true}, "responses": {"enabled": true}});
    config["hooks"] = json!({
        "enabled": true, "token": HOOKS,
        "mappings": [{
            "match": {"path": "mail"}, "action": "agent",
            "messageTemplate": "Mail from {{messages[0].from}}: {{messages[0].subject}}",
        }],
    });
    config["agents"]["defaults"]["memorySearch"] = json!({"provider": "mock", "model": "for-all"});
    // Nothing that comes in by accident does anything outside.
    config["tools"] = json!({"allow": ["session_status", "sessions_list", "sessions_history"]});
    config
}

impl Live {
    pub fn new() -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (gateway, mock, session) = runtime.block_on(async {
            let mock = MockProvider::start().await;
            let options = GatewayOptions::with_config(config(mock.address()));
            let gateway = Gateway::start(options).await;
            let mut client = gateway.open().await;
            client.connect_standard(&["operator.admin"]).await;
            let made = client.request("sessions.create", json!({"label": "fuzz"})).await;
            let session = made["payload"]["sessionId"].as_str().unwrap().to_owned();
            (gateway, mock, session)
        });
        Self { runtime, gateway, _mock: mock, session }
    }

    /// The bytes are a request: its line and headers, an empty line, its body. Length,
    /// credential and the end of the connection are added.
    pub fn http(&self, data: &[u8]) -> Outcome {
        let at = data.windows(2).position(|pair| pair == b"\n\n").unwrap_or(data.len());
        let (head, body) = data.split_at(at);
        let body = body.get(2..).unwrap_or_default();
        let head = String::from_utf8_lossy(head).replace('\n', "\r\n");
        let token = if head.contains("/hooks/") { HOOKS } else { SECRET };
        let request = format!(
            "{}\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n",
            head.trim_end(),
            self.gateway.address(),
            body.len()
        );
        let mut tcp = TcpStream::connect(self.gateway.address()).unwrap();
        tcp.set_read_timeout(Some(ANSWER)).unwrap();
        // It may refuse the head and close before it has read the rest.
        let _ = tcp.write_all(request.as_bytes()).and_then(|()| tcp.write_all(body));
        let mut answer = Vec::new();
        let end = tcp.read_to_end(&mut answer).map_err(|error| error.kind());
        let answer = String::from_utf8_lossy(&answer);
        let status = answer.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
        let is_reset = matches!(end, Err(std::io::ErrorKind::ConnectionReset));
        assert!(end.is_ok() || is_reset, "no end of the answer: {end:?}, {answer}");
        assert!(status.is_some() || is_reset, "no answer");
        assert_ne!(status, Some("500"), "{answer}");
        self.assert_whole();
        let kind = answer.to_lowercase().contains("content-type: application/json");
        format!("{status:?} {kind} {}", head.split(['?', ' ']).nth(1).unwrap_or_default())
    }

    /// The first byte says which protocol, the rest are frames, a line for each.
    pub fn socket(&self, data: &[u8]) -> Outcome {
        let Some((first, frames)) = data.split_first() else { return String::new() };
        let frames = String::from_utf8_lossy(frames).into_owned();
        let kinds = self.runtime.block_on(async {
            let path = match first % 3 {
                0 => format!("/api/chat/ws?token={SECRET}"),
                1 => {
                    let session = &self.session;
                    format!("/api/claude/sessions/{session}/subscribe?access_token={SECRET}")
                }
                _ => "/".to_owned(),
            };
            let mut client = if path == "/" {
                let mut client = self.gateway.open().await;
                client.connect_standard(&["operator.admin"]).await;
                client
            } else {
                let address = self.gateway.address();
                WsClient::open_with(&address, &path, &[]).await.expect("let in")
            };
            let before = client.received_count();
            for frame in frames.lines() {
                client.send_text(frame).await;
            }
            client.close().await;
            let closed = client.wait_closed(ANSWER).await;
            assert!(closed.is_some(), "the connection does not end");
            let frames = client.frames().split_off(before.min(client.frames().len()));
            frames
                .iter()
                .map(|frame| format!("{}{}", frame["type"], frame["ok"]))
                .collect::<Vec<_>>()
        });
        self.assert_whole();
        let mut kinds = kinds;
        kinds.dedup();
        kinds.truncate(6);
        format!("{} {kinds:?}", first % 3)
    }

    /// It is there, and nothing in it has failed.
    fn assert_whole(&self) {
        let log = self.gateway.stderr();
        let panicked = log.lines().find(|line| line.contains("panicked"));
        assert_eq!(panicked, None, "a part of the gateway has failed");
    }
}
