//! Answers that come in pieces.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::Value;

use super::outcome::{Answered, Failed};
use super::waiting::{Step, Waiting};

/// The last line.
pub const DONE: &str = "data: [DONE]\n\n";
/// A line that means nothing: it keeps the connection in use.
const ALIVE: &str = ": keepalive\n\n";

/// How the pieces of an answer are told.
pub trait Pieces: Send + 'static {
    /// What comes before the first word.
    fn begin(&mut self) -> Vec<String>;

    /// More of the text.
    fn says(&mut self, text: &str) -> Vec<String>;

    /// What stands between what two turns of the model say.
    fn between(&mut self) -> Vec<String>;

    /// What comes after the last one.
    fn over(&mut self, end: Result<Answered, Failed>) -> Vec<String>;
}

struct State<P> {
    waiting: Waiting,
    pieces: P,
    lines: VecDeque<String>,
    is_over: bool,
}

/// An answer of these pieces. Who lets it go stops the run.
pub fn answer<P: Pieces>(waiting: Waiting, mut pieces: P) -> Response {
    let lines = pieces.begin().into();
    let state = State { waiting, pieces, lines, is_over: false };
    let body = stream::unfold(state, |mut state| async move {
        loop {
            if !state.lines.is_empty() {
                // What is there already goes in one piece.
                let lines: String = state.lines.drain(..).collect();
                return Some((Ok::<_, Infallible>(Bytes::from(lines)), state));
            }
            if state.is_over {
                return None;
            }
            let lines = match state.waiting.next().await {
                Step::Says(text) => state.pieces.says(&text),
                Step::Turns => state.pieces.between(),
                Step::Quiet => vec![ALIVE.to_owned()],
                Step::Over(end) => {
                    state.is_over = true;
                    state.pieces.over(end)
                }
            };
            state.lines.extend(lines);
        }
    });
    let head = [
        (CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (CACHE_CONTROL, "no-cache"),
        // Some proxies keep what they do not know to be a stream.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (head, Body::from_stream(body)).into_response()
}

/// One piece.
pub fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// One piece with its name.
pub fn event(name: &str, value: &Value) -> String {
    format!("event: {name}\n{}", data(value))
}
