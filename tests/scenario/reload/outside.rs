//! What is wrong is nothing in the file, but something that it refers to; and what does
//! not end when the gateway has to.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{edit, has_fault, logged, patch, signal};
use crate::stage::{Api, admin, ask, call, scripted, until};
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET, WsClient};

/// More than a stop waits for, on a slow machine; nothing here ends so soon by itself.
const STOP_LIMIT: Duration = Duration::from_mins(1);

/// Has the secret of the gateway be in this file, and names another main session.
fn refer_to(path: &Path, config: &mut Value) {
    config["secrets"] = json!({"providers": {"keys": {"source": "file", "path": path}}});
    config["gateway"]["auth"]["token"] =
        json!({"source": "file", "provider": "keys", "id": "/gateway"});
    config["session"] = json!({"mainKey": "chief"});
}

fn put_secret(path: &Path) {
    let hidden = path.with_extension("new");
    fs::write(&hidden, json!({"gateway": SECRET}).to_string()).unwrap();
    fs::set_permissions(&hidden, Permissions::from_mode(0o600)).unwrap();
    fs::rename(hidden, path).unwrap();
}

#[tokio::test]
async fn a_secret_that_comes_later_is_taken_up_though_nobody_touches_the_file() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let path = gateway.root().join("secrets.json");
    edit(&gateway, |config| refer_to(&path, config));
    has_fault(&gateway, Some("gateway.auth.token")).await;
    put_secret(&path);
    has_fault(&gateway, None).await;
    let mut client = admin(&gateway).await;
    assert_eq!(call(&mut client, "agents.list", json!({})).await["mainKey"], "chief");
    gateway.logs("the last good one stays").await;
    assert_eq!(gateway.stderr().matches("the last good one stays").count(), 1, "told once");
}

/// A program that tells a secret, and does something before, by these lines of a script.
pub fn vault(path: &Path, before: &str) {
    let answer = json!({"protocolVersion": 1, "values": {"a": "key-of-a-vault"}});
    fs::write(path, format!("#!/bin/sh\n{before}\necho '{answer}'\n")).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o700)).unwrap();
}

#[tokio::test]
async fn a_change_that_is_written_and_not_in_use_is_called_so_and_nobody_is_told_of_a_restart() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let path = gateway.root().join("secrets.json");
    put_secret(&path);
    edit(&gateway, |config| refer_to(&path, config));
    let mut client = admin(&gateway).await;
    super::until(&mut client, "agents.list", |told| told["mainKey"] == "chief").await;
    // When it is asked first, for the look before the change is written, the other secret has
    // been found; when the file is read then, it is gone.
    let program = gateway.root().join("vault.sh");
    let once = program.with_extension("once");
    vault(&program, &format!("if mkdir {}; then rm {}; fi", once.display(), path.display()));
    let provider = json!({"source": "exec", "command": program, "passEnv": ["PATH"]});
    let key = json!({"source": "exec", "provider": "v", "id": "a"});
    let change = json!({"secrets": {"providers": {"v": provider}},
        "models": {"providers": {"mock": {"apiKey": key}}}});
    let answer = patch(&mut client, change).await;
    let error = &answer["error"];
    assert_eq!(error["code"], "UNAVAILABLE", "{answer}");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("written, but not in use: "), "{answer}");
    assert_eq!(error["details"]["issues"][0]["path"], "gateway.auth.token", "{answer}");
    assert_eq!(super::config(&gateway)["models"]["providers"]["mock"]["apiKey"], key);
    assert!(!gateway.state_dir().join("restart-sentinel.json").exists());
    put_secret(&path);
    let in_use = |told: &Value| {
        told["issues"] == json!([])
            && told["runtimeConfig"]["secrets"]["providers"].get("v").is_some()
    };
    super::until(&mut client, "config.get", in_use).await;
}

/// A program that tells a secret, and from the second time on takes its time.
fn slow_vault(root: &Path) -> PathBuf {
    let path = root.join("vault.sh");
    let before = format!(
        "if [ -e {0}.once ]; then : > {0}.twice; exec sleep 600; fi\n: > {0}.once",
        path.display()
    );
    vault(&path, &before);
    path
}

#[tokio::test]
async fn a_stop_is_heard_while_a_restart_waits_for_a_secret() {
    let mock = MockProvider::start().await;
    let root = TempDir::with_prefix("clawgate-vault-").unwrap();
    let vault = slow_vault(root.path());
    let mut config = crate::stage::config(mock.address(), Api::OpenAi);
    config["secrets"] = json!({"providers": {"v": {"source": "exec", "command": vault,
        "passEnv": ["PATH"], "timeoutMs": 120_000, "noOutputTimeoutMs": 120_000}}});
    let reference = json!({"source": "exec", "provider": "v", "id": "a"});
    config["models"]["providers"]["mock"]["apiKey"] = reference;
    let options = GatewayOptions::with_config(config);
    let mut gateway = Gateway::start_in(root, options).await.unwrap();
    signal(&gateway, Signal::USR1);
    let asked = gateway.root().join("vault.sh.twice");
    until("the question", async || asked.exists().then_some(())).await;
    gateway.signal_term();
    assert_eq!(gateway.wait_exit(STOP_LIMIT).await.expect("an exit").code(), Some(0));
}

/// The other end of a pipe that somebody waits at.
fn writer(pipe: &Path) -> Option<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().write(true).custom_flags(flags).open(pipe).ok()
}

/// A pipe takes the place of this file, if there is one.
fn put_pipe(path: &Path) {
    let pipe = path.with_extension("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    fs::rename(&pipe, path).unwrap();
}

/// Has the gateway read a file that never ends, for as long as the answer lives.
async fn reads_for_ever(gateway: &Gateway) -> (File, WsClient) {
    let path = gateway.home().join(".openclaw/exec-approvals.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    put_pipe(&path);
    let mut client = admin(gateway).await;
    let asked = json!({"type": "req", "id": "a", "method": "exec.approvals.get", "params": {}});
    client.send(&asked).await;
    (until("somebody who reads", async || writer(&path)).await, client)
}

#[tokio::test]
async fn a_pipe_in_the_place_of_a_file_is_told_and_holds_up_no_change() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    put_pipe(&gateway.state_dir().join(".env"));
    logged(&gateway, ".env: it is no file; its variables are not set").await;
    edit(&gateway, |config| config["session"] = json!({"mainKey": "chief"}));
    super::until(&mut client, "agents.list", |told| told["mainKey"] == "chief").await;

    put_pipe(&gateway.config_path().with_file_name("more.json"));
    edit(&gateway, |config| config["ui"] = json!({"$include": "./more.json"}));
    has_fault(&gateway, Some("ui.$include")).await;
    edit(&gateway, |config| config["ui"] = json!({}));
    has_fault(&gateway, None).await;

    let good = super::config(&gateway).to_string();
    put_pipe(&gateway.config_path());
    let is_told = |told: &Value| told["configIssue"]["message"].to_string().contains("no file");
    super::until(&mut client, "health", is_told).await;
    super::put(&gateway, &good);
    has_fault(&gateway, None).await;
    assert!(client.closed().is_none());
}

#[tokio::test]
async fn a_restart_is_given_up_while_a_secret_is_not_to_be_had() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let path = gateway.root().join("secrets.json");
    put_secret(&path);
    edit(&gateway, |config| {
        config["secrets"] = json!({"providers": {"keys": {"source": "file", "path": path}}});
        config["models"]["providers"]["mock"]["apiKey"] =
            json!({"source": "file", "provider": "keys", "id": "/gateway"});
        config["session"] = json!({"mainKey": "chief"});
    });
    let mut client = admin(&gateway).await;
    super::until(&mut client, "agents.list", |told| told["mainKey"] == "chief").await;
    fs::remove_file(&path).unwrap();
    signal(&gateway, Signal::USR1);
    let key = "models.providers.mock.apiKey";
    super::until(&mut client, "health", |told| told["configIssue"]["path"] == key).await;
    ask(&mut client, "main", "still there?", "run-1").await;
    // It stays so for as long as no gateway would begin, and no longer.
    logged(&gateway, "no restart; going on with the config as it was").await;
    put_secret(&path);
    super::until(&mut client, "health", |told| told["configIssue"].is_null()).await;
    // What is written meanwhile counts all the same.
    fs::remove_file(&path).unwrap();
    signal(&gateway, Signal::USR1);
    super::until(&mut client, "health", |told| told["configIssue"]["path"] == key).await;
    edit(&gateway, |config| config["session"] = json!({"mainKey": "boss"}));
    super::until(&mut client, "agents.list", |told| told["mainKey"] == "boss").await;
    put_secret(&path);
    assert!(client.closed().is_none());
    signal(&gateway, Signal::USR1);
    assert_eq!(client.wait_closed(super::LIMIT).await.unwrap().code, 1012);
    ask(&mut admin(&gateway).await, "main", "and now?", "run-2").await;
}

#[tokio::test]
async fn a_restart_stays_given_up_while_a_program_does_not_tell_its_secret() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let program = gateway.root().join("vault.sh");
    let (silent, refusals) = (program.with_extension("silent"), program.with_extension("refusals"));
    let refuses = format!(
        "if [ -e {} ]; then echo x >> {}; exit 1; fi",
        silent.display(),
        refusals.display()
    );
    vault(&program, &refuses);
    edit(&gateway, |config| {
        config["secrets"] = json!({"providers": {"v": {"source": "exec", "command": program}}});
        config["models"]["providers"]["mock"]["apiKey"] =
            json!({"source": "exec", "provider": "v", "id": "a"});
        config["session"] = json!({"mainKey": "chief"});
    });
    let mut client = admin(&gateway).await;
    super::until(&mut client, "agents.list", |told| told["mainKey"] == "chief").await;
    fs::write(&silent, "").unwrap();
    signal(&gateway, Signal::USR1);
    let key = "models.providers.mock.apiKey";
    super::until(&mut client, "health", |told| told["configIssue"]["path"] == key).await;
    // It is looked at again, and what it has told before does not count.
    until("two more questions", async || {
        let asked = fs::read_to_string(&refusals).unwrap_or_default();
        (asked.lines().count() >= 3).then_some(())
    })
    .await;
    let health = call(&mut client, "health", json!({"probe": true})).await;
    assert_eq!(health["configIssue"]["path"], key, "{health}");
    gateway.logs("no restart; going on").await;
    assert_eq!(gateway.stderr().matches("no restart; going on").count(), 1, "told once");
    fs::remove_file(&silent).unwrap();
    super::until(&mut client, "health", |told| told["configIssue"].is_null()).await;
    assert!(client.closed().is_none());
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_file_that_never_answers() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let _reading = reads_for_ever(&gateway).await;
    gateway.signal_term();
    assert_eq!(gateway.wait_exit(STOP_LIMIT).await.expect("an exit").code(), Some(0));
}

#[tokio::test]
async fn a_second_signal_is_heard_when_all_but_a_file_is_closed() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let (_writer, client) = reads_for_ever(&gateway).await;
    gateway.signal_term();
    assert_eq!(client.wait_closed(super::LIMIT).await.unwrap().code, 1012);
    gateway.signal_term();
    assert_eq!(gateway.wait_exit(STOP_LIMIT).await.expect("an exit").code(), Some(0));
    assert!(gateway.stderr().contains("stopped at once"), "{}", gateway.stderr());
}
