//! `seq`: every connection counts its own events, without a hole.

use serde_json::{Value, json};

use crate::stage::{Api, admin, call, connect, end_of, ends_of, scripted, start};
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::{SECRET, WsClient};

const RUNS: usize = 20;

/// What each connection is; those that subscribe get targeted events.
fn kinds() -> [(Value, bool); 5] {
    let standard = standard_connect(&ALL_SCOPES);
    let with = |name: &str, value: Value| {
        let mut params = standard.clone();
        params[name] = value;
        params
    };
    [
        (standard.clone(), true),
        (with("caps", json!(["tool-events"])), false),
        (with("maxProtocol", json!(4)), true),
        (with("userAgent", json!("openclaw-dashboard/1.0")), false),
        (json!({"clientType": "web", "auth": {"token": SECRET}}), true),
    ]
}

fn seqs(client: &WsClient) -> Vec<u64> {
    let frames = client.frames();
    let events = frames.iter().filter(|frame| frame["type"] == "event");
    events.map(|event| event["seq"].as_u64().unwrap_or_else(|| panic!("{event}"))).collect()
}

#[tokio::test]
async fn every_connection_counts_from_the_challenge_without_a_hole() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut clients = Vec::new();
    for (params, subscribes) in kinds() {
        let mut client = connect(&gateway, &params).await;
        if subscribes {
            call(&mut client, "sessions.subscribe", json!({})).await;
        }
        clients.push(client);
    }
    let mut sender = admin(&gateway).await;
    for run in 0..RUNS {
        let text = match run % 3 {
            0 => format!("{run} @mock tool name=session_status then=\"done {run}\" n=4 delay=5"),
            1 => format!("{run} @mock err status=400"),
            _ => format!("{run} @mock stream n=40 delay=5"),
        };
        start(&mut sender, &format!("s{run}"), &text, &format!("run-{run}")).await;
    }
    for client in &mut clients {
        for run in 0..RUNS {
            end_of(client, &format!("run-{run}")).await;
        }
        // Its answer comes after all that was queued before.
        call(client, "health", json!({})).await;
        let seqs = seqs(client);
        assert!(seqs.len() > 10 * RUNS, "{} events", seqs.len());
        assert_eq!(seqs, (0..).take(seqs.len()).collect::<Vec<u64>>());
        for run in 0..RUNS {
            assert_eq!(ends_of(client, &format!("run-{run}")).len(), 1);
        }
    }
    let names = |client: &WsClient, name: &str| {
        client.frames().iter().filter(|frame| frame["event"] == name).count()
    };
    for (client, (_, subscribes)) in clients.iter().zip(kinds()) {
        assert_eq!(names(client, "session.message") > 0, subscribes);
        assert_eq!(names(client, "sessions.changed") > 0, subscribes);
    }
}

#[tokio::test]
async fn a_new_connection_counts_from_its_own_beginning() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut sender = admin(&gateway).await;
    start(&mut sender, "main", "@mock stream n=40 delay=20", "run-1").await;
    for _ in 0..5 {
        let mut client = admin(&gateway).await;
        crate::stage::deltas(&client, "run-1", 1).await;
        call(&mut client, "health", json!({})).await;
        let seqs = seqs(&client);
        assert_eq!(seqs, (0..).take(seqs.len()).collect::<Vec<u64>>());
    }
    end_of(&sender, "run-1").await;
}
