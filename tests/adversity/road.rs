//! A network that is slow, silent for a while, or breaks off: who comes back and
//! sends again what was not answered has every message once, and sees what is
//! stored.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::dice::Dice;
use crate::seen::{health, number, records};
use crate::stage::{Api, admin, history, scripted, until};
use crate::traveller::{Traveller, Way, check_asked, converse, shown};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_bad_road_every_message_is_one_run_and_who_comes_back_sees_what_is_stored() {
    let (gateway, mock) = scripted(Api::OpenAi).await;
    let road = Road::to(gateway.address()).await;
    let mut dice = Dice::new(None);
    println!("seed {}", dice.seed());
    let address: Arc<str> = road.address.as_str().into();
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let client = Traveller::new(Way::Near(Arc::clone(&address)), PATIENCE);
        clients.spawn(converse(client, format!("s{number}"), MESSAGES));
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
        check_asked(session, messages, MESSAGES);
    }
    assert_eq!(mock.calls().len() as u64, CLIENTS * MESSAGES, "each is asked once");
    // Of those that were lost on the road nothing is left but their records.
    let alone = async || (number(&gateway, "clawgate_connections").await < 1.5).then_some(());
    until("all others have left", alone).await;
    let left = records(&gateway, "disconnected").len() as u64;
    assert!(left <= connects, "{left} records for {connects} connections at most");
    assert_eq!(health(&mut direct).await["ok"], true);
}
