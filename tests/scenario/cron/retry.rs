//! Jobs of a single instant that fail, and models that stand in.

use std::time::Duration;

use serde_json::{Value, json};

use super::{add, asking, end_of_job, job, log, now, run};
use crate::stage::{Api, admin, call, config, until};
use crate::support::{Gateway, GatewayOptions, MockProvider};

/// A gateway that tries again soon, so often.
async fn hasty(attempts: u64) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["cron"] = json!({"retry": {"maxAttempts": attempts, "backoffMs": [300]}});
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

fn soon(text: &str) -> Value {
    let mut soon = asking("soon", text);
    soon["schedule"] = json!({"kind": "at", "at": (now() + 500).to_string()});
    soon
}

fn statuses(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["status"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_single_instant_that_fails_for_a_while_is_tried_again_with_a_row_for_each_try() {
    let (mut gateway, mock) = hasty(3).await;
    let mut client = admin(&gateway).await;
    mock.fail("mock-1", 503, "busy");
    let id = add(&mut client, soon("@mock text text=\"at last\"")).await;
    let end = end_of_job(&client, &id, Duration::from_secs(20)).await;
    assert_eq!(end["status"], "error", "{end}");
    let next = end["nextRunAtMs"].as_u64().unwrap();
    let ended = end["runAtMs"].as_u64().unwrap() + end["durationMs"].as_u64().unwrap();
    assert_eq!(next, ended + 300, "{end}");
    assert_eq!(end["job"]["enabled"], true);
    // A restart forgets nothing of it.
    gateway.kill9();
    mock.heal("mock-1");
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    until("it is gone", async || job(&mut client, &id).await.is_null().then_some(())).await;
    let rows = log(&mut client, &id).await;
    assert_eq!(rows.last().unwrap()["status"], "ok", "{rows:?}");
    let mut instants: Vec<_> = rows.iter().map(|row| row["runAtMs"].as_u64().unwrap()).collect();
    instants.dedup();
    assert!((2..=3).contains(&rows.len()) && instants.len() == rows.len(), "{rows:?}");
}

#[tokio::test]
async fn it_is_given_up_after_so_many_tries_and_at_once_when_the_failure_stays() {
    let (gateway, mock) = hasty(1).await;
    let mut client = admin(&gateway).await;
    mock.fail("mock-1", 503, "busy");
    let busy = add(&mut client, soon("m")).await;
    until("two tries", async || (log(&mut client, &busy).await.len() == 2).then_some(())).await;
    let given_up = job(&mut client, &busy).await;
    assert_eq!(given_up["enabled"], false, "{given_up}");
    assert_eq!(given_up["state"]["consecutiveErrors"], 2);
    assert_eq!(given_up["state"]["nextRunAtMs"], Value::Null);
    // Another instant has as many tries.
    let patch = json!({"enabled": true, "schedule": soon("m")["schedule"]});
    call(&mut client, "cron.update", json!({"id": busy, "patch": patch})).await;
    until("two more", async || (log(&mut client, &busy).await.len() == 4).then_some(())).await;

    mock.fail("mock-1", 401, "bad key");
    let refused = add(&mut client, soon("m")).await;
    let end = end_of_job(&client, &refused, Duration::from_secs(20)).await;
    assert_eq!((&end["job"]["enabled"], &end["nextRunAtMs"]), (&json!(false), &Value::Null));
    assert_eq!(statuses(&log(&mut client, &refused).await), ["error"]);
}

#[tokio::test]
async fn an_instant_that_is_given_while_somebody_tries_the_job_stays() {
    let (gateway, _mock) = hasty(1).await;
    let mut client = admin(&gateway).await;
    let at = |hours: u64| json!({"kind": "at", "at": (now() + hours * 3_600_000).to_string()});
    let mut later = asking("later", "@mock stream n=40 delay=50");
    later["schedule"] = at(1);
    let id = add(&mut client, later).await;
    let run_id = call(&mut client, "cron.run", json!({"id": id})).await["runId"].clone();
    let patch = json!({"id": id, "patch": {"schedule": at(24)}});
    let next = call(&mut client, "cron.update", patch).await["state"]["nextRunAtMs"].clone();
    let end = end_of_job(&client, &id, Duration::from_secs(20)).await;
    assert_eq!((&end["runId"], &end["status"]), (&run_id, &json!("ok")), "{end}");
    let kept = job(&mut client, &id).await;
    assert_eq!((&kept["enabled"], &kept["state"]["nextRunAtMs"]), (&json!(true), &next), "{kept}");
}

#[tokio::test]
async fn the_models_that_stand_in_are_those_of_the_job_and_its_context_may_be_light() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["agents"]["defaults"]["model"]["fallbacks"] = json!(["mock/mock-2"]);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    mock.fail("mock-1", 401, "bad key");
    for (fallbacks, status, model) in [
        (Value::Null, "ok", json!("mock-2")),
        (json!(["mocka/mock-think"]), "ok", json!("mock-think")),
        (json!([]), "error", Value::Null),
        (json!(["nowhere/gone"]), "error", Value::Null),
    ] {
        let mut asks = asking("asks", "@mock text text=\"x\"");
        if !fallbacks.is_null() {
            asks["payload"]["fallbacks"] = fallbacks.clone();
        }
        let id = add(&mut client, asks).await;
        let end = run(&mut client, &id).await;
        assert_eq!((&end["status"], &end["model"]), (&json!(status), &model), "{fallbacks}: {end}");
    }

    mock.heal("mock-1");
    for (is_light, knows_files) in [(false, true), (true, false)] {
        let mut asks = asking("asks", "light-mark");
        asks["payload"]["lightContext"] = json!(is_light);
        asks["payload"]["model"] = json!("mocka/mock-think");
        let id = add(&mut client, asks).await;
        run(&mut client, &id).await;
        let request = mock.requests().pop().unwrap().body.to_string();
        assert!(request.contains("light-mark"), "{request}");
        assert_eq!(request.contains("SOUL.md"), knows_files, "{request}");
    }
}
