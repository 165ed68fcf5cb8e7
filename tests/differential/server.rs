//! A provider that plays answers by path and records what it was asked.
//!
//! `/<case>/<who>/…` gets the next answer of the case; the last one is played
//! again and again. Answers go out a few bytes at a time, so that characters
//! are cut in two.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::Response;
use futures_util::stream;
use parking_lot::Mutex;
use serde_json::Value;

use super::case::Answer;

/// Odd, so that it falls into the middle of everything.
const PIECE: usize = 7;

/// What was asked, in order.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Behind the case and who asks.
    pub path: String,
    /// The body.
    pub body: Value,
}

#[derive(Default)]
struct Log {
    asked: HashMap<String, Vec<Asked>>,
}

struct Shared {
    answers: Vec<Vec<Answer>>,
    log: Mutex<Log>,
}

/// The running provider.
pub struct Server {
    /// `http://127.0.0.1:<port>`.
    pub address: String,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Starts it with the answers of each case.
    pub async fn start(answers: Vec<Vec<Answer>>) -> Self {
        let shared = Arc::new(Shared { answers, log: Mutex::default() });
        let app = Router::new().fallback(play).with_state(Arc::clone(&shared));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        #[allow(clippy::disallowed_methods)] // no supervisor in a test
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, shared, task }
    }

    /// Where `who` reaches the case with this number.
    pub fn base(&self, case: usize, who: &str) -> String {
        format!("{}/{case}/{who}", self.address)
    }

    /// What `who` has asked in this case.
    pub fn asked(&self, case: usize, who: &str) -> Vec<Asked> {
        self.shared.log.lock().asked.get(&format!("{case}/{who}")).cloned().unwrap_or_default()
    }
}

async fn play(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1_000_000).await.unwrap();
    let mut parts = head.uri.path().trim_start_matches('/').splitn(3, '/');
    let (case, who, path) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    let answers = &shared.answers[case.parse::<usize>().unwrap()];
    let turn = {
        let mut log = shared.log.lock();
        let asked = log.asked.entry(format!("{case}/{who}")).or_default();
        asked.push(Asked { path: path.to_owned(), body: serde_json::from_slice(&body).unwrap() });
        asked.len() - 1
    };
    let answer = answers.get(turn).or(answers.last()).unwrap();
    let pieces: Vec<_> = answer
        .body
        .as_bytes()
        .chunks(PIECE)
        .map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece)))
        .collect();
    let kind = if answer.status == 200 { "text/event-stream" } else { "application/json" };
    Response::builder()
        .status(answer.status)
        .header("content-type", kind)
        // Nobody has to wait for the next attempt.
        .header("retry-after-ms", "1")
        .body(Body::from_stream(stream::iter(pieces)))
        .unwrap()
}
