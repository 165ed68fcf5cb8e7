//! Sends the recorded frames again, in their order.
//!
//! Not paced by the recorded time but by what had been received: a frame is
//! sent when everything has come that the recording had received before it.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::call::{Answer, Call};
use super::calls::Calls;
use super::compare::{Finding, Kind};
use super::ids::Learned;
use super::moments;
use super::pairing::{Label, Runs, pairs};
use super::pending::Pending;
use super::prelude;
use super::proof::{self, Challenge};
use super::raw::{self, Message};
use super::setup;
use super::text::Places;
use super::trace::{Line, Raw, Trace, What};
use crate::support::{Closed, Refusal, WsClient};

/// How many sockets may stay before their connect.
const UNAUTHENTICATED_SOCKETS: usize = 32;
/// A close that was recorded may come so much later, with the handshake timer.
const CLOSE_LIMIT: Duration = Duration::from_secs(4);
/// What no recorded frame depends on may take this long at the end.
const SETTLE: Duration = Duration::from_millis(1500);

/// Where the frames go.
#[derive(Debug, Clone)]
pub struct Target {
    pub address: String,
    pub places: Places,
    /// Devices get new keys. Only a server that plays back the recorded
    /// answers wants the recorded ones.
    pub new_devices: bool,
    /// The whole replay ends after this time.
    pub limit: Duration,
}

/// Everything that came on one connection.
#[derive(Debug, Default)]
pub struct ConnLog {
    /// All JSON frames, those from before the recording included.
    pub frames: Vec<Value>,
    /// How many of them came before the recording began.
    pub skipped: usize,
    /// The server's close, when it came before ours.
    pub closed: Option<Closed>,
}

impl ConnLog {
    /// The frames that the recording can have; answers to what was sent before
    /// it are left out.
    pub fn recorded_part(&self) -> impl Iterator<Item = &Value> {
        self.frames.iter().skip(self.skipped).filter(|frame| !prelude::is_answer(frame))
    }
}

/// What came of a replay.
#[derive(Debug, Default)]
pub struct Outcome {
    pub conns: HashMap<String, ConnLog>,
    /// What came of requests of HTTP, by the number of their line.
    pub answers: HashMap<usize, Answer>,
    pub learned: Learned,
    pub places: Places,
    pub findings: Vec<Finding>,
}

/// A connection of the replay.
pub struct Conn {
    pub client: WsClient,
    /// Frames that came before the recording began.
    pub skipped: usize,
    /// Closed by this side: what the server says then is not its doing.
    pub closing: bool,
}

impl Conn {
    pub fn new(client: WsClient) -> Self {
        Self { client, skipped: 0, closing: false }
    }
}

/// Replays the trace; never longer than `target.limit`.
pub async fn replay(trace: &Trace, target: &Target) -> Outcome {
    let mut replay = Replay {
        trace,
        target,
        conns: HashMap::new(),
        calls: Calls::default(),
        pending: Pending::default(),
        outcome: Outcome { places: target.places.clone(), ..Outcome::default() },
        deadline: Instant::now() + target.limit,
    };
    if let Err(text) =
        prelude::open(trace, target, &mut replay.conns, &mut replay.outcome.learned).await
    {
        replay.report("prelude", Kind::MissingFrame, text);
        return replay.outcome;
    }
    for (index, line) in trace.lines.iter().enumerate() {
        if Instant::now() > replay.deadline {
            let text = format!("stopped before line {}: out of time", line.number);
            replay.report("replay", Kind::MissingFrame, text);
            break;
        }
        replay.line(index, line).await;
    }
    replay.finish().await
}

struct Replay<'a> {
    trace: &'a Trace,
    target: &'a Target,
    conns: HashMap<String, Conn>,
    calls: Calls,
    pending: Pending,
    outcome: Outcome,
    deadline: Instant,
}

impl Replay<'_> {
    fn report(&mut self, place: &str, kind: Kind, text: String) {
        let (place, path) = (place.to_owned(), String::new());
        self.outcome.findings.push(Finding { place, path, kind, text });
    }

    async fn line(&mut self, index: usize, line: &Line) {
        self.join_late(index).await;
        match &line.what {
            What::Open { headers } => self.open(index, line, headers).await,
            What::Sent(frame) if setup::is_not_sent(&self.trace.name, frame) => {}
            What::Sent(frame) => {
                self.catch_up(index, None).await;
                self.send(line, frame).await;
            }
            What::SentRaw(raw) => {
                self.catch_up(index, None).await;
                self.send_raw(index, line, raw).await;
            }
            What::ClosedByClient => {
                self.catch_up(index, Some(&line.conn)).await;
                let asked = self.asked_last(index);
                if let Some(conn) = self.conns.get_mut(&line.conn) {
                    conn.closing = conn.client.closed().is_none();
                    // Who goes while he is asked has been asked: another connection could be
                    // read later than this one's end.
                    if let Some(key) = asked {
                        let is_it = |frame: &Value| frame["payload"]["idempotencyKey"] == key;
                        conn.client.wait_for(SETTLE, is_it).await;
                    }
                    conn.client.close().await;
                    // With the answer it is forgotten: who connects next is not told of it.
                    conn.client.wait_closed(CLOSE_LIMIT).await;
                }
            }
            What::ClosedByServer { .. } => {
                let sent = |line: &&Line| matches!(line.what, What::Sent(_) | What::Open { .. });
                let sent_at = self.trace.lines[..index].iter().rev().find(sent).map(|line| line.at);
                let took = line.at.saturating_sub(sent_at.unwrap_or(line.at));
                if let Some(conn) = self.conns.get(&line.conn) {
                    conn.client.wait_closed(CLOSE_LIMIT + Duration::from_millis(took)).await;
                }
            }
            What::Refused { status, body } => self.refused(line, *status, body).await,
            What::Http(call) => self.call(line, call).await,
            What::Received(_) | What::Ping | What::Note(_) => {}
        }
    }

    /// The key of the request to a node that was the last thing before this line.
    fn asked_last(&self, index: usize) -> Option<Value> {
        let before = self.trace.lines[..index].last()?;
        let What::Sent(frame) = &before.what else { return None };
        let is_for_node = frame["method"] == "node.invoke";
        is_for_node.then(|| self.outcome.learned.apply(&frame["params"])["idempotencyKey"].clone())
    }

    async fn call(&mut self, line: &Line, recorded: &Call) {
        self.calls.catch_up(line.at, &mut self.outcome.learned).await;
        let (learned, places) = (&self.outcome.learned, &self.outcome.places);
        let call = recorded.asked_with(|text| places.fill(&learned.apply_text(text)));
        self.calls.begin(&self.target.address, line, call, self.deadline);
    }

    /// Opens the connections that the recording first shows after this line.
    async fn join_late(&mut self, index: usize) {
        for (at, name, profile) in prelude::late(self.trace) {
            if at != index {
                continue;
            }
            self.catch_up(index, None).await;
            match prelude::connect(&name, &profile, self.target, &mut self.outcome.learned).await {
                Ok(conn) => drop(self.conns.insert(name, conn)),
                Err(text) => self.report(&format!("{name} open"), Kind::MissingFrame, text),
            }
        }
    }

    async fn open(&mut self, index: usize, line: &Line, headers: &[(String, String)]) {
        // Origins name the port of the recorded gateway; any loopback port is
        // as good.
        let path = self.path(index);
        match WsClient::open_with(&self.target.address, path, headers).await {
            Ok(client) => drop(self.conns.insert(line.conn.clone(), Conn::new(client))),
            Err(refusal) => {
                let text = format!("upgrade refused: {refusal:?}");
                self.report(&format!("{} open", line.conn), Kind::MissingFrame, text);
            }
        }
    }

    /// A note can name another path than `/`.
    fn path(&self, index: usize) -> &str {
        let note = self.trace.lines[..index].last().and_then(|line| match &line.what {
            What::Note(text) => text.strip_prefix("path "),
            _ => None,
        });
        note.and_then(|text| text.split(' ').next()).unwrap_or("/")
    }

    /// Waits for what had been received before this line, on all connections,
    /// and learns from it. When a connection is about to be closed, also for
    /// what nothing depends on.
    async fn catch_up(&mut self, index: usize, closing: Option<&str>) {
        let before = &self.trace.lines[..index];
        self.pending
            .wait(self.trace, before, &self.conns, &self.outcome.learned, self.deadline)
            .await;
        if let Some(name) = closing {
            let settle = Instant::now() + SETTLE;
            self.pending
                .settle(self.trace, before, name, &self.conns, settle.min(self.deadline))
                .await;
        }
        self.learn(index);
    }

    fn learn(&mut self, index: usize) {
        for (name, conn) in &self.conns {
            let recorded: Vec<&Value> = self.trace.lines[..index]
                .iter()
                .filter(|line| line.conn == *name)
                .filter_map(|line| if let What::Received(f) = &line.what { Some(f) } else { None })
                .collect();
            let log = log_of(conn);
            let actual: Vec<&Value> = log.recorded_part().collect();
            let runs = Runs::find(&recorded, &actual, &self.outcome.learned);
            for pair in pairs(&recorded, &actual, &runs) {
                let same_kind = !pair.label.is_periodic() && !pair.label.is_text();
                if let (true, Some(recorded), Some(actual)) =
                    (same_kind, pair.recorded, pair.actual)
                {
                    self.outcome.learned.learn(recorded, actual);
                }
            }
        }
    }

    async fn send(&mut self, line: &Line, recorded: &Value) {
        let mut frame = recorded.clone();
        let connects = recorded["method"] == "connect" && !recorded["params"]["device"].is_null();
        if connects && self.target.new_devices {
            proof::adopt(&recorded["params"]["device"], &mut self.outcome.learned);
        }
        if let Some(params) = frame.get_mut("params") {
            *params = self.here(&self.outcome.learned.apply(params));
            // Only a server that plays back wants the recorded times.
            if let (true, Some(began)) = (self.target.new_devices, moments::began(self.trace)) {
                let recorded = began + i64::try_from(line.at).unwrap_or_default();
                *params = moments::moved(params, recorded, moments::now() - recorded);
            }
        }
        if connects
            && self.target.new_devices
            && let Some(challenge) = self.challenge(&line.conn)
        {
            let device = proof::renew(&recorded["params"], &frame["params"], &challenge);
            frame["params"]["device"] = device;
        }
        match self.conns.get_mut(&line.conn) {
            Some(conn) => conn.client.send(&frame).await,
            None => {
                let text = format!("line {}: the connection is not open", line.number);
                self.report(&format!("{} send", line.conn), Kind::MissingFrame, text);
            }
        }
    }

    /// The value with this machine's paths.
    fn here(&self, value: &Value) -> Value {
        let filled = self.outcome.places.fill(&value.to_string());
        serde_json::from_str(&filled).unwrap_or_else(|_| value.clone())
    }

    fn challenge(&self, conn: &str) -> Option<Challenge> {
        let is_challenge = |frame: &Value| frame["event"] == "connect.challenge";
        let recorded = self.trace.received_on(conn).map(|(_, f)| f).find(|f| is_challenge(f))?;
        let actual = self.conns.get(conn)?.client.frames().into_iter().find(is_challenge)?;
        let text = |frame: &Value| frame["payload"]["nonce"].as_str().map(str::to_owned);
        Some(Challenge {
            recorded_nonce: text(recorded)?,
            recorded_ts: recorded["payload"]["ts"].as_i64()?,
            nonce: text(&actual)?,
        })
    }

    async fn send_raw(&mut self, index: usize, line: &Line, raw: &Raw) {
        let next = self.trace.lines[index + 1..].iter().filter(|later| later.conn == line.conn);
        let answer = next.map(|later| &later.what).find_map(|what| match what {
            What::Received(frame) if frame["type"] == "res" => Some(Some(frame)),
            What::Sent(_) | What::SentRaw(_) | What::ClosedByServer { .. } => Some(None),
            _ => None,
        });
        let Some(conn) = self.conns.get_mut(&line.conn) else { return };
        match raw::rebuild(raw, answer.flatten()) {
            Message::Text(text) => conn.client.send_text(text).await,
            Message::Binary(bytes) => conn.client.send_binary(bytes).await,
        }
    }

    /// Upgrades until one is refused: at once, or the first after as many
    /// silent sockets as are allowed.
    async fn refused(&mut self, line: &Line, status: u16, body: &str) {
        let allowed = if body.contains("unauthenticated") { UNAUTHENTICATED_SOCKETS } else { 0 };
        let recorded = Refusal { status, body: body.to_owned() };
        let mut silent = Vec::new();
        let mut got = None;
        while got.is_none() && silent.len() <= allowed {
            match WsClient::open_with(&self.target.address, "/", &[]).await {
                Ok(client) => silent.push(client),
                Err(refusal) => got = Some(refusal),
            }
        }
        if got.as_ref() != Some(&recorded) || silent.len() != allowed {
            let text = format!(
                "recorded {recorded:?} after {allowed} sockets, got {got:?} after {}",
                silent.len()
            );
            self.report(&format!("{} upgrade", line.conn), Kind::Value, text);
        }
    }

    async fn finish(mut self) -> Outcome {
        let all = self.trace.lines.len();
        if Instant::now() < self.deadline {
            self.catch_up(all, None).await;
        }
        self.learn(all);
        self.outcome.answers = self.calls.finish(&mut self.outcome.learned).await;
        for (name, conn) in self.conns {
            self.outcome.conns.insert(name, log_of(&conn));
        }
        self.outcome
    }
}

/// What a connection has received until now.
pub fn log_of(conn: &Conn) -> ConnLog {
    ConnLog {
        frames: conn.client.frames(),
        skipped: conn.skipped,
        closed: conn.client.closed().filter(|_| !conn.closing),
    }
}

/// The label of a recorded line, when it is a frame that was received.
pub fn received(line: &Line) -> Option<(Label, &Value)> {
    if let What::Received(frame) = &line.what { Some((Label::of(frame), frame)) } else { None }
}
