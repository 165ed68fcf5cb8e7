//! A recorded request of HTTP and its answer.
//!
//! Owns: how both are read from a line, and how a body that the recording cut
//! is made whole again. The answer, recorded or not, is one JSON value:
//! `status`, `headers`, and `body`, or `events` and `ended` of a stream.

use serde_json::{Map, Value, json};

use super::cut;
use super::ids::Learned;

/// Of an answer that went on after this much silence the recording does not show
/// the end: the recorder hung up.
const HUNG_UP_MS: u64 = 1000;
/// What is about one connection, not about the answer.
const OF_CONNECTION: [&str; 4] = ["date", "connection", "keep-alive", "transfer-encoding"];

/// One line of a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Body,
    /// What the recorder says of it; empty when nothing.
    pub note: String,
    /// How often it was sent, of which only the last is recorded.
    pub times: usize,
    /// Milliseconds until its answer had ended.
    pub took: u64,
    /// Milliseconds until each event of a stream.
    pub told: Vec<u64>,
    pub answer: Answer,
}

/// What is sent after the head.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    Whole(String),
    /// How it begins, and how long it was.
    Cut(String, usize),
    /// Nothing, though the head says how long it is.
    Withheld,
}

/// What came.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// See the module.
    Given(Value),
    /// The socket was closed instead; how.
    Withheld(String),
}

impl Call {
    /// From a line of a recording.
    pub fn parse(line: &Value) -> Result<Self, String> {
        let (req, res) = (&line["req"], &line["res"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let body = match cut::beginning(req["body"].as_str().unwrap_or_default()) {
            _ if req["note"] == "no body sent" => Body::Withheld,
            Some((head, size)) => Body::Cut(head.to_owned(), size),
            None => Body::Whole(text(&req["body"])),
        };
        let pieces = res["sse"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(Self {
            method: text(&req["method"]),
            path: text(&req["path"]),
            headers: pairs(&req["headers"]),
            body,
            note: text(&line["note"]),
            times: 1,
            took: res["ms"].as_u64().unwrap_or_default(),
            told: moments(pieces),
            answer: answer(res)?,
        })
    }

    /// How findings name it: `GET /healthz`, `GET /readyz: forwarded: …`.
    pub fn place(&self) -> String {
        let (method, path) = (&self.method, &self.path);
        let note = if self.note.is_empty() { String::new() } else { format!(": {}", self.note) };
        format!("{method} {path}{note}")
    }

    /// Its texts with other ids; the answer stays as it was recorded.
    pub fn asked_with(&self, text: impl Fn(&str) -> String) -> Self {
        let mut call = self.clone();
        call.path = text(&self.path);
        for (_, value) in &mut call.headers {
            *value = text(value);
        }
        if let Body::Whole(body) = &mut call.body {
            *body = text(body);
        }
        call
    }

    /// All of it with other ids.
    pub fn renamed(&self, ids: &Learned) -> Self {
        let mut call = self.asked_with(|text| ids.apply_text(text));
        if let Answer::Given(value) = &mut call.answer {
            *value = ids.apply(value);
        }
        call
    }

    /// Whether its answer goes on until the server ends it, as recorded.
    pub fn ends(&self) -> bool {
        match &self.answer {
            Answer::Given(value) => value["ended"] != false,
            Answer::Withheld(_) => true,
        }
    }

    /// How often the same request was sent since the line before: its note counts
    /// the tries, of which some are not recorded.
    pub fn count_from(&mut self, before: &Self) {
        let try_of = |call: &Self| {
            let (words, number) = call.note.rsplit_once(' ')?;
            Some((words.to_owned(), number.parse::<usize>().ok()?))
        };
        if let (Some((was, first)), Some((is, last))) = (try_of(before), try_of(self))
            && was == is
            && (&self.method, &self.path, &self.body)
                == (&before.method, &before.path, &before.body)
        {
            self.times = last.saturating_sub(first).max(1);
        }
    }

    /// What is sent: the request as text and, after it, the body.
    pub fn bytes(&self, host: &str) -> Vec<u8> {
        let body = match &self.body {
            Body::Whole(text) => text.clone(),
            Body::Cut(head, size) => cut::refill(head, *size),
            Body::Withheld => String::new(),
        };
        let (method, path) = (&self.method, &self.path);
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if self.body != Body::Withheld {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        format!("{head}\r\n{body}").into_bytes()
    }
}

fn answer(res: &Value) -> Result<Answer, String> {
    if let Some(error) = res["error"].as_str() {
        return Ok(Answer::Withheld(error.to_owned()));
    }
    if res["raw"] == "" {
        return Ok(Answer::Withheld("closed".to_owned()));
    }
    let status = res["status"].as_u64().ok_or("an answer without a status")?;
    let headers = pairs(&res["headers"]);
    Ok(Answer::Given(match res["sse"].as_array() {
        None => whole(status, &headers, res["body"].as_str().unwrap_or_default()),
        Some(pieces) => {
            let last = moments(pieces).last().copied().unwrap_or_default();
            let ended = res["ms"].as_u64().unwrap_or_default() < last + HUNG_UP_MS;
            stream(status, &headers, &joined(pieces), ended)
        }
    }))
}

fn pairs(value: &Value) -> Vec<(String, String)> {
    let members = value.as_object().into_iter().flatten();
    members
        .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect()
}

/// The text of a recorded stream. A piece that was cut has lost its end.
fn joined(pieces: &[Value]) -> String {
    let text = |piece: &Value| {
        let text = piece["text"].as_str().unwrap_or_default();
        let end = if cut::beginning(text).is_some() { "\n\n" } else { "" };
        format!("{text}{end}")
    };
    pieces.iter().map(text).collect()
}

/// When each event had come.
fn moments(pieces: &[Value]) -> Vec<u64> {
    let ends = |piece: &&Value| events(&joined(&[(*piece).clone()])).len() == 1;
    let is_whole = |piece: &&Value| joined(&[(*piece).clone()]).ends_with("\n\n") && ends(piece);
    pieces.iter().filter(is_whole).filter_map(|piece| piece["at"].as_u64()).collect()
}

/// An answer in one piece.
pub fn whole(status: u64, names: &[(String, String)], text: &str) -> Value {
    let is_json =
        names.iter().any(|(name, value)| name == "content-type" && value.contains("json"));
    let body = if is_json { json_of(text) } else { json!(text) };
    json!({ "status": status, "headers": headers(names), "body": body })
}

/// A stream of events, and whether the server ended it.
pub fn stream(status: u64, names: &[(String, String)], text: &str, ended: bool) -> Value {
    let events = events(text);
    json!({ "status": status, "headers": headers(names), "events": events, "ended": ended })
}

/// Those that are about the answer. Scripts inside pages are others here, so
/// that their hashes are.
fn headers(names: &[(String, String)]) -> Value {
    let mut kept = Map::new();
    for (name, value) in names.iter().filter(|(name, _)| !OF_CONNECTION.contains(&name.as_str())) {
        kept.insert(name.clone(), without_hashes(value).into());
    }
    kept.into()
}

fn without_hashes(policy: &str) -> String {
    let mut parts = policy.split("'sha256-");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        format!("{text}'sha256-<hash>'{}", part.split_once('\'').map_or("", |(_, rest)| rest))
    })
}

/// The answer as it goes over the wire; the opposite of [`whole`] and [`stream`].
pub fn written(answer: &Value) -> Vec<u8> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let event = |event: &Value| {
        let fields = ["retry", "event", "data"].iter().filter(|name| !event[**name].is_null());
        let lines = fields.map(|name| format!("{name}: {}\n", text(&event[*name])));
        lines.collect::<String>() + "\n"
    };
    let body = match answer["events"].as_array() {
        Some(events) => events.iter().map(event).collect(),
        None => text(&answer["body"]),
    };
    let mut head = format!("HTTP/1.1 {} Recorded\r\n", answer["status"]);
    for (name, value) in answer["headers"].as_object().into_iter().flatten() {
        let length = || body.len().to_string();
        let value = if name == "content-length" { length() } else { text(value) };
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    format!("{head}\r\n{body}").into_bytes()
}

/// The events of a stream: `event`, `retry` and `data` as far as they are there.
/// Comments are no events.
pub fn events(text: &str) -> Vec<Value> {
    let fields = |block: &str| {
        let fields = block.lines().filter_map(|line| line.split_once(": "));
        fields.filter(|(name, _)| !name.is_empty()).map(field).collect::<Map<_, _>>()
    };
    let blocks = text.split("\n\n").map(fields);
    blocks.filter(|fields| !fields.is_empty()).map(Value::Object).collect()
}

fn field((name, value): (&str, &str)) -> (String, Value) {
    (name.to_owned(), if name == "data" { json_of(value) } else { json!(value) })
}

/// What the text says, also when it was cut.
fn json_of(text: &str) -> Value {
    let parsed = serde_json::from_str(text).ok();
    let completed = || cut::beginning(text).and_then(|(head, _)| cut::completed(head));
    parsed.or_else(completed).unwrap_or_else(|| json!(text))
}
