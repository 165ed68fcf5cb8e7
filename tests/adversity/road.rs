//! A network that is slow, silent for a while, or breaks off: who comes back and
//! sends again what was not answered has every message once, and sees what is
//! stored.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::dice::Dice;
use crate::seen::{health, number, records};
use crate::stage::{Api, admin, history, scripted, text_of, until};
use crate::support::WsClient;
use crate::support::client::{ALL_SCOPES, standard_connect};

const CLIENTS: u64 = 3;
const MESSAGES: u64 = 8;
/// Who has no answer for so long tries it another way.
const PATIENCE: Duration = Duration::from_secs(2);
/// What is done to the road, one after the other, each for a moment.
const WEATHER: [Weather; 6] =
    [Weather::Fair, Weather::Slow, Weather::Silent, Weather::Fair, Weather::Broken, Weather::Slow];

/// How the road is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weather {
    /// What comes is passed on.
    Fair,
    /// Each piece takes a while, and is passed on in crumbs.
    Slow,
    /// Nothing comes through; what is sent waits.
    Silent,
    /// Whoever is on the road is lost.
    Broken,
}

/// A way to a gateway that is not good.
struct Road {
    address: String,
    weather: watch::Sender<Weather>,
    _way: JoinSet<()>,
}

impl Road {
    async fn to(gateway: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (weather, seen) = watch::channel(Weather::Fair);
        let mut way = JoinSet::new();
        way.spawn(async move {
            let mut travellers = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(&gateway).await.unwrap();
                travellers.spawn(travel(near, far, seen.clone()));
            }
        });
        Self { address, weather, _way: way }
    }
}

/// Passes on what comes from either end, until one ends or the road breaks.
async fn travel(near: TcpStream, far: TcpStream, mut weather: watch::Receiver<Weather>) {
    for end in [&near, &far] {
        end.set_nodelay(true).unwrap();
        // Nobody says good-bye here.
        end.set_zero_linger().unwrap();
    }
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    tokio::select! {
        () = pass_on(near_in, far_out, weather.clone()) => {}
        () = pass_on(far_in, near_out, weather.clone()) => {}
        _ = weather.wait_for(|weather| *weather == Weather::Broken) => {}
    }
}

async fn pass_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut weather: watch::Receiver<Weather>,
) {
    let mut space = vec![0; 16 * 1024];
    while let Ok(read) = from.read(&mut space).await {
        if read == 0 {
            return;
        }
        for crumb in space[..read].chunks(700) {
            if weather.wait_for(|weather| *weather != Weather::Silent).await.is_err() {
                return;
            }
            if *weather.borrow() == Weather::Slow {
                sleep(Duration::from_millis(15)).await;
            }
            if to.write_all(crumb).await.is_err() {
                return;
            }
        }
    }
}

/// A client that does not give up.
struct Traveller {
    address: Arc<str>,
    socket: Option<WsClient>,
    connects: u64,
}

impl Traveller {
    /// The payload of an answer, however often it takes to get one.
    async fn call(&mut self, method: &str, params: &Value) -> Value {
        loop {
            if self.socket.is_none() {
                self.socket = self.connect().await;
            }
            if let Some(socket) = &mut self.socket
                && let Some(answer) = post(socket, method, params).await
            {
                assert_eq!(answer["ok"], true, "{method}: {answer}");
                return answer["payload"].clone();
            }
            self.socket = None;
        }
    }

    async fn connect(&mut self) -> Option<WsClient> {
        self.connects += 1;
        let connect = async {
            let mut socket = WsClient::open_with(&self.address, "/", &[]).await.ok()?;
            let hello = post(&mut socket, "connect", &standard_connect(&ALL_SCOPES)).await?;
            assert_eq!(hello["ok"], true, "{hello}");
            Some(socket)
        };
        let connected = timeout(PATIENCE, connect).await.ok().flatten();
        if connected.is_none() {
            sleep(Duration::from_millis(50)).await;
        }
        connected
    }
}

/// The answer to a request; `None` when there is none in time.
async fn post(socket: &mut WsClient, method: &str, params: &Value) -> Option<Value> {
    let id = format!("{method}-{}", socket.received_count());
    socket.send(&json!({"type": "req", "id": id, "method": method, "params": params})).await;
    timeout(PATIENCE, socket.answer(&id)).await.ok().flatten()
}

/// Sends one message after the other, each until it is acknowledged, and waits for
/// its end; answers how often it had to connect, and what it saw in the end.
async fn converse(address: Arc<str>, number: u64) -> (String, u64, Vec<(String, String)>) {
    let session = format!("s{number}");
    let mut client = Traveller { address, socket: None, connects: 0 };
    for message in 0..MESSAGES {
        let run = format!("{session}-{message}");
        let text = format!("{run} @mock stream n=8 delay=20");
        let params = json!({"sessionKey": session, "message": text, "idempotencyKey": run});
        client.call("chat.send", &params).await;
        let wait = json!({"runId": run, "timeoutMs": 500});
        while client.call("agent.wait", &wait).await["status"] == "timeout" {}
    }
    let page = client.call("chat.history", &json!({"sessionKey": session, "limit": 1000})).await;
    (session, client.connects, shown(page["messages"].as_array().unwrap()))
}

fn shown(messages: &[Value]) -> Vec<(String, String)> {
    let role = |message: &Value| message["role"].as_str().unwrap().to_owned();
    messages.iter().map(|message| (role(message), text_of(message))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_bad_road_every_message_is_one_run_and_who_comes_back_sees_what_is_stored() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let road = Road::to(gateway.address()).await;
    let mut dice = Dice::new(None);
    println!("seed {}", dice.seed());
    let address: Arc<str> = road.address.as_str().into();
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(converse(Arc::clone(&address), number));
    }
    let mut seen = BTreeMap::new();
    let mut connects = 0;
    let mut turn = 0;
    while !clients.is_empty() {
        road.weather.send_replace(WEATHER[turn % WEATHER.len()]);
        turn += 1;
        let lasts = Duration::from_millis(50 + dice.up_to(350));
        if let Ok(Some(done)) = timeout(lasts, clients.join_next()).await {
            let (session, times, messages) = done.unwrap();
            connects += times;
            seen.insert(session, messages);
        }
    }
    assert!(connects > CLIENTS, "the road was never broken");
    let mut direct = admin(&gateway).await;
    for (session, messages) in &seen {
        assert_eq!(&shown(&history(&mut direct, session).await), messages, "{session}");
        let asked: Vec<_> = messages.iter().filter(|(role, _)| role == "user").collect();
        assert_eq!(asked.len() as u64, MESSAGES, "{session}: {asked:#?}");
        for (number, (_, text)) in asked.iter().enumerate() {
            assert!(text.starts_with(&format!("{session}-{number} ")), "{session}: {asked:#?}");
        }
    }
    assert_eq!(mock.calls().len() as u64, CLIENTS * MESSAGES, "each is asked once");
    // Of those that were lost on the road nothing is left but their records.
    let alone = async || (number(&gateway, "clawgate_connections").await < 1.5).then_some(());
    until("all others have left", alone).await;
    let left = records(&gateway, "disconnected").len() as u64;
    assert!(left <= connects, "{left} records for {connects} connections at most");
    assert_eq!(health(&mut direct).await["ok"], true);
}
