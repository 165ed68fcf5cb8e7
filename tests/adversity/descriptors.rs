//! A process without file descriptors.

use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::seen::{descriptors, health, readiness, records, ticks};
use crate::stage::{Api, admin, ask, end_of, history, scripted, until};
use crate::support::{Gateway, WsClient};

/// Connections that come although there is no room for them.
const CROWD: usize = 40;
/// Room that is left for what is under way.
const LEFT: usize = 8;
/// How long it is watched, and what it may need meanwhile: a spinning thread takes
/// all of it.
const WATCHED: Duration = Duration::from_secs(2);
const MAX_TICKS: u64 = 80;

/// From now on the gateway has so many descriptors at most, or as many as there are.
fn limit(gateway: &Gateway, count: Option<usize>) {
    let pid = gateway.pid().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = count.map_or(maximum, |count| u64::try_from(count).ok());
    prlimit(pid, Resource::Nofile, Rlimit { current, maximum }).unwrap();
}

async fn listener(client: &mut WsClient) -> Value {
    health(client).await["services"]["listener"].clone()
}

#[tokio::test]
async fn without_descriptors_it_serves_who_is_there_and_takes_others_when_there_are_some_again() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "@mock text text=before", "run-before").await;
    assert_eq!(listener(&mut client).await["ok"], true);

    limit(&gateway, Some(descriptors(&gateway) + LEFT));
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        // The system takes them; the gateway cannot.
        crowd.push(TcpStream::connect(gateway.address()).await.unwrap());
    }
    let is_told = async || {
        let told = listener(&mut client).await;
        (told["ok"] == false).then_some(told)
    };
    let told = until("health says that nobody gets in", is_told).await;
    assert!(told["error"].as_str().unwrap().contains("takes no connections"), "{told}");

    let (began, spent) = (Instant::now(), ticks(&gateway));
    let mut stored = Vec::new();
    for number in 0.. {
        let run = format!("run-{number}");
        let text = format!("{run} @mock text text=here");
        let params = json!({"sessionKey": "main", "message": text, "idempotencyKey": run});
        let answer = client.request("chat.send", params).await;
        if answer["ok"] == true {
            // There may be none for the way to the model: then it is an error.
            let end = end_of(&client, &run).await;
            assert!(["final", "error"].contains(&end["state"].as_str().unwrap()), "{end}");
            stored.push(text);
        } else {
            assert!(answer["error"]["code"].is_string(), "{answer}");
        }
        if began.elapsed() >= WATCHED {
            break;
        }
        sleep(WATCHED / 4).await;
    }
    let spent = ticks(&gateway) - spent;
    assert!(spent < MAX_TICKS, "{spent} hundredths of a second for nothing");
    assert_eq!(records(&gateway, "takes no connections").len(), 1);

    limit(&gateway, None);
    drop(crowd);
    let mut other = timeout(Duration::from_secs(10), admin(&gateway)).await.expect("a new client");
    let is_well = async || (listener(&mut other).await["ok"] == true).then_some(());
    until("health says that all is well", is_well).await;
    assert_eq!(records(&gateway, "takes connections again").len(), 1);
    ask(&mut other, "main", "@mock text text=after", "run-after").await;
    let told: Vec<String> =
        history(&mut other, "main").await.iter().map(Value::to_string).collect();
    for text in stored {
        let times = told.iter().filter(|message| message.contains(&text)).count();
        assert_eq!(times, 1, "{text} in {told:#?}");
    }
    assert_eq!(readiness(&gateway).await, (true, json!([])));
}
