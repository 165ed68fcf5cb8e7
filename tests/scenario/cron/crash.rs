//! A gateway that is killed around an instant: one row, at most one start.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::{add, asking, job, log, now};
use crate::stage::{Api, admin, ask, call, config, scripted, told, until};
use crate::support::{Gateway, GatewayOptions, MockProvider};

/// How often the model was asked with this text.
fn asked(mock: &MockProvider, text: &str) -> usize {
    mock.requests().iter().filter(|request| request.body.to_string().contains(text)).count()
}

#[tokio::test]
async fn killed_around_an_instant_it_has_one_row_and_at_most_one_start() {
    let (mut gateway, mock) = scripted(Api::OpenAi).await;
    for (index, offset) in [-150_i64, -20, 0, 10, 30, 80, 250].into_iter().enumerate() {
        let mut client = admin(&gateway).await;
        let instant = now() + 1200;
        let mark = format!("mark-{index}");
        let mut once = asking("once", &format!("{mark} @mock stream n=10 delay=40"));
        once["schedule"] = json!({"kind": "at", "at": instant.to_string()});
        once["deleteAfterRun"] = json!(false);
        let id = add(&mut client, once).await;
        let kill_at = instant.checked_add_signed(offset).unwrap();
        sleep(Duration::from_millis(kill_at.saturating_sub(now()))).await;
        gateway.kill9();
        gateway.restart().await;
        let mut client = admin(&gateway).await;
        let rows = until("one row", async || {
            Some(log(&mut client, &id).await).filter(|rows| !rows.is_empty())
        });
        let rows = rows.await;
        let job = job(&mut client, &id).await;
        assert_eq!(rows.len(), 1, "{offset}: {rows:?}");
        let status = rows[0]["status"].as_str().unwrap();
        assert!(["ok", "error"].contains(&status), "{offset}: {rows:?}");
        assert!(asked(&mock, &mark) <= 1, "{offset}: asked {}", asked(&mock, &mark));
        if status == "ok" {
            assert_eq!(asked(&mock, &mark), 1);
        }
        assert_eq!((&job["enabled"], &job["state"]["runningAtMs"]), (&json!(false), &json!(null)));
    }
}

#[tokio::test]
async fn what_came_due_while_it_was_down_is_told_and_only_the_last_runs() {
    let mock = MockProvider::start().await;
    let gateway_config = config(mock.address(), Api::OpenAi);
    let mut gateway = Gateway::start(GatewayOptions::with_config(gateway_config)).await;
    let mut client = admin(&gateway).await;
    // Late enough that it is down by then, on a busy machine as well.
    let anchor = now() + 4000;
    let every = json!({"kind": "every", "everyMs": 500, "anchorMs": anchor});
    let mut runs = asking("runs", "runs-mark @mock text text=\"x\"");
    runs["schedule"] = every.clone();
    let mut skips = asking("skips", "skips-mark @mock text text=\"x\"");
    skips["schedule"] = json!({"kind": "at", "at": anchor.to_string()});
    skips["missed"] = json!("skip");
    let runs = add(&mut client, runs).await;
    let skips = add(&mut client, skips).await;
    gateway.kill9();
    // Longer than what counts as no delay at all.
    sleep(Duration::from_millis((anchor + 6100).saturating_sub(now()))).await;
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let rows = until("rows", async || {
        let rows = log(&mut client, &runs).await;
        rows.iter().any(|row| row["status"] == "ok").then_some(rows)
    });
    let rows = rows.await;
    call(&mut client, "cron.update", json!({"id": runs, "patch": {"enabled": false}})).await;
    let missed: Vec<_> = rows.iter().filter(|row| row["missed"] == true).collect();
    assert!(missed.len() >= 11, "{rows:?}");
    // Each instant once, without a hole.
    for (index, row) in missed.iter().enumerate() {
        let index = u64::try_from(index).unwrap();
        assert_eq!(row["runAtMs"], anchor + 500 * index, "{rows:?}");
        assert_eq!(row["status"], "skipped");
    }
    let skipped = log(&mut client, &skips).await;
    assert_eq!((skipped.len(), &skipped[0]["missed"]), (1, &json!(true)), "{skipped:?}");
    assert_eq!(asked(&mock, "skips-mark"), 0);
    assert_eq!(job(&mut client, &skips).await["enabled"], false);
}

#[tokio::test]
async fn somebody_hears_of_a_run_that_a_kill_cut_off() {
    let (mut gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "m-1").await;
    let mut slow = asking("slow", "slow-mark @mock stream n=500 delay=50");
    slow["failureAlert"] = json!({"after": 1, "mode": "announce"});
    let id = add(&mut client, slow).await;
    call(&mut client, "cron.run", json!({"id": id})).await;
    until("it runs", async || (asked(&mock, "slow-mark") == 1).then_some(())).await;
    gateway.kill9();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let news = until("the alert", async || {
        let mut said = told(&mut client, "main").await.into_iter().map(|(_, text)| text);
        said.find(|text| text.starts_with("Cron job"))
    });
    let news = news.await;
    assert!(news.starts_with("Cron job \"slow\" failed: interrupted by a stop"), "{news}");
}
