//! `clawgate sessions export`, with and without a running gateway.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::program::clawgate;
use crate::stage::{Api, admin, ask, call, scripted, until};
use crate::support::Gateway;

const KEY: &str = "agent:main:main";

/// What the command prints, with its exit code.
async fn export(gateway: &Gateway, args: &[&str]) -> (i32, String, String) {
    let output = clawgate(gateway, &[&["sessions", "export"], args].concat()).await;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

async fn printed(gateway: &Gateway, args: &[&str]) -> Vec<Value> {
    let (code, out, err) = export(gateway, args).await;
    assert_eq!(code, 0, "{args:?}: {err}");
    lines(&out)
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Every file below a folder, by its name from there.
fn files(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(place) = waiting.pop() {
        for entry in fs::read_dir(place).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                found.insert(path.strip_prefix(folder).unwrap().display().to_string());
            }
        }
    }
    found
}

fn slug(path: &Path) -> String {
    let dash = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    path.display().to_string().chars().map(dash).collect()
}

async fn session_id(gateway: &Gateway, key: &str) -> String {
    let mut client = admin(gateway).await;
    let history = call(&mut client, "chat.history", json!({"sessionKey": key})).await;
    history["sessionId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_session_becomes_a_file_of_claude_code_with_and_without_a_running_gateway() {
    let (mut gateway, _mock) = scripted(Api::Anthropic).await;
    let id = {
        let mut client = admin(&gateway).await;
        ask(&mut client, KEY, "@mock text text=\"Hello there.\"", "run-1").await;
        let write = json!({"path": "a.txt", "content": "one\ntwo\n"});
        let line = format!("@mock tool name=write args={write} then=\"It is there.\"");
        ask(&mut client, KEY, &line, "run-2").await;
        let edit = json!({"path": "a.txt", "edits": [{"oldText": "two", "newText": "zwei"}]});
        let line = format!("@mock tool name=edit args={edit} pre=\"I will.\" then=\"Done.\"");
        ask(&mut client, KEY, &line, "run-3").await;
        ask(&mut client, KEY, "@mock err status=400 msg=\"scripted refusal\"", "run-4").await;
        call(&mut client, "sessions.patch", json!({"key": KEY, "label": "The file"})).await;
        session_id(&gateway, KEY).await
    };

    let told = printed(&gateway, &[KEY]).await;
    let kind = |line: &Value| {
        let content = &line["message"]["content"];
        let block = content[0]["type"].as_str().unwrap_or("typed");
        format!("{} {block}", line["type"].as_str().unwrap())
    };
    let kinds: Vec<_> = told.iter().map(kind).collect();
    let expected = [
        "user typed",
        "assistant text",
        "user typed",
        "assistant tool_use",
        "user tool_result",
        "assistant text",
        "user typed",
        "assistant text",
        "assistant tool_use",
        "user tool_result",
        "assistant text",
        "user typed",
        "assistant text",
        "custom-title typed",
    ];
    assert_eq!(kinds, expected);
    let mut last = Value::Null;
    for line in &told[..13] {
        assert_eq!(line["parentUuid"], last, "{line}");
        assert_eq!(line["sessionId"], *id);
        last = line["uuid"].clone();
    }
    let (write, edit) = (&told[4], &told[9]);
    assert_eq!(told[3]["message"]["content"][0]["name"], "Write");
    assert_eq!(write["toolUseResult"]["content"], "one\ntwo\n");
    assert_eq!(write["sourceToolAssistantUUID"], told[3]["uuid"]);
    assert_eq!(told[8]["message"]["content"][0]["input"]["old_string"], "two");
    let hunk = &edit["toolUseResult"]["structuredPatch"][0];
    assert_eq!(hunk["lines"], json!([" one", "-two", "+zwei"]), "{edit}");
    assert_eq!(told[12]["message"]["model"], "<synthetic>");
    assert_eq!(told[12]["error"], "invalid_request");
    assert_eq!(told[13]["customTitle"], "The file");

    gateway.terminate().await.unwrap();
    assert_eq!(printed(&gateway, &[&id]).await, told);
}

#[tokio::test]
async fn files_are_for_their_owner_and_are_only_written_over_when_that_is_asked_for() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, KEY, "@mock text text=hello", "run-1").await;
    ask(&mut client, "agent:main:other", "@mock text text=hello", "run-2").await;
    let ids = [session_id(&gateway, KEY).await, session_id(&gateway, "agent:main:other").await];
    let out = gateway.root().join("out");
    let place = out.display().to_string();
    let (code, report, _) = export(&gateway, &["--all", "--out", &place, "--json"]).await;
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((code, report["sessions"].as_array().unwrap().len()), (0, 2), "{report}");
    let cwd = lines(&fs::read_to_string(report["sessions"][0]["file"].as_str().unwrap()).unwrap());
    let folder = slug(Path::new(cwd[0]["cwd"].as_str().unwrap()));
    let named = |id: &String| format!("{folder}/{id}.jsonl");
    assert_eq!(files(&out), ids.iter().map(named).collect::<BTreeSet<_>>());
    let file: PathBuf = out.join(named(&ids[0]));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    fs::write(&file, "mine").unwrap();
    let (code, report, _) = export(&gateway, &["main", "--out", &place]).await;
    assert_eq!(code, 3);
    assert!(report.contains("--force"), "{report}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    let (code, ..) = export(&gateway, &["main", "--out", &place, "--force"]).await;
    assert_eq!(code, 0);
    assert_eq!(lines(&fs::read_to_string(&file).unwrap()).len(), 2);
}

#[tokio::test]
async fn our_own_formats_turn_into_each_other_without_loss() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, KEY, "@mock tool name=session_status then=done", "run-1").await;
    let id = session_id(&gateway, KEY).await;
    let stored = gateway.state_dir().join(format!("agents/main/sessions/{id}.jsonl"));
    let stored = fs::read_to_string(stored).unwrap();
    let (code, same, _) = export(&gateway, &[KEY, "--format", "openclaw"]).await;
    assert_eq!((code, same), (0, stored.clone()));
    let bare = printed(&gateway, &[KEY, "--format", "messages"]).await;
    let messages: Vec<_> =
        lines(&stored).into_iter().filter_map(|line| line.get("message").cloned()).collect();
    assert_eq!(bare, messages);

    // A bare transcript becomes a tree that says the same.
    let out = gateway.root().join("out");
    let text: String = bare.iter().map(|message| format!("{message}\n")).collect();
    let place = gateway.state_dir().join(format!("agents/main/sessions/{id}.jsonl"));
    fs::write(place, text).unwrap();
    let place = out.display().to_string();
    let (code, ..) = export(&gateway, &[KEY, "--format", "openclaw", "--out", &place]).await;
    assert_eq!(code, 0);
    assert_eq!(files(&out), BTreeSet::from([format!("main/{id}.jsonl")]));
    let tree = lines(&fs::read_to_string(out.join(format!("main/{id}.jsonl"))).unwrap());
    assert_eq!((&tree[0]["type"], &tree[0]["sessionKey"]), (&json!("session"), &json!(KEY)));
    let (mut last, mut said) = (Value::Null, Vec::new());
    for entry in &tree[1..] {
        assert_eq!(entry["parentId"], last);
        last = entry["id"].clone();
        said.push(entry["message"].clone());
    }
    assert_eq!(said, messages);
}

#[tokio::test]
async fn sub_agents_go_with_the_session_that_asked_them() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let task = json!({"task": "look", "label": "kid"});
    let line = format!("@mock tool name=sessions_spawn args={task} parallel=1 then=spawned");
    ask(&mut client, KEY, &line, "run-1").await;
    let child = until("the sub-agent", async || {
        let list = call(&mut client, "sessions.list", json!({"limit": 100})).await;
        let rows = list["sessions"].as_array().unwrap().clone();
        let done = |row: &Value| {
            row["key"].as_str().unwrap().contains(":subagent:") && row["status"] == "done"
        };
        rows.into_iter().find(done)
    })
    .await;
    let out = gateway.root().join("out");
    let place = out.display().to_string();
    let (code, report, error) = export(&gateway, &["--all", "--out", &place, "--json"]).await;
    assert_eq!(code, 0, "{error}");
    let report: Value = serde_json::from_str(&report).unwrap();
    let of = |key: &Value| {
        let rows = report["sessions"].as_array().unwrap();
        let row = rows.iter().find(|row| row["key"] == *key).unwrap_or_else(|| panic!("{report}"));
        let file = row["file"].as_str().unwrap().to_owned();
        (file.clone(), lines(&fs::read_to_string(file).unwrap()))
    };
    let (parent, asked) = of(&json!(KEY));
    let (file, told) = of(&child["key"]);
    let agent = told[0]["agentId"].as_str().unwrap();
    assert_eq!(
        Path::new(&file),
        Path::new(&parent.replace(".jsonl", "")).join(format!("subagents/agent-{agent}.jsonl"))
    );
    assert!(told.iter().all(|line| line["isSidechain"] == true));
    assert_eq!(told[0]["sessionId"], asked[0]["sessionId"]);
    let spawned = asked.iter().find(|line| line["toolUseResult"].is_object()).unwrap();
    assert_eq!(spawned["toolUseResult"]["agentId"], agent);
    assert_eq!(asked[1]["message"]["content"][0]["name"], "Task");
}

#[tokio::test]
async fn what_cannot_be_exported_is_said() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, KEY, "@mock text text=hello", "run-1").await;
    let (code, _, error) = export(&gateway, &["nobody"]).await;
    assert_eq!(code, 1);
    assert!(error.contains("there is no session \"nobody\"; `clawgate sessions list`"), "{error}");
    for wrong in [&[][..], &["--all"], &["main", "--all", "--out", "x"], &["--all", "--json"]] {
        assert_eq!(export(&gateway, wrong).await.0, 2, "{wrong:?}");
    }
    let file = gateway.root().join("file");
    fs::write(&file, "").unwrap();
    let (code, _, error) = export(&gateway, &["main", "--out", &file.display().to_string()]).await;
    assert_eq!(code, 1, "{error}");
    let (code, _, error) = export(&gateway, &["--all", "--out", "-"]).await;
    assert_eq!(code, 1);
    assert!(error.contains("--out DIR"), "{error}");
}

#[tokio::test]
async fn what_is_printed_is_json_already_and_never_nothing() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, KEY, "@mock text text=hello", "run-1").await;
    let told = printed(&gateway, &[KEY]).await;
    assert_eq!(told.len(), 2);
    assert_eq!(printed(&gateway, &[KEY, "--json"]).await, told);
    assert_eq!(printed(&gateway, &[KEY, "--json", "--out", "-"]).await, told);
    let id = session_id(&gateway, KEY).await;
    let file = gateway.state_dir().join(format!("agents/main/sessions/{id}.jsonl"));
    fs::rename(&file, file.with_extension("away")).unwrap();
    let (code, out, error) = export(&gateway, &[KEY]).await;
    assert_eq!((code, out.as_str()), (1, ""), "{error}");
    assert!(error.contains("nothing was said in agent:main:main yet"), "{error}");
}

#[tokio::test]
async fn one_session_that_cannot_be_read_keeps_no_other_from_being_written() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, KEY, "@mock text text=hello", "run-1").await;
    ask(&mut client, "agent:main:other", "@mock text text=hello", "run-2").await;
    let id = session_id(&gateway, "agent:main:other").await;
    let file = gateway.state_dir().join(format!("agents/main/sessions/{id}.jsonl"));
    fs::rename(&file, file.with_extension("away")).unwrap();
    // It leads to itself, which nobody can open.
    std::os::unix::fs::symlink(&file, &file).unwrap();
    let out = gateway.root().join("out").display().to_string();
    let (code, report, error) = export(&gateway, &["--all", "--out", &out, "--json"]).await;
    assert_eq!(code, 3, "{error}");
    let report: Value = serde_json::from_str(&report).unwrap();
    let key = |name: &str| report[name][0]["key"].clone();
    assert_eq!((key("sessions"), key("leftOut")), (json!(KEY), json!("agent:main:other")));
    let (code, _, error) = export(&gateway, &["agent:main:other", "--out", &out]).await;
    assert!(code == 1 && error.contains("cannot read"), "{error}");
}
