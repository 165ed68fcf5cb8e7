//! Path traversal by the name of a session or an agent: CVE-2026-28482. That
//! the file that an index names never leads out of the folder of sessions is in
//! the tests of `src/sessions/paths.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::stage::{Api, admin, scripted};
use crate::support::Gateway;

const CANARY: &str = "canary-4711";

/// Names that lead somewhere when they are taken for a part of a path.
fn names(gateway: &Gateway) -> Vec<String> {
    let outside = gateway.root().join("outside/secret");
    let outside = outside.display();
    let up = "../".repeat(12);
    vec![
        "../outside/secret".into(),
        format!("{up}{}", outside.to_string().trim_start_matches('/')),
        format!("agent:main:{up}outside"),
        format!("agent:..:{outside}"),
        "agent:../../outside:main".into(),
        "agent:main/../../x:main".into(),
        "agent:..%2f..%2foutside:main".into(),
        outside.to_string(),
        "a\u{0}/../b".into(),
        "agent:main:..\\..\\outside".into(),
        ".".into(),
        "..".into(),
        "secret.jsonl".into(),
        "sessions.json".into(),
        "con\n../x".into(),
        "\u{202e}../x".into(),
    ]
}

/// Everything below a folder but the transcripts of agents with plain names.
fn others(root: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            if !is_transcript(root, &path) {
                found.insert(path);
            }
        }
    }
    found
}

/// `state/agents/<plain name>/sessions/<plain name>.jsonl…` and the folders of it.
fn is_transcript(root: &Path, path: &Path) -> bool {
    let Ok(below) = path.strip_prefix(root.join("state/agents")) else { return false };
    let parts: Vec<_> = below.iter().map(|part| part.to_str().unwrap()).collect();
    let is_plain = |name: &str| {
        name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter))
    };
    match parts.as_slice() {
        [agent] | [agent, "sessions"] => is_plain(agent),
        [agent, "sessions", file] => {
            // One that was deleted has the time behind its name.
            let Some((id, time)) = file.split_once(".jsonl") else { return false };
            is_plain(agent) && is_plain(id) && is_plain(&time.replace('.', "-"))
        }
        _ => false,
    }
}

#[tokio::test]
async fn no_name_of_a_session_reaches_a_file_that_is_none() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let outside = gateway.root().join("outside");
    fs::create_dir_all(&outside).unwrap();
    let line =
        json!({"type": "message", "id": "x", "message": {"role": "user", "content": CANARY}});
    for name in ["secret", "secret.jsonl"] {
        fs::write(outside.join(name), format!("{line}\n")).unwrap();
    }
    let secret = fs::read(outside.join("secret.jsonl")).unwrap();
    let mut client = admin(&gateway).await;
    // The database grows its own files with the first write.
    client.request("sessions.create", json!({"key": "first"})).await;
    let before = others(gateway.root());
    for (at, name) in names(&gateway).iter().enumerate() {
        let id = format!("run-{at}");
        let message = json!({"sessionKey": name, "message": "@mock text", "idempotencyKey": id});
        let calls: [(&str, Value); 12] = [
            ("sessions.create", json!({"key": name})),
            ("sessions.create", json!({"key": format!("k{at}"), "agentId": name})),
            ("chat.send", message),
            ("chat.inject", json!({"sessionKey": name, "message": "note"})),
            ("chat.history", json!({"sessionKey": name})),
            ("sessions.get", json!({"key": name})),
            ("sessions.preview", json!({"keys": [name]})),
            ("sessions.resolve", json!({"sessionId": name})),
            ("sessions.usage.logs", json!({"key": name})),
            ("agents.files.get", json!({"agentId": name, "name": "AGENTS.md"})),
            ("agents.files.set", json!({"agentId": "main", "name": name, "content": "x"})),
            ("sessions.delete", json!({"key": name, "deleteTranscript": true})),
        ];
        for (method, params) in calls {
            let answer = client.request(method, params).await;
            assert!(!answer.to_string().contains(CANARY), "{method} {name:?}: {answer}");
        }
    }
    let new: Vec<_> = others(gateway.root()).difference(&before).cloned().collect();
    let is_database =
        |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("clawgate.sqlite");
    // The log may begin only now.
    let logs = gateway.root().join("state/logs");
    let is_log = |path: &PathBuf| path.starts_with(&logs);
    let new: Vec<_> = new.into_iter().filter(|path| !is_database(path) && !is_log(path)).collect();
    assert_eq!(new, Vec::<PathBuf>::new());
    assert_eq!(fs::read(outside.join("secret.jsonl")).unwrap(), secret);
}
