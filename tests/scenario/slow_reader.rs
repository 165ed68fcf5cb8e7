//! A client that stops reading.

use std::convert::Infallible;
use std::fs;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::aimock::Aimock;
use crate::metrics::Scraped;
use crate::stage::{Api, Stage, call, connect, until};
use crate::support::client::{SOON, standard_connect};
use crate::support::{Gateway, WsClient};

/// For most answers, in a debug build on a busy machine, and for each. Whoever waited for
/// the stalled reader would wait until its queue is cut.
const HEALTH_LIMIT: Duration = Duration::from_millis(500);
const LATEST: Duration = Duration::from_secs(10);
/// Asking all the time would take the time that the events need.
const PROBE_EVERY: Duration = Duration::from_millis(10);
/// Each is some 8 MiB of events; the queue holds 50 MiB.
const RUNS: usize = 12;
const TEXT: usize = 1024 * 1024;
const CHUNKS: usize = 30;
/// The queue itself, what of it is being written, and room for the runs.
const MAX_GROWTH_MIB: u64 = 200;

/// A connection that reads only when it is told to.
struct Lazy(WebSocketStream<TcpStream>);

impl Lazy {
    async fn connect(gateway: &Gateway) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 * 1024).unwrap();
        let tcp = socket.connect(gateway.address().parse().unwrap()).await.unwrap();
        let (socket, _) = client_async(format!("ws://{}/", gateway.address()), tcp).await.unwrap();
        let mut lazy = Self(socket);
        lazy.request("connect", standard_connect(&["operator.write"])).await;
        loop {
            let Message::Text(text) = lazy.0.next().await.unwrap().unwrap() else { continue };
            let frame: Value = serde_json::from_str(&text).unwrap();
            if frame["id"] == "connect" {
                assert_eq!(frame["ok"], true, "{frame}");
                return lazy;
            }
        }
    }

    /// Sends a request without reading its answer.
    async fn request(&mut self, method: &str, params: Value) {
        let frame = json!({"type": "req", "id": method, "method": method, "params": params});
        self.0.send(Message::text(frame.to_string())).await.unwrap();
    }

    /// Waits until the gateway gives it up, then reads at once.
    async fn resume_when_given_up(&mut self, gateway: &Gateway) -> (usize, Option<CloseFrame>) {
        let given_up = || async { gateway.stderr().contains("slow consumer").then_some(()) };
        until("the queue overflows", given_up).await;
        timeout(SOON, self.read_to_close()).await.unwrap()
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

/// What the stalled reader does to others.
struct Seen {
    waits: Vec<Duration>,
    most_kib: u64,
}

impl Seen {
    async fn look_on(&mut self, gateway: &Gateway, probe: &mut WsClient) -> Infallible {
        loop {
            let asked_at = Instant::now();
            call(probe, "health", json!({})).await;
            self.waits.push(asked_at.elapsed());
            self.most_kib = self.most_kib.max(gateway.resident_kib().unwrap());
            sleep(PROBE_EVERY).await;
        }
    }
}

/// A stage whose model gives long answers.
async fn talkative() -> Stage {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fixtures.json");
    // So slowly that several deltas of each wait before there is too much.
    let answer = json!({"match": {}, "response": {"content": "x".repeat(TEXT)},
        "latency": 60, "chunkSize": TEXT / CHUNKS});
    fs::write(&path, json!({"fixtures": [answer]}).to_string()).unwrap();
    Stage::with_mock(Aimock::start_with(&path), Api::OpenAi).await
}

#[tokio::test]
async fn a_stalled_reader_is_told_why_and_disturbs_nobody() {
    let Stage { gateway, mock: _mock } = talkative().await;
    let mut probe = connect(&gateway, &standard_connect(&[])).await;
    let before = gateway.resident_kib().unwrap();
    let mut stalled = Lazy::connect(&gateway).await;
    for run in 0..RUNS {
        let session = format!("s{run}");
        let params = json!({"sessionKey": session, "message": "go", "idempotencyKey": session});
        stalled.request("chat.send", params).await;
    }
    let mut seen = Seen { waits: Vec::new(), most_kib: before };
    let (frames, close) = tokio::select! {
        end = stalled.resume_when_given_up(&gateway) => end,
        never = seen.look_on(&gateway, &mut probe) => match never {},
    };
    let close = close.unwrap_or_else(|| panic!("no close frame after {frames} frames"));
    assert_eq!((u16::from(close.code), close.reason.as_str()), (1008, "slow consumer"));
    seen.waits.sort_unstable();
    assert!(seen.waits[seen.waits.len() / 2] < HEALTH_LIMIT, "{:?}", seen.waits);
    assert!(seen.waits.iter().all(|wait| *wait < LATEST), "{:?}", seen.waits);
    let grown = (seen.most_kib - before) / 1024;
    assert!(grown < MAX_GROWTH_MIB, "the gateway grew by {grown} MiB");
    call(&mut probe, "health", json!({})).await;
    let scraped = Scraped::of(&gateway).await;
    assert_eq!(scraped.number("clawgate_slow_consumers_closed_total", &json!({})), 1.0);
    assert!(scraped.number("clawgate_deltas_coalesced_total", &json!({})) > 0.0);
}
