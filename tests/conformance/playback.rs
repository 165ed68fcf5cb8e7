//! A server that plays a recording back: what the runner says of it must be
//! that everything is as recorded.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::{WebSocketStream, accept_async_with_config};

use super::call::{Answer, Body, Call, written};
use super::ids::{Learned, is_uuid, made_up};
use super::prelude;
use super::setup::{self, Profile};
use super::trace::{Line, Trace, What};

/// What happens to the sockets, in the order in which they are opened.
enum Role {
    Silent,
    Refused {
        status: u16,
        body: String,
    },
    Script {
        steps: VecDeque<Step>,
    },
    /// Opened before the recording: so many requests end its prelude.
    Implicit {
        steps: VecDeque<Step>,
        barriers: usize,
        barrier: &'static str,
    },
    /// Opened in the middle, by a connect that is not recorded.
    Late {
        steps: VecDeque<Step>,
    },
}

/// One thing the server does on a connection.
#[derive(Debug, Clone)]
enum Step {
    Send(Value),
    /// Wait for one message of the client, which must have these params.
    Take(Option<Value>),
    Close(u16, String),
}

/// The server; it stops when it is dropped.
pub struct Playback {
    pub address: String,
    _server: JoinSet<()>,
}

impl Playback {
    /// Plays the trace back with other ids than the recorded ones, wherever the
    /// server had made them up.
    pub async fn start_renamed(trace: &Trace) -> Self {
        let renames = renames(&server_made(trace));
        let mut renamed = trace.clone();
        for line in &mut renamed.lines {
            match &mut line.what {
                What::Received(frame) | What::Sent(frame) => {
                    *frame = renames.apply(frame);
                }
                What::ClosedByServer { reason, .. } => *reason = renames.apply_text(reason),
                What::Http(call) => **call = call.renamed(&renames),
                _ => {}
            }
        }
        Self::start(&renamed).await
    }

    pub async fn start(trace: &Trace) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut roles = roles(trace);
        let calls = Arc::new(Mutex::new(calls(trace, &address)));
        let implicit = roles.iter().filter(|role| matches!(role, Role::Implicit { .. })).count();
        let began = Arc::new(Barrier::new(implicit.max(1)));
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                match roles.pop_front() {
                    Some(role) => open.spawn(serve(stream, role, Arc::clone(&began))),
                    None => open.spawn(answer(stream, Arc::clone(&calls))),
                };
            }
        });
        Self { address, _server: server }
    }
}

/// The UUIDs that are seen for the first time in something the server said.
fn server_made(trace: &Trace) -> Vec<String> {
    let mut seen: Vec<(String, bool)> = Vec::new();
    let mut see = |text: &str, by_server: bool| {
        for id in made_up(text).into_iter().filter(|id| is_uuid(id)) {
            if !seen.iter().any(|(known, _)| known == id) {
                seen.push((id.to_owned(), by_server));
            }
        }
    };
    for line in &trace.lines {
        match &line.what {
            What::Received(frame) => see(&frame.to_string(), true),
            What::Sent(frame) => see(&frame.to_string(), false),
            What::Http(call) => {
                see(&format!("{} {:?} {:?}", call.path, call.headers, call.body), false);
                if let Answer::Given(value) = &call.answer {
                    see(&value.to_string(), true);
                }
            }
            _ => {}
        }
    }
    seen.into_iter().filter(|(_, by_server)| *by_server).map(|(id, _)| id).collect()
}

/// Other ids for these: another first digit each.
fn renames(ids: &[String]) -> Learned {
    let mut renames = Learned::default();
    for id in ids {
        let first = if id.starts_with('0') { '1' } else { '0' };
        let renamed = format!("{first}{}", &id[1..]);
        renames.learn(&json!(id), &json!(renamed));
    }
    renames
}

fn roles(trace: &Trace) -> VecDeque<Role> {
    let (order, late) = (prelude::early(trace), prelude::late(trace));
    let nodes = order.iter().any(|(_, profile)| profile.joins_last());
    let twice = nodes && !setup::records_the_prelude(&trace.name);
    let implicit = |(name, profile): &(String, Profile)| {
        let barriers = if twice && !profile.joins_last() { 2 } else { 1 };
        let barrier = if profile.joins_last() { "connect" } else { "last-heartbeat" };
        Role::Implicit { steps: steps(trace, name), barriers, barrier }
    };
    let mut roles: VecDeque<Role> = order.iter().map(implicit).collect();
    for (index, line) in trace.lines.iter().enumerate() {
        for (_, name, _) in late.iter().filter(|(at, _, _)| *at == index) {
            roles.push_back(Role::Late { steps: steps(trace, name) });
        }
        match &line.what {
            What::Open { .. } => {
                roles.push_back(Role::Script { steps: steps(trace, &line.conn) });
            }
            What::Refused { status, body } => {
                let silent = if body.contains("unauthenticated") { 32 } else { 0 };
                roles.extend((0..silent).map(|_| Role::Silent));
                roles.push_back(Role::Refused { status: *status, body: body.clone() });
            }
            _ => {}
        }
    }
    roles
}

fn steps(trace: &Trace, conn: &str) -> VecDeque<Step> {
    let is_left_out = |line: &&Line| match &line.what {
        What::Received(frame) | What::Sent(frame) => setup::is_not_sent(&trace.name, frame),
        _ => false,
    };
    let mine = trace.lines.iter().filter(|line| line.conn == conn);
    let played = mine.filter(|line| !is_left_out(line));
    played
        .filter_map(|line| match &line.what {
            What::Received(frame) => Some(Step::Send(frame.clone())),
            What::Sent(frame) => Some(Step::Take(Some(frame["params"].clone()))),
            What::SentRaw(_) => Some(Step::Take(None)),
            What::ClosedByServer { code, reason } => Some(Step::Close(*code, reason.clone())),
            _ => None,
        })
        .collect()
}

/// A request as it comes, and what is recorded of it.
type Expected = (Vec<u8>, Call);

/// The requests of HTTP, each as often as it was sent.
fn calls(trace: &Trace, host: &str) -> Vec<Expected> {
    let calls = trace.lines.iter().filter_map(|line| match &line.what {
        What::Http(call) => Some((call.bytes(host), (**call).clone())),
        _ => None,
    });
    calls.flat_map(|call| std::iter::repeat_n(call.clone(), call.1.times)).collect()
}

/// Reads a request, and answers it when it is to the byte one that is recorded.
async fn answer(mut stream: TcpStream, calls: Arc<Mutex<Vec<Expected>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let found = {
        let mut calls = calls.lock();
        let at = calls.iter().position(|(bytes, _)| bytes.starts_with(&head));
        at.map(|at| calls.remove(at))
    };
    let Some((mut bytes, call)) = found else {
        let _ = stream.write_all(b"HTTP/1.1 599 Not Recorded\r\n\r\n").await;
        return;
    };
    let expected = bytes.split_off(head.len());
    let mut body = vec![0; expected.len()];
    if matches!(call.body, Body::Cut(..)) && matches!(call.answer, Answer::Withheld(_)) {
        return;
    }
    if stream.read_exact(&mut body).await.is_err() || body != expected {
        return;
    }
    if let Answer::Given(value) = &call.answer {
        let _ = stream.write_all(&written(value)).await;
        if !call.ends() {
            let _ = stream.read_u8().await;
        }
    }
}

async fn serve(mut stream: TcpStream, role: Role, began: Arc<Barrier>) {
    match role {
        Role::Refused { status, body } => {
            let head = format!("HTTP/1.1 {status} Refused\r\nContent-Length: {}", body.len());
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await;
        }
        Role::Silent => run(Player::accept(stream).await, VecDeque::new()).await,
        Role::Script { steps } => run(Player::accept(stream).await, steps).await,
        Role::Implicit { steps, barriers, barrier } => {
            let mut player = Player::accept(stream).await;
            player.prelude(barriers, barrier).await;
            began.wait().await;
            run(player, steps).await;
        }
        Role::Late { steps } => {
            let mut player = Player::accept(stream).await;
            player.prelude(1, "connect").await;
            run(player, steps).await;
        }
    }
}

async fn run(mut player: Player, steps: VecDeque<Step>) {
    for step in steps {
        match step {
            Step::Send(frame) => player.send(frame).await,
            Step::Take(params) => {
                let message = player.take().await.unwrap_or_default();
                if params.is_some_and(|params| message["params"] != params) {
                    let reason = "not the recorded params".into();
                    let close = CloseFrame { code: 4999.into(), reason };
                    let _ = player.socket.close(Some(close)).await;
                    return;
                }
            }
            Step::Close(1006, _) => return,
            Step::Close(code, reason) => {
                let close = CloseFrame { code: code.into(), reason: reason.into() };
                let _ = player.socket.close(Some(close)).await;
            }
        }
    }
    while player.take().await.is_some() {}
}

struct Player {
    socket: WebSocketStream<TcpStream>,
    next_seq: u64,
}

impl Player {
    async fn accept(stream: TcpStream) -> Self {
        let limits = WebSocketConfig::default().max_frame_size(None).max_message_size(None);
        let socket = accept_async_with_config(stream, Some(limits)).await.unwrap();
        Self { socket, next_seq: 0 }
    }

    /// Events are numbered as ours are.
    async fn send(&mut self, mut frame: Value) {
        if frame["type"] == "event" {
            frame["seq"] = self.next_seq.into();
            self.next_seq += 1;
        }
        let _ = self.socket.send(Message::text(frame.to_string())).await;
    }

    async fn take(&mut self) -> Option<Value> {
        loop {
            let Some(Ok(message)) = self.socket.next().await else { return None };
            let control = message.is_ping() || message.is_pong() || message.is_close();
            if !control {
                return Some(serde_json::from_slice(&message.into_data()).unwrap_or_default());
            }
        }
    }

    /// Answers what is sent before the recording, up to the last barrier.
    async fn prelude(&mut self, barriers: usize, barrier: &str) {
        let challenge = json!({ "nonce": "n" });
        self.send(json!({ "type": "event", "event": "connect.challenge", "payload": challenge }))
            .await;
        let mut passed = 0;
        while passed < barriers {
            let Some(request) = self.take().await else { return };
            self.send(json!({ "type": "res", "id": request["id"], "ok": true })).await;
            if request["method"] == "chat.send" {
                let run_id = &request["params"]["idempotencyKey"];
                let payload = json!({ "runId": run_id, "state": "final" });
                self.send(json!({ "type": "event", "event": "chat", "payload": payload })).await;
            }
            passed += usize::from(request["method"] == barrier);
        }
    }
}
