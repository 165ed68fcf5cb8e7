//! What a client shows of its sessions: a page of history, and what it hears
//! from then on.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::WsClient;

/// A message as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    pub role: String,
    pub text: String,
}

impl Shown {
    fn of(message: &Value) -> Self {
        Self { role: message["role"].as_str().unwrap().to_owned(), text: text_of(message) }
    }
}

/// Messages of a session by their ids, with their places.
pub type Messages = BTreeMap<String, (u64, Shown)>;

/// What is shown of each session.
pub struct View {
    pages: BTreeMap<String, (Value, usize)>,
}

impl View {
    /// Follows all sessions, then reads them: what comes between is heard.
    /// `None` when the connection ends.
    pub async fn open(client: &mut WsClient, sessions: &[String], limit: u64) -> Option<Self> {
        call(client, "sessions.subscribe", json!({})).await?;
        let mut pages = BTreeMap::new();
        for session in sessions {
            let params = json!({"sessionKey": session, "limit": limit});
            let page = call(client, "chat.history", params).await?;
            pages.insert(session.clone(), (page, client.frames().len()));
        }
        Some(Self { pages })
    }

    /// The messages of a session: the page, and every message told since.
    pub fn messages(&self, session: &str, client: &WsClient) -> Messages {
        let mut messages = Messages::new();
        for message in self.pages[session].0["messages"].as_array().unwrap() {
            let place = message["__openclaw"]["seq"].as_u64().unwrap_or(u64::MAX);
            put(&mut messages, &message["__openclaw"]["id"], place, message);
        }
        for frame in client.frames() {
            let payload = &frame["payload"];
            if frame["event"] == "session.message" && payload["sessionKey"] == session {
                let place = payload["messageSeq"].as_u64().unwrap();
                put(&mut messages, &payload["messageId"], place, &payload["message"]);
            }
        }
        messages
    }

    /// The text of a run that was active when its session was read goes on
    /// from there.
    pub fn check_active_runs(&self, client: &WsClient) {
        let frames = client.frames();
        for (page, read_at) in self.pages.values() {
            let Some(run) = page.get("activeRun") else { continue };
            let mut text = run["text"].as_str().unwrap().to_owned();
            let deltas = frames.iter().skip(*read_at).filter(|frame| {
                let payload = &frame["payload"];
                payload["runId"] == run["runId"] && payload["state"] == "delta"
            });
            for delta in deltas {
                let next = text_of(&delta["payload"]["message"]);
                assert!(next.starts_with(&text), "{next:?} after {text:?}");
                text = next;
            }
        }
    }
}

fn put(messages: &mut Messages, id: &Value, place: u64, message: &Value) {
    // Results of tools are in the history, and not told as messages.
    if message["role"] != "toolResult" {
        let id = id.as_str().unwrap_or_else(|| panic!("no id: {message}"));
        messages.insert(id.to_owned(), (place, Shown::of(message)));
    }
}

/// Every connection numbers what it gets.
pub fn check_numbers(client: &WsClient) {
    let events = client.frames().into_iter().filter(|frame| frame["type"] == "event");
    for (number, event) in events.enumerate() {
        assert_eq!(event["seq"].as_u64(), u64::try_from(number).ok(), "{event}");
    }
}

/// A payload; `None` when the connection ends first.
pub async fn call(client: &mut WsClient, method: &str, params: Value) -> Option<Value> {
    let id = format!("{method}-{}", client.received_count());
    client.send(&json!({"type": "req", "id": id, "method": method, "params": params})).await;
    let mut answer = client.answer(&id).await?;
    assert_eq!(answer["ok"], true, "{method}: {answer}");
    Some(answer["payload"].take())
}

fn text_of(message: &Value) -> String {
    let blocks = message["content"].as_array().into_iter().flatten();
    blocks.filter_map(|block| block["text"].as_str()).collect()
}
