//! Messages that are no frames, rebuilt from what the recording kept of them.

use serde_json::{Value, json};

use super::trace::Raw;
use crate::support::client::{ALL_SCOPES, standard_connect};

/// A message as it goes over the socket.
#[derive(Debug, PartialEq, Eq)]
pub enum Message {
    Text(String),
    Binary(Vec<u8>),
}

/// The message, of exactly the recorded size. `answer` is what the recording
/// answered with: it tells what a binary message held.
pub fn rebuild(raw: &Raw, answer: Option<&Value>) -> Message {
    match (&raw.text, raw.note.as_deref()) {
        (Some(text), _) if text.contains("…") => Message::Text(padded_connect("big", raw.bytes)),
        (Some(text), _) => Message::Text(text.clone()),
        (None, Some("blanks")) => Message::Text(" ".repeat(raw.bytes)),
        (None, _) => Message::Binary(binary(raw.bytes, answer)),
    }
}

fn binary(size: usize, answer: Option<&Value>) -> Vec<u8> {
    match answer.and_then(|answer| answer["id"].as_str()) {
        None => vec![0xff; size],
        Some(id) if answer.is_some_and(|answer| answer["payload"]["type"] == "hello-ok") => {
            pad(&connect(id).to_string(), size).into_bytes()
        }
        Some(id) => {
            let request = json!({ "type": "req", "id": id, "method": "last-heartbeat" });
            pad(&request.to_string(), size).into_bytes()
        }
    }
}

fn connect(id: &str) -> Value {
    let params = standard_connect(&ALL_SCOPES);
    json!({ "type": "req", "id": id, "method": "connect", "params": params })
}

/// A valid connect that is made long by its user agent.
fn padded_connect(id: &str, size: usize) -> String {
    let mut frame = connect(id);
    frame["params"]["userAgent"] = "".into();
    let missing = size.saturating_sub(frame.to_string().len());
    frame["params"]["userAgent"] = "x".repeat(missing).into();
    frame.to_string()
}

/// Blanks after a JSON text change nothing.
fn pad(text: &str, size: usize) -> String {
    format!("{text:<size$}")
}
