//! A gateway whose disk is not to be trusted, with its model and its operator.

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::strace::Launcher;
use crate::support::client::ALL_SCOPES;
use crate::support::{
    Gateway, GatewayOptions, MockProvider, SECRET, WsClient, default_config, guest,
};

pub const HOOK_TOKEN: &str = "a-token-for-hooks-of-tests";

/// How long anything may take, on a machine that has much else to do.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Stage {
    pub gateway: Gateway,
    pub launcher: Launcher,
    /// What is asked has a name that is used once.
    asked: u64,
    _mock: MockProvider,
}

/// What was answered.
pub struct Answer {
    /// Of the request.
    pub id: String,
    /// `None` when the connection has ended before.
    pub said: Option<Value>,
}

impl Answer {
    pub fn is_ok(&self) -> bool {
        self.said.as_ref().is_some_and(|said| said["ok"] == true)
    }

    pub fn payload(&self) -> Value {
        self.said.as_ref().map_or(Value::Null, |said| said["payload"].clone())
    }
}

impl Stage {
    /// A gateway on new state; `launcher` says in which way it begins.
    pub async fn new(launcher: Launcher) -> Self {
        let mock = MockProvider::start().await;
        let mut config = default_config(mock.address());
        config["gateway"]["trustedProxies"] =
            guest::proxied_config()["gateway"]["trustedProxies"].clone();
        config["hooks"] = json!({"enabled": true, "token": HOOK_TOKEN});
        for model in config["models"]["providers"]["mock"]["models"].as_array_mut().unwrap() {
            model["input"] = json!(["text", "image"]);
        }
        let mut options = GatewayOptions::with_config(config);
        options.through = Some(launcher.program());
        let root = TempDir::with_prefix("clawgate-test-").unwrap();
        let gateway = Gateway::start_in(root, options).await.unwrap();
        Self { gateway, launcher, asked: 0, _mock: mock }
    }

    pub async fn operator(&self) -> WsClient {
        let mut client = self.gateway.open().await;
        let hello = client.connect_standard(&ALL_SCOPES).await;
        assert_eq!(hello["ok"], true, "{hello}");
        client
    }

    /// A name that no request had.
    pub fn name(&mut self) -> String {
        self.asked += 1;
        format!("asked-{:05}", self.asked)
    }

    /// Asks for something by this connection.
    pub async fn ask(&mut self, client: &mut WsClient, method: &str, params: Value) -> Answer {
        let id = self.name();
        let frame = json!({"type": "req", "id": id, "method": method, "params": params});
        client.send(&frame).await;
        let is_answer = |frame: &Value| frame["type"] == "res" && frame["id"] == *id;
        Answer { said: client.wait_for(PATIENCE, is_answer).await, id }
    }

    /// Posts something by HTTP; the answer is as that of a method.
    pub async fn post(&mut self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let id = self.name();
        let mut text = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Request-Id: {id}\r\n"
        );
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        let mut tcp = TcpStream::connect(self.gateway.address()).await.unwrap();
        tcp.write_all(&[text.as_bytes(), body].concat()).await.unwrap();
        let mut answer = String::new();
        let _ = tcp.read_to_string(&mut answer).await;
        let said = answer.split_once("\r\n\r\n").map(|(head, body)| {
            let ok = head.starts_with("HTTP/1.1 2");
            json!({"ok": ok, "payload": serde_json::from_str::<Value>(body).unwrap_or(body.into())})
        });
        Answer { id, said }
    }

    /// Posts as somebody who knows the gateway's secret.
    pub async fn upload(&mut self, path: &str, body: &[u8]) -> Answer {
        let bearer = format!("Bearer {SECRET}");
        let headers = [("Authorization", bearer.as_str()), ("Content-Type", "text/plain")];
        self.post(path, &headers, body).await
    }

    /// Whether the gateway says that it is ready, and what keeps it from that.
    pub async fn readiness(&self) -> (bool, Value) {
        let told = crate::support::get_json(&self.gateway.address(), "/readyz").await;
        (told["ready"] == true, told["failing"].clone())
    }

    /// Waits until the gateway is ready again, without any help.
    pub async fn gets_well(&self, after: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (ready, failing) = self.readiness().await;
            if ready {
                return;
            }
            let now = Instant::now();
            assert!(
                now < deadline,
                "{after}: {failing} has not got well: {}",
                self.gateway.stderr()
            );
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Nothing that fails in the gateway is a panic.
    pub fn has_no_panic(&self, after: &str) {
        let said = self.gateway.stderr();
        let panic = said.lines().find(|line| line.contains("panicked"));
        assert_eq!(panic, None, "{after}: {said}");
    }
}
