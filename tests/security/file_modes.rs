//! Files that others can read (CVE-2026-53856): whatever the gateway creates is
//! its user's only, under any umask and also when it puts something back.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::json;
use tempfile::TempDir;

use crate::stage::{Api, admin, ask, call, config};
use crate::support::{Gateway, GatewayOptions, MockProvider, program};

/// Everything under a folder, with its mode. What a link leads to is not there.
fn modes(folder: &Path, found: &mut Vec<(PathBuf, u32)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let about = fs::symlink_metadata(&path).unwrap();
        if about.is_symlink() {
            continue;
        }
        found.push((path.clone(), about.mode() & 0o777));
        if about.is_dir() {
            modes(&path, found);
        }
    }
}

fn nothing_is_open(root: &Path) {
    let mut found = Vec::new();
    for name in ["state", "home", "workspace"] {
        modes(&root.join(name), &mut found);
    }
    // Certificates are for everybody.
    let is_public = |path: &Path| path.ends_with("gateway/tls/gateway-cert.pem");
    found.retain(|(path, mode)| mode & 0o077 != 0 && !is_public(path));
    assert!(found.is_empty(), "others can get at {found:?}");
}

/// A config file that was written, changed and put back.
async fn exercise(gateway: &Gateway) {
    let mut client = admin(gateway).await;
    ask(&mut client, "main", "good morning", "run-1").await;
    let args = json!({"path": "made/deep/note.txt", "content": "x"});
    let write = format!("@mock tool name=write args={args} then=\"done\"");
    ask(&mut client, "main", &write, "run-write").await;
    assert!(gateway.workspace().join("made/deep/note.txt").exists());
    for number in 0..2 {
        let read = call(&mut client, "config.get", json!({})).await;
        let patch = json!({"session": {"mainKey": format!("main{number}")}}).to_string();
        let params = json!({"raw": patch, "baseHash": read["hash"]});
        call(&mut client, "config.patch", params).await;
    }
    let file = json!({"fileName": "a.txt", "mimeType": "text/plain", "content": "aGVsbG8="});
    let message = json!({"sessionKey": "files", "message": "look", "idempotencyKey": "run-2",
        "attachments": [file]});
    call(&mut client, "chat.send", message).await;
    call(
        &mut client,
        "agents.files.set",
        json!({"agentId": "main", "name": "USER.md", "content": "x"}),
    )
    .await;
    let job = json!({"name": "job", "schedule": {"kind": "every", "everyMs": 3_600_000},
        "sessionTarget": "main", "wakeMode": "now",
        "payload": {"kind": "systemEvent", "text": "x"}});
    call(&mut client, "cron.add", job).await;
}

#[tokio::test]
async fn what_the_gateway_creates_is_its_users_only_under_any_umask() {
    let mock = MockProvider::start().await;
    // A shell sets the umask that leaves everything open.
    let folder = TempDir::new().unwrap();
    let script = folder.path().join("open");
    fs::write(&script, "#!/bin/sh\numask 000\nexec \"$@\"\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let settings = config(mock.address(), Api::OpenAi);
    let through = Some(script.clone());
    let options = GatewayOptions { through, ..GatewayOptions::with_config(settings) };
    let mut gateway = Gateway::start(options).await;
    // What the test itself has made.
    for name in ["state", "home", "workspace"] {
        let path = gateway.root().join(name);
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    }
    fs::set_permissions(gateway.config_path(), fs::Permissions::from_mode(0o644)).unwrap();
    exercise(&gateway).await;
    let backups = fs::read_dir(gateway.state_dir()).unwrap();
    let is_backup = |name: &str| name.starts_with("openclaw.json.bak");
    let names = backups.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    assert!(names.filter(|name| is_backup(name)).count() > 1);
    nothing_is_open(gateway.root());
    // A crash, and what the next start puts back.
    gateway.restart().await;
    nothing_is_open(gateway.root());
    // Commands, too.
    let output = std::process::Command::new(script)
        .arg(program())
        .args(["doctor", "--fix", "--json"])
        .env_clear()
        .env("HOME", gateway.home())
        .env("OPENCLAW_STATE_DIR", gateway.state_dir())
        .stdin(Stdio::null())
        .output();
    output.unwrap();
    nothing_is_open(gateway.root());
}
