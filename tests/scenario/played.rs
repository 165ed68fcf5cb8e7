//! A provider of the Anthropic API that gives answers in their order, whatever it is asked.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::Response;
use futures_util::{StreamExt, future, stream};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::stage::{serve, until};

/// What one call is answered with.
#[derive(Clone)]
pub enum Said {
    /// These events.
    Whole(Vec<Value>),
    /// These, and nothing more as long as anybody waits.
    Hangs(Vec<Value>),
}

/// The provider; it stops when it is dropped. Who calls after the last answer waits.
pub struct Played {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
    _server: JoinSet<()>,
}

impl Played {
    pub async fn new(answers: Vec<Said>) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        let app = Router::new().fallback(move |body: String| {
            let number = {
                let mut log = log.lock();
                log.push(body);
                log.len()
            };
            let said = answers.get(number - 1).cloned().unwrap_or(Said::Hangs(Vec::new()));
            async move { answer(said) }
        });
        let (port, server) = serve(app).await;
        Self { port, asked, _server: server }
    }

    /// `host:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The bodies of all calls so far.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }

    /// Waits until it was called so often.
    pub async fn is_asked(&self, count: usize) {
        until("the provider is asked", async || (self.asked().len() >= count).then_some(())).await;
    }

    /// It, as a provider of a configuration with this one model, which is not cheap.
    pub fn provider(&self, model: &str) -> Value {
        json!({"baseUrl": format!("http://{}", self.address()), "apiKey": "k",
            "api": "anthropic-messages", "models": [{"id": model, "name": model,
            "input": ["text", "image"], "contextWindow": 200_000, "maxTokens": 1000,
            "cost": {"input": 1000, "output": 1000, "cacheRead": 0, "cacheWrite": 0}}]})
    }
}

fn answer(said: Said) -> Response<Body> {
    let (events, hangs) = match said {
        Said::Whole(events) => (events, false),
        Said::Hangs(events) => (events, true),
    };
    let kind = |event: &Value| event["type"].as_str().unwrap().to_owned();
    let lines = events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", kind(event)));
    let text = lines.collect::<Vec<_>>().concat();
    let body = if hangs {
        let begun = stream::once(future::ready(Ok::<_, Infallible>(text)));
        Body::from_stream(begun.chain(stream::pending()))
    } else {
        Body::from(text)
    };
    Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
}

/// An answer begins, for which the provider has read so much.
pub fn begins(input: u64) -> Value {
    json!({"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": input}}})
}

/// A block begins.
pub fn block(index: usize, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

/// More of a block; `kind` is the member that grows.
pub fn more(index: usize, kind: &str, text: &str) -> Value {
    let delta = json!({"type": format!("{kind}_delta"), kind: text});
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

/// A block is whole.
pub fn block_ends(index: usize) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

/// The answer is over, for this reason.
pub fn ends(reason: &str) -> [Value; 2] {
    let delta = json!({"stop_reason": reason});
    [
        json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}}),
        json!({"type": "message_stop"}),
    ]
}

/// A whole answer of this text.
pub fn says(text: &str, input: u64) -> Said {
    let block = block(0, &json!({"type": "text", "text": ""}));
    let begun = [begins(input), block, more(0, "text", text), block_ends(0)];
    Said::Whole([&begun[..], &ends("end_turn")].concat())
}

/// An answer that the provider declines to give, when it has read so much.
pub fn declines(input: u64) -> Said {
    Said::Whole([&[begins(input)][..], &ends("refusal")].concat())
}
