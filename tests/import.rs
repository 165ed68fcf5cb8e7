//! `clawgate import`: the real binary on a state directory like OpenClaw's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::SystemTime;

use serde_json::{Value, json};
use support::client::ALL_SCOPES;
use support::{Gateway, GatewayOptions, WsClient, program};
use tempfile::TempDir;

/// A home with an OpenClaw state directory, and a place for ours.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(TempDir::with_prefix("clawgate-import-").unwrap());
        fs::create_dir_all(home.0.path().join("state")).unwrap();
        home
    }

    fn source(&self) -> PathBuf {
        self.0.path().join("home/.openclaw")
    }

    fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.source().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn import(&self, args: &[&str]) -> Output {
        Command::new(program())
            .arg("import")
            .args(args)
            .env_clear()
            .env("HOME", self.0.path().join("home"))
            .env("OPENCLAW_STATE_DIR", self.state())
            .output()
            .unwrap()
    }

    /// Exit code and the JSON report.
    fn report(&self, args: &[&str]) -> (Option<i32>, Value) {
        let output = self.import(&[args, &["--json"]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        let report = serde_json::from_str(&text).unwrap_or_else(|error| {
            panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr))
        });
        (output.status.code(), report)
    }
}

fn message(id: &str, role: &str, text: &str) -> String {
    let message = json!({"role": role, "content": [{"type": "text", "text": text}],
        "api": "x", "provider": "mock", "model": "mock-1", "usage": {}, "stopReason": "stop",
        "timestamp": 1});
    json!({"type": "message", "id": id, "parentId": null,
        "timestamp": "2026-11-22T03:35:28.398Z", "message": message})
    .to_string()
}

fn transcript(id: &str, texts: &[&str]) -> String {
    let header = json!({"type": "session", "version": 3, "id": id,
        "timestamp": "2026-11-22T03:35:28.398Z", "cwd": "/w"});
    let mut lines = vec![header.to_string()];
    lines.extend(
        texts.iter().enumerate().map(|(at, text)| message(&format!("{at:08x}"), "user", text)),
    );
    lines.join("\n") + "\n"
}

/// Two agents with everything that an OpenClaw leaves in their folders.
fn openclaw(home: &Home) {
    let now = support::now_ms();
    let index = json!({
        "agent:main:main": {"sessionId": "s-main", "updatedAt": now, "label": "Mine",
            "sessionStartedAt": now, "thinkingLevel": "low", "status": "running",
            "sessionFile": "/elsewhere/agents/main/sessions/s-main.jsonl",
            "skillsSnapshot": {"prompt": "…"}},
        "agent:main:work": {"sessionId": "s-work", "updatedAt": now, "sessionStartedAt": now},
    });
    home.write("agents/main/sessions/sessions.json", &index.to_string());
    home.write("agents/main/sessions/s-main.jsonl", &transcript("s-main", &["one", "two"]));
    home.write("agents/main/sessions/s-work.jsonl", &transcript("s-work", &["three"]));
    let put_away = "agents/main/sessions/s-old.jsonl.reset.2026-11-22T03-46-28.004Z";
    home.write(put_away, &transcript("s-old", &["four"]));
    home.write("agents/main/sessions/s-main.trajectory.jsonl", "{}\n");
    home.write("agents/main/sessions/s-main.jsonl.lock", "{}");
    let other = json!({"agent:other:main": {"sessionId": "s-other", "updatedAt": now}});
    home.write("agents/other/sessions/sessions.json", &other.to_string());
    home.write("agents/other/sessions/s-other.jsonl", &transcript("s-other", &["five"]));
    home.write("openclaw.json", "{}");
}

/// Every file below a folder: its bytes, mode and time of change.
fn tree(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, u32, SystemTime)> {
    let (mut found, mut waiting) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(path) = waiting.pop() {
        let about = fs::symlink_metadata(&path).unwrap();
        let bytes = if about.is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            Vec::new()
        } else {
            fs::read(&path).unwrap_or_default()
        };
        found.insert(path, (bytes, about.permissions().mode(), about.modified().unwrap()));
    }
    found
}

async fn gateway(home: Home) -> (Gateway, WsClient) {
    let config = json!({"gateway": {"auth": {"mode": "token", "token": "ref-secret-0001"}},
        "agents": {"list": [{"id": "main"}, {"id": "other"}]}});
    let options = GatewayOptions::with_config(config);
    let gateway = Gateway::start_in(home.0, options).await.unwrap();
    let mut client = gateway.open().await;
    let hello = client.connect_standard(&ALL_SCOPES).await;
    assert_eq!(hello["ok"], true, "{hello}");
    (gateway, client)
}

async fn texts(client: &mut WsClient, session: &str) -> Vec<String> {
    let page = client.request("chat.history", json!({"sessionKey": session})).await;
    let messages = page["payload"]["messages"].as_array().unwrap().clone();
    messages.iter().map(|it| it["content"][0]["text"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn everything_is_taken_over_nothing_is_changed_at_the_source_and_again_adds_nothing() {
    let home = Home::new();
    openclaw(&home);
    let before = tree(&home.source());
    let (code, report) = home.report(&[]);
    assert_eq!(code, Some(0), "{report}");
    let main = &report["agents"][0];
    let expected = json!({"agentId": "main", "sessions": 2, "files": 3, "messages": 4,
        "bytes": main["bytes"], "knownSessions": 0, "knownFiles": 0, "leftOut": []});
    assert_eq!(main, &expected);
    assert_eq!(report["agents"][1]["sessions"], 1);
    assert!(tree(&home.source()) == before, "the source was changed");

    let ours = tree(&home.state().join("agents"));
    let (code, again) = home.report(&[]);
    assert_eq!(code, Some(0), "{again}");
    let expected = json!({"agentId": "main", "sessions": 0, "files": 0, "messages": 0,
        "bytes": 0, "knownSessions": 2, "knownFiles": 3, "leftOut": []});
    assert_eq!(again["agents"][0], expected);
    assert!(tree(&home.state().join("agents")) == ours, "the second import changed something");

    let copied = home.state().join("agents/main/sessions/s-main.jsonl");
    let original = home.source().join("agents/main/sessions/s-main.jsonl");
    assert_eq!(fs::read(&copied).unwrap(), fs::read(original).unwrap());
    assert_eq!(fs::metadata(&copied).unwrap().permissions().mode() & 0o777, 0o600);
    let (_gateway, mut client) = gateway(home).await;
    assert_eq!(texts(&mut client, "main").await, ["one", "two"]);
    assert_eq!(texts(&mut client, "agent:other:main").await, ["five"]);
    let row = client.request("sessions.describe", json!({"key": "main"})).await;
    let row = &row["payload"]["session"];
    assert_eq!((&row["label"], &row["thinkingLevel"]), (&json!("Mine"), &json!("low")));
    assert_eq!(row["status"], "failed", "what ran there runs no more");
}

#[tokio::test]
async fn an_import_that_was_cut_off_is_gone_on_with_and_lists_nothing_twice() {
    let home = Home::new();
    openclaw(&home);
    // As a kill leaves it before the index is written.
    let (from, to) = ("agents/main/sessions", home.state().join("agents/main/sessions"));
    fs::create_dir_all(&to).unwrap();
    for name in ["s-main.jsonl", "s-work.jsonl"] {
        fs::copy(home.source().join(from).join(name), to.join(name)).unwrap();
    }
    let (code, report) = home.report(&[]);
    assert_eq!(code, Some(0), "{report}");
    let main = &report["agents"][0];
    assert_eq!((&main["sessions"], &main["knownFiles"]), (&json!(2), &json!(2)), "{main}");
    let (_gateway, mut client) = gateway(home).await;
    let list = client.request("sessions.list", json!({"agentId": "main"})).await;
    let rows = list["payload"]["sessions"].as_array().unwrap();
    let mut keys: Vec<_> = rows.iter().map(|row| row["key"].as_str().unwrap()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["agent:main:main", "agent:main:work"]);
    assert_eq!(texts(&mut client, "main").await, ["one", "two"]);
}

#[test]
fn what_is_no_matter_of_an_import_is_named_with_what_helps() {
    let home = Home::new();
    openclaw(&home);
    let others = [
        "agents/main/agent/auth-profiles.json",
        "credentials/oauth.json",
        "credentials/telegram-allowFrom.json",
        "cron/jobs.json.bak",
        "devices/pending.json",
        "identity/device.json",
        "media/inbound/a.png",
        "nodes/paired.json",
        "openclaw.json.last-good",
        "settings/tts.json",
        "unheard-of",
    ];
    for path in others {
        home.write(path, "{}");
    }
    let (code, report) = home.report(&[]);
    assert_eq!(code, Some(0), "{report}");
    let source = fs::canonicalize(home.source()).unwrap();
    let told = report["notTaken"].as_array().unwrap().iter().map(|one| {
        assert!(one["why"].as_str().is_some_and(|why| !why.is_empty()), "{one}");
        let path = Path::new(one["what"].as_str().unwrap());
        path.strip_prefix(&source).unwrap().to_str().unwrap().to_owned()
    });
    let expected = [
        "agents/main/agent",
        "agents/main/sessions/*.trajectory*",
        "credentials/oauth.json",
        "cron/jobs.json.bak",
        "devices/pending.json",
        "identity",
        "media",
        "nodes",
        "openclaw.json",
        "openclaw.json.last-good",
        "settings",
        "unheard-of",
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    let text = String::from_utf8(home.import(&[]).stdout).unwrap();
    let head = "\nNot part of an import, so only there:\n  agents/main/agent: ";
    assert!(text.contains(head), "{text}");
    assert!(text.contains("\n  openclaw.json: the settings, "), "{text}");
    // The settings of OpenClaw hold where its directory is used in place.
    fs::remove_dir_all(home.state()).unwrap();
    fs::rename(home.source(), home.state()).unwrap();
    let (_, report) = home.report(&["--from", home.state().to_str().unwrap()]);
    assert_eq!(report["notTaken"], json!([]));
}

#[test]
fn a_dry_run_tells_the_same_and_makes_nothing() {
    let home = Home::new();
    openclaw(&home);
    let before = tree(home.0.path());
    let (code, told) = home.report(&["--dry-run"]);
    assert_eq!((code, &told["dryRun"]), (Some(0), &json!(true)));
    assert!(tree(home.0.path()) == before, "a dry run changed something");
    let (_, mut done) = home.report(&[]);
    done["dryRun"] = json!(true);
    assert_eq!(told, done);
}

#[tokio::test]
async fn a_key_and_a_label_that_are_taken_keep_what_they_have_and_nothing_is_overwritten() {
    let home = Home::new();
    openclaw(&home);
    home.import(&[]);
    // The original went on: a reset, a second label, one more message.
    let now = support::now_ms();
    let index = json!({
        "agent:main:main": {"sessionId": "s-new", "updatedAt": now, "sessionStartedAt": now},
        "agent:main:copy": {"sessionId": "s-copy", "updatedAt": now, "label": "Mine"},
        "agent:main:work": {"sessionId": "s-work", "updatedAt": now},
    });
    home.write("agents/main/sessions/sessions.json", &index.to_string());
    home.write("agents/main/sessions/s-new.jsonl", &transcript("s-new", &["newer"]));
    home.write("agents/main/sessions/s-work.jsonl", &transcript("s-work", &["three", "more"]));
    home.write("agents/other/sessions/s-other.jsonl", &transcript("s-other", &["changed"]));
    // Labels of another agent are not in the way.
    let third =
        json!({"agent:third:x": {"sessionId": "s-third", "updatedAt": now, "label": "Mine"}});
    home.write("agents/third/sessions/sessions.json", &third.to_string());
    home.write("agents/third/sessions/s-third.jsonl", &transcript("s-third", &["labelled"]));
    let ours = home.state().join("agents/main/sessions/s-work.jsonl");
    let kept = fs::read(&ours).unwrap();
    let (code, report) = home.report(&[]);
    assert_eq!(code, Some(3));
    let said: Vec<_> = report["agents"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|agent| agent["leftOut"].as_array().unwrap())
        .map(|one| {
            let what = one["what"].as_str().unwrap();
            (what.rsplit('/').next().unwrap(), one["why"].as_str().unwrap())
        })
        .collect();
    let expected = [
        ("s-work.jsonl", "the file here is an earlier state of it; that one stays"),
        ("agent:main:copy", "without its label, which is taken: Mine"),
        ("agent:main:main", "is another conversation here; this one is now agent:main:s-new"),
        ("agent:main:work", "its transcript was not taken over"),
        ("s-other.jsonl", "another file has its name here; that one stays"),
        ("agent:other:main", "its transcript was not taken over"),
    ];
    assert_eq!(said, expected);
    assert_eq!(fs::read(&ours).unwrap(), kept);
    let (_gateway, mut client) = gateway(home).await;
    assert_eq!(texts(&mut client, "main").await, ["one", "two"]);
    assert_eq!(texts(&mut client, "agent:main:s-new").await, ["newer"]);
    assert_eq!(texts(&mut client, "work").await, ["three"]);
}

#[tokio::test]
async fn broken_files_are_told_and_the_rest_is_taken_over() {
    let home = Home::new();
    openclaw(&home);
    let torn = transcript("s-work", &["three"]) + "{\"type\":\"mess\n\u{0}\n" + "{\"torn";
    home.write("agents/main/sessions/s-work.jsonl", &torn);
    home.write("agents/broken/sessions/sessions.json", "{ no json");
    home.write("agents/broken/sessions/s-lost.jsonl", &transcript("s-lost", &["found"]));
    home.write("agents/empty/sessions/sessions.json", "{\"agent:empty:x\": {\"updatedAt\": 1}}");
    home.write("agents/Not An Agent/sessions/s.jsonl", "");
    fs::create_dir_all(home.source().join("agents/main/sessions/s-dir.jsonl")).unwrap();
    let secret = home.state().join("secret");
    fs::write(&secret, transcript("s-link", &["secret"])).unwrap();
    let folder = home.source().join("agents/linked/sessions");
    home.write("agents/linked/sessions/s-own.jsonl", &transcript("s-own", &["own"]));
    std::os::unix::fs::symlink(&secret, folder.join("s-link.jsonl")).unwrap();
    std::os::unix::fs::symlink("/nowhere/at/all", folder.join("s-nowhere.jsonl")).unwrap();
    let (code, report) = home.report(&[]);
    assert_eq!(code, Some(3), "{report}");
    let of = |agent: &str| {
        let agents = report["agents"].as_array().unwrap();
        agents.iter().find(|it| it["agentId"] == agent).unwrap().clone()
    };
    let whys = |agent: &str| {
        let agent = of(agent);
        let all = agent["leftOut"].as_array().unwrap().iter();
        all.map(|one| one["why"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join("; ")
    };
    assert!(whys("main").contains("3 broken lines in it, kept as they are"), "{}", whys("main"));
    assert!(whys("main").contains("not a file"), "{}", whys("main"));
    assert_eq!(whys("linked").matches("links are not followed").count(), 2, "{}", whys("linked"));
    assert_eq!(of("linked")["sessions"], 1);
    assert!(!home.state().join("agents/linked/sessions/s-link.jsonl").exists());
    assert!(whys("broken").contains("key must be a string"), "{}", whys("broken"));
    assert!(whys("empty").contains("has no session id"), "{}", whys("empty"));
    assert!(report["leftOut"][0]["what"].as_str().unwrap().ends_with("Not An Agent"));
    assert!(whys("broken").contains("mend it or move it away"), "{}", whys("broken"));
    assert_eq!(of("main")["sessions"], 2);
    // Only the index knows under which keys, and which of them count.
    assert_eq!((&of("broken")["sessions"], &of("broken")["files"]), (&json!(0), &json!(1)));
    let copied = fs::read(home.state().join("agents/main/sessions/s-work.jsonl")).unwrap();
    assert_eq!(copied, torn.as_bytes(), "original bytes are kept");
    let mended = json!({"agent:broken:main": {"sessionId": "s-lost", "updatedAt": 1}});
    home.write("agents/broken/sessions/sessions.json", &mended.to_string());
    home.import(&[]);
    let (_gateway, mut client) = gateway(home).await;
    assert_eq!(texts(&mut client, "work").await, ["three"]);
    assert_eq!(texts(&mut client, "agent:broken:main").await, ["found"]);
}

#[tokio::test]
async fn a_key_belongs_to_the_agent_that_it_names_else_to_the_one_in_whose_folder_it_is() {
    let home = Home::new();
    openclaw(&home);
    let other = json!({"main": {"sessionId": "s-other", "updatedAt": 1},
        "global": {"sessionId": "s-global", "updatedAt": 1},
        "agent:main:moved": {"sessionId": "s-moved", "updatedAt": 1},
        "telegram:group:-100": {"sessionId": "s-group", "updatedAt": 1}});
    home.write("agents/other/sessions/sessions.json", &other.to_string());
    home.write("agents/other/sessions/s-group.jsonl", &transcript("s-group", &["eight"]));
    home.write("agents/other/sessions/s-global.jsonl", &transcript("s-global", &["six"]));
    home.write("agents/other/sessions/s-moved.jsonl", &transcript("s-moved", &["seven"]));
    let (code, report) = home.report(&[]);
    assert_eq!(code, Some(3), "{report}");
    let why = "is in the folder of another agent; this one is now agent:other:s-global";
    assert_eq!(report["agents"][1]["leftOut"], json!([{"what": "global", "why": why}]));
    for path in ["agents/other/sessions/s-global.jsonl", "agents/main/sessions/s-moved.jsonl"] {
        assert!(home.state().join(path).exists(), "{path}");
    }
    let (_gateway, mut client) = gateway(home).await;
    for (key, said) in [
        ("main", vec!["one", "two"]),
        ("agent:other:main", vec!["five"]),
        ("agent:other:s-global", vec!["six"]),
        ("agent:main:moved", vec!["seven"]),
        ("agent:other:telegram:group:-100", vec!["eight"]),
    ] {
        assert_eq!(texts(&mut client, key).await, said, "{key}");
    }
    // Its row said nothing of that; OpenClaw reads it off the key as well.
    let asked = json!({"key": "agent:other:telegram:group:-100"});
    let row = client.request("sessions.describe", asked).await;
    assert_eq!(row["payload"]["session"]["channel"], "telegram", "{row}");
}

#[tokio::test]
async fn a_member_that_cannot_be_read_costs_only_itself_and_is_told() {
    let home = Home::new();
    openclaw(&home);
    let index = r#"{"agent:main:main": {"sessionId": "s-main", "updatedAt": 1,
        "label": "Half \ud83e", "fastMode": "auto", "thinkingLevel": "low"}}"#;
    home.write("agents/main/sessions/sessions.json", index);
    let (code, report) = home.report(&[]);
    assert_eq!(code, Some(3), "{report}");
    let left_out = report["agents"][0]["leftOut"].as_array().unwrap();
    let what = left_out[0]["what"].as_str().unwrap();
    assert!(what.ends_with("sessions.json: agent:main:main: fastMode"), "{report}");
    assert_eq!(left_out.len(), 1, "{report}");
    let (_gateway, mut client) = gateway(home).await;
    assert_eq!(texts(&mut client, "main").await, ["one", "two"]);
    let row = client.request("sessions.describe", json!({"key": "main"})).await;
    let row = &row["payload"]["session"];
    assert_eq!(row["label"], "Half \u{fffd}");
    assert_eq!(row["thinkingLevel"], "low");
}

#[tokio::test]
async fn while_a_gateway_runs_on_the_state_nothing_is_imported() {
    let home = Home::new();
    openclaw(&home);
    let root = home.0.path().to_owned();
    let (gateway, _client) = gateway(home).await;
    for args in [&["import"][..], &["import", "--dry-run"]] {
        let output = Command::new(program())
            .args(args)
            .env_clear()
            .env("HOME", root.join("home"))
            .env("OPENCLAW_STATE_DIR", root.join("state"))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).unwrap();
        let pid = gateway.pid().unwrap();
        assert!(said.contains("cannot import") && said.contains(&format!("pid {pid}")), "{said}");
        assert!(said.contains("stop it first"), "{said}");
    }
}

#[test]
fn the_report_for_people_is_a_table_and_wrong_sources_are_told() {
    let home = Home::new();
    openclaw(&home);
    let output = home.import(&["--from", home.source().to_str().unwrap()]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "no bar without a terminal");
    let lines: Vec<_> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert!(text.starts_with("Imported "), "{text}");
    assert_eq!(lines[2][..3], ["agent", "sessions", "messages"]);
    assert_eq!(lines[3][..4], ["main", "2", "4", "3"]);
    assert_eq!(lines[4][..4], ["other", "1", "1", "1"]);

    let nowhere = home.0.path().join("nowhere");
    let output = home.import(&["--from", nowhere.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("cannot import from") && said.contains("No such file"), "{said}");
    let output = home.import(&["--from", home.0.path().to_str().unwrap()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("no OpenClaw state directory"), "{said}");
    assert!(said.contains("name another one"), "{said}");
    // Before there were agents, sessions were at the top.
    let old = home.0.path().join("home/.clawdbot");
    fs::create_dir_all(old.join("sessions")).unwrap();
    let output = home.import(&["--from", old.to_str().unwrap()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("`openclaw doctor --fix`"), "{said}");
    assert_eq!(home.import(&["--to", "x"]).status.code(), Some(2));
    let help = String::from_utf8(home.import(&["--help"]).stdout).unwrap();
    for word in ["--from", "--dry-run", "--json", "Exit codes: 0", "only read"] {
        assert!(help.contains(word), "{word} in {help}");
    }
}

#[tokio::test]
async fn a_state_directory_is_imported_in_place_without_a_copy() {
    let home = Home::new();
    openclaw(&home);
    fs::remove_dir(home.state()).unwrap();
    fs::rename(home.source(), home.state()).unwrap();
    let agents = home.state().join("agents");
    let before = tree(&agents);
    let state = home.state();
    let (code, report) = home.report(&["--from", state.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{report}");
    let main = &report["agents"][0];
    assert_eq!((&main["sessions"], &main["knownFiles"]), (&json!(2), &json!(3)));
    assert!(tree(&agents) == before, "in place, files stay as they are");
    let (_gateway, mut client) = gateway(home).await;
    assert_eq!(texts(&mut client, "main").await, ["one", "two"]);
}

#[tokio::test]
async fn people_whom_channels_let_in_are_taken_over_and_names_are_not() {
    let home = Home::new();
    openclaw(&home);
    let people = json!({"version": 1, "allowFrom": ["7", "@ann"]}).to_string();
    home.write("credentials/telegram-allowFrom.json", &people);
    let (code, report) = home.report(&[]);
    assert_eq!(code, Some(3), "{report}");
    assert_eq!(report["channels"], json!({"people": 1, "knownPeople": 0, "waiting": 0}));
    let left_out = report["leftOut"].to_string();
    assert!(left_out.contains("@ann") && !left_out.contains("\"7\""), "{left_out}");
    let (_, again) = home.report(&[]);
    assert_eq!(again["channels"], json!({"people": 0, "knownPeople": 1, "waiting": 0}));
    home.write("credentials/telegram-work-allowFrom.json", &people);
    for args in [&["--dry-run"][..], &[]] {
        let (_, told) = home.report(args);
        let expected = json!({"people": 1, "knownPeople": 1, "waiting": 0});
        assert_eq!(told["channels"], expected, "{args:?}");
    }
    let (_gateway, mut client) = gateway(home).await;
    let list = client.request("channels.pairing.list", json!({})).await;
    let known = &list["payload"]["people"][0];
    assert_eq!((&known["channel"], &known["person"]), (&json!("telegram"), &json!("7")), "{list}");
}

#[tokio::test]
async fn sessions_and_jobs_that_the_config_there_keeps_elsewhere_are_taken_over() {
    let home = Home::new();
    openclaw(&home);
    let now = support::now_ms();
    let index = json!({"agent:main:six": {"sessionId": "s-six", "updatedAt": now}});
    home.write("../oc/main/sessions.json", &index.to_string());
    home.write("../oc/main/s-six.jsonl", &transcript("s-six", &["six"]));
    let job = json!({"id": "daily", "name": "Daily", "enabled": true, "createdAtMs": 1,
        "schedule": {"kind": "cron", "expr": "0 9 * * *", "tz": "UTC"},
        "sessionTarget": "isolated", "payload": {"kind": "agentTurn", "message": "hello"}});
    home.write("../oc/jobs.json", &json!([job]).to_string());
    let config = json!({"session": {"store": "~/oc/{agentId}/sessions.json"},
        "cron": {"store": "~/oc/jobs.json"}});
    home.write("openclaw.json", &config.to_string());
    let there = home.0.path().join("home");
    let before = tree(&there);
    let (code, report) = home.report(&[]);
    assert_eq!((code, &report["cron"]["jobs"]), (Some(0), &json!(1)), "{report}");
    assert!(tree(&there) == before, "the source was changed");
    let (code, again) = home.report(&[]);
    assert_eq!((code, &again["cron"]["knownJobs"]), (Some(0), &json!(1)), "{again}");
    home.write("openclaw.json", "{ no config");
    let (code, report) = home.report(&["--dry-run"]);
    assert_eq!(code, Some(3), "{report}");
    let why = report["leftOut"][0]["why"].as_str().unwrap();
    assert!(why.ends_with("session.store and cron.store are not known"), "{report}");
    let (_gateway, mut client) = gateway(home).await;
    assert_eq!(texts(&mut client, "agent:main:six").await, ["six"]);
    assert_eq!(texts(&mut client, "main").await, ["one", "two"]);
}

#[test]
fn of_a_folder_that_agents_share_each_gets_what_its_index_lists() {
    let home = Home::new();
    fs::create_dir_all(home.source().join("agents")).unwrap();
    let put_away = "s-six.jsonl.reset.2026-11-22T03-46-28.004Z";
    let saved = "s-seven.checkpoint.one.jsonl";
    for (agent, id) in [("main", "s-six"), ("other", "s-seven")] {
        let key = format!("agent:{agent}:main");
        let index = json!({key: {"sessionId": id, "updatedAt": 1}}).to_string();
        home.write(&format!("../oc/{agent}.json"), &index);
    }
    for (name, id) in [
        ("s-six.jsonl", "s-six"),
        (put_away, "s-six"),
        ("s-seven.jsonl", "s-seven"),
        (saved, "s-seven"),
        ("notes.jsonl", "notes"),
    ] {
        home.write(&format!("../oc/{name}"), &transcript(id, &[id]));
    }
    let config = json!({"agents": {"list": [{"id": "main"}, {"id": "other"}]},
        "session": {"store": "~/oc/{agentId}.json"}});
    home.write("openclaw.json", &config.to_string());
    let (code, report) = home.report(&[]);
    assert_eq!(code, Some(0), "{report}");
    let names = |agent: &str| {
        let folder = home.state().join("agents").join(agent).join("sessions");
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names("main"), ["s-six.jsonl", put_away, "sessions.json"]);
    assert_eq!(names("other"), [saved, "s-seven.jsonl", "sessions.json"]);
    let (code, again) = home.report(&[]);
    assert_eq!((code, &again["agents"][0]["knownFiles"]), (Some(0), &json!(2)), "{again}");
}

#[test]
fn what_was_put_away_in_a_folder_that_agents_share_is_told_until_it_is_here() {
    let home = Home::new();
    fs::create_dir_all(home.source().join("agents")).unwrap();
    for (agent, id) in [("main", "s-six"), ("other", "s-seven")] {
        let key = format!("agent:{agent}:main");
        let index = json!({key: {"sessionId": id, "updatedAt": 1}});
        home.write(&format!("../oc/{agent}.json"), &index.to_string());
        home.write(&format!("../oc/{id}.jsonl"), &transcript(id, &[id]));
    }
    let put_away = ["s-older", "s-old", "s-six"]
        .map(|id| (id, format!("{id}.jsonl.reset.2026-11-22T03-46-28.004Z")));
    for (id, name) in &put_away {
        home.write(&format!("../oc/{name}"), &transcript(id, &[*id]));
    }
    let config = json!({"agents": {"list": [{"id": "main"}, {"id": "other"}]},
        "session": {"store": "~/oc/{agentId}.json"}});
    home.write("openclaw.json", &config.to_string());
    let [(_, older), (_, old), (_, listed)] = &put_away;
    for (args, sessions) in [(&["--dry-run"][..], 1), (&[][..], 1), (&[][..], 0)] {
        let (code, report) = home.report(args);
        assert_eq!((code, &report["agents"][1]["sessions"]), (Some(3), &json!(sessions)));
        let left_out = report["leftOut"].as_array().unwrap();
        assert_eq!(left_out.len(), 1, "{report}");
        assert!(left_out[0]["what"].as_str().unwrap().ends_with("/oc"), "{report}");
        let why = left_out[0]["why"].as_str().unwrap();
        let help = "copy what is wanted into agents/<agent>/sessions of";
        assert!(why.contains(&format!("{old} (2 in all)")) && why.contains(help), "{report}");
    }
    let text = String::from_utf8(home.import(&[]).stdout).unwrap();
    assert!(text.contains("several agents share it") && text.contains(old.as_str()), "{text}");
    let folder = |agent: &str| home.state().join("agents").join(agent).join("sessions");
    assert!(folder("main").join(listed).exists() && !folder("main").join(old).exists());
    for (agent, name) in [("main", old), ("other", older)] {
        fs::copy(home.0.path().join("home/oc").join(name), folder(agent).join(name)).unwrap();
    }
    let (code, report) = home.report(&[]);
    assert_eq!((code, &report["leftOut"]), (Some(0), &json!([])), "{report}");
}

#[tokio::test]
async fn a_transcript_that_an_index_elsewhere_names_is_listed_once_on_a_fresh_database() {
    let home = Home::new();
    fs::create_dir_all(home.source()).unwrap();
    let folder = home.state().join("agents/main/sessions");
    fs::create_dir_all(&folder).unwrap();
    for id in ["s-one", "s-two"] {
        fs::write(folder.join(format!("{id}.jsonl")), transcript(id, &[id])).unwrap();
    }
    let index = json!({"agent:main:main": {"sessionId": "s-one", "updatedAt": 1}});
    home.write("../oc/sessions.json", &index.to_string());
    let config = json!({"session": {"store": "~/oc/sessions.json"}});
    fs::write(home.state().join("openclaw.json"), config.to_string()).unwrap();
    let state = home.state().display().to_string();
    let in_place = ["--from", state.as_str()];
    let dry = ["--from", state.as_str(), "--dry-run"];
    for (args, sessions) in [(&dry[..], 2), (&in_place[..], 2), (&in_place[..], 0)] {
        let (code, report) = home.report(args);
        let agents = report["agents"].as_array().unwrap().iter();
        let found: u64 = agents.map(|agent| agent["sessions"].as_u64().unwrap()).sum();
        assert_eq!((code, found), (Some(0), sessions), "{args:?}: {report}");
    }
    let (_gateway, mut client) = gateway(home).await;
    let list =
        client.request("sessions.list", json!({"agentId": "main", "includeDerivedTitles": true}));
    let list = list.await;
    let rows = list["payload"]["sessions"].as_array().unwrap();
    let mut found: Vec<_> = rows
        .iter()
        .map(|row| (row["key"].as_str().unwrap(), row["derivedTitle"].as_str().unwrap()))
        .collect();
    found.sort_unstable();
    assert_eq!(found, [("agent:main:main", "s-one"), ("agent:main:s-two", "s-two")]);
    assert_eq!(texts(&mut client, "main").await, ["s-one"]);
}

#[test]
fn a_transcript_is_that_of_one_session_here() {
    let home = Home::new();
    openclaw(&home);
    home.import(&[]);
    let index = json!({"agent:main:other": {"sessionId": "s-main", "updatedAt": 1}});
    home.write("agents/main/sessions/sessions.json", &index.to_string());
    let (code, report) = home.report(&[]);
    assert_eq!(code, Some(3), "{report}");
    let why = "its transcript is that of agent:main:main here, which stays the only one";
    let left_out = json!([{"what": "agent:main:other", "why": why}]);
    let main = &report["agents"][0];
    assert_eq!((&main["sessions"], &main["leftOut"]), (&json!(0), &left_out));
}

#[test]
fn a_job_comes_with_its_runs_or_not_at_all_and_a_dry_run_tells_what_would_come() {
    let home = Home::new();
    openclaw(&home);
    home.import(&[]);
    let job = json!({"id": "daily", "name": "Daily", "enabled": true, "createdAtMs": 1,
        "schedule": {"kind": "cron", "expr": "0 9 * * *", "tz": "UTC"},
        "sessionTarget": "isolated", "wakeMode": "now",
        "payload": {"kind": "agentTurn", "message": "hello"}, "state": {}});
    home.write("cron/jobs.json", &json!({"version": 1, "jobs": [job]}).to_string());
    let run = json!({"ts": 9, "jobId": "daily", "action": "finished", "status": "ok"});
    home.write("cron/runs/daily.jsonl", &format!("{run}\n"));

    // Cut off where the runs are written.
    let sql = |text: &str| {
        let database = home.state().join("clawgate.sqlite");
        rusqlite::Connection::open(database).unwrap().execute_batch(text).unwrap();
    };
    sql("CREATE TRIGGER cut BEFORE INSERT ON cron_runs BEGIN SELECT RAISE(ABORT, 'cut'); END");
    let output = home.import(&[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    sql("DROP TRIGGER cut");

    let new = json!({"jobs": 1, "knownJobs": 0, "runs": 1});
    let here = json!({"jobs": 0, "knownJobs": 1, "runs": 0});
    let dry: &[&str] = &["--dry-run"];
    for (args, expected) in [(dry, &new), (&[][..], &new), (dry, &here)] {
        let (code, report) = home.report(args);
        assert_eq!((code, &report["cron"]), (Some(0), expected), "{args:?}: {report}");
    }
}

#[test]
fn jobs_whose_channel_is_not_configured_here_are_named() {
    let home = Home::new();
    let main = json!({"sessionId": "s-main", "updatedAt": 1, "lastChannel": "whatsapp",
        "deliveryContext": {"channel": "whatsapp", "to": "+49"}});
    let index = json!({"agent:main:main": main});
    home.write("agents/main/sessions/sessions.json", &index.to_string());
    home.write("agents/main/sessions/s-main.jsonl", &transcript("s-main", &["one"]));
    let job = |id: &str, kind: &str, more: &Value| {
        let mut job = json!({"id": id, "name": id, "enabled": true,
            "schedule": {"kind": "cron", "expr": "0 9 * * *", "tz": "UTC"},
            "payload": {"kind": kind, "text": "tea", "message": "hello"}});
        job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        job
    };
    let jobs = [
        job("silent", "agentTurn", &json!({"delivery": {"mode": "none"}})),
        job("last", "agentTurn", &json!({})),
        job("signal", "agentTurn", &json!({"delivery": {"mode": "deliver", "channel": "signal"}})),
        job("webchat", "agentTurn", &json!({"delivery": {"channel": "webchat"}})),
        job("reminds", "systemEvent", &json!({"wakeMode": "now"})),
        job("waits", "systemEvent", &json!({"wakeMode": "next-heartbeat"})),
        job("off", "systemEvent", &json!({"enabled": false})),
    ];
    home.write("cron/jobs.json", &json!({"version": 1, "jobs": jobs}).to_string());
    let (code, report) = home.report(&[]);
    assert_eq!((code, &report["cron"]["jobs"]), (Some(0), &json!(7)), "{report}");
    let told: Vec<_> = report["unheard"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["job"].as_str().unwrap(), it["why"].as_str().unwrap()))
        .collect();
    assert_eq!(told.iter().map(|it| it.0).collect::<Vec<_>>(), ["last", "signal", "reminds"]);
    let of_session = "agent:main:main was last written to from whatsapp, ";
    assert!(told[0].1.starts_with(of_session) && told[2].1.starts_with(of_session), "{told:?}");
    assert!(told[1].1.starts_with("its answers go to signal, "), "{told:?}");
}
