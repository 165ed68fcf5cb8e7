//! What was answered well is done once, whatever happens to the process.

use serde_json::json;

use super::{TOKEN, asked, end, hooked, is_asked, post, post_with, with_hooks};
use crate::stage::{admin, refusal, told, until};
use crate::support::{Gateway, GatewayOptions, MockProvider};

#[tokio::test]
async fn killed_after_the_answer_it_runs_or_tells_and_never_twice() {
    let (mut gateway, mock) = hooked(&json!({})).await;
    for round in 0..5 {
        let mark = format!("kill-mark-{round}");
        let body = json!({"message": format!("{mark} @mock text text=\"done\""), "name": mark,
            "deliver": false});
        let headers = [("Idempotency-Key", mark.as_str())];
        let run = post_with(&gateway, "/hooks/agent", TOKEN, &headers, &body).await.run_id();
        gateway.kill9();
        gateway.restart().await;
        // The same request again is the same run.
        let again = post_with(&gateway, "/hooks/agent", TOKEN, &headers, &body).await.run_id();
        assert_eq!(again, run);
        let news = format!("Hook {mark}");
        until("it ran, or was told", async || {
            let ran = asked(&mock, &format!("{mark} @mock")).len();
            // Maybe with what was to be told of another round.
            let is_told = mock.requests().iter().any(|it| it.body.to_string().contains(&news));
            assert!(ran <= 1, "{mark} ran {ran} times");
            (ran == 1 || is_told).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn what_waited_for_its_turn_runs_after_a_crash() {
    let mock = MockProvider::start().await;
    let mut config = with_hooks(&mock, &json!({}));
    config["cron"] = json!({"maxConcurrentRuns": 1});
    let mut gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let slow = json!({"message": "slow-mark @mock stream n=100 delay=100", "name": "slow", "deliver": false});
    post(&gateway, "/hooks/agent", &slow).await.run_id();
    is_asked(&mock, "slow-mark").await;
    let waits = json!({"message": "waits-mark @mock text text=\"x\"", "deliver": false});
    let run = post(&gateway, "/hooks/agent", &waits).await.run_id();
    assert!(asked(&mock, "waits-mark").is_empty());
    gateway.kill9();
    gateway.restart().await;
    is_asked(&mock, "waits-mark").await;
    let mut client = admin(&gateway).await;
    assert_eq!(end(&mut client, &run).await["status"], "ok");
    // What was cut off is told, and not run again.
    let news = is_asked(&mock, "Hook slow").await;
    assert!(news.contains("Hook slow (error): interrupted by a stop of the gateway"), "{news}");
    assert_eq!(asked(&mock, "slow-mark").len(), 1);
    assert_eq!(asked(&mock, "waits-mark").len(), 1);
}

#[tokio::test]
async fn a_wake_survives_a_crash_and_is_told_once_for_one_key() {
    let (mut gateway, mock) = hooked(&json!({})).await;
    let body = json!({"text": "kept news", "mode": "next-heartbeat"});
    let headers = [("Idempotency-Key", "wake-1")];
    for _ in 0..2 {
        let answer = post_with(&gateway, "/hooks/wake", TOKEN, &headers, &body).await;
        assert_eq!(answer.status, 200);
    }
    gateway.kill9();
    gateway.restart().await;
    let answer = post_with(&gateway, "/hooks/wake", TOKEN, &headers, &body).await;
    assert_eq!(answer.json(), json!({"ok": true, "mode": "next-heartbeat"}));
    let mut client = admin(&gateway).await;
    crate::stage::ask(&mut client, "main", "hello", "m-1").await;
    let prompt = mock.requests().pop().unwrap().body.to_string();
    assert_eq!(prompt.matches("(untrusted) kept news").count(), 1, "{prompt}");
    assert_eq!(told(&mut client, "main").await.len(), 2);
}

#[tokio::test]
async fn what_is_told_reaches_the_model_whole_or_is_refused() {
    let mapping = json!({"match": {"path": "mapped"}, "action": "wake", "wakeMode": "next-heartbeat",
        "textTemplate": "{{long}}"});
    let (gateway, mock) = hooked(&json!({"mappings": [mapping]})).await;
    let text = |name: &str, length: usize| format!("{name}{}", "x".repeat(length - name.len()));
    let headers = [("Idempotency-Key", "long")];
    let mut kept = Vec::new();
    for (path, member, headers) in [
        ("/hooks/wake", "text", &[][..]),
        ("/hooks/wake", "text", &headers[..]),
        ("/hooks/mapped", "long", &[][..]),
    ] {
        let place = kept.len();
        for (length, status) in [(3000, 200), (8000, 200), (8001, 400)] {
            let said = text(&format!("{place}-{length}-"), length);
            let body = json!({member: said, "mode": "next-heartbeat"});
            let answer = post_with(&gateway, path, TOKEN, headers, &body).await;
            assert_eq!(answer.status, status, "{path} {length}: {}", answer.body);
            if status == 200 {
                kept.push(said);
            } else {
                assert!(answer.refusal().1.contains("at most 8000 characters"), "{}", answer.body);
            }
        }
    }
    let mut client = admin(&gateway).await;
    crate::stage::ask(&mut client, "main", "hello", "m-1").await;
    let prompt = mock.requests().pop().unwrap().body.to_string();
    for text in kept {
        assert!(prompt.contains(&format!("(untrusted) {text}")), "{}", &text[..10]);
    }
}

#[tokio::test]
async fn a_wake_that_finds_no_room_makes_some() {
    let (gateway, _mock) = hooked(&json!({})).await;
    let mut client = admin(&gateway).await;
    let later = json!({"mode": "next-heartbeat", "text": "event"});
    // Both ways in which one is kept.
    let keyed = [("Idempotency-Key", "doorbell")];
    for headers in [&keyed[..], &keyed[..0]] {
        while client.request("wake", later.clone()).await["ok"] == true {}
        let wake = async |mode: &str| {
            let body = json!({"text": "doorbell", "mode": mode});
            post_with(&gateway, "/hooks/wake", TOKEN, headers, &body).await.status
        };
        assert_eq!(wake("now").await, 503);
        until("room", async || (wake("next-heartbeat").await == 200).then_some(())).await;
    }
}

#[tokio::test]
async fn every_wake_that_was_acknowledged_is_heard() {
    let (mut gateway, mock) = hooked(&json!({})).await;
    let wake = async |gateway: &Gateway, number: usize| {
        let body = json!({"text": format!("wake-{number:03}"), "mode": "next-heartbeat"});
        let key = number.to_string();
        // Both ways in which one is kept.
        let headers = [("Idempotency-Key", key.as_str())];
        let headers = if number.is_multiple_of(2) { &headers[..] } else { &[][..] };
        post_with(gateway, "/hooks/wake", TOKEN, headers, &body).await
    };
    let (mut kept, mut refused) = (Vec::new(), Vec::new());
    for number in 0..104 {
        let answer = wake(&gateway, number).await;
        match answer.status {
            200 => kept.push(number),
            status => {
                assert_eq!(status, 503, "{}", answer.body);
                assert!(answer.header("retry-after").is_some());
                refused.push(number);
            }
        }
    }
    assert_eq!((kept.len(), refused.len()), (100, 4));
    let mut client = admin(&gateway).await;
    let params = json!({"mode": "next-heartbeat", "text": "by a method"});
    let why = refusal(&mut client, "wake", params).await;
    assert!(why.contains("too many system events wait in the session"), "{why}");
    drop(client);
    gateway.kill9();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    crate::stage::ask(&mut client, "main", "hello", "m-1").await;
    let prompt = mock.requests().pop().unwrap().body.to_string();
    let is_heard = |number: &usize| prompt.contains(&format!("(untrusted) wake-{number:03}"));
    assert!(kept.iter().all(is_heard) && !refused.iter().any(is_heard), "{prompt}");
    // What was refused finds room now, with the same key.
    until("room", async || (wake(&gateway, refused[0]).await.status == 200).then_some(())).await;
}
