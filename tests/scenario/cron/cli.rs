//! `clawgate cron` and the import of jobs.

use std::path::Path;
use std::process::{Command, Output};

use rusqlite::Connection;
use serde_json::{Value, json};

use super::{add, asking, job, log, run};
use crate::program::{self, clawgate};
use crate::stage::{Api, admin, call, config, scripted, until};
use crate::support::{self, Gateway, GatewayOptions, MockProvider, SECRET, now_ms};

fn cron(gateway: &Gateway, args: &[&str]) -> Output {
    Command::new(support::program())
        .arg("cron")
        .args(args)
        .args(["--url", &format!("ws://{}", gateway.address()), "--token", SECRET])
        .env_clear()
        .env("HOME", gateway.home())
        .env("OPENCLAW_STATE_DIR", gateway.state_dir())
        .output()
        .unwrap()
}

fn told(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json_of(gateway: &Gateway, args: &[&str]) -> Value {
    serde_json::from_str(&told(&cron(gateway, &[args, &["--json"]].concat()))).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_makes_changes_runs_and_removes_jobs() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let made = json_of(
        &gateway,
        &[
            "add",
            "--name",
            "tea",
            "--every",
            "2h",
            "--message",
            "@mock text text=\"tea\"",
            "--no-deliver",
            "--tools",
            "read,exec",
            "--fallbacks",
            "mock/mock-2",
            "--light-context",
            "--failure-alert-after",
            "3",
        ],
    );
    let id = made["id"].as_str().unwrap().to_owned();
    assert_eq!(made["schedule"]["everyMs"], 7_200_000);
    assert_eq!(made["payload"]["toolsAllow"], json!(["read", "exec"]));
    assert_eq!(made["payload"]["fallbacks"], json!(["mock/mock-2"]));
    assert_eq!(made["payload"]["lightContext"], true);
    assert_eq!(made["failureAlert"], json!({"after": 3}));
    assert!(told(&cron(&gateway, &["list"])).contains("every 2h 0m"));
    let shown = told(&cron(&gateway, &["show", "tea"]));
    assert!(shown.contains("every 2h 0m") && shown.contains("@mock text text=\"tea\""), "{shown}");
    assert_eq!(json_of(&gateway, &["show", &id])["id"], made["id"]);
    assert_eq!(cron(&gateway, &["show", "coffee"]).status.code(), Some(1));
    let edited = json_of(&gateway, &["edit", &id, "--cron", "0 9 * * 1-5", "--tz", "Europe/Paris"]);
    assert_eq!(edited["schedule"]["tz"], "Europe/Paris");
    assert_eq!(edited["payload"], made["payload"]);
    assert!(told(&cron(&gateway, &["disable", &id])).contains("off"));
    assert!(told(&cron(&gateway, &["list"])).starts_with("No jobs"));
    assert!(told(&cron(&gateway, &["list", "--all"])).contains("cron 0 9 * * 1-5 Europe/Paris"));
    assert_eq!(json_of(&gateway, &["enable", &id])["enabled"], true);
    // The forms of OpenClaw.
    let edit = ["edit", &id, "--disable", "--clear-tools", "--no-light-context"];
    let edited = json_of(&gateway, &edit);
    assert_eq!(edited["enabled"], false, "{edited}");
    let payload = &edited["payload"];
    let is_whole = payload.get("toolsAllow").is_none() && payload["lightContext"] != true;
    assert!(is_whole, "{edited}");
    let to = ["--deliver", "--channel", "webhook", "--to", "ann", "--thread-id", "7"];
    let edit = [&["edit", &id, "--enable", "--tools", "read exec"][..], &to].concat();
    let edited = json_of(&gateway, &edit);
    assert_eq!(edited["payload"]["toolsAllow"], json!(["read", "exec"]), "{edited}");
    let delivery = &edited["delivery"];
    assert_eq!((&delivery["mode"], &delivery["threadId"]), (&json!("announce"), &json!("7")));
    let edited = json_of(&gateway, &["edit", &id, "--no-deliver"]);
    assert_eq!(edited["delivery"]["mode"], "none", "{edited}");
    let alert = [
        "--failure-alert-channel",
        "Webhook",
        "--failure-alert-to",
        "ann",
        "--failure-alert-cooldown",
        "30m",
        "--failure-alert-include-skipped",
    ];
    let edited = json_of(&gateway, &[&["edit", &id][..], &alert].concat());
    let rules = json!({"after": 3, "channel": "webhook", "to": "ann", "cooldownMs": 1_800_000,
        "includeSkipped": true});
    assert_eq!(edited["failureAlert"], rules, "{edited}");
    assert_eq!(json_of(&gateway, &["edit", &id, "--no-failure-alert"])["failureAlert"], false);
    let edited = json_of(&gateway, &["edit", &id, "--failure-alert"]);
    assert_eq!(edited["failureAlert"], json!({}), "{edited}");
    let both = ["edit", &id, "--no-failure-alert", "--failure-alert-mode", "webhook"];
    assert_eq!(cron(&gateway, &both).status.code(), Some(2));
    let early = cron(&gateway, &["run", &id, "--due"]);
    let said = String::from_utf8_lossy(&early.stdout).into_owned();
    assert!(early.status.code() == Some(1) && said.starts_with("Does not run: "), "{said}");
    assert!(told(&cron(&gateway, &["run", &id])).starts_with("Runs now: manual:"));
    until("a row", async || (!log(&mut client, &id).await.is_empty()).then_some(())).await;
    let runs = told(&cron(&gateway, &["runs", &id]));
    assert!(runs.contains("ok") && runs.contains("tea"), "{runs}");
    assert_eq!(told(&cron(&gateway, &["runs", "--id", &id])), runs);
    assert!(told(&cron(&gateway, &["status"])).contains("scheduler  on"));
    assert_eq!(told(&cron(&gateway, &["delete", &id])), "Removed\n");
    assert_eq!(cron(&gateway, &["rm", &id]).status.code(), Some(1));
    for (args, text) in [
        (vec!["add", "--name", "x"], "needs --at, --every or --cron"),
        (vec!["edit", "x"], "needs a flag"),
        (vec!["add", "--name", "x", "--cron", "* *", "--message", "m"], "CronPattern"),
        (vec!["add", "--name", "x", "--every", "often", "--message", "m"], "--every: give a time"),
    ] {
        let output = cron(&gateway, &args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(text), "{said}");
    }
}

#[tokio::test]
async fn the_main_session_is_told_something_and_heartbeats_are_shown_and_switched() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let last = ["system", "heartbeat", "last", "--json"];
    assert_eq!(program::json_of(&clawgate(&gateway, &last).await), Value::Null);
    let event = ["system", "event", "--mode", "now", "--text", "@mock text text=\"Seen.\""];
    assert_eq!(program::said(&clawgate(&gateway, &event).await), "ok\n");
    until("the heartbeat that it begins", async || {
        let beat = program::json_of(&clawgate(&gateway, &last).await);
        (beat["preview"] == "Seen.").then_some(())
    })
    .await;
    let off = ["system", "heartbeat", "disable", "--json"];
    let told = program::json_of(&clawgate(&gateway, &off).await);
    assert_eq!(told, json!({"ok": true, "enabled": false}));
    let there = program::json_of(&clawgate(&gateway, &["system", "presence", "--json"]).await);
    assert!(!there.as_array().unwrap().is_empty(), "{there}");
    for (wrong, code) in [
        (&["event", "--text", " "][..], 2),
        (&["event", "--text", "x", "--mode", "later"][..], 2),
        (&["presence", "--url", "ws://127.0.0.1:9", "--token", "t"][..], 1),
    ] {
        let output = clawgate(&gateway, &[&["system"], wrong].concat()).await;
        assert_eq!(output.status.code(), Some(code), "{output:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_further_away_than_calendars_go_has_no_date() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut far = asking("far", "m");
    far["schedule"] = json!({"kind": "every", "everyMs": 9_007_199_254_740_991_u64});
    let id = add(&mut client, far).await;
    for args in [&["list"][..], &["show", id.as_str()], &["status"]] {
        let shown = told(&cron(&gateway, args));
        assert!(shown.contains("after the year 9999") && !shown.contains("1970"), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_found_by_its_id_or_by_a_name_that_no_other_has() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let tea = add(&mut client, asking("tea", "@mock text text=\"tea\"")).await;
    let first = add(&mut client, asking("mail", "m")).await;
    let second = add(&mut client, asking("mail", "m")).await;
    let named_like_it = add(&mut client, asking(&first, "m")).await;
    let refused = |args: &[&str]| {
        let output = cron(&gateway, args);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };

    assert_eq!(json_of(&gateway, &["disable", "tea"])["id"], tea.as_str());
    assert_eq!(json_of(&gateway, &["edit", "tea", "--every", "3h"])["id"], tea.as_str());
    let which = refused(&["run", "mail"]);
    assert!(which.contains(&first) && which.contains(&second), "{which}");
    // An id goes before a name.
    assert_eq!(json_of(&gateway, &["disable", &first])["id"], first.as_str());
    assert_eq!(job(&mut client, &named_like_it).await["enabled"], true);
    for args in [["run", "te"], ["rm", "coffee"], ["runs", "coffee"], ["enable", "a/b"]] {
        let nobody = refused(&args);
        assert!(nobody.contains("there is no job"), "{args:?}: {nobody}");
    }

    assert!(told(&cron(&gateway, &["run", "tea"])).starts_with("Runs now: manual:"));
    until("a row", async || (!log(&mut client, &tea).await.is_empty()).then_some(())).await;
    assert_eq!(json_of(&gateway, &["runs", "tea"])["total"], 1);
    assert_eq!(told(&cron(&gateway, &["rm", "tea"])), "Removed\n");
    // The log outlives the job, and knows it by its id.
    assert_eq!(json_of(&gateway, &["runs", &tea])["total"], 1);
    assert!(refused(&["runs", "tea"]).contains("there is no job"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zone_is_that_of_a_single_moment_and_stays_that_of_a_calendar() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let asks = ["--message", "m"];
    let now = jiff::Timestamp::from_millisecond(now_ms()).unwrap();
    let year = now.to_zoned(jiff::tz::TimeZone::UTC).year() + 1;
    let when = |day: &str| format!("{year}-12-{day}T09:00");
    let once = when("25");
    let add = ["add", "--name", "once", "--at", &once, "--tz", "Europe/Paris"];
    let made = json_of(&gateway, &[&add[..], &asks].concat());
    assert_eq!(made["schedule"]["at"], format!("{year}-12-25T08:00:00.000Z"));
    let other = when("26");
    let edited = json_of(&gateway, &["edit", "once", "--at", &other, "--tz", "Asia/Tokyo"]);
    assert_eq!(edited["schedule"]["at"], format!("{year}-12-26T00:00:00.000Z"));

    let add = ["add", "--name", "daily", "--cron", "0 9 * * *", "--tz", "Asia/Tokyo"];
    json_of(&gateway, &[&add[..], &asks].concat());
    for (change, expr, tz, stagger) in [
        (&["--cron", "0 10 * * *"][..], "0 10 * * *", json!("Asia/Tokyo"), Value::Null),
        (&["--tz", "Europe/Paris"], "0 10 * * *", json!("Europe/Paris"), Value::Null),
        (&["--stagger", "5m"], "0 10 * * *", json!("Europe/Paris"), json!(300_000)),
        (&["--exact"], "0 10 * * *", json!("Europe/Paris"), json!(0)),
        (&["--tz", ""], "0 10 * * *", Value::Null, json!(0)),
    ] {
        let edited = json_of(&gateway, &[&["edit", "daily"][..], change].concat());
        let schedule = &edited["schedule"];
        let told = (&schedule["expr"], &schedule["tz"], &schedule["staggerMs"]);
        assert_eq!(told, (&json!(expr), &tz, &stagger), "{change:?}");
    }

    let every = ["add", "--name", "x", "--every", "1h"];
    for (args, text) in [
        (&["edit", "once", "--at", &other, "--tz", "Nowhere/Foo"][..], "unknown time zone"),
        (&["edit", "daily", "--tz", "Nowhere/Foo"], "unknown time zone"),
        (&["edit", "once", "--tz", "Asia/Tokyo"], "this job has none"),
        (&[&every[..], &asks, &["--tz", "Asia/Tokyo"]].concat(), "--tz is only valid with"),
        (&[&every[..], &asks, &["--stagger", "5m"]].concat(), "--stagger/--exact are only"),
        (&[&every[..], &asks, &["--exact"]].concat(), "--stagger/--exact are only"),
        (&every, "needs --message or --system-event"),
        (&[&every[..], &["--message", ""]].concat(), "--message: give a text"),
        (&[&every[..], &asks, &["--wake", "whenever"]].concat(), "next-heartbeat"),
        (&[&every[..], &asks, &["--session", "weird"]].concat(), "give main, isolated, current"),
        (&["add", "--name", "x", "--every", "0s", "--message", "m"], "--every: give a time"),
    ] {
        let output = cron(&gateway, args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(text), "{args:?}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_shown_with_whom_it_tells_and_what_it_may() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let what = ["--every", "500ms", "--disabled", "--message", "m", "--model", "mock/mock-2"];
    let whom = ["--channel", "webhook", "--to", "ann", "--tools", "read,exec"];
    json_of(&gateway, &[&["add", "--name", "tea"][..], &what, &whom].concat());
    let shown = told(&cron(&gateway, &["show", "tea"]));
    let words: Vec<Vec<&str>> =
        shown.lines().map(|line| line.split_whitespace().collect()).collect();
    for row in [
        &["when", "every", "500ms"][..],
        &["model", "mock/mock-2"],
        &["tools", "read,", "exec"],
        &["delivery", "announce", "by", "webhook", "to", "ann"],
    ] {
        assert!(words.contains(&row.to_vec()), "{row:?} in\n{shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_a_web_server_has_not_got_is_in_the_log_and_shown() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let mut posts = asking("posts", "@mock text text=\"over the wire\"");
    // Nobody listens there.
    posts["delivery"] = json!({"mode": "webhook", "to": "http://127.0.0.1:9/x?key=hidden"});
    let id = add(&mut client, posts).await;
    let end = run(&mut client, &id).await;
    assert_eq!((&end["status"], &end["deliveryStatus"]), (&json!("ok"), &json!("not-delivered")));
    let why: String = end["deliveryError"].as_str().unwrap().chars().take(20).collect();
    assert!(told(&cron(&gateway, &["list"])).contains("not delivered"));
    for args in [["show", id.as_str()], ["runs", id.as_str()]] {
        let shown = told(&cron(&gateway, &args));
        assert!(shown.contains("not delivered") && shown.contains(&why), "{shown}");
    }
    let warns = |line: &str| line.contains("has not got the end of a job") && line.contains(&id);
    until("the warning", async || gateway.stderr().lines().any(warns).then_some(())).await;
    assert!(!gateway.stderr().contains("hidden"), "{}", gateway.stderr());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_from_a_clock_that_was_ahead_is_named_by_doctor_until_it_is_turned_off_and_on() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let id = add(&mut admin(&gateway).await, asking("tea", "m")).await;
    let named = async |gateway: &Gateway| {
        let report = clawgate(gateway, &["doctor", "--json"]).await.stdout;
        let report: Value = serde_json::from_slice(&report).unwrap();
        let findings = report["findings"].as_array().unwrap();
        let found = findings.iter().find(|it| it["checkId"] == "cron.put_off");
        found.map(|found| found["title"].as_str().unwrap().to_owned())
    };
    assert_eq!(named(&gateway).await, None);
    gateway.terminate().await;
    let database = Connection::open(gateway.state_dir().join("clawgate.sqlite")).unwrap();
    let (made, due) = (now_ms() + 400 * 3_600_000, now_ms() + 401 * 3_600_000);
    let ahead = format!(
        "UPDATE cron_jobs SET due_at = {due}, job = json_set(job, '$.createdAtMs', {made})"
    );
    database.execute_batch(&ahead).unwrap();
    drop(database);
    gateway.restart().await;
    let title = named(&gateway).await.expect("a finding");
    assert!(title.contains(&format!("tea ({id}), ")), "{title}");
    for command in ["disable", "enable"] {
        told(&cron(&gateway, &[command, &id]));
    }
    assert_eq!(named(&gateway).await, None);
}

/// Leaves the list of an OpenClaw in a state directory; its text.
fn leave_jobs(state: &Path) -> String {
    let folder = state.join("cron");
    std::fs::create_dir_all(&folder).unwrap();
    let jobs = json!({"version": 1, "jobs": [{"id": "daily", "name": "Daily", "enabled": true,
        "createdAtMs": 1, "schedule": {"kind": "cron", "expr": "0 9 * * *", "tz": "UTC"},
        "sessionTarget": "isolated", "wakeMode": "now",
        "payload": {"kind": "agentTurn", "message": "hello"}, "state": {}}]});
    std::fs::write(folder.join("jobs.json"), jobs.to_string()).unwrap();
    jobs.to_string()
}

#[tokio::test]
async fn jobs_of_openclaw_are_taken_over_once_the_database_takes_them_and_others_run() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let own = add(&mut admin(&gateway).await, asking("own", "@mock text text=\"x\"")).await;
    gateway.terminate().await;
    leave_jobs(&gateway.state_dir());
    let database = Connection::open(gateway.state_dir().join("clawgate.sqlite")).unwrap();
    let trigger = "CREATE TRIGGER no_room BEFORE INSERT ON cron_jobs
        BEGIN SELECT RAISE(ABORT, 'no room'); END";
    database.execute_batch(trigger).unwrap();
    gateway.restart().await;
    until("the fault", async || {
        gateway.stderr().contains("jobs of OpenClaw not taken over").then_some(())
    })
    .await;
    let mut client = admin(&gateway).await;
    assert_eq!(run(&mut client, &own).await["status"], "ok", "nothing waits for them");
    assert_eq!(job(&mut client, "daily").await, Value::Null);
    database.execute_batch("DROP TRIGGER no_room").unwrap();
    until("the job", async || Some(job(&mut client, "daily").await).filter(|job| !job.is_null()))
        .await;
}

#[tokio::test]
async fn jobs_of_openclaw_in_the_state_directory_are_taken_over_once() {
    let root = tempfile::TempDir::with_prefix("clawgate-test-").unwrap();
    let jobs = leave_jobs(&root.path().join("state"));
    let mock = MockProvider::start().await;
    let options = GatewayOptions::with_config(config(mock.address(), Api::OpenAi));
    let mut gateway = Gateway::start_in(root, options).await.unwrap();
    let mut client = admin(&gateway).await;
    until("the job", async || Some(job(&mut client, "daily").await).filter(|job| !job.is_null()))
        .await;
    call(&mut client, "cron.remove", json!({"id": "daily"})).await;
    // It is gone for good, and the file is as it was.
    gateway.terminate().await;
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    call(&mut client, "cron.status", json!({})).await;
    assert_eq!(job(&mut client, "daily").await, Value::Null);
    let file = std::fs::read_to_string(gateway.state_dir().join("cron/jobs.json")).unwrap();
    assert_eq!(file, jobs);
}
