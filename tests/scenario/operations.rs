//! The log, health, and what the gateway tells of itself.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::program::{self, said};
use crate::stage::{Api, admin, ask, call, refusal, scripted, until};
use crate::support::client::{SOON, standard_connect};
use crate::support::{Gateway, GatewayOptions, WsClient, default_config, now_ms, program};

/// So many that the log is put away several times.
const CLIENTS: usize = 150;

async fn gateway(logging: Value) -> Gateway {
    let mut config = default_config("127.0.0.1:9");
    config["logging"] = logging;
    Gateway::start(GatewayOptions::with_config(config)).await
}

/// The lines after a cursor, page by page, and the next cursor.
async fn lines_after(client: &mut WsClient, cursor: &Value) -> (Vec<Value>, Value) {
    let (mut cursor, mut lines) = (cursor.clone(), Vec::new());
    loop {
        let params = json!({"cursor": cursor, "limit": 40, "maxBytes": 20_000});
        let page = call(client, "logs.tail", params).await;
        assert_eq!((&page["reset"], &page["truncated"]), (&json!(false), &json!(false)), "{page}");
        let texts = page["lines"].as_array().unwrap().iter();
        lines.extend(texts.map(|line| serde_json::from_str(line.as_str().unwrap()).unwrap()));
        if page["cursor"] == cursor {
            return (lines, cursor);
        }
        cursor = page["cursor"].clone();
    }
}

/// Counts who is told of as connected after a cursor; answers the next cursor.
async fn count_connects(
    client: &mut WsClient,
    cursor: &Value,
    connected: &mut BTreeMap<String, u32>,
) -> Value {
    let (lines, next) = lines_after(client, cursor).await;
    for line in lines {
        let text = line["1"].as_str().unwrap();
        if let Some(rest) = text.strip_prefix("connected conn=") {
            let id = rest.split(' ').next().unwrap();
            *connected.entry(id.to_owned()).or_insert(0) += 1;
        }
    }
    next
}

/// Follows the log until it has told of everybody: lines are written behind what
/// they tell of.
async fn all_are_told(
    client: &mut WsClient,
    mut cursor: Value,
    connected: &mut BTreeMap<String, u32>,
) -> Value {
    let told = async {
        loop {
            cursor = count_connects(client, &cursor, connected).await;
            if connected.values().all(|times| *times > 0) {
                break cursor;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, told).await.expect("the log tells of everybody")
}

#[tokio::test]
async fn who_follows_the_log_gets_each_line_once_while_files_are_put_away_and_over_a_kill() {
    let mut gateway = gateway(json!({"maxFileBytes": 65536})).await;
    let mut client = admin(&gateway).await;
    let (first, mut cursor) = lines_after(&mut client, &json!(0)).await;
    assert_eq!((&first[0]["1"], &first[0]["offset"]), (&json!("log file opened"), &json!(0)));
    let mut connected = BTreeMap::new();
    for index in 0..CLIENTS {
        let mut other = gateway.open().await;
        let hello = other.request("connect", standard_connect(&[])).await;
        let id = hello["payload"]["server"]["connId"].as_str().unwrap().to_owned();
        connected.insert(id, 0);
        if index % 20 == 7 {
            cursor = count_connects(&mut client, &cursor, &mut connected).await;
        }
        if index == CLIENTS / 2 {
            cursor = all_are_told(&mut client, cursor, &mut connected).await;
            gateway.restart().await;
            client = admin(&gateway).await;
        }
    }
    all_are_told(&mut client, cursor, &mut connected).await;
    let wrong: Vec<_> = connected.iter().filter(|(_, times)| **times != 1).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let files = fs::read_dir(gateway.state_dir().join("logs")).unwrap();
    let files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    let logs = files.iter().filter(|path| path.extension().is_some_and(|it| it == "log"));
    let sizes: Vec<_> = logs.map(|path| fs::metadata(path).unwrap()).collect();
    assert!(sizes.len() > 2, "{files:?}");
    for file in sizes {
        assert!(file.len() <= 65536);
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn a_line_of_the_log_says_who_when_and_how_bad_in_openclaws_form() {
    let gateway = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    let tail = call(&mut client, "logs.tail", json!({"limit": 500})).await;
    assert_eq!(tail["cursor"], tail["size"]);
    let file = tail["file"].as_str().unwrap();
    assert_eq!(fs::metadata(file).unwrap().len(), tail["size"].as_u64().unwrap());
    let lines = tail["lines"].as_array().unwrap().iter();
    let lines: Vec<Value> =
        lines.map(|line| serde_json::from_str(line.as_str().unwrap()).unwrap()).collect();
    let ready = lines.iter().find(|line| line["1"].as_str().unwrap().starts_with("ready "));
    let ready = ready.unwrap_or_else(|| panic!("{lines:?}"));
    assert_eq!(ready["0"], r#"{"subsystem":"app"}"#);
    assert_eq!(ready["message"], ready["1"]);
    assert_eq!(ready["_meta"]["logLevelName"], "INFO");
    assert_eq!(ready["_meta"]["path"]["fileName"], "app.rs");
    assert!(ready["time"].as_str().unwrap().contains("T"));
    // The level of the file is its own: stderr has details here.
    assert!(lines.iter().all(|line| line["_meta"]["logLevelName"] != "DEBUG"));
    assert!(gateway.stderr().contains("DEBUG"));
    let none = call(&mut client, "logs.tail", json!({"maxBytes": 1})).await;
    assert_eq!((&none["lines"], &none["truncated"]), (&json!([]), &json!(true)));
    let lost = call(&mut client, "logs.tail", json!({"cursor": 1_000_000_000})).await;
    assert_eq!(lost["reset"], true);
    assert!(!lost["lines"].as_array().unwrap().is_empty());
}

fn command(gateway: &Gateway, args: &[&str]) -> Command {
    let mut command = program::command(gateway, &[&["logs"], args].concat());
    command
        .env("TMPDIR", gateway.root().join("tmp"))
        .env("OPENCLAW_GATEWAY_PORT", gateway.port().to_string());
    command
}

#[tokio::test]
async fn the_command_shows_the_log_follows_it_and_needs_no_gateway() {
    let mut gateway = gateway(json!({})).await;
    let shown = said(&command(&gateway, &[]).output().await.unwrap());
    assert!(shown.contains("INFO  app: ready address=127.0.0.1:"), "{shown}");
    let json = said(&command(&gateway, &["--json", "--limit", "1"]).output().await.unwrap());
    assert_eq!(json.lines().count(), 1);
    assert!(serde_json::from_str::<Value>(&json).unwrap()["_meta"].is_object());
    let bad = said(&command(&gateway, &["--level", "error"]).output().await.unwrap());
    assert_eq!(bad, "");
    let mut unread = command(&gateway, &[]).stdout(Stdio::piped()).spawn().unwrap();
    drop(unread.stdout.take());
    assert_eq!(unread.wait().await.unwrap().code(), Some(0), "who has read enough is content");

    let mut follower = command(&gateway, &["--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut client = admin(&gateway).await;
    let reason = json!({"sessionKey": "agent:main:x", "note": "follow me"});
    call(&mut client, "update.run", reason).await;
    let followed = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains("an update was asked for") {
                return true;
            }
        }
        false
    };
    let followed = tokio::time::timeout(std::time::Duration::from_secs(20), followed).await;
    assert!(followed.expect("the line is not followed"));
    follower.kill().await.unwrap();

    gateway.terminate().await.expect("an end");
    let output = command(&gateway, &["--limit", "1000"]).output().await.unwrap();
    let shown = said(&output);
    assert!(shown.contains("stopping; another signal stops at once"), "{shown}");
    let told = String::from_utf8(output.stderr).unwrap();
    let (_, file) = told.split_once("no gateway runs here; from ").unwrap();
    // The last one of the level, though others came after it.
    let line = |level: &str, text: &str| json!({"_meta": {"logLevelName": level}, "1": text});
    let more = [line("ERROR", "first"), line("ERROR", "second"), line("INFO", "third")];
    let file = file.trim_end().trim_end_matches(':');
    let text = fs::read_to_string(file).unwrap();
    fs::write(file, more.iter().fold(text, |text, line| format!("{text}{line}\n"))).unwrap();
    let args = ["--level", "error", "--limit", "1"];
    let shown = said(&command(&gateway, &args).output().await.unwrap());
    assert!(shown.ends_with("second\n") && shown.lines().count() == 1, "{shown}");
    // A config that cannot be read hides nothing.
    fs::write(gateway.config_path(), "{oops").unwrap();
    assert_eq!(said(&command(&gateway, &args).output().await.unwrap()), shown);
    // Of a gateway elsewhere nothing is known here.
    let elsewhere = command(&gateway, &[]).env("OPENCLAW_GATEWAY_URL", "ws://127.0.0.1:9").output();
    let elsewhere = elsewhere.await.unwrap();
    assert_eq!((elsewhere.status.code(), elsewhere.stdout.len()), (Some(1), 0), "{elsewhere:?}");
    let error = String::from_utf8_lossy(&elsewhere.stderr);
    assert!(error.contains("no gateway answers at ws://127.0.0.1:9"), "{error}");
    let logs = std::path::Path::new(file).parent().unwrap();
    fs::remove_dir_all(logs).unwrap();
    let nothing = command(&gateway, &[]).output().await.unwrap();
    assert_eq!((nothing.status.code(), nothing.stdout.len()), (Some(1), 0), "{nothing:?}");
    let error = String::from_utf8_lossy(&nothing.stderr);
    assert!(error.contains("no gateway runs here, and there is no log"), "{error}");
    // A variable that only the gateway had does not hide where its log is.
    let other = gateway.root().join("other.log");
    fs::write(&other, format!("{}\n", line("ERROR", "in another file"))).unwrap();
    let provider = json!({"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "${NOBODY_HAS_THIS}",
        "api": "openai-completions", "models": [{"id": "m"}]});
    let config = json!({"logging": {"file": other}, "models": {"providers": {"p": provider}}});
    fs::write(gateway.config_path(), config.to_string()).unwrap();
    let shown = said(&command(&gateway, &args).output().await.unwrap());
    assert!(shown.ends_with("in another file\n"), "{shown}");
}

#[tokio::test]
async fn who_follows_by_the_command_goes_on_after_a_restart_with_each_line_once() {
    const LINE: &str = "an update was asked for";
    let mut gateway = gateway(json!({})).await;
    let mut follower = command(&gateway, &["--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut seen = 0;
    for round in 1..=2 {
        let params = json!({"sessionKey": "agent:main:x", "note": "follow me"});
        call(&mut admin(&gateway).await, "update.run", params).await;
        let followed = async {
            while seen < round {
                let line = lines.next_line().await.unwrap().expect("it goes on");
                seen += usize::from(line.contains(LINE));
            }
        };
        tokio::time::timeout(Duration::from_secs(60), followed).await.expect("the line");
        if round == 1 {
            gateway.restart_in_place().await;
        }
    }
    // Whatever was shown twice was shown before the last line.
    let marker = admin(&gateway).await;
    let read = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            assert!(!line.contains(LINE), "{line}");
            if line.contains("connected conn=") {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), read).await.expect("the marker");
    drop(marker);
    follower.kill().await.unwrap();
}

/// Nothing of a test lasts so long.
fn in_a_year() -> String {
    let year = jiff::SignedDuration::from_hours(365 * 24);
    let at = jiff::Timestamp::from_millisecond(now_ms()).unwrap() + year;
    at.to_string()
}

async fn part(client: &mut WsClient, name: &str) -> Value {
    let health = call(client, "health", json!({"probe": true})).await;
    let is_degraded = health["degraded"].as_array().unwrap().contains(&json!(name));
    assert_eq!(is_degraded, health["services"][name]["ok"] == false, "{health}");
    health["services"][name].clone()
}

#[tokio::test]
async fn health_says_what_is_wrong_with_which_part_and_since_when() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let health = call(&mut client, "health", json!({"probe": true})).await;
    assert_eq!((&health["ok"], &health["degraded"]), (&json!(true), &json!([])), "{health}");
    let names = [
        "store",
        "transcripts",
        "log",
        "runs",
        "tasks",
        "config",
        "channels",
        "cron",
        "models",
        "nodes",
    ];
    for name in names {
        assert_eq!(health["services"][name]["ok"], true, "{name}: {health}");
    }
    let before = fs::read_to_string(gateway.config_path()).unwrap();
    fs::write(gateway.config_path(), "{gateway: {port: 'x'}}").unwrap();
    let wrong = part(&mut client, "config").await;
    assert_eq!((&wrong["ok"], &wrong["pending"]), (&json!(false), &json!(true)));
    assert!(wrong["error"].as_str().unwrap().contains("gateway.port"), "{wrong}");
    assert!(wrong["since"].as_u64().unwrap() >= health["ts"].as_u64().unwrap());
    assert_eq!(part(&mut client, "config").await, wrong, "it lasts since then");
    fs::write(gateway.config_path(), before).unwrap();
    assert_eq!(part(&mut client, "config").await, json!({"ok": true}));

    // A job that fails is named.
    let job = json!({"name": "Nightly", "schedule": {"kind": "at", "at": in_a_year()},
        "sessionTarget": "isolated", "wakeMode": "now",
        "payload": {"kind": "agentTurn", "message": "@mock err status=400"}});
    let job = call(&mut client, "cron.add", job).await;
    call(&mut client, "cron.run", json!({"id": job["id"], "mode": "force"})).await;
    let failed = until("the job fails", async || {
        let cron = part(&mut client, "cron").await;
        (cron["ok"] == false).then_some(cron)
    });
    let failed = failed.await;
    assert_eq!(failed["error"], "jobs fail: Nightly (1 times in a row)");
    let stability =
        call(&mut client, "diagnostics.stability", json!({"type": "service.failed"})).await;
    let sources: Vec<_> =
        stability["events"].as_array().unwrap().iter().map(|event| &event["source"]).collect();
    assert_eq!(sources, ["config", "cron"]);
}

#[tokio::test]
async fn a_job_that_the_database_does_not_take_is_told_of_by_health_for_as_long() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let database = Connection::open(gateway.state_dir().join("clawgate.sqlite")).unwrap();
    let trigger = "CREATE TRIGGER no_room BEFORE UPDATE ON cron_jobs
        BEGIN SELECT RAISE(ABORT, 'no room'); END";
    database.execute_batch(trigger).unwrap();
    let job = json!({"name": "Often", "schedule": {"kind": "every", "everyMs": 1000},
        "sessionTarget": "isolated", "wakeMode": "now",
        "payload": {"kind": "agentTurn", "message": "@mock text text=done"}});
    let id = call(&mut client, "cron.add", job).await["id"].as_str().unwrap().to_owned();
    let told = format!("the database does not take jobs that are due (1): {id}");
    until("health tells it", async || {
        (part(&mut client, "cron").await["error"] == told.as_str()).then_some(())
    })
    .await;
    database.execute_batch("DROP TRIGGER no_room").unwrap();
    until("it is taken", async || (part(&mut client, "cron").await["ok"] == true).then_some(()))
        .await;
}

#[tokio::test]
async fn that_the_database_was_lost_is_told_by_the_log_and_by_health() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    assert_eq!(part(&mut client, "sessions").await, Value::Null, "it is new");
    ask(&mut client, "main", "hello", "run-1").await;
    gateway.terminate().await;
    gateway.restart().await;
    assert_eq!(part(&mut admin(&gateway).await, "sessions").await, Value::Null);
    gateway.terminate().await;
    for end in ["-wal", "-shm"] {
        // It is gone when nobody uses the database.
        let _ = fs::remove_file(gateway.state_dir().join(format!("clawgate.sqlite{end}")));
    }
    fs::write(gateway.state_dir().join("clawgate.sqlite"), "").unwrap();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let told = part(&mut client, "sessions").await;
    let text = told["error"].as_str().unwrap();
    assert!(text.contains("there was no database, or an empty one"), "{text}");
    assert!(text.contains("jobs") && text.contains("paired devices"), "{text}");
    until("the log tells it", async || {
        let log = gateway.stderr();
        log.lines().any(|line| line.contains("WARN") && line.contains(text)).then_some(())
    })
    .await;
    let list = call(&mut client, "sessions.list", json!({})).await;
    assert_eq!(list["sessions"].as_array().unwrap().len(), 1, "{list}");
}

#[tokio::test]
async fn an_approvals_file_that_cannot_be_followed_is_told_while_it_is_so() {
    let gateway = gateway(json!({})).await;
    let file = gateway.home().join(".openclaw/exec-approvals.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let mut client = admin(&gateway).await;
    assert_eq!(part(&mut client, "approvals").await, json!({"ok": true}));
    fs::write(&file, "{\"version\":1,\"defau").unwrap();
    let told = part(&mut client, "approvals").await;
    let text = told["error"].as_str().unwrap();
    assert!(text.contains("exec-approvals.json is no exec approvals file"), "{text}");
    fs::remove_file(&file).unwrap();
    assert_eq!(part(&mut client, "approvals").await, json!({"ok": true}));
}

#[tokio::test]
async fn a_gateway_without_a_model_of_its_own_is_well() {
    let mut config = default_config("127.0.0.1:9");
    config["agents"]["defaults"]["model"] = json!("offline/echo-guide");
    config["models"]["mode"] = json!("merge");
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let mut client = admin(&gateway).await;
    assert_eq!(part(&mut client, "models").await["ok"], true);
}

#[tokio::test]
async fn a_log_file_that_cannot_be_written_is_said_and_stops_nobody() {
    let gateway = gateway(json!({"file": "~/log/there.log"})).await;
    let place = gateway.home().join("log");
    let mut client = admin(&gateway).await;
    assert_eq!(part(&mut client, "log").await["ok"], true);
    until("the log is begun", async || place.join("there.log").exists().then_some(())).await;
    fs::remove_dir_all(&place).unwrap();
    fs::write(&place, "in the way").unwrap();
    let wrong = until("the trouble is seen", async || {
        drop(admin(&gateway).await);
        let log = part(&mut client, "log").await;
        (log["ok"] == false).then_some(log)
    });
    let wrong = wrong.await;
    assert!(wrong["since"].is_u64());
    assert!(wrong["error"].as_str().unwrap().contains("there.log: "), "{wrong}");
    fs::remove_file(&place).unwrap();
    until("the log goes on", async || {
        drop(admin(&gateway).await);
        (part(&mut client, "log").await["ok"] == true).then_some(())
    })
    .await;
    let tail = call(&mut client, "logs.tail", json!({})).await;
    assert_eq!(tail["file"], place.join("there.log").display().to_string());
}

#[tokio::test]
async fn what_happened_lately_is_told_with_its_reasons() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "good").await;
    let end = ask(&mut client, "main", "@mock err status=400", "bad").await;
    assert_eq!(end["state"], "error");
    drop(admin(&gateway).await);
    let report = until("all of it is noted", async || {
        let report = call(&mut client, "diagnostics.stability", json!({"limit": 1000})).await;
        let by_type = &report["summary"]["byType"];
        (by_type["connection.closed"] == 1 && by_type["message.processed"] == 2).then_some(report)
    });
    let report = report.await;
    let of = |kind: &str| -> Vec<Value> {
        let events = report["events"].as_array().unwrap().iter();
        events.filter(|event| event["type"] == kind).cloned().collect()
    };
    let runs = of("message.processed");
    assert_eq!((&runs[0]["outcome"], &runs[0]["source"]), (&json!("completed"), &json!("chat")));
    assert_eq!(runs[1]["outcome"], "error");
    assert!(runs[1]["reason"].is_string() && runs[1]["durationMs"].is_u64(), "{runs:?}");
    assert_eq!(of("diagnostic.phase.completed")[0]["phase"], "gateway.ready");
    assert_eq!(of("connection.closed")[0]["source"], "gateway-client");
    let memory = &report["summary"]["memory"];
    let used = memory["latest"]["rssBytes"].as_u64().unwrap();
    assert!(used > 1_000_000 && memory["maxRssBytes"].as_u64().unwrap() >= used, "{memory}");
    let after = json!({"sinceSeq": report["lastSeq"], "type": "message.processed"});
    let none = call(&mut client, "diagnostics.stability", after).await;
    assert_eq!((&none["count"], &none["events"]), (&json!(0), &json!([])));
    for (params, error) in [
        (json!({"limit": 0}), "limit must be between 1 and 1000"),
        (json!({"limit": -1}), "limit must be a non-negative integer"),
        (json!({"sinceSeq": "x"}), "sinceSeq must be a non-negative integer"),
        (json!({"type": 7}), "type must be a non-empty string"),
    ] {
        assert_eq!(refusal(&mut client, "diagnostics.stability", params).await, error);
    }
    // A restart in place is part of it, and so is what came before.
    call(&mut client, "gateway.restart.request", json!({})).await;
    client.wait_closed(SOON).await.expect("a close");
    let mut again = admin(&gateway).await;
    let report = call(&mut again, "diagnostics.stability", json!({"limit": 1000})).await;
    let by_type = &report["summary"]["byType"];
    assert_eq!(
        (&by_type["gateway.restart"], &by_type["message.processed"]),
        (&json!(1), &json!(2))
    );
}

#[tokio::test]
async fn what_is_not_here_is_said_in_the_shape_of_the_original() {
    let gateway = gateway(json!({})).await;
    let mut client = admin(&gateway).await;
    let plugins = call(&mut client, "plugins.uiDescriptors", json!({})).await;
    assert_eq!(plugins, json!({"ok": true, "descriptors": []}));
    let status = call(&mut client, "update.status", json!({})).await;
    assert_eq!(status["sentinel"], Value::Null);
    let version = status["version"].as_str().unwrap();
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    assert_eq!(status["installation"]["program"], program());
    let run = call(&mut client, "update.run", json!({})).await;
    assert_eq!(run["sentinel"]["payload"].get("message"), Some(&Value::Null));
    let chat = json!({"channel": "telegram", "to": "7", "threadId": 3});
    let asked = json!({"note": "please", "sessionKey": "main", "deliveryContext": chat});
    let run = call(&mut client, "update.run", asked).await;
    assert_eq!((&run["ok"], &run["result"]["status"]), (&json!(false), &json!("skipped")));
    assert!(
        run["result"]["reason"].as_str().unwrap().starts_with("clawgate does not update itself")
    );
    assert_eq!((&run["restart"], &run["result"]["steps"]), (&Value::Null, &json!([])));
    let status = call(&mut client, "update.status", json!({})).await;
    assert_eq!(status["sentinel"], run["sentinel"]["payload"]);
    assert_eq!(
        (&status["sentinel"]["kind"], &status["sentinel"]["message"]),
        (&json!("update"), &json!("please"))
    );
    assert_eq!(
        (&status["sentinel"]["sessionKey"], &status["sentinel"]["deliveryContext"]),
        (&json!("agent:main:main"), &chat)
    );
}

#[tokio::test]
async fn the_gateway_tells_who_it_is_after_a_kill_as_before() {
    let mut gateway = gateway(json!({})).await;
    let before = call(&mut admin(&gateway).await, "gateway.identity.get", json!({})).await;
    assert_eq!(before["deviceId"].as_str().unwrap().len(), 64);
    gateway.restart().await;
    let after = call(&mut admin(&gateway).await, "gateway.identity.get", json!({})).await;
    assert_eq!(after, before);
}

const DIARY: &str = "# Dream Diary\n\n<!-- openclaw:dreaming:diary:start -->\n---\n\n*April 5*\n\n\
    A dream.\n\n---\n\n*April 6*\n\n<!-- openclaw:dreaming:backfill-entry day=2026-04-06 -->\n\n\
    What Happened\n\n---\n\n*April 5*\n\nA dream.\n\n<!-- openclaw:dreaming:diary:end -->\n";

#[tokio::test]
async fn what_dreams_have_left_is_counted_and_tidied_up_and_nothing_is_dreamt() {
    let gateway = gateway(json!({})).await;
    let workspace = gateway.workspace();
    let mut client = admin(&gateway).await;
    let empty = call(&mut client, "doctor.memory.dreamDiary", json!({})).await;
    assert_eq!(empty, json!({"agentId": "main", "found": false, "path": "DREAMS.md"}));
    let dreams = workspace.join("memory/.dreams");
    fs::create_dir_all(dreams.join("session-corpus")).unwrap();
    fs::write(workspace.join("DREAMS.md"), DIARY).unwrap();
    fs::write(workspace.join("memory/2026-04-06.md"), "a day\n").unwrap();
    let entries = json!({"version": 1, "entries": {
        "a": {"key": "a", "path": "memory/2026-04-06.md", "snippet": "a day", "recallCount": 3,
            "dailyCount": 1, "groundedCount": 0, "lastRecalledAt": "2026-04-07T00:00:00Z"},
        "b": {"key": "b", "recallCount": 0, "dailyCount": 0, "groundedCount": 2},
        "c": {"key": "c", "recallCount": 9, "promotedAt": "2026-04-08T00:00:00Z"},
    }});
    let recalled = dreams.join("short-term-recall.json");
    fs::write(&recalled, entries.to_string()).unwrap();

    let status = call(&mut client, "doctor.memory.status", json!({})).await;
    let dreaming = &status["dreaming"];
    let count = |name: &str| dreaming[name].as_u64().unwrap();
    assert_eq!(
        (count("shortTermCount"), count("promotedTotal"), count("promotedToday")),
        (2, 1, 0)
    );
    assert_eq!((count("recallSignalCount"), count("totalSignalCount")), (3, 6));
    assert_eq!(dreaming["signalEntries"][0]["key"], "a");
    assert_eq!((&dreaming["enabled"], &dreaming["offered"]), (&json!(false), &json!(false)));
    assert!(status["memory"]["files"].as_u64().unwrap() >= 1, "{status}");

    let diary = call(&mut client, "doctor.memory.dreamDiary", json!({})).await;
    assert_eq!(diary["content"], DIARY);
    let refused = refusal(&mut client, "doctor.memory.backfillDreamDiary", json!({})).await;
    assert!(refused.contains("does not dream"), "{refused}");
    let reset = call(&mut client, "doctor.memory.resetDreamDiary", json!({})).await;
    assert_eq!((&reset["found"], &reset["removedEntries"]), (&json!(true), &json!(1)));
    let dedupe = call(&mut client, "doctor.memory.dedupeDreamDiary", json!({})).await;
    assert_eq!((&dedupe["removedEntries"], &dedupe["keptEntries"]), (&json!(1), &json!(1)));
    let text = fs::read_to_string(workspace.join("DREAMS.md")).unwrap();
    assert_eq!((text.matches("A dream.").count(), text.contains("What Happened")), (1, false));
    let grounded = call(&mut client, "doctor.memory.resetGroundedShortTerm", json!({})).await;
    assert_eq!(grounded["removedShortTermEntries"], 1);
    let left: Value = serde_json::from_str(&fs::read_to_string(&recalled).unwrap()).unwrap();
    assert_eq!(left["entries"].as_object().unwrap().len(), 2);
    let harness = call(&mut client, "doctor.memory.remHarness", json!({})).await;
    assert_eq!(
        (&harness["rem"]["skipped"], &harness["rem"]["sourceEntryCount"]),
        (&json!(true), &json!(1))
    );
    let repaired = call(&mut client, "doctor.memory.repairDreamingArtifacts", json!({})).await;
    assert_eq!(
        (&repaired["changed"], &repaired["archivedSessionCorpus"]),
        (&json!(true), &json!(true))
    );
    let archive = std::path::Path::new(repaired["archiveDir"].as_str().unwrap());
    assert!(archive.join("session-corpus").is_dir() && !dreams.join("session-corpus").exists());

    // What leads out of the workspace, and what is no list, is left alone.
    fs::write(gateway.root().join("outside"), "secret").unwrap();
    fs::remove_file(workspace.join("DREAMS.md")).unwrap();
    symlink(gateway.root().join("outside"), workspace.join("DREAMS.md")).unwrap();
    let refused = refusal(&mut client, "doctor.memory.dreamDiary", json!({})).await;
    assert!(!refused.contains("secret"), "{refused}");
    fs::write(&recalled, "no list").unwrap();
    let refused = refusal(&mut client, "doctor.memory.resetGroundedShortTerm", json!({})).await;
    assert!(refused.contains("it is left as it is"), "{refused}");
    assert_eq!(fs::read_to_string(&recalled).unwrap(), "no list");
}

#[tokio::test]
async fn each_phase_of_a_start_is_one_line_with_how_long_it_took() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let told = || {
        let log = gateway.stderr();
        let lines = log.lines().filter(|line| line.contains("a phase of the start is over"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let all = ["address", "certificate", "secrets", "state", "recovery", "services"];
    until("the last phase", async || (told().len() >= all.len()).then_some(())).await;
    let told = told();
    assert_eq!(told.len(), all.len(), "{told:#?}");
    for (line, phase) in told.iter().zip(all) {
        let (_, took) = line.split_once(&format!("phase=\"{phase}\" took=")).expect(line);
        assert!(took.starts_with(|c: char| c.is_ascii_digit()), "{line}");
    }
}
