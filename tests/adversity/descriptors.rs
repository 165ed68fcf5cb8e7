//! A process without file descriptors.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::seen::{descriptors, health, readiness, records, ticks};
use crate::stage::{Api, admin, ask, config, end_of, history, scripted, until};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

/// Connections that come although there is no room for them.
const CROWD: usize = 40;
/// Room that is left for what is under way.
const LEFT: usize = 8;
/// What a gateway has from its start on that cannot get more, and conversations that are more
/// than that.
const FEW: usize = 96;
const CONVERSATIONS: usize = 120;
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

/// A gateway that has few from its start on.
async fn with_few() -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let root = TempDir::with_prefix("clawgate-test-").unwrap();
    let through = root.path().join("through");
    fs::write(&through, format!("#!/bin/sh\nulimit -n {FEW}\nexec \"$@\"\n")).unwrap();
    fs::set_permissions(&through, Permissions::from_mode(0o700)).unwrap();
    let options = GatewayOptions {
        through: Some(through),
        ..GatewayOptions::with_config(config(mock.address(), Api::OpenAi))
    };
    (Gateway::start_in(root, options).await.unwrap(), mock)
}

/// A conversation of one message, which is answered.
async fn converse(client: &mut WsClient, session: &str) {
    let text = format!("@mock text text={session}");
    let end = ask(client, session, &text, &format!("run-{session}")).await;
    assert_eq!(end["state"], "final", "{end}");
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

#[tokio::test]
async fn more_conversations_than_descriptors_are_written() {
    let (gateway, _mock) = with_few().await;
    let mut client = admin(&gateway).await;
    for number in 0..CONVERSATIONS {
        converse(&mut client, &format!("one-{number}")).await;
    }
    let told = health(&mut client).await;
    assert_eq!(told["services"]["transcripts"]["ok"], true, "{told}");
    assert_eq!(told["services"]["listener"]["ok"], true, "there is room for others: {told}");
    // What was closed meanwhile is written on.
    let again = ask(&mut client, "one-0", "@mock text text=again", "run-again").await;
    assert_eq!(again["state"], "final", "{again}");
}

#[tokio::test]
async fn idle_clients_leave_the_last_descriptors_to_those_who_work() {
    let (gateway, _mock) = with_few().await;
    let mut client = admin(&gateway).await;
    converse(&mut client, "before").await;
    let mut idle = Vec::new();
    while listener(&mut client).await["ok"] == true {
        // One for whom there is no room waits.
        idle.extend(timeout(WATCHED, admin(&gateway)).await);
        assert!(idle.len() < FEW, "they are let in without end");
    }
    for number in 0..2 * LEFT {
        converse(&mut client, &format!("late-{number}")).await;
    }
    drop(idle);
    timeout(Duration::from_secs(10), admin(&gateway)).await.expect("a new client");
    let is_well = async || (listener(&mut client).await["ok"] == true).then_some(());
    until("health says that all is well", is_well).await;
}
