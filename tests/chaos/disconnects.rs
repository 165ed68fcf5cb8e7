//! Clients that come and go while answers stream: what they show in the end is
//! what is in the transcripts.
//!
//! `CLAWGATE_CHAOS_DISCONNECTS` says how often, `CLAWGATE_CHAOS_SEED` repeats
//! the choices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::dice::Dice;
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient, default_config};
use crate::view::{View, call, check_numbers};
use crate::{number, settle};

/// A thousand take a minute and a half on a busy machine with two cores.
const DISCONNECTS: u64 = 300;
const CLIENTS: usize = 8;
/// How long a client stays at most, in milliseconds.
const STAY: u64 = 150;
/// Queue modes take turns among these.
const SESSIONS: [(&str, &str); 5] = [
    ("agent:main:steered", "steer"),
    ("agent:main:followed", "followup"),
    ("agent:main:collected", "collect"),
    ("agent:main:interrupted", "interrupt"),
    ("agent:main:both", "steer+backlog"),
];

/// What is still to be done.
struct Stage {
    address: String,
    sessions: Vec<String>,
    left: AtomicU64,
    came_to_stay: AtomicUsize,
    is_over: AtomicBool,
}

impl Stage {
    /// Takes one of the disconnects that are left.
    fn may_disconnect(&self) -> bool {
        let less = |left: u64| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    async fn connect(&self) -> WsClient {
        let mut client = WsClient::open(&self.address).await;
        let hello = client.request("connect", standard_connect(&ALL_SCOPES)).await;
        assert_eq!(hello["ok"], true, "{hello}");
        client
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_any_number_of_disconnects_every_client_shows_what_is_in_the_transcripts() {
    let disconnects = number("CLAWGATE_CHAOS_DISCONNECTS").unwrap_or(DISCONNECTS);
    let mut dice = Dice::new(number("CLAWGATE_CHAOS_SEED"));
    println!("CLAWGATE_CHAOS_SEED={}", dice.seed());
    let mock = MockProvider::start().await;
    let gateway = Gateway::start(GatewayOptions::with_config(default_config(mock.address()))).await;
    let stage = Arc::new(Stage {
        address: gateway.address(),
        sessions: SESSIONS.iter().map(|(session, _)| (*session).to_owned()).collect(),
        left: AtomicU64::new(disconnects),
        came_to_stay: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
    });
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(come_and_go(Arc::clone(&stage), dice.fork()));
    }
    let sent = talk(&stage, &mut dice).await;
    let mut reader = stage.connect().await;
    settle(&mut reader).await;
    stage.is_over.store(true, Ordering::Relaxed);
    let last = View::open(&mut reader, &stage.sessions, 1000).await.unwrap();
    for (mut client, view) in clients.join_all().await {
        // Its answer comes after all that was queued before.
        call(&mut client, "health", json!({})).await.unwrap();
        check_numbers(&client);
        for session in &stage.sessions {
            let expected = last.messages(session, &reader);
            assert!(expected.len() < 1000, "the page does not hold all of {session}");
            assert_eq!(view.messages(session, &client), expected, "{session}");
        }
    }
    println!("{sent} messages, {disconnects} disconnects");
    assert!(sent > 5, "nothing happened");
}

/// Sends messages until all clients have come to stay; answers how many.
async fn talk(stage: &Stage, dice: &mut Dice) -> usize {
    let mut client = stage.connect().await;
    for (session, mode) in SESSIONS {
        let text = format!("/queue {mode} cap:100 debounce:50");
        let params = json!({"sessionKey": session, "message": text, "idempotencyKey": text});
        call(&mut client, "chat.send", params).await.unwrap();
    }
    let mut sent = 0;
    while stage.came_to_stay.load(Ordering::Relaxed) < CLIENTS {
        let (session, _) = SESSIONS[usize::try_from(dice.up_to(5)).unwrap()];
        let text = match dice.up_to(4) {
            0 => format!("{sent} @mock tool name=session_status pre=\"Let me look.\" then=done"),
            1 => format!("{sent} @mock err status=400 after=5"),
            _ => format!("{sent} @mock stream n={} delay=8", 5 + dice.up_to(40)),
        };
        let id = format!("m{sent}");
        let params = json!({"sessionKey": session, "message": text, "idempotencyKey": id});
        client
            .send(&json!({"type": "req", "id": id, "method": "chat.send", "params": params}))
            .await;
        // A session that is full says so, and the next one is tried.
        client.answer(&id).await.unwrap();
        sent += 1;
        sleep(Duration::from_millis(100 + dice.up_to(400))).await;
    }
    sent
}

/// Connects, looks and goes, again and again; stays when no disconnect is left.
async fn come_and_go(stage: Arc<Stage>, mut dice: Dice) -> (WsClient, View) {
    while stage.may_disconnect() {
        let mut client = stage.connect().await;
        let session = usize::try_from(dice.up_to(5)).unwrap();
        let sessions = &stage.sessions[session..=session];
        let view = View::open(&mut client, sessions, 30).await.unwrap();
        sleep(Duration::from_millis(dice.up_to(STAY))).await;
        check_numbers(&client);
        view.check_active_runs(&client);
        if dice.up_to(2) == 0 {
            client.close().await;
        }
    }
    let mut client = stage.connect().await;
    let view = View::open(&mut client, &stage.sessions, 1000).await.unwrap();
    stage.came_to_stay.fetch_add(1, Ordering::Relaxed);
    while !stage.is_over.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(20)).await;
    }
    (client, view)
}
