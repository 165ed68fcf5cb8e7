//! The server to compare with: WebSocket and nothing else.
//!
//! axum's own WebSocket, with the library and the buffer sizes of the gateway. It answers
//! every text with one prebuilt frame, on `fanout <events> <bytes>` sends that many
//! prebuilt frames to every connection, and on `tell <bytes>` one of them. What it reads or
//! queues while a turn lasts is written in one flush, so this is what can be done with
//! axum, not a straw man.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use axum::serve::ListenerExt as _;
use futures_util::{FutureExt as _, SinkExt as _};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::server::{Server, free_port};

/// With its frame about the size of the gateway's answer to `health` on a fresh state.
const ANSWER_BYTES: usize = 1_402;
const READ_BUFFER: usize = 1024;
const WRITE_BUFFER: usize = 16 * 1024;
/// Frames of one flush.
const BATCH: usize = 64;

/// Starts it as a child of this process.
pub async fn start() -> anyhow::Result<Server> {
    let port = free_port()?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["--bare-server", &port.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Server::start(command, port).await
}

/// Is it, until killed.
pub fn main(port: u16) -> anyhow::Result<()> {
    tokio::runtime::Runtime::new().context("cannot start the server's threads")?.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let listener = listener.tap_io(|tcp| {
            // Without it a frame may wait; the numbers will show.
            let _ = tcp.set_nodelay(true);
        });
        let app = Router::new().fallback(upgrade).with_state(Arc::new(Everybody::new()));
        axum::serve(listener, app).await.context("the listener failed")
    })
}

struct Everybody {
    queues: Mutex<Vec<UnboundedSender<Utf8Bytes>>>,
    answer: Utf8Bytes,
}

impl Everybody {
    fn new() -> Self {
        let head = r#"{"type":"res","id":"1","ok":true,"payload":""#;
        let answer = format!("{head}{}\"}}", "x".repeat(ANSWER_BYTES));
        Self { queues: Mutex::default(), answer: answer.into() }
    }

    fn join(&self) -> UnboundedReceiver<Utf8Bytes> {
        let (sender, queue) = unbounded_channel();
        let mut queues = self.queues.lock();
        queues.retain(|sender| !sender.is_closed());
        queues.push(sender);
        queue
    }

    /// One event to everybody.
    fn tell(&self, bytes: usize) {
        let event = event(bytes);
        for queue in self.queues.lock().iter() {
            // Who is gone gets nothing.
            let _ = queue.send(event.clone());
        }
    }

    async fn fan_out(&self, events: usize, bytes: usize) {
        let event = event(bytes);
        let last = r#"{"type":"event","event":"chat","payload":{"state":"final"}}"#;
        let frames = std::iter::repeat_n(event, events.saturating_sub(1));
        for (number, frame) in frames.chain([Utf8Bytes::from_static(last)]).enumerate() {
            for queue in self.queues.lock().iter() {
                // Who is gone gets nothing.
                let _ = queue.send(frame.clone());
            }
            // Every queue holds a whole batch before anybody writes.
            if number % BATCH == BATCH - 1 {
                tokio::task::yield_now().await;
            }
        }
    }
}

fn event(bytes: usize) -> Utf8Bytes {
    let head = r#"{"type":"event","event":"agent","payload":""#;
    let body = "x".repeat(bytes.saturating_sub(head.len() + 2));
    Utf8Bytes::from(format!("{head}{body}\"}}"))
}

async fn upgrade(State(everybody): State<Arc<Everybody>>, upgrade: WebSocketUpgrade) -> Response {
    upgrade
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .on_upgrade(move |socket| serve(everybody, socket))
}

async fn serve(everybody: Arc<Everybody>, mut socket: WebSocket) {
    let mut queue = everybody.join();
    let mut batch = Vec::new();
    loop {
        let alive = tokio::select! {
            biased;
            message = socket.recv() => match message {
                Some(Ok(message)) => answer(&everybody, &mut socket, message).await,
                Some(Err(_)) | None => return,
            },
            _ = queue.recv_many(&mut batch, BATCH) => {
                let mut alive = true;
                for frame in batch.drain(..) {
                    alive &= socket.feed(Message::Text(frame)).await.is_ok();
                }
                alive && socket.flush().await.is_ok()
            }
        };
        if !alive {
            return;
        }
    }
}

/// Answers a message and those that are there already; `false` when the peer
/// is gone.
async fn answer(everybody: &Arc<Everybody>, socket: &mut WebSocket, first: Message) -> bool {
    let mut message = first;
    for _ in 0..BATCH {
        let Message::Text(text) = message else { break };
        if let Some((events, bytes)) = fan_out(&text) {
            let everybody = Arc::clone(everybody);
            // Its own task, since this connection gets the events too.
            detached(async move { everybody.fan_out(events, bytes).await });
        } else if let Some(bytes) = text.strip_prefix("tell ").and_then(|bytes| bytes.parse().ok())
        {
            everybody.tell(bytes);
        } else if socket.feed(Message::Text(everybody.answer.clone())).await.is_err() {
            return false;
        }
        match socket.recv().now_or_never() {
            Some(Some(Ok(next))) => message = next,
            Some(_) => return false,
            None => break,
        }
    }
    socket.flush().await.is_ok()
}

#[allow(clippy::disallowed_methods)] // nobody supervises this server
fn detached(work: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(work));
}

fn fan_out(text: &str) -> Option<(usize, usize)> {
    let (events, bytes) = text.strip_prefix("fanout ")?.split_once(' ')?;
    Some((events.parse().ok()?, bytes.parse().ok()?))
}
