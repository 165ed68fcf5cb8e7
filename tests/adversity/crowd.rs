//! A thousand clients at once: most of them read, some read slowly, some do not
//! read, some ask for much and do not read it, and others come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::seen::{descriptors, health, number, records};
use crate::stage::{admin, ask, call, history, text_of};
use crate::support::client::standard_connect;
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient, default_config};

/// They read as fast as they can.
const QUICK: usize = 780;
/// They take a moment for each frame.
const SLOW: usize = 100;
/// They read nothing after their hello.
const STALLED: usize = 100;
/// They ask for more than may wait for one client, and read nothing of it.
const GREEDY: usize = 4;
/// Places that one client after the other takes for a moment.
const PASSING: usize = 16;
/// Conversations that all of them hear.
const RUNS: usize = 4;
/// So many may wait for their `connect` at once from one address.
const AT_THE_DOOR: usize = 16;
/// What a greedy client asks for, again and again.
const LARGE: usize = 2 * 1024 * 1024;
/// The bound of one outbox is 50 MiB.
const ANSWERS: usize = 40;
/// For all of it, on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(180);

type Socket = WebSocketStream<TcpStream>;

/// What matters of a frame here.
#[derive(Deserialize)]
struct Frame {
    event: Option<String>,
    seq: Option<u64>,
    #[serde(default)]
    ok: bool,
    payload: Option<Box<RawValue>>,
}

/// A client that keeps nothing but the ends of runs.
struct Member {
    socket: Socket,
    next_seq: u64,
    ends: BTreeMap<String, String>,
}

impl Member {
    /// Connects; `room` is for what the system keeps of what it does not read.
    async fn join(address: &str, room: Option<u32>) -> Self {
        let tcp = TcpSocket::new_v4().unwrap();
        if let Some(room) = room {
            tcp.set_recv_buffer_size(room).unwrap();
        }
        let tcp = tcp.connect(address.parse().unwrap()).await.unwrap();
        let (socket, _) = client_async(format!("ws://{address}/"), tcp).await.unwrap();
        let mut member = Self { socket, next_seq: 0, ends: BTreeMap::new() };
        member.say("connect", standard_connect(&["operator.read"])).await;
        while !member.next().await.expect("a hello").ok {}
        member
    }

    /// Sends a request. Who is cut off already is told nothing more.
    async fn say(&mut self, method: &str, params: Value) {
        let frame = json!({"type": "req", "id": "1", "method": method, "params": params});
        let _ = self.socket.send(Message::text(frame.to_string())).await;
    }

    /// The next frame; its number follows that of the one before. `None` at the end.
    async fn next(&mut self) -> Option<Frame> {
        loop {
            let Message::Text(text) = self.socket.next().await?.ok()? else { continue };
            let frame: Frame = serde_json::from_str(&text).unwrap();
            let Some(event) = &frame.event else { return Some(frame) };
            assert_eq!(frame.seq, Some(self.next_seq), "{text}");
            self.next_seq += 1;
            if event == "chat" {
                let payload: Value =
                    serde_json::from_str(frame.payload.as_ref().unwrap().get()).unwrap();
                if payload["state"] != "delta" {
                    let run = payload["runId"].as_str().unwrap().to_owned();
                    let again = self.ends.insert(run, text_of(&payload["message"]));
                    assert_eq!(again, None, "an end comes once: {payload}");
                }
            }
            return Some(frame);
        }
    }

    /// Reads until every run has ended, with a pause after each frame.
    async fn hear_out(mut self, pause: Duration) -> (Self, BTreeMap<String, String>) {
        while self.ends.len() < RUNS {
            self.next().await.expect("who reads is not cut off");
            if !pause.is_zero() {
                sleep(pause).await;
            }
        }
        let ends = self.ends.clone();
        (self, ends)
    }
}

/// Lets so many in, some at a time.
async fn join(address: &str, count: usize, room: Option<u32>) -> Vec<Member> {
    let door = Arc::new(Semaphore::new(AT_THE_DOOR));
    let mut joining = JoinSet::new();
    for _ in 0..count {
        let (door, address) = (Arc::clone(&door), address.to_owned());
        joining.spawn(async move {
            let _turn = door.acquire_owned().await.unwrap();
            Member::join(&address, room).await
        });
    }
    joining.join_all().await
}

/// Comes, listens for a moment and goes without a word, until all is over. Answers
/// how often.
async fn pass_by(address: String, mut is_over: watch::Receiver<bool>, place: usize) -> usize {
    let mut times = 0;
    while !*is_over.borrow_and_update() {
        let mut member = Member::join(&address, None).await;
        times += 1;
        let stay = Duration::from_millis(500 + 50 * u64::try_from(place).unwrap());
        let _ = timeout(stay, async { while member.next().await.is_some() {} }).await;
        if place.is_multiple_of(2) {
            member.socket.get_ref().set_zero_linger().unwrap();
        }
    }
    times
}

/// The most memory that the gateway had while this was polled.
async fn watch_memory(gateway: &Gateway, most_kib: &mut u64) {
    loop {
        *most_kib = (*most_kib).max(gateway.resident_kib().unwrap());
        sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until the gateway has exactly so many connections.
async fn settle(gateway: &Gateway, count: usize) {
    let until = Instant::now() + PATIENCE;
    loop {
        let open = number(gateway, "clawgate_connections").await;
        if (open - f64::from(u32::try_from(count).unwrap())).abs() < 0.5 {
            return;
        }
        assert!(Instant::now() < until, "{open} connections, and not {count}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// A message that is large enough to be asked for.
async fn put_large(client: &mut WsClient) -> String {
    ask(client, "large", "hello", "run-large").await;
    let params = json!({"sessionKey": "large", "message": "x".repeat(LARGE)});
    let answer = call(client, "chat.inject", params).await;
    answer["messageId"].as_str().unwrap().to_owned()
}

/// Connection ids of those that left, in the order of the log.
fn departed(gateway: &Gateway) -> Vec<String> {
    let id = |line: &String| {
        let (_, rest) = line.split_once("conn=").unwrap_or_else(|| panic!("no id: {line}"));
        rest.split_whitespace().next().unwrap().to_owned()
    };
    records(gateway, "disconnected").iter().map(id).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_clients_of_every_kind_disturb_nobody_and_leave_nothing() {
    let mock = MockProvider::start().await;
    let gateway = Gateway::start(GatewayOptions::with_config(default_config(mock.address()))).await;
    let mut client = admin(&gateway).await;
    let began = Instant::now();
    let large = put_large(&mut client).await;
    number(&gateway, "clawgate_connections").await;
    let (before_kib, files_before) = (gateway.resident_kib().unwrap(), descriptors(&gateway));

    let address = gateway.address();
    let quick = join(&address, QUICK, None).await;
    let slow = join(&address, SLOW, None).await;
    let stalled = join(&address, STALLED, Some(4 * 1024)).await;
    let mut greedy = join(&address, GREEDY, Some(4 * 1024)).await;
    settle(&gateway, 1 + QUICK + SLOW + STALLED + GREEDY).await;
    println!("all are there after {:?}", began.elapsed());
    let (over, is_over) = watch::channel(false);
    let mut passing = JoinSet::new();
    for place in 0..PASSING {
        passing.spawn(pass_by(address.clone(), is_over.clone(), place));
    }

    let mut most_kib = before_kib;
    let listening = async {
        let mut listening = JoinSet::new();
        for member in quick {
            listening.spawn(member.hear_out(Duration::ZERO));
        }
        for member in slow {
            listening.spawn(member.hear_out(Duration::from_millis(5)));
        }
        for run in 0..RUNS {
            let (session, run_id) = (format!("s{run}"), format!("run-{run}"));
            let params = json!({"sessionKey": session, "message": "@mock stream n=20 delay=30",
                "idempotencyKey": run_id});
            client
                .send(&json!({"type": "req", "id": run_id, "method": "chat.send",
                "params": params}))
                .await;
        }
        for member in &mut greedy {
            for _ in 0..ANSWERS {
                let params = json!({"sessionKey": "large", "messageId": large});
                member.say("chat.message.get", params).await;
            }
        }
        listening.join_all().await
    };
    let listened = async {
        tokio::select! {
            listened = listening => listened,
            () = watch_memory(&gateway, &mut most_kib) => unreachable!(),
        }
    };
    let listened = timeout(PATIENCE, listened).await.expect("everybody hears every end");
    println!("all is heard after {:?}", began.elapsed());
    until_slow_are_closed(&gateway).await;
    over.send(true).unwrap();
    let passed: usize = passing.join_all().await.iter().sum();

    let mut told = BTreeMap::new();
    for run in 0..RUNS {
        let messages = history(&mut client, &format!("s{run}")).await;
        told.insert(format!("run-{run}"), text_of(&messages[1]));
    }
    assert!(told.values().all(|text| text.split_whitespace().count() == 20), "{told:?}");
    let (members, ends): (Vec<_>, Vec<_>) = listened.into_iter().unzip();
    assert_eq!(members.len(), QUICK + SLOW);
    for ends in ends {
        assert_eq!(ends, told, "what was heard is what is stored");
    }
    check_memory(before_kib, most_kib);
    let told = health(&mut client).await;
    assert_eq!(told["ok"], true, "{told}");

    // Who did not read is gone without a word; the others say good-bye.
    for member in stalled {
        member.socket.get_ref().set_zero_linger().unwrap();
    }
    for mut member in members {
        member.socket.close(None).await.unwrap();
    }
    drop(greedy);
    settle(&gateway, 1).await;
    let departed = departed(&gateway);
    let different: BTreeSet<_> = departed.iter().collect();
    assert_eq!(different.len(), departed.len(), "one record for each that left");
    assert_eq!(departed.len(), QUICK + SLOW + STALLED + GREEDY + passed);
    assert_eq!(records(&gateway, "closed with 1008 slow consumer").len(), GREEDY);
    leaves_nothing(&gateway, &mut client, files_before).await;
    println!("{passed} came and went; {} MiB more at most", (most_kib - before_kib) / 1024);
}

async fn until_slow_are_closed(gateway: &Gateway) {
    let until = Instant::now() + PATIENCE;
    while records(gateway, "closed with 1008 slow consumer").len() < GREEDY {
        assert!(Instant::now() < until, "who asks for too much is cut off");
        sleep(Duration::from_millis(50)).await;
    }
    let closed = number(gateway, "clawgate_slow_consumers_closed_total").await;
    assert_eq!(format!("{closed}"), GREEDY.to_string());
}

/// An outbox holds what its bound says, and the answer that is being written. What
/// all have to hear is there once, and waits 64 KiB for each at most.
fn check_memory(before_kib: u64, most_kib: u64) {
    let outboxes = GREEDY * (50 * 1024 + 4 * LARGE / 1024);
    let connections = (QUICK + SLOW + STALLED + GREEDY + PASSING) * 64;
    let bound = u64::try_from(outboxes + connections).unwrap();
    let grown = most_kib - before_kib;
    assert!(grown < bound, "{grown} KiB more, and not {bound} at most");
}

async fn leaves_nothing(gateway: &Gateway, client: &mut WsClient, files_before: usize) {
    assert_eq!(format!("{}", number(gateway, "clawgate_outbox_bytes").await), "0");
    let present = call(client, "system-presence", json!({})).await;
    let here: Vec<_> = present
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["mode"] == "backend" && entry["reason"] != "disconnect")
        .collect();
    assert!(here.len() <= 1, "{here:?}");
    let until = Instant::now() + PATIENCE;
    // The connection that asks for numbers may be one of them.
    while descriptors(gateway) > files_before + 1 {
        assert!(Instant::now() < until, "{} and {files_before}", descriptors(gateway));
        sleep(Duration::from_millis(50)).await;
    }
}
