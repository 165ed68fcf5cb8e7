//! The other side of a webhook: takes signed messages, and signs its own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use clawgate::channels::webhook::{SIGNATURE, TIMESTAMP, sign};
use clawgate::support::Secret;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::SIGNING;
use crate::stage::{serve, until};
use crate::support::{Gateway, now_ms};

/// How a message is answered, when not well.
#[derive(Debug, Clone, Copy)]
pub enum Behaviour {
    /// With this status.
    Status(u16),
    /// With 503 and this many seconds to wait.
    Busy(u64),
    /// Not at all.
    Hang,
}

#[derive(Default)]
struct Inner {
    seen: Mutex<Vec<Value>>,
    next: Mutex<VecDeque<Behaviour>>,
    forged: Mutex<usize>,
}

/// It stops when it is dropped.
pub struct Receiver {
    port: u16,
    inner: Arc<Inner>,
    _server: JoinSet<()>,
}

impl Receiver {
    pub async fn start() -> Self {
        let inner = Arc::<Inner>::default();
        let app = Router::new().fallback(answer).with_state(Arc::clone(&inner));
        let (port, server) = serve(app).await;
        Self { port, inner, _server: server }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/in", self.port)
    }

    /// The next messages are answered so, in order.
    pub fn behave(&self, behaviours: impl IntoIterator<Item = Behaviour>) {
        self.inner.next.lock().extend(behaviours);
    }

    /// What has come so far; all of it was signed.
    pub fn seen(&self) -> Vec<Value> {
        assert_eq!(*self.inner.forged.lock(), 0, "the gateway sent what it did not sign");
        self.inner.seen.lock().clone()
    }

    /// Waits until so many messages have come.
    pub async fn wait(&self, count: usize) -> Vec<Value> {
        until(&format!("message {count}"), async || {
            let seen = self.seen();
            (seen.len() >= count).then_some(seen)
        })
        .await
    }

    /// Whom the message was for that came as this one, and what it says.
    pub async fn sent(&self, count: usize) -> (String, String) {
        addressed(&self.wait(count).await[count - 1])
    }

    /// Texts of what has come, once there are so many.
    pub async fn texts(&self, count: usize) -> Vec<String> {
        let seen = self.wait(count).await;
        seen.iter().map(|it| it["text"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// Whom a message is for, and what it says.
pub fn addressed(message: &Value) -> (String, String) {
    let text = |name: &str| message[name].as_str().unwrap().to_owned();
    (text("to"), text("text"))
}

async fn answer(State(inner): State<Arc<Inner>>, headers: HeaderMap, body: Bytes) -> Response {
    let header = |name: &str| headers.get(name).map(|it| it.to_str().unwrap()).unwrap_or_default();
    let time = header(TIMESTAMP).parse().unwrap_or_default();
    let (_, expected) = sign(&Secret::new(SIGNING), time, &body);
    if header(SIGNATURE) != expected {
        *inner.forged.lock() += 1;
    }
    let message: Value = serde_json::from_slice(&body).unwrap();
    let number = {
        let mut seen = inner.seen.lock();
        seen.push(message);
        seen.len()
    };
    let next = inner.next.lock().pop_front();
    match next {
        None => axum_json(&json!({"messageId": format!("m{number}")})),
        Some(Behaviour::Status(status)) => StatusCode::from_u16(status).unwrap().into_response(),
        Some(Behaviour::Busy(seconds)) => {
            (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", seconds.to_string())])
                .into_response()
        }
        Some(Behaviour::Hang) => {
            tokio::time::sleep(Duration::from_mins(5)).await;
            StatusCode::OK.into_response()
        }
    }
}

fn axum_json(value: &Value) -> Response {
    ([("content-type", "application/json")], value.to_string()).into_response()
}

/// Brings a message to the gateway; status and answer.
pub async fn bring(gateway: &Gateway, path: &str, message: &Value) -> (u16, Value) {
    let now = u64::try_from(now_ms()).unwrap() / 1000;
    bring_signed(gateway, path, message.to_string(), SIGNING, now).await
}

/// The same with another secret or time.
pub async fn bring_signed(
    gateway: &Gateway,
    path: &str,
    body: String,
    secret: &str,
    now: u64,
) -> (u16, Value) {
    let (time, signature) = sign(&Secret::new(secret), now, body.as_bytes());
    let headers = [(TIMESTAMP, time), (SIGNATURE, signature)];
    post(gateway, path, body.into_bytes(), &headers).await
}

/// Posts bytes with headers.
pub async fn post(
    gateway: &Gateway,
    path: &str,
    body: Vec<u8>,
    headers: &[(&str, String)],
) -> (u16, Value) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut request = client.post(format!("http://{}{path}", gateway.address())).body(body);
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}
