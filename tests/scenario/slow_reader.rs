//! A client that stops reading.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::stage::{Api, RUN_LIMIT, admin, call, connect, scripted, start, until};
use crate::support::Gateway;
use crate::support::client::{SOON, standard_connect};

/// `policy.maxBufferedBytes`.
const MAX_BUFFERED: usize = 52_428_800;
/// What the kernel may hold of the events that the gateway has written.
const KERNEL: usize = 8 * 1024 * 1024;
/// The members before a message's text take less.
const HEAD: usize = 300;
/// Each is some 16 MiB of events.
const RUNS: usize = 6;

/// A connection that reads only when it is told to.
struct Lazy(WebSocketStream<TcpStream>);

impl Lazy {
    async fn connect(gateway: &Gateway) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 * 1024).unwrap();
        let tcp = socket.connect(gateway.address().parse().unwrap()).await.unwrap();
        let (socket, _) = client_async(format!("ws://{}/", gateway.address()), tcp).await.unwrap();
        let mut lazy = Self(socket);
        let params = standard_connect(&["operator.read"]);
        let frame = json!({"type": "req", "id": "c", "method": "connect", "params": params});
        lazy.0.send(Message::text(frame.to_string())).await.unwrap();
        loop {
            let Message::Text(text) = lazy.0.next().await.unwrap().unwrap() else { continue };
            let frame: Value = serde_json::from_str(&text).unwrap();
            if frame["id"] == "c" {
                assert_eq!(frame["ok"], true, "{frame}");
                return lazy;
            }
        }
    }

    /// Reads all there is; how many frames came before the close, and it.
    async fn read_to_close(&mut self) -> (usize, Option<CloseFrame>) {
        let mut frames = 0;
        while let Some(Ok(message)) = self.0.next().await {
            match message {
                Message::Close(close) => return (frames, close),
                _ => frames += 1,
            }
        }
        (frames, None)
    }
}

/// What somebody who reads all the time has got.
#[derive(Default)]
struct Got {
    bytes: AtomicUsize,
    finals: AtomicUsize,
}

/// Reads on in the background.
fn read_on(mut reader: Lazy) -> (Arc<Got>, JoinSet<()>) {
    let got = Arc::new(Got::default());
    let mut task = JoinSet::new();
    let counted = Arc::clone(&got);
    task.spawn(async move {
        while let Some(Ok(Message::Text(text))) = reader.0.next().await {
            counted.bytes.fetch_add(text.len(), Ordering::Relaxed);
            // Near the beginning; the texts are long.
            let head = text.get(..HEAD.min(text.len())).unwrap_or_default();
            let is_final = head.contains(r#""state":"final""#);
            counted.finals.fetch_add(usize::from(is_final), Ordering::Relaxed);
        }
    });
    (got, task)
}

#[tokio::test]
async fn a_stalled_reader_is_told_why_and_disturbs_nobody() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut probe = connect(&gateway, &standard_connect(&[])).await;
    let mut stalled = Lazy::connect(&gateway).await;
    let (got, _reading) = read_on(Lazy::connect(&gateway).await);
    let before = gateway.resident_kib().unwrap();
    let mut sender = admin(&gateway).await;
    for run in 0..RUNS {
        let session = format!("s{run}");
        start(&mut sender, &session, "@mock long kb=1024 n=30 delay=20", &session).await;
    }
    drop(sender);
    let (mut slowest, mut most) = (Duration::ZERO, before);
    let deadline = Instant::now() + RUN_LIMIT;
    while got.bytes.load(Ordering::Relaxed) < MAX_BUFFERED + KERNEL {
        assert!(Instant::now() < deadline, "{} bytes", got.bytes.load(Ordering::Relaxed));
        let asked_at = Instant::now();
        call(&mut probe, "health", json!({})).await;
        slowest = slowest.max(asked_at.elapsed());
        most = most.max(gateway.resident_kib().unwrap());
    }
    let (frames, close) = timeout(SOON, stalled.read_to_close()).await.unwrap();
    let close = close.unwrap_or_else(|| panic!("no close frame after {frames} frames"));
    assert_eq!((u16::from(close.code), close.reason.as_str()), (1008, "slow consumer"));
    until("all answers have come", || async {
        (got.finals.load(Ordering::Relaxed) == RUNS).then_some(())
    })
    .await;
    assert!(slowest < Duration::from_millis(500), "health took {slowest:?}");
    let grown = (most - before) / 1024;
    assert!(grown < 200, "the gateway grew by {grown} MiB");
}
