//! A gateway that is killed around an instant: one row, at most one start.

use std::time::Duration;

use clawgate::store::{SessionEntry, SqliteStore, Store};
use rusqlite::Connection;
use serde_json::json;
use tokio::time::sleep;

use super::{add, asking, base, job, log, now, run};
use crate::metrics::Scraped;
use crate::stage::{Api, admin, ask, call, config, row, scripted, start, told, until};
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
    // Also those that one came after which has run.
    let all = json!({"outcome": "skipped"});
    let told = Scraped::of(&gateway).await.number("clawgate_cron_runs_total", &all);
    assert!(told > f64::from(u32::try_from(missed.len()).unwrap()), "{told}");
}

#[tokio::test]
async fn jobs_that_cannot_be_listed_at_a_start_are_due_again_once_they_can() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    add(&mut admin(&gateway).await, asking("hourly", "m")).await;
    gateway.terminate().await;
    let database = Connection::open(gateway.state_dir().join("clawgate.sqlite")).unwrap();
    let job: String =
        database.query_row("SELECT job FROM cron_jobs", [], |row| row.get(0)).unwrap();
    // It is no text, and nothing is due.
    let spoil = "UPDATE cron_jobs SET job = CAST(x'ff' AS TEXT), due_at = NULL";
    database.execute_batch(spoil).unwrap();
    gateway.restart().await;
    until("the fault", async || gateway.stderr().contains("jobs may be put off").then_some(()))
        .await;
    database.execute("UPDATE cron_jobs SET job = ?1", [job]).unwrap();
    let mut client = admin(&gateway).await;
    until("its next run", async || {
        call(&mut client, "cron.status", json!({})).await["nextWakeAtMs"].as_u64()
    })
    .await;
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
    until("health tells of it", async || {
        let health = call(&mut client, "health", json!({})).await;
        health["degraded"].as_array()?.contains(&json!("cron")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_run_that_a_kill_cut_off_goes_on_in_no_list_and_the_log_has_its_session() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["cron"] = json!({"maxConcurrentRuns": 3});
    let mut gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    let mut shown_in = Vec::new();
    for (name, target) in [("stays", "isolated"), ("goes", "isolated"), ("named", "session:diary")]
    {
        let mark = format!("{name}-mark");
        let mut slow = asking(name, &format!("{mark} @mock stream n=500 delay=50"));
        slow["sessionTarget"] = json!(target);
        let id = add(&mut client, slow).await;
        call(&mut client, "cron.run", json!({"id": id})).await;
        until("it runs", async || (asked(&mock, &mark) == 1).then_some(())).await;
        let key = if name == "named" { "agent:main:diary".to_owned() } else { base(&id) };
        assert_eq!(row(&mut client, &key).await["status"], "running");
        shown_in.push((name, id, key));
    }
    call(&mut client, "cron.remove", json!({"id": shown_in[1].1})).await;
    gateway.kill9();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    for (name, id, key) in shown_in {
        let shown = row(&mut client, &key).await;
        assert_eq!(
            (&shown["status"], &shown["hasActiveRun"], &shown["abortedLastRun"]),
            (&json!("failed"), &json!(false), &json!(true)),
            "{name}: {shown}"
        );
        let session_id = shown["sessionId"].as_str().unwrap();
        let ran_in = if name == "named" { key } else { format!("{key}:run:{session_id}") };
        let rows = until("its row", async || {
            Some(log(&mut client, &id).await).filter(|rows| !rows.is_empty())
        });
        let rows = rows.await;
        assert_eq!(
            (rows.len(), &rows[0]["sessionId"], &rows[0]["sessionKey"]),
            (1, &json!(session_id), &json!(ran_in)),
            "{name}: {rows:?}"
        );
    }
}

#[tokio::test]
async fn a_run_that_a_kill_cut_off_while_it_waited_was_in_no_session() {
    let (mut gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "agent:main:diary", "other-mark @mock stream n=500 delay=50", "m-1").await;
    until("it runs", async || (asked(&mock, "other-mark") == 1).then_some(())).await;
    let mut waits = asking("waits", "waits-mark @mock text text=\"x\"");
    waits["sessionTarget"] = json!("session:diary");
    let id = add(&mut client, waits).await;
    call(&mut client, "cron.run", json!({"id": id})).await;
    gateway.kill9();
    // As when the run that it waits for has begun after it has lined up.
    let store = SqliteStore::open(&gateway.state_dir().join("clawgate.sqlite")).unwrap();
    let begun_at = now() + 1;
    let change = move |entry: &mut SessionEntry| entry.started_at = Some(begun_at);
    store.update_session("agent:main:diary", Box::new(change)).await.unwrap().unwrap();
    drop(store);
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let rows = until("its row", async || {
        Some(log(&mut client, &id).await).filter(|rows| !rows.is_empty())
    });
    let rows = rows.await;
    assert_eq!(asked(&mock, "waits-mark"), 0);
    assert_eq!((rows.len(), &rows[0]["status"]), (1, &json!("error")), "{rows:?}");
    let shown_in = (&rows[0]["sessionId"], &rows[0]["sessionKey"]);
    assert_eq!(shown_in, (&json!(null), &json!(null)), "{rows:?}");
}

#[tokio::test]
async fn a_run_of_an_instant_that_a_kill_cut_off_while_it_waited_is_due_again() {
    let (mut gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "agent:main:diary", "other-mark @mock stream n=500 delay=50", "m-1").await;
    until("it runs", async || (asked(&mock, "other-mark") == 1).then_some(())).await;
    let mut once = asking("once", "once-mark @mock text text=\"x\"");
    once["sessionTarget"] = json!("session:diary");
    once["schedule"] = json!({"kind": "at", "at": (now() + 1500).to_string()});
    once["deleteAfterRun"] = json!(false);
    let id = add(&mut client, once).await;
    until("it waits", async || job(&mut client, &id).await["state"]["runningAtMs"].as_u64()).await;
    gateway.kill9();
    assert_eq!(asked(&mock, "once-mark"), 0);
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let rows = until("its row", async || {
        Some(log(&mut client, &id).await).filter(|rows| !rows.is_empty())
    });
    let rows = rows.await;
    assert_eq!((rows.len(), &rows[0]["status"]), (1, &json!("ok")), "{rows:?}");
    assert_eq!(asked(&mock, "once-mark"), 1);
}

#[tokio::test]
async fn a_run_of_a_job_that_comes_again_waits_on_after_a_kill_and_is_not_missed() {
    let (mut gateway, mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "agent:main:diary", "other-mark @mock stream n=500 delay=50", "m-1").await;
    until("it runs", async || (asked(&mock, "other-mark") == 1).then_some(())).await;
    let mut again = asking("again", "again-mark @mock text text=\"x\"");
    again["sessionTarget"] = json!("session:diary");
    again["schedule"] = json!({"kind": "every", "everyMs": 3000, "anchorMs": now() + 1500});
    let id = add(&mut client, again).await;
    until("one is skipped for the one that waits", async || {
        (!log(&mut client, &id).await.is_empty()).then_some(())
    })
    .await;
    let killed = now();
    gateway.kill9();
    assert_eq!(asked(&mock, "again-mark"), 0);
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let rows = until("its run", async || {
        let rows = log(&mut client, &id).await;
        rows.iter().any(|row| row["status"] == "ok").then_some(rows)
    });
    let rows = rows.await;
    // It is the run of the first instant: all others came while it waited, or nothing ran.
    let first = rows.iter().min_by_key(|row| row["runAtMs"].as_u64()).unwrap();
    assert_eq!(first["status"], "ok", "{rows:?}");
    let mut before = rows.iter().filter(|row| row["runAtMs"].as_u64() < Some(killed));
    assert!(before.all(|row| row["missed"].is_null()), "{rows:?}");
}

#[tokio::test]
async fn wherever_a_kill_comes_the_session_of_a_job_says_how_its_run_has_ended() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let ended = add(&mut client, asking("ended", "@mock text text=\"done\"")).await;
    let before = add(&mut client, asking("before", "@mock text text=\"done\"")).await;
    let own = run(&mut client, &before).await["sessionKey"].as_str().unwrap().to_owned();
    run(&mut client, &ended).await;
    let ended_at = row(&mut client, &base(&ended)).await["endedAt"].clone();
    assert!(ended_at.is_u64());
    gateway.kill9();
    let store = SqliteStore::open(&gateway.state_dir().join("clawgate.sqlite")).unwrap();
    let change = async |key: &str, status: Option<&'static str>| {
        let change = move |entry: &mut SessionEntry| {
            (entry.status, entry.ended_at) = (status.map(str::to_owned), None);
        };
        store.update_session(key, Box::new(change)).await.unwrap().unwrap();
    };
    // What a kill leaves after the end of one, and before the beginning of the other.
    change(&base(&ended), Some("running")).await;
    change(&base(&before), Some("running")).await;
    change(&own, None).await;
    drop(store);
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let shown = row(&mut client, &base(&ended)).await;
    assert_eq!((&shown["status"], &shown["endedAt"]), (&json!("done"), &ended_at), "{shown}");
    let shown = row(&mut client, &base(&before)).await;
    assert_eq!(
        (&shown["status"], &shown["abortedLastRun"]),
        (&json!("failed"), &json!(true)),
        "{shown}"
    );
    assert!(shown["endedAt"].is_u64(), "{shown}");
}
