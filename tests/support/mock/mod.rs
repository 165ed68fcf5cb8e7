//! A scripted model provider in this process.
//!
//! Understands the `@mock` directives that the recordings were made with: the
//! last user message says what is answered, how it is cut and how fast it
//! comes. Speaks OpenAI chat completions and Anthropic messages.

mod anthropic;
mod directive;
mod embeddings;
mod openai;
mod plan;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri, header};
use futures_util::stream;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::sleep;

pub use plan::{Failure, Plan, Tool};

/// One request as the provider saw it.
#[derive(Debug, Clone)]
pub struct Logged {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    /// Without the times of [`Logged::sent_at`].
    pub body: Value,
    /// The times before what people have said, each message in turn, such as
    /// `[Tue 2026-12-01 15:00 UTC] `.
    pub sent_at: Vec<String>,
}

#[derive(Default)]
struct Shared {
    log: Mutex<Vec<Logged>>,
    /// Models and keys that do not work, and how they fail.
    broken: Mutex<HashMap<String, Failure>>,
    /// How many tokens models read.
    windows: Mutex<HashMap<String, usize>>,
    /// Messages that get no answer.
    held: Mutex<Vec<String>>,
    /// Whether requests with pictures are refused.
    is_blind: AtomicBool,
    serial: AtomicU64,
}

impl Shared {
    /// Whether the request waits until its caller goes away.
    fn holds(&self, body: &Value) -> bool {
        let text = plan::user_text(&body["messages"]);
        self.held.lock().iter().any(|message| text.contains(message))
    }

    /// How a request is refused for what it holds.
    fn refuses(&self, body: &Value) -> Option<Failure> {
        let messages = body["messages"].to_string();
        let window = self.windows.lock().get(&model_of(body)).copied().unwrap_or(usize::MAX);
        let count = tokens(&messages);
        if count > window {
            let message = format!("prompt is too long: {count} tokens > {window} maximum");
            return Some(failure(400, &message));
        }
        let shows = [r#""type":"image_url""#, r#""type":"image""#];
        let is_refused = self.is_blind.load(Ordering::Relaxed)
            && shows.iter().any(|part| messages.contains(part));
        is_refused.then(|| failure(400, "image dimensions exceed max allowed size: 8000 pixels"))
    }
}

fn failure(status: u16, message: &str) -> Failure {
    Failure {
        status,
        kind: "scripted_error".to_owned(),
        message: message.to_owned(),
        retry_after: None,
        after_chunks: 0,
    }
}

/// The provider; it stops when it is dropped.
pub struct MockProvider {
    address: String,
    shared: Arc<Shared>,
    _server: JoinSet<()>,
}

impl MockProvider {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared::default());
        let app = Router::new()
            .fallback(serve)
            .layer(DefaultBodyLimit::disable())
            .with_state(Arc::clone(&shared));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, shared, _server: server }
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// From now on every call of this model, or with this key, fails.
    pub fn fail(&self, model_or_key: &str, status: u16, message: &str) {
        self.shared.broken.lock().insert(model_or_key.to_owned(), failure(status, message));
    }

    /// From now on this message gets no answer: its caller waits until it gives up.
    pub fn hold(&self, message: &str) {
        self.shared.held.lock().push(message.to_owned());
    }

    /// From now on this model refuses longer conversations.
    pub fn limit(&self, model: &str, tokens: usize) {
        self.shared.windows.lock().insert(model.to_owned(), tokens);
    }

    /// From now on every call with pictures is refused.
    pub fn refuse_pictures(&self) {
        self.shared.is_blind.store(true, Ordering::Relaxed);
    }

    /// From now on it works again.
    pub fn heal(&self, model_or_key: &str) {
        self.shared.broken.lock().remove(model_or_key);
    }

    /// Model and key of every call so far.
    pub fn calls(&self) -> Vec<(String, String)> {
        self.requests().iter().map(|call| (model_of(&call.body), key_of(&call.headers))).collect()
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Logged> {
        self.shared.log.lock().clone()
    }
}

/// The server writes out what it holds when the body has nothing ready.
const FLUSH: Duration = Duration::from_millis(1);

/// What is sent after the head of an answer, piece by piece.
pub(crate) enum Step {
    Wait(Duration),
    Send(String),
    /// The connection is cut instead of ended.
    Cut,
}

async fn serve(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    raw: Bytes,
) -> Response<Body> {
    let mut body: Value = serde_json::from_slice(&raw).unwrap_or_else(|_| json!({}));
    let sent_at = take_times(&mut body);
    let call = Logged { sent_at, ..logged(&method, &uri, &headers, &body) };
    let names = [model_of(&body), key_of(&call.headers)];
    shared.log.lock().push(call);
    if shared.holds(&body) {
        std::future::pending::<()>().await;
    }
    let broken = names.iter().find_map(|name| shared.broken.lock().get(name).cloned());
    if let Some(failure) = broken.or_else(|| shared.refuses(&body)) {
        let error = json!({ "type": failure.kind, "message": failure.message });
        return failure_answer(&failure, &json!({ "type": "error", "error": error }));
    }
    let path = uri.path();
    if method == Method::POST && path.ends_with("/chat/completions") {
        openai::answer(&body, shared.serial.fetch_add(1, Ordering::Relaxed) + 1)
    } else if method == Method::POST && path.ends_with("/messages") {
        anthropic::answer(&body, shared.serial.fetch_add(1, Ordering::Relaxed) + 1)
    } else if method == Method::POST && path.ends_with("/embeddings") {
        json_answer(StatusCode::OK, &embeddings::openai(&body))
    } else if method == Method::POST && path.ends_with(":batchEmbedContents") {
        json_answer(StatusCode::OK, &embeddings::gemini(&body))
    } else if method == Method::POST && path.ends_with("/api/embed") {
        json_answer(StatusCode::OK, &embeddings::ollama(&body))
    } else if method == Method::GET && path.ends_with("/models") {
        let models = json!({ "object": "list", "data": [{ "id": "mock-1", "object": "model" }] });
        json_answer(StatusCode::OK, &models)
    } else {
        let error = json!({ "error": { "message": format!("no route {method} {path}") } });
        json_answer(StatusCode::NOT_FOUND, &error)
    }
}

fn model_of(body: &Value) -> String {
    body["model"].as_str().unwrap_or_default().to_owned()
}

/// The key of either dialect.
fn key_of(headers: &[(String, String)]) -> String {
    let header = |wanted: &str| headers.iter().find(|(name, _)| name == wanted);
    let (_, value) =
        header("x-api-key").or_else(|| header("authorization")).cloned().unwrap_or_default();
    value.trim_start_matches("Bearer ").to_owned()
}

fn logged(method: &Method, uri: &Uri, headers: &HeaderMap, body: &Value) -> Logged {
    let headers = headers
        .iter()
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into()))
        .collect();
    Logged {
        method: method.to_string(),
        path: uri.to_string(),
        headers,
        body: body.clone(),
        sent_at: Vec::new(),
    }
}

/// Takes the times off what users say: nobody can foretell them.
fn take_times(body: &mut Value) -> Vec<String> {
    let mut taken = Vec::new();
    let messages = body.get_mut("messages").and_then(Value::as_array_mut);
    for message in messages.into_iter().flatten().filter(|message| message["role"] == "user") {
        let texts: Vec<&mut Value> = match message.get_mut("content") {
            Some(Value::Array(parts)) => {
                parts.iter_mut().filter_map(|part| part.get_mut("text")).collect()
            }
            content => content.into_iter().collect(),
        };
        for text in texts {
            let Value::String(text) = text else { continue };
            if let Some(length) = time_length(text) {
                taken.push(text.drain(..length).collect());
            }
        }
    }
    taken
}

/// How long the time is that a text begins with, such as `[Tue 2026-12-01 15:00 UTC] `.
fn time_length(text: &str) -> Option<usize> {
    let (time, _) = text.strip_prefix('[')?.split_once("] ")?;
    let words: Vec<_> = time.split(' ').collect();
    let [day, date, clock, zone] = words[..] else { return None };
    let is_time = day.len() == 3
        && date.split('-').map(str::len).eq([4, 2, 2])
        && clock.split(':').map(str::len).eq([2, 2])
        && !zone.is_empty();
    is_time.then_some(time.len() + 3)
}

pub(crate) fn json_answer(status: StatusCode, body: &Value) -> Response<Body> {
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_string()))
        .unwrap()
}

/// The scripted failure, in the dialect's own `body`.
pub(crate) fn failure_answer(failure: &Failure, body: &Value) -> Response<Body> {
    let status = StatusCode::from_u16(failure.status).unwrap();
    let mut response = json_answer(status, body);
    if let Some(after) = &failure.retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, after.parse().unwrap());
    }
    response
}

/// A server-sent event stream that follows `steps`.
pub(crate) fn stream_answer(steps: Vec<Step>) -> Response<Body> {
    let pieces = stream::unfold(steps.into_iter(), |mut steps| async move {
        loop {
            match steps.next()? {
                Step::Wait(delay) => sleep(delay).await,
                Step::Send(text) => return Some((Ok(text), steps)),
                Step::Cut => {
                    sleep(FLUSH).await;
                    return Some((Err(std::io::Error::other("cut by script")), steps));
                }
            }
        }
    });
    Response::builder()
        .header(header::CONTENT_TYPE, "text/event-stream")
        .header(header::CACHE_CONTROL, "no-cache")
        .body(Body::from_stream(pieces))
        .unwrap()
}

/// Roughly what a text costs.
pub(crate) fn tokens(text: &str) -> usize {
    // Counted by a function that is compiled for speed here as well: there are large pictures.
    text.chars().count().div_ceil(4).max(1)
}
