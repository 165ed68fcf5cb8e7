//! Old sessions and put-away transcripts: when they go, and which stay.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::stage::{Api, admin, ask, call, deltas, end_of, scripted, start, until};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient, default_config, now_ms};

const DAY: i64 = 24 * 3_600_000;

/// An agent's sessions: key, age in days, bytes of the transcript (none: it is
/// gone).
type Sessions<'a> = &'a [(&'a str, i64, Option<usize>)];

fn write(state: &Path, agent: &str, sessions: Sessions<'_>) {
    let folder = state.join("agents").join(agent).join("sessions");
    fs::create_dir_all(&folder).unwrap();
    let mut index = Map::new();
    for (number, (key, age, bytes)) in sessions.iter().enumerate() {
        let id = format!("s-{agent}-{number}");
        let entry = json!({"sessionId": id, "updatedAt": now_ms() - age * DAY});
        index.insert(format!("agent:{agent}:{key}"), entry);
        if let Some(bytes) = bytes {
            let line = json!({"role": "user", "content": "x".repeat(*bytes), "timestamp": 1});
            fs::write(folder.join(format!("{id}.jsonl")), format!("{line}\n")).unwrap();
        }
    }
    fs::write(folder.join("sessions.json"), Value::Object(index).to_string()).unwrap();
}

fn folder(gateway: &Gateway) -> PathBuf {
    gateway.state_dir().join("agents/main/sessions")
}

fn files(gateway: &Gateway, part: &str) -> Vec<String> {
    let names = fs::read_dir(folder(gateway)).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.contains(part)).collect();
    names.sort();
    names
}

async fn gateway(maintenance: Value, prepare: impl FnOnce(&Path)) -> (Gateway, MockProvider) {
    let session = json!({"maintenance": maintenance});
    gateway_of(session, prepare).await
}

async fn gateway_of(session: Value, prepare: impl FnOnce(&Path)) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = default_config(mock.address());
    config["session"] = session;
    let root = TempDir::with_prefix("clawgate-test-").unwrap();
    prepare(&root.path().join("state"));
    let options = GatewayOptions::with_config(config);
    (Gateway::start_in(root, options).await.unwrap(), mock)
}

async fn keys(client: &mut WsClient) -> Vec<String> {
    let list = call(client, "sessions.list", json!({})).await;
    let rows = list["sessions"].as_array().unwrap().iter();
    let mut keys: Vec<_> = rows.map(|row| row["key"].as_str().unwrap().to_owned()).collect();
    keys.sort();
    keys
}

#[tokio::test]
async fn at_the_start_old_sessions_are_put_away_and_what_was_put_away_long_ago_goes() {
    let old = "s-x.jsonl.deleted.2020-01-01T00-00-00.000Z";
    let maintenance = json!({"pruneAfter": "10d", "resetArchiveRetention": "10d"});
    let (gateway, _mock) = gateway(maintenance, |state| {
        let sessions: Sessions<'_> = &[
            ("main", 99, Some(1)),
            ("fresh", 9, Some(1)),
            ("stale", 11, Some(1)),
            ("telegram:group:7", 99, Some(1)),
            ("subagent:7", 99, Some(1)),
        ];
        write(state, "main", sessions);
        let folder = state.join("agents/main/sessions");
        fs::write(folder.join(old), "x").unwrap();
        fs::write(folder.join("s-y.jsonl.reset.2999-01-01T00-00-00.000Z"), "x").unwrap();
        fs::write(folder.join("s-orphan.jsonl"), "x").unwrap();
    })
    .await;
    until("the old archive going", async || (files(&gateway, "s-x").is_empty()).then_some(()))
        .await;
    let mut client = admin(&gateway).await;
    let expected = ["agent:main:fresh", "agent:main:main", "agent:main:telegram:group:7"];
    assert_eq!(keys(&mut client).await, expected);
    assert_eq!(files(&gateway, ".deleted.").len(), 2, "{:?}", files(&gateway, ""));
    assert_eq!(files(&gateway, "s-main-2.jsonl.deleted.").len(), 1);
    assert_eq!(files(&gateway, "s-y").len(), 1);
    assert_eq!(files(&gateway, "s-orphan.jsonl"), ["s-orphan.jsonl"]);
}

#[tokio::test]
async fn without_bounds_in_the_config_nothing_ever_goes() {
    let archive = "s-x.jsonl.reset.2020-01-01T00-00-00.000Z";
    let (gateway, _mock) = gateway_of(json!({}), |state| {
        let names: Vec<_> = (0..600).map(|number| format!("old-{number:03}")).collect();
        let sessions: Vec<_> = names.iter().map(|name| (name.as_str(), 400, Some(1))).collect();
        write(state, "main", &sessions);
        let folder = state.join("agents/main/sessions");
        fs::write(folder.join(archive), "x").unwrap();
        // What a kill left half written is no conversation.
        write_old(&folder.join(".clawgate-aBcDeF0123456789"));
        fs::write(folder.join(".clawgate-young00000000000"), "x").unwrap();
    })
    .await;
    let mut client = admin(&gateway).await;
    // What the start does by itself, and its answer.
    let done = call(&mut client, "sessions.cleanup", json!({"enforce": true})).await;
    assert_eq!((&done["beforeCount"], &done["afterCount"]), (&json!(600), &json!(600)), "{done}");
    assert_eq!((&done["wouldMutate"], &done["pruned"]), (&json!(false), &json!(0)));
    assert_eq!(files(&gateway, ".clawgate-"), [".clawgate-young00000000000"]);
    let expected = files(&gateway, ".jsonl");
    assert_eq!(expected.len(), 601);
    assert!(expected.contains(&archive.to_owned()));
}

/// Writes a file that was changed long ago.
fn write_old(path: &Path) {
    fs::write(path, "x").unwrap();
    let long_ago = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    fs::File::options().append(true).open(path).unwrap().set_modified(long_ago).unwrap();
}

/// Adds checkpoints to a session in the index that is written already; they go
/// back to these files.
fn go_back(state: &Path, key: &str, names: &[&str]) {
    let path = state.join("agents/main/sessions/sessions.json");
    let mut index: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let checkpoint = |name: &&str| {
        json!({"checkpointId": name, "sessionKey": key, "sessionId": "s", "createdAt": 1,
            "reason": "manual", "preCompaction": {"sessionId": "s", "sessionFile": name},
            "postCompaction": {"sessionId": "s"}})
    };
    let checkpoints: Vec<_> = names.iter().map(checkpoint).collect();
    index[key]["compactionCheckpoints"] = checkpoints.into();
    fs::write(path, index.to_string()).unwrap();
}

#[tokio::test]
async fn what_a_checkpoint_goes_back_to_stays_whatever_goes_around_it() {
    let named = ["s-was.jsonl", "s-main-1.jsonl", "s-was.jsonl.bak.2020-01-01T00-00-00.000Z"];
    let maintenance = json!({"mode": "warn", "pruneAfter": "10d", "maxEntries": 2,
        "resetArchiveRetention": "1d", "maxDiskBytes": 1, "highWaterBytes": 1});
    let (gateway, _mock) = gateway(maintenance, |state| {
        let sessions: Sessions<'_> = &[
            ("main", 1, Some(10)),
            ("stale", 20, Some(10)),
            ("capped", 2, Some(10)),
            ("gone", 1, None),
            ("lone", 1, None),
        ];
        write(state, "main", sessions);
        let folder = state.join("agents/main/sessions");
        let other = "s-other.jsonl.bak.2020-01-01T00-00-00.000Z";
        for name in ["s-was.jsonl", named[2], "s-orphan.jsonl", other, "s-lone.jsonl"] {
            write_old(&folder.join(name));
        }
        go_back(state, "agent:main:main", &named);
        go_back(state, "agent:main:lone", &["/elsewhere/s-lone.jsonl"]);
    })
    .await;
    let mut client = admin(&gateway).await;
    let params = json!({"enforce": true, "fixMissing": true});
    let done = call(&mut client, "sessions.cleanup", params).await;
    assert_eq!((&done["missing"], &done["pruned"]), (&json!(1), &json!(1)), "{done}");
    assert_eq!(done["capped"], 1);
    assert_eq!(keys(&mut client).await, ["agent:main:lone", "agent:main:main"]);
    let mut kept = vec!["s-lone.jsonl", "s-main-0.jsonl"];
    kept.extend(named);
    kept.sort_unstable();
    assert_eq!(files(&gateway, ".jsonl"), kept);
}

#[tokio::test]
async fn what_was_cut_off_under_a_checkpoint_stays_though_a_kill_kept_it_from_being_noted() {
    let cut_off = "s-main-0.jsonl.bak.2020-01-01T00-00-00.000Z";
    let foreign = "s-main-1.jsonl.bak.2020-01-01T00-00-00.000Z";
    let maintenance = json!({"resetArchiveRetention": "1d", "maxDiskBytes": 1,
        "highWaterBytes": 1});
    let (gateway, _mock) = gateway(maintenance, |state| {
        write(state, "main", &[("main", 1, Some(10)), ("other", 1, Some(10))]);
        for name in [cut_off, foreign] {
            write_old(&state.join("agents/main/sessions").join(name));
        }
        go_back(state, "agent:main:main", &["s-main-0.jsonl"]);
    })
    .await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.cleanup", json!({"enforce": true})).await;
    assert_eq!(files(&gateway, ".bak."), [cut_off]);
}

#[tokio::test]
async fn in_mode_warn_nothing_goes_until_a_cleanup_enforces_it() {
    let (gateway, _mock) = gateway(json!({"mode": "warn", "pruneAfter": "10d"}), |state| {
        write(state, "main", &[("stale", 11, Some(1)), ("fresh", 1, Some(1))]);
    })
    .await;
    let warned = || gateway.stderr().contains("because its mode is warn");
    until("the warning", async || warned().then_some(())).await;
    let mut client = admin(&gateway).await;
    let told = call(&mut client, "sessions.cleanup", json!({})).await;
    let path = folder(&gateway).join("sessions.json");
    let expected = json!({"agentId": "main", "storePath": path, "mode": "warn", "dryRun": false,
        "beforeCount": 2, "afterCount": 1, "missing": 0, "pruned": 1, "capped": 0,
        "diskBudget": null, "wouldMutate": true});
    assert_eq!(told, expected);
    assert_eq!(keys(&mut client).await.len(), 2);
    let params = json!({"enforce": true});
    let done = call(&mut client, "sessions.cleanup", params.clone()).await;
    assert_eq!((&done["mode"], &done["applied"]), (&json!("enforce"), &json!(true)));
    assert_eq!((&done["pruned"], &done["appliedCount"]), (&json!(1), &json!(1)));
    assert_eq!(keys(&mut client).await, ["agent:main:fresh"]);
    assert_eq!(files(&gateway, "s-main-0.jsonl.deleted.").len(), 1);
    let again = call(&mut client, "sessions.cleanup", params).await;
    assert_eq!((&again["beforeCount"], &again["wouldMutate"]), (&json!(1), &json!(false)));
}

#[tokio::test]
async fn above_the_cap_the_oldest_go_but_not_those_that_somebody_is_in() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "busy", "@mock stream n=400 delay=50", "run-busy").await;
    deltas(&client, "run-busy", 1).await;
    for session in ["one", "two", "three", "four", "main"] {
        ask(&mut client, session, "@mock text text=\"well\"", &format!("run-{session}")).await;
    }
    let mut config: Value =
        serde_json::from_str(&fs::read_to_string(gateway.config_path()).unwrap()).unwrap();
    config["session"] = json!({"maintenance": {"mode": "warn", "maxEntries": 4}});
    gateway.kill9();
    fs::write(gateway.config_path(), config.to_string()).unwrap();
    gateway.restart().await;
    let mut client = admin(&gateway).await;
    call(&mut client, "sessions.subscribe", json!({})).await;
    start(&mut client, "busy", "@mock stream n=100 delay=50", "run-again").await;
    deltas(&client, "run-again", 1).await;
    let params = json!({"enforce": true, "activeKey": "one"});
    let done = call(&mut client, "sessions.cleanup", params).await;
    assert_eq!((&done["beforeCount"], &done["capped"]), (&json!(6), &json!(2)), "{done}");
    let expected = ["agent:main:busy", "agent:main:four", "agent:main:main", "agent:main:one"];
    assert_eq!(keys(&mut client).await, expected);
    let gone: Vec<_> = client
        .frames()
        .into_iter()
        .filter(|frame| frame["payload"]["reason"] == "delete")
        .map(|frame| frame["payload"]["sessionKey"].clone())
        .collect();
    assert_eq!(gone, [json!("agent:main:two"), json!("agent:main:three")]);
    call(&mut client, "chat.abort", json!({"sessionKey": "busy"})).await;
    end_of(&client, "run-again").await;
}

#[tokio::test]
async fn a_full_disk_budget_takes_archives_first_then_the_oldest_sessions() {
    let maintenance = json!({"mode": "warn", "maxDiskBytes": "12kb", "highWaterBytes": "8kb"});
    let (gateway, _mock) = gateway(maintenance, |state| {
        let sessions: Sessions<'_> =
            &[("main", 9, Some(3000)), ("old", 8, Some(3000)), ("new", 1, Some(3000))];
        write(state, "main", sessions);
        let folder = state.join("agents/main/sessions");
        for day in 1..=2 {
            let name = format!("s-y.jsonl.reset.2020-01-0{day}T00-00-00.000Z");
            fs::write(folder.join(name), "x".repeat(2000)).unwrap();
        }
    })
    .await;
    let mut client = admin(&gateway).await;
    let told = call(&mut client, "sessions.cleanup", json!({})).await;
    let done = call(&mut client, "sessions.cleanup", json!({"enforce": true})).await;
    assert_eq!(told["diskBudget"], done["diskBudget"], "what it warned of is what it did");
    let budget = &done["diskBudget"];
    assert_eq!((&budget["removedFiles"], &budget["removedEntries"]), (&json!(3), &json!(1)));
    assert_eq!((&budget["maxBytes"], &budget["overBudget"]), (&json!(12_288), &json!(false)));
    assert!(budget["totalBytesAfter"].as_u64().unwrap() <= 8192, "{budget}");
    assert_eq!(keys(&mut client).await, ["agent:main:main", "agent:main:new"]);
    assert_eq!(files(&gateway, ".jsonl"), ["s-main-0.jsonl", "s-main-2.jsonl"]);
}

#[tokio::test]
async fn sessions_without_transcripts_go_when_asked_for_and_agents_are_told_apart() {
    let (gateway, _mock) = gateway(json!({}), |state| {
        write(state, "main", &[("gone", 1, None), ("there", 1, Some(1))]);
        write(state, "other", &[("gone", 1, None)]);
    })
    .await;
    let mut client = admin(&gateway).await;
    let kept = call(&mut client, "sessions.cleanup", json!({"allAgents": true})).await;
    assert_eq!(kept["allAgents"], true);
    let counts: Vec<_> = kept["stores"].as_array().unwrap().iter().collect();
    assert_eq!((&counts[0]["agentId"], &counts[1]["agentId"]), (&json!("main"), &json!("other")));
    assert_eq!((&counts[0]["afterCount"], &counts[1]["afterCount"]), (&json!(2), &json!(1)));
    let done = call(&mut client, "sessions.cleanup", json!({"fixMissing": true})).await;
    assert_eq!((&done["missing"], &done["afterCount"]), (&json!(1), &json!(1)));
    assert_eq!(keys(&mut client).await, ["agent:main:there", "agent:other:gone"]);
    let answer = client.request("sessions.cleanup", json!({"agent": "nobody"})).await;
    assert_eq!(answer["error"]["message"], "unknown agent id \"nobody\"");
}
