//! References to secrets while the gateway runs: what a program tells is asked
//! for once, and again when somebody says so.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::reload::put;
use crate::stage::{Api, admin, ask, call, config, refusal, text_of, until};
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient, default_config, program};

/// So long something has to be done too early; what waits as it should is not done by then.
const TOO_EARLY: Duration = Duration::from_secs(2);

/// A program that tells one secret, and notes how often it was asked.
struct Vault(PathBuf);

/// What a vault says.
fn answer(secret: &str) -> Value {
    json!({"protocolVersion": 1, "values": {"a": secret, "b": "for-skills"}})
}

impl Vault {
    fn tells(&self, secret: &str) {
        let answer = answer(secret);
        self.becomes(&format!("echo x >> {0}.asked\necho '{answer}'\n", self.0.display()));
    }

    /// Tells the first who asks this one, once it may speak, and all others another one.
    fn tells_late(&self, late: &str, others: &str) {
        let (late, others) = (answer(late), answer(others));
        self.becomes(&format!(
            "if mkdir {0}.first; then\necho x >> {0}.asked\n\
             while [ ! -e {0}.speaks ]; do sleep 0.05; done\necho '{late}'\n\
             else\necho x >> {0}.asked\necho '{others}'\nfi\n",
            self.0.display()
        ));
    }

    fn speaks(&self) {
        fs::write(format!("{}.speaks", self.0.display()), "").unwrap();
    }

    fn becomes(&self, script: &str) {
        fs::write(&self.0, format!("#!/bin/sh\n{script}")).unwrap();
        fs::set_permissions(&self.0, fs::Permissions::from_mode(0o700)).unwrap();
    }

    /// Waits until it was asked so often.
    async fn is_asked(&self, times: usize) {
        until("the question", async || (self.asked() == times).then_some(())).await;
    }

    /// Does what could be done too early while the vault is silent, and lets it speak.
    async fn silent_during<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = Box::pin(work);
        let early = timeout(TOO_EARLY, &mut work).await;
        self.speaks();
        match early {
            Ok(done) => done,
            Err(_) => work.await,
        }
    }

    fn asked(&self) -> usize {
        let path = format!("{}.asked", self.0.display());
        fs::read_to_string(path).unwrap_or_default().lines().count()
    }
}

fn skill(state: &Path) {
    let dir = state.join("skills/gh");
    fs::create_dir_all(&dir).unwrap();
    let text = "---\nname: gh\ndescription: d\nmetadata: {openclaw: {primaryEnv: GH_KEY}}\n---\n";
    fs::write(dir.join("SKILL.md"), text).unwrap();
}

async fn scene() -> (Gateway, MockProvider, Vault) {
    scene_with(|_, _| ()).await
}

/// The same with another config, and something in the folder of the state.
async fn scene_with(change: impl FnOnce(&mut Value, &Path)) -> (Gateway, MockProvider, Vault) {
    let mock = MockProvider::start().await;
    let root = TempDir::with_prefix("clawgate-vault-").unwrap();
    let vault = Vault(root.path().join("vault.sh"));
    vault.tells("first-key");
    let mut config = config(mock.address(), Api::OpenAi);
    let reference = |id: &str| json!({"source": "exec", "provider": "v", "id": id});
    config["secrets"] = json!({"providers": {"v": {"source": "exec", "command": vault.0}}});
    config["models"]["providers"]["mock"]["apiKey"] = reference("a");
    config["skills"] = json!({"entries": {"gh": {"apiKey": reference("b")}}});
    config["gateway"]["tools"] = json!({"allow": ["exec"]});
    skill(&root.path().join("state"));
    change(&mut config, &root.path().join("state"));
    let gateway = Gateway::start_in(root, GatewayOptions::with_config(config)).await.unwrap();
    (gateway, mock, vault)
}

/// With a vault that may take its time.
fn patient(config: &mut Value, _: &Path) {
    let vault = &mut config["secrets"]["providers"]["v"];
    vault["passEnv"] = json!(["PATH"]);
    vault["timeoutMs"] = json!(60_000);
    vault["noOutputTimeoutMs"] = json!(60_000);
}

/// Changes the file by its method.
async fn patch(client: &mut WsClient, change: Value) {
    let hash = call(client, "config.get", json!({})).await["hash"].clone();
    call(client, "config.patch", json!({"raw": change.to_string(), "baseHash": hash})).await;
}

fn last_key(mock: &MockProvider) -> String {
    mock.calls().last().unwrap().1.clone()
}

#[tokio::test]
async fn a_reload_changes_the_key_of_a_running_gateway_or_nothing() {
    let (gateway, mock, vault) = scene().await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    assert_eq!(last_key(&mock), "first-key");
    vault.tells("second-key");
    ask(&mut client, "main", "hello", "run-2").await;
    assert_eq!(last_key(&mock), "first-key", "nobody has said that it changed");
    let answer = call(&mut client, "secrets.reload", json!({})).await;
    assert_eq!(answer, json!({"ok": true, "warningCount": 0}));
    ask(&mut client, "main", "hello", "run-3").await;
    assert_eq!(last_key(&mock), "second-key");
    fs::remove_file(&vault.0).unwrap();
    assert_eq!(refusal(&mut client, "secrets.reload", json!({})).await, "secrets.reload failed");
    ask(&mut client, "main", "hello", "run-4").await;
    assert_eq!(last_key(&mock), "second-key");
}

#[tokio::test]
async fn a_key_that_a_reload_finds_is_not_sent_to_a_service_that_came_meanwhile() {
    let (gateway, mock, vault) = scene_with(patient).await;
    let other = MockProvider::start().await;
    let (mut first, mut second) = (admin(&gateway).await, admin(&gateway).await);
    vault.tells_late("old-service-key", "old-service-key");
    let url = format!("http://{}/v1", other.address());
    let service = json!({"baseUrl": url, "apiKey": "new-service-key"});
    let change = async {
        vault.is_asked(2).await;
        let change = json!({"models": {"providers": {"mock": service}}});
        vault.silent_during(patch(&mut second, change)).await;
    };
    let (reloaded, ()) = tokio::join!(call(&mut first, "secrets.reload", json!({})), change);
    assert_eq!(reloaded, json!({"ok": true, "warningCount": 0}));
    ask(&mut first, "main", "hello", "run-1").await;
    assert_eq!((last_key(&other).as_str(), mock.calls().len()), ("new-service-key", 0));
}

#[tokio::test]
async fn what_a_reload_has_found_is_not_undone_by_a_change_that_began_before_it() {
    let (gateway, mock, vault) = scene_with(patient).await;
    let mut client = admin(&gateway).await;
    vault.tells_late("second-key", "third-key");
    let text = fs::read_to_string(gateway.config_path()).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    // It is asked otherwise than before, so it is asked again.
    config["secrets"]["providers"]["v"]["timeoutMs"] = json!(59_000);
    put(&gateway, &config.to_string());
    vault.is_asked(2).await;
    vault.silent_during(call(&mut client, "secrets.reload", json!({}))).await;
    let is_in_use = || gateway.stderr().contains("has changed and is in use");
    until("the change", async || is_in_use().then_some(())).await;
    ask(&mut client, "main", "hello", "run-1").await;
    assert_eq!(last_key(&mock), "third-key");
}

#[tokio::test]
async fn a_program_is_asked_once_for_a_change_that_is_looked_at_before_it_is_written() {
    let (gateway, _mock, vault) = scene().await;
    let mut client = admin(&gateway).await;
    let before = vault.asked();
    patch(&mut client, json!({"secrets": {"providers": {"v": {"timeoutMs": 4000}}}})).await;
    assert_eq!(vault.asked(), before + 1);
}

#[tokio::test]
async fn a_reload_renews_a_stored_credential_after_another_key_has_changed() {
    let (gateway, mock, vault) = scene_with(|config, state| {
        config["models"]["providers"]["mock"].as_object_mut().unwrap().remove("apiKey");
        let reference = json!({"source": "exec", "provider": "v", "id": "a"});
        let profile = json!({"type": "api_key", "provider": "mock", "keyRef": reference});
        let stored = json!({"version": 1, "profiles": {"mock:a": profile}});
        let dir = state.join("agents/main/agent");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("auth-profiles.json"), stored.to_string()).unwrap();
    })
    .await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    assert_eq!(last_key(&mock), "first-key");
    patch(&mut client, json!({"messages": {"queue": {"cap": 7}}})).await;
    vault.tells("second-key");
    call(&mut client, "secrets.reload", json!({})).await;
    ask(&mut client, "main", "hello", "run-2").await;
    assert_eq!(last_key(&mock), "second-key");
}

#[tokio::test]
async fn another_variable_of_the_file_is_the_key_of_the_next_run() {
    let (gateway, mock, _vault) = scene_with(|config, _| {
        config["models"]["providers"]["mock"].as_object_mut().unwrap().remove("apiKey");
        config["env"] = json!({"vars": {"MOCK_API_KEY": "first-key"}});
    })
    .await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    assert_eq!(last_key(&mock), "first-key");
    patch(&mut client, json!({"env": {"vars": {"MOCK_API_KEY": "second-key"}}})).await;
    ask(&mut client, "main", "hello", "run-2").await;
    assert_eq!(last_key(&mock), "second-key");
}

/// Asks until the provider gets this key.
async fn asks_until_the_key_is(client: &mut WsClient, mock: &MockProvider, key: &str) {
    let mut asked = 1;
    until("the other key", async || {
        asked += 1;
        ask(client, "main", "hello", &format!("run-{asked}")).await;
        (last_key(mock) == key).then_some(())
    })
    .await;
}

#[tokio::test]
async fn another_variable_of_the_file_dotenv_is_the_key_of_the_next_run() {
    for mode in ["hot", "off"] {
        let (gateway, mock, _vault) = scene_with(|config, state| {
            config["models"]["providers"]["mock"]["apiKey"] = json!("${MOCK_KEY}");
            config["gateway"]["reload"] = json!({"mode": mode});
            fs::write(state.join(".env"), "MOCK_KEY=first-key\n").unwrap();
        })
        .await;
        let mut client = admin(&gateway).await;
        ask(&mut client, "main", "hello", "run-1").await;
        assert_eq!(last_key(&mock), "first-key");
        fs::write(gateway.state_dir().join(".env"), "MOCK_KEY=second-key\n").unwrap();
        if mode == "off" {
            // Nobody watches: it is in use when the answer comes.
            call(&mut client, "secrets.reload", json!({})).await;
            ask(&mut client, "main", "hello", "run-2").await;
            assert_eq!(last_key(&mock), "second-key");
            continue;
        }
        asks_until_the_key_is(&mut client, &mock, "second-key").await;
    }
}

#[tokio::test]
async fn a_variable_that_nobody_has_turns_off_what_needs_it_until_it_is_there() {
    let (gateway, mock, _vault) = scene_with(|config, _| {
        config["models"]["providers"]["mock"]["apiKey"] = json!("${LATER_KEY}");
        config["channels"] = json!({"telegram": {"botToken": "${NO_BOT}"}});
    })
    .await;
    let places =
        [("models.providers.mock.apiKey", "LATER_KEY"), ("channels.telegram.botToken", "NO_BOT")];
    for (path, name) in places {
        gateway.logs(&format!("{path} needs the environment variable {name}, which is not")).await;
    }
    let mut client = admin(&gateway).await;
    let failed = ask(&mut client, "main", "hello", "run-1").await.to_string();
    assert!(failed.contains("LATER_KEY is not set") && mock.calls().is_empty(), "{failed}");
    until("the error of the channel", async || {
        let status = call(&mut client, "channels.status", json!({})).await.to_string();
        status.contains("NO_BOT is not set").then_some(())
    })
    .await;
    // A change of something else leaves the text in the file, which is shown.
    patch(&mut client, json!({"messages": {"queue": {"cap": 7}}})).await;
    let seen = call(&mut client, "config.get", json!({})).await;
    assert_eq!(seen["valid"], true, "{seen}");
    assert_eq!(seen["parsed"]["models"]["providers"]["mock"]["apiKey"], "${LATER_KEY}");
    assert_eq!(seen["resolved"]["channels"]["telegram"]["botToken"], "${NO_BOT}");
    let warnings = seen["warnings"].as_array().unwrap();
    let is_told = |path: &str| warnings.iter().any(|it| it["path"] == path);
    assert!(places.iter().all(|(path, _)| is_told(path)), "{warnings:?}");
    fs::write(gateway.state_dir().join(".env"), "LATER_KEY=found-key\n").unwrap();
    let mut asked = 1;
    until("the key", async || {
        asked += 1;
        ask(&mut client, "main", "hello", &format!("run-{asked}")).await;
        (!mock.calls().is_empty()).then_some(())
    })
    .await;
    assert_eq!(last_key(&mock), "found-key");
}

#[tokio::test]
async fn a_program_is_asked_again_with_another_variable_of_the_file_dotenv() {
    let (gateway, mock, _vault) = scene_with(|config, state| {
        let vault = &mut config["secrets"]["providers"]["v"];
        vault["passEnv"] = json!(["VAULT_KEY"]);
        let script = r#"#!/bin/sh
printf '{"protocolVersion":1,"values":{"a":"%s","b":"x"}}' "$VAULT_KEY"
"#;
        fs::write(vault["command"].as_str().unwrap(), script).unwrap();
        fs::write(state.join(".env"), "VAULT_KEY=first-key\n").unwrap();
    })
    .await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "hello", "run-1").await;
    assert_eq!(last_key(&mock), "first-key");
    fs::write(gateway.state_dir().join(".env"), "VAULT_KEY=second-key\n").unwrap();
    asks_until_the_key_is(&mut client, &mock, "second-key").await;
}

#[tokio::test]
async fn a_program_is_not_asked_at_every_command() {
    let (gateway, _mock, vault) = scene().await;
    let mut client = admin(&gateway).await;
    let command = json!({"name": "exec", "args": {"command": "echo ${#GH_KEY}"}});
    let mut counts = Vec::new();
    for _ in 0..3 {
        let said = call(&mut client, "tools.invoke", command.clone()).await;
        assert_eq!(text_of(&said["output"]).trim(), "10", "{said}");
        counts.push(vault.asked());
    }
    // Once at the start for the model, once for the first command.
    assert_eq!(counts, [2, 2, 2]);
}

#[tokio::test]
async fn an_admin_is_told_the_secrets_of_the_places_that_are_named() {
    let (gateway, _mock, _vault) = scene().await;
    let mut client = admin(&gateway).await;
    let ask = |ids: Value| json!({"commandName": "memory status", "targetIds": ids});
    let told =
        call(&mut client, "secrets.resolve", ask(json!(["models.providers.*.apiKey"]))).await;
    assert_eq!(
        told,
        json!({
            "ok": true,
            "assignments": [{
                "path": "models.providers.mock.apiKey",
                "pathSegments": ["models", "providers", "mock", "apiKey"],
                "value": "first-key",
            }],
            "diagnostics": [],
            "inactiveRefPaths": [],
        })
    );
    let none = call(&mut client, "secrets.resolve", ask(json!(["gateway.auth.token"]))).await;
    assert_eq!(none["assignments"], json!([]), "the token is no reference");
    for (params, text) in [
        (json!({}), "invalid secrets.resolve params: commandName"),
        (ask(json!("x")), "invalid secrets.resolve params: targetIds"),
        (ask(json!(["nope"])), "invalid secrets.resolve params: unknown target id \"nope\""),
    ] {
        assert_eq!(refusal(&mut client, "secrets.resolve", params).await, text);
    }
    assert!(!gateway.stderr().contains("first-key"));
}

#[tokio::test]
async fn a_command_with_a_token_that_the_gateway_has_not_taken_up_hears_what_helps() {
    let root = TempDir::with_prefix("clawgate-test-").unwrap();
    let token = root.path().join("token");
    let becomes = |secret: &str| {
        fs::write(&token, secret).unwrap();
        fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    };
    becomes("token-of-before");
    let mut config = default_config("127.0.0.1:9");
    let provider = json!({"source": "file", "path": token, "mode": "singleValue"});
    config["secrets"] = json!({"providers": {"t": provider}});
    config["gateway"]["auth"]["token"] = json!({"source": "file", "provider": "t", "id": "value"});
    let gateway = Gateway::start_in(root, GatewayOptions::with_config(config)).await.unwrap();
    let reload = async |more: &[&str]| {
        let ran = tokio::process::Command::new(program())
            .args(["call", "secrets.reload"])
            .args(more)
            .env_clear()
            .env("HOME", gateway.home())
            .env("OPENCLAW_STATE_DIR", gateway.state_dir())
            .output()
            .await
            .unwrap();
        (ran.status.success(), String::from_utf8(ran.stderr).unwrap())
    };
    becomes("token-of-now");
    let (ok, told) = reload(&[]).await;
    assert!(!ok && told.contains("AUTH_TOKEN_MISMATCH"), "{told}");
    assert!(told.contains("clawgate gateway restart") && told.contains("by --token"), "{told}");
    let (ok, told) = reload(&["--token", "token-of-before"]).await;
    assert!(ok, "{told}");
    until("the new token", async || reload(&[]).await.0.then_some(())).await;
}
