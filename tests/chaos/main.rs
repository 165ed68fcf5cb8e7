//! `kill -9` in a loop, while clients send, note, reset, steer and stop, and run a
//! job: what was acknowledged is there.
//!
//! `CLAWGATE_CHAOS_ROUNDS` says how often, `CLAWGATE_CHAOS_SEED` repeats a
//! run's choices. What the kernel does between them is not repeatable.

#[path = "../support/mod.rs"]
mod support;

mod conversation;
mod dice;
mod disconnects;
mod ledger;
mod processes;
mod tools;
mod turns;
mod view;

use std::time::Duration;

use serde_json::{Value, json};
use support::client::{ALL_SCOPES, standard_connect};
use support::{Gateway, GatewayOptions, MockProvider, WsClient, default_config};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use dice::Dice;
use ledger::{Ledger, Sent};

/// Two hundred take some minutes.
const ROUNDS: u64 = 25;
const CLIENTS: u64 = 4;
const SESSIONS: u64 = 5;
/// From the kill until every session has accepted a message again: three of four times,
/// and always. The demand is one second, a debug build takes some tenths of one; a busy
/// machine gets more.
const BACK_LIMIT: Duration = Duration::from_secs(3);
const LATEST: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_acknowledged_survives_being_killed_at_any_moment() {
    let rounds = number("CLAWGATE_CHAOS_ROUNDS").unwrap_or(ROUNDS);
    let mut dice = Dice::new(number("CLAWGATE_CHAOS_SEED"));
    println!("CLAWGATE_CHAOS_SEED={}", dice.seed());
    let mock = MockProvider::start().await;
    let options = GatewayOptions::with_config(default_config(mock.address()));
    let mut gateway = Gateway::start(options).await;
    let ledger = Ledger::default();
    let mut absences = Vec::new();
    choose_modes(&gateway).await;
    let job = add_job(&gateway).await;
    for round in 0..rounds {
        let clients = send_all_the_time((&gateway, &job), &ledger, round, &mut dice);
        sleep(Duration::from_millis(dice.up_to(250))).await;
        gateway.kill9();
        drop(clients);
        if dice.up_to(3) == 0 {
            gateway.start_and_kill(Duration::from_millis(dice.up_to(60))).await;
        }
        absences.push(come_back(&mut gateway, &ledger, round).await);
        if round % 5 == 4 || round + 1 == rounds {
            check(&gateway, &ledger).await;
        }
    }
    assert!(gateway.terminate().await.unwrap().success());
    ledger.check_store(&gateway.state_dir()).await;
    absences.sort_unstable();
    println!("back after {:?} at most", absences[absences.len() - 1]);
    assert!(absences[(absences.len() - 1) * 3 / 4] < BACK_LIMIT, "{absences:?}");
    assert!(absences.iter().all(|absence| *absence < LATEST), "{absences:?}");
    println!("{} acknowledged messages", ledger.acknowledged().len());
    assert!(ledger.acknowledged().len() as u64 > rounds, "the clients got nothing done");
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Clients that send one message after the other until the gateway is gone.
fn send_all_the_time(
    (gateway, job): (&Gateway, &str),
    ledger: &Ledger,
    round: u64,
    dice: &mut Dice,
) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (address, ledger, job) = (gateway.address(), ledger.clone(), job.to_owned());
        let mut dice = dice.fork();
        clients.spawn(async move {
            // It may be killed before they are connected.
            let Ok(mut socket) = WsClient::open_with(&address, "/", &[]).await else { return };
            let params = standard_connect(&ALL_SCOPES);
            let connect = json!({"type": "req", "id": "c", "method": "connect", "params": params});
            socket.send(&connect).await;
            if socket.answer("c").await.is_none() {
                return;
            }
            for message in 0.. {
                let session = format!("s{}", dice.up_to(SESSIONS));
                let name = format!("r{round}-c{client}-m{message}");
                let choice = dice.up_to(30);
                let text = match dice.up_to(5) {
                    // Some answers are long enough to be killed in the middle.
                    0 => format!("{name} @mock stream n=20 delay=5"),
                    1 => format!("{name} @mock tool name=session_status then=done n=1 delay=3"),
                    _ => format!("{name} @mock text n=1 delay=0"),
                };
                let sent = Sent { session, text };
                let (session, text) = (&sent.session, &sent.text);
                let request = match choice {
                    0 => request("chat.abort", json!({"sessionKey": session})),
                    1 if message % 4 == 0 => request("sessions.reset", json!({"key": session})),
                    2 | 3 => {
                        request("chat.inject", json!({"sessionKey": session, "message": text}))
                    }
                    4 => request(
                        "sessions.steer",
                        json!({"key": session, "message": text, "idempotencyKey": text}),
                    ),
                    5 | 6 => request("cron.run", json!({"id": job})),
                    _ => message_of(&sent),
                };
                let says = request.1.get("message").is_some();
                let Some(answer) = post(&mut socket, request, &name).await else { return };
                if answer["ok"] == true && says {
                    ledger.acknowledge(sent);
                }
            }
        });
    }
    clients
}

type Request = (&'static str, Value);

fn request(method: &'static str, params: Value) -> Request {
    (method, params)
}

fn message_of(sent: &Sent) -> Request {
    let params =
        json!({"sessionKey": sent.session, "message": sent.text, "idempotencyKey": sent.text});
    request("chat.send", params)
}

/// Sends a request; `None` when the connection ends before the answer.
async fn post(socket: &mut WsClient, (method, params): Request, id: &str) -> Option<Value> {
    let frame = json!({"type": "req", "id": id, "method": method, "params": params});
    socket.send(&frame).await;
    socket.answer(id).await
}

/// Each session handles messages in its own way. What is told by a command is
/// done before it is acknowledged, and in no transcript.
async fn choose_modes(gateway: &Gateway) {
    let mut socket = gateway.open().await;
    socket.connect_standard(&ALL_SCOPES).await;
    for (session, mode) in ["steer", "followup", "collect", "interrupt", "queue"].iter().enumerate()
    {
        // Nothing gives way to others: whatever is acknowledged is to be found.
        let text = format!("/queue {mode} cap:1000 debounce:10");
        let sent = Sent { session: format!("s{session}"), text };
        let answer = post(&mut socket, message_of(&sent), &sent.text).await.unwrap();
        assert_eq!(answer["ok"], true, "{answer}");
    }
}

/// A job each run of which has a session of its own; its id.
async fn add_job(gateway: &Gateway) -> String {
    let mut socket = gateway.open().await;
    socket.connect_standard(&ALL_SCOPES).await;
    let job = json!({"name": "job", "schedule": {"kind": "every", "everyMs": 3_600_000},
        "sessionTarget": "isolated", "wakeMode": "now", "delivery": {"mode": "none"},
        "payload": {"kind": "agentTurn", "message": "@mock stream n=20 delay=5"}});
    let answer = post(&mut socket, request("cron.add", job), "job").await.unwrap();
    answer["payload"]["id"].as_str().unwrap().to_owned()
}

/// The next start works, and so does its first message; answers after how long.
async fn come_back(gateway: &mut Gateway, ledger: &Ledger, round: u64) -> Duration {
    let killed_at = Instant::now();
    gateway.restart().await;
    let mut socket = gateway.open().await;
    socket.connect_standard(&ALL_SCOPES).await;
    for session in 0..SESSIONS {
        let text = format!("back-{round}-{session} @mock text n=1 delay=0");
        let sent = Sent { session: format!("s{session}"), text };
        let answer = post(&mut socket, message_of(&sent), &sent.text).await;
        let answer = answer.expect("an answer after a restart");
        assert_eq!(answer["payload"]["status"], "started", "{answer}");
        ledger.acknowledge(sent);
    }
    killed_at.elapsed()
}

async fn check(gateway: &Gateway, ledger: &Ledger) {
    let mut socket = gateway.open().await;
    socket.connect_standard(&ALL_SCOPES).await;
    settle(&mut socket).await;
    ledger.check_transcripts(&gateway.state_dir().join("agents/main/sessions"));
    for session in ledger.sessions() {
        let params = json!({"sessionKey": session, "limit": 1000});
        let page = socket.request("chat.history", params).await;
        ledger.check_history(&session, &page["payload"]["messages"]);
    }
}

/// Waits until nothing runs; no session may say for ever that it does.
async fn settle(socket: &mut WsClient) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let list = socket.request("sessions.list", json!({"limit": 1000})).await;
        let rows = list["payload"]["sessions"].as_array().unwrap();
        let is_busy = |row: &&Value| row["status"] == "running" || row["hasActiveRun"] == true;
        let Some(busy) = rows.iter().find(is_busy) else { return };
        assert!(Instant::now() < deadline, "still running: {busy}");
        sleep(Duration::from_millis(20)).await;
    }
}
