//! A client that does not give up: what has no answer in time it sends again, on another
//! connection if need be, under the same key.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use crate::stage::text_of;
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::{SECRET, WsClient};

/// How a client gets to the gateway.
#[derive(Clone)]
pub enum Way {
    /// To this address, on the same machine.
    Near(Arc<str>),
    /// From another machine: by this Unix socket into its network.
    Far(Arc<Path>),
}

impl Way {
    /// A WebSocket, if there is one to be had.
    pub async fn open(&self) -> Option<WsClient> {
        match self {
            Self::Near(address) => WsClient::open_with(address, "/", &[]).await.ok(),
            Self::Far(door) => {
                let wire = UnixStream::connect(door).await.ok()?;
                WsClient::upgrade(Box::new(wire), "ws://gateway/", &[]).await.ok()
            }
        }
    }

    /// What a client says when it comes in: only on the same machine the secret alone
    /// is worth anything in the standard form.
    pub fn connect(&self) -> Value {
        match self {
            Self::Near(_) => standard_connect(&ALL_SCOPES),
            Self::Far(_) => json!({"clientType": "web", "clientVersion": "1.0.0",
                "auth": {"token": SECRET}}),
        }
    }
}

/// Whoever goes to a gateway, and comes again.
pub struct Traveller {
    pub way: Way,
    /// Who has no answer for so long tries it another way.
    pub patience: Duration,
    pub connects: u64,
    socket: Option<WsClient>,
}

impl Traveller {
    pub const fn new(way: Way, patience: Duration) -> Self {
        Self { way, patience, connects: 0, socket: None }
    }

    /// The payload of an answer, however often it takes to get one.
    pub async fn call(&mut self, method: &str, params: &Value) -> Value {
        loop {
            if self.socket.is_none() {
                self.socket = self.connect().await;
            }
            if let Some(socket) = &mut self.socket {
                let answer = post(socket, method, params, self.patience).await;
                check_counted(socket);
                if let Some(answer) = answer {
                    assert_eq!(answer["ok"], true, "{method}: {answer}");
                    return answer["payload"].clone();
                }
            }
            self.socket = None;
        }
    }

    async fn connect(&mut self) -> Option<WsClient> {
        self.connects += 1;
        let connect = async {
            let mut socket = self.way.open().await?;
            let params = self.way.connect();
            let hello = post(&mut socket, "connect", &params, self.patience).await?;
            assert_eq!(hello["ok"], true, "{hello}");
            Some(socket)
        };
        let connected = timeout(self.patience, connect).await.ok().flatten();
        if connected.is_none() {
            sleep(Duration::from_millis(50)).await;
        }
        connected
    }
}

/// The answer to a request; `None` when there is none in time.
async fn post(
    socket: &mut WsClient,
    method: &str,
    params: &Value,
    patience: Duration,
) -> Option<Value> {
    let id = format!("{method}-{}", socket.received_count());
    socket.send(&json!({"type": "req", "id": id, "method": method, "params": params})).await;
    timeout(patience, socket.answer(&id)).await.ok().flatten()
}

/// Whether the events of a connection have the numbers 0, 1, 2 …
pub fn check_counted(socket: &WsClient) {
    let frames = socket.frames();
    let events = frames.iter().filter(|frame| frame["type"] == "event");
    for (turn, event) in events.enumerate() {
        assert_eq!(event["seq"], turn, "{event}");
    }
}

/// What a client saw of its session in the end: role and text of each message.
pub type Seen = Vec<(String, String)>;

/// Its session, how often it had to connect, and what it saw.
pub type Journey = (String, u64, Seen);

/// Sends one message after the other, each until it is acknowledged, and waits for its
/// end.
pub async fn converse(mut client: Traveller, session: String, messages: u64) -> Journey {
    for message in 0..messages {
        let run = format!("{session}-{message}");
        let text = format!("{run} @mock stream n=8 delay=20");
        let params = json!({"sessionKey": session, "message": text, "idempotencyKey": run});
        client.call("chat.send", &params).await;
        let wait = json!({"runId": run, "timeoutMs": 500});
        while client.call("agent.wait", &wait).await["status"] == "timeout" {}
    }
    let page = client.call("chat.history", &json!({"sessionKey": session, "limit": 1000})).await;
    (session, client.connects, shown(page["messages"].as_array().unwrap()))
}

/// Role and text of each message.
pub fn shown(messages: &[Value]) -> Seen {
    let role = |message: &Value| message["role"].as_str().unwrap().to_owned();
    messages.iter().map(|message| (role(message), text_of(message))).collect()
}

/// Whether what was seen are these messages in their order, each of them once.
pub fn check_asked(session: &str, seen: &[(String, String)], messages: u64) {
    let asked: Vec<_> = seen.iter().filter(|(role, _)| role == "user").collect();
    assert_eq!(asked.len() as u64, messages, "{session}: {asked:#?}");
    for (number, (_, text)) in asked.iter().enumerate() {
        assert!(text.starts_with(&format!("{session}-{number} ")), "{session}: {asked:#?}");
    }
}
