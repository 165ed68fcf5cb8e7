//! The section `hooks`: what is refused, what is in use at once, what is shown.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{TOKEN, hooked, post, post_with, read, send, with_hooks};
use crate::stage::{SecretFile, admin, call, until};
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET, program};

/// What `clawgate config validate` says that is wrong.
fn refused(config: &Value) -> Option<String> {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("openclaw.json");
    fs::write(&path, config.to_string()).unwrap();
    let output = Command::new(program())
        .args(["config", "validate"])
        .env_clear()
        .envs([("HOME", home.path()), ("OPENCLAW_CONFIG_PATH", &path)])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (!output.status.success()).then_some(said)
}

fn remembering(hook: Value) -> Value {
    json!({"internal": {"entries": {"session-memory": hook}}})
}

#[tokio::test]
async fn what_would_open_more_than_was_meant_is_refused_when_it_is_read() {
    let mock = MockProvider::start().await;
    let templated =
        json!([{"match": {"path": "x"}, "sessionKey": "{{id}}", "messageTemplate": "x"}]);
    for (hooks, why) in [
        (json!({"token": null}), "hooks.enabled: requires hooks.token"),
        (json!({"token": SECRET}), "hooks.token: must not match gateway auth token"),
        (
            json!({"mappings": [{"token": SECRET}]}),
            "hooks.token: must not match gateway auth token",
        ),
        (json!({"path": "/"}), "hooks.path: may not be '/'"),
        (json!({"path": "/v1/hooks"}), "hooks.path: is a path that the gateway has"),
        (json!({"path": "/a b"}), "hooks.path: must be a path"),
        (json!({"maxBodyBytes": 0}), "hooks.maxBodyBytes: must be a positive integer"),
        (json!({"mappings": templated}), "hooks.allowedSessionKeyPrefixes: is required when"),
        (json!({"allowedSessionKeyPrefixes": ["ci:"]}), "must include 'hook:'"),
        (
            json!({"allowedSessionKeyPrefixes": ["ci:"], "defaultSessionKey": "main"}),
            "hooks.defaultSessionKey: must match hooks.allowedSessionKeyPrefixes",
        ),
        (
            json!({"allowedSessionKeyPrefixes": ["hook:"], "mappings": [{"sessionKeyPrefix": "ci:"}]}),
            "must hold what \"ci:\"",
        ),
        (
            json!({"mappings": [{"transform": {"module": 5}}]}),
            "hooks.mappings[0].transform.module: must be a string",
        ),
        (
            json!({"mappings": [{"transform": {"when": [{"field": "x"}]}}]}),
            "hooks.mappings[0].transform.when[0]: must have one of exists, equals",
        ),
        (
            json!({"mappings": [{"transform": {"cases": [{"when": [{"field": "x", "matches": "("}]}]}}]}),
            "hooks.mappings[0].transform.cases[0].when[0]: has a wrong pattern",
        ),
        (json!({"mappings": [{"transform": {"sett": {}}}]}), "unknown field `sett`"),
        (
            remembering(json!({"messages": 0})),
            "session-memory.messages: must be a positive integer",
        ),
        (remembering(json!({"enabled": "yes"})), "session-memory.enabled: must be true or false"),
        (remembering(json!([])), "hooks.internal.entries.session-memory: must be an object"),
        (json!({"mappings": [{"action": "run"}]}), "hooks.mappings[0].action: unknown variant"),
    ] {
        let config = with_hooks(&mock, &hooks);
        let said = refused(&config).unwrap_or_else(|| panic!("{hooks} is taken"));
        assert!(said.contains(why), "{hooks}: {said}");
        assert!(!said.contains(SECRET), "{said}");
    }
}

#[tokio::test]
async fn a_mapping_that_needs_a_program_is_off_and_the_others_are_not() {
    let mappings = json!([
        {"match": {"path": "x"}, "messageTemplate": "x", "transform": {"module": "x.mjs"}},
        {"match": {"path": "m"}, "action": "wake", "wakeMode": "next-heartbeat",
            "textTemplate": "m"},
        {"action": "wake", "wakeMode": "next-heartbeat", "textTemplate": "any"},
    ]);
    let (gateway, _mock) = hooked(&json!({"mappings": mappings})).await;
    // Those behind it do not get what its program would have judged.
    assert_eq!(post(&gateway, "/hooks/x", &json!({})).await.status, 404);
    assert_eq!(post(&gateway, "/hooks/y", &json!({})).await.status, 200);
    assert_eq!(post(&gateway, "/hooks/m", &json!({})).await.status, 200);
    let mut client = admin(&gateway).await;
    let seen = call(&mut client, "config.get", json!({})).await;
    assert_eq!(seen["valid"], true, "{seen}");
    let told = seen["warnings"].as_array().unwrap().iter();
    let told: Vec<_> = told.filter_map(|warning| warning["path"].as_str()).collect();
    assert!(told.contains(&"hooks.mappings[0].transform.module"), "{told:?}");
    gateway.logs("turns the mapping off").await;
}

fn edit(gateway: &Gateway, change: impl FnOnce(&mut Value)) {
    let text = fs::read_to_string(gateway.config_path()).unwrap();
    let mut config = serde_json::from_str(&text).unwrap();
    change(&mut config);
    fs::write(gateway.config_path(), config.to_string()).unwrap();
}

#[tokio::test]
async fn all_of_it_is_in_use_at_once() {
    let (gateway, _mock) = hooked(&json!({})).await;
    let body = json!({"text": "x", "mode": "next-heartbeat"});
    assert_eq!(post(&gateway, "/hooks/wake", &body).await.status, 200);
    edit(&gateway, |config| {
        config["hooks"]["path"] = json!("other");
        config["hooks"]["token"] = json!("another-token-for-hooks");
        config["hooks"]["mappings"] =
            json!([{"match": {"path": "m"}, "action": "wake", "textTemplate": "m"}]);
    });
    until("the other token is right", async || {
        let answer = post_with(&gateway, "/other/m", "another-token-for-hooks", &[], &body).await;
        (answer.status == 200).then_some(())
    })
    .await;
    assert_eq!(post(&gateway, "/other/wake", &body).await.status, 401);
    assert_eq!(post(&gateway, "/hooks/wake", &body).await.status, 404);
    edit(&gateway, |config| config["hooks"]["enabled"] = json!(false));
    until("nothing is there", async || {
        let answer = post_with(&gateway, "/other/m", "another-token-for-hooks", &[], &body).await;
        (answer.status == 404).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_token_that_is_taken_away_while_a_body_comes_is_good_no_more() {
    let (gateway, _mock) = hooked(&json!({})).await;
    let body = json!({"text": "x", "mode": "next-heartbeat"});
    let text = body.to_string();
    let head = format!(
        "POST /hooks/wake HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Authorization: Bearer {TOKEN}\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        text.len()
    );
    let mut tcp = TcpStream::connect(gateway.address()).await.unwrap();
    tcp.write_all(head.as_bytes()).await.unwrap();
    let mut waits = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
    tcp.read_exact(&mut waits).await.unwrap();
    assert!(waits.starts_with(b"HTTP/1.1 100 "));
    edit(&gateway, |config| config["hooks"]["token"] = json!("another-token-for-hooks"));
    until("the other token is right", async || {
        let answer =
            post_with(&gateway, "/hooks/wake", "another-token-for-hooks", &[], &body).await;
        (answer.status == 200).then_some(())
    })
    .await;
    tcp.write_all(text.as_bytes()).await.unwrap();
    assert_eq!(read(&mut tcp).await.status, 401);
}

#[tokio::test]
async fn a_token_may_be_a_reference_and_is_never_shown() {
    let mock = MockProvider::start().await;
    let mut config = with_hooks(
        &mock,
        &json!({
        "token": {"source": "env", "provider": "default", "id": "HOOK_TOKEN"},
        "mappings": [{"match": {"path": "m"}, "action": "wake", "textTemplate": "m",
            "token": "a-secret-of-one-mapping"}]}),
    );
    config["secrets"] = json!({"providers": {"default": {"source": "env"}}});
    let options = GatewayOptions::with_config(config).env("HOOK_TOKEN", TOKEN);
    let gateway = Gateway::start(options.env("RUST_LOG", "debug")).await;
    let body = json!({"text": "x", "mode": "next-heartbeat"});
    assert_eq!(post(&gateway, "/hooks/wake", &body).await.status, 200);
    assert_eq!(post_with(&gateway, "/hooks/wake", "HOOK_TOKEN", &[], &body).await.status, 401);
    let own = post_with(&gateway, "/hooks/m", "a-secret-of-one-mapping", &[], &body).await;
    assert_eq!(own.status, 200);
    let mut client = admin(&gateway).await;
    let shown = call(&mut client, "config.get", json!({})).await.to_string();
    assert!(shown.contains("HOOK_TOKEN") && !shown.contains("a-secret-of-one-mapping"), "{shown}");
    let log = gateway.stderr();
    assert!(!log.contains(TOKEN) && !log.contains("a-secret-of-one-mapping"), "{log}");
}

#[tokio::test]
async fn a_reload_of_secrets_changes_the_tokens() {
    let mock = MockProvider::start().await;
    let file = SecretFile::new("first-token-of-hooks");
    let mut config = with_hooks(&mock, &json!({"token": SecretFile::reference()}));
    file.name_in(&mut config);
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let body = json!({"text": "x", "mode": "next-heartbeat"});
    let status = async |token| post_with(&gateway, "/hooks/wake", token, &[], &body).await.status;
    assert_eq!(status("first-token-of-hooks").await, 200);
    file.tells("second-token-of-hooks");
    let mut client = admin(&gateway).await;
    call(&mut client, "secrets.reload", json!({})).await;
    assert_eq!(status("second-token-of-hooks").await, 200);
    assert_eq!(status("first-token-of-hooks").await, 401);
    assert!(client.closed().is_none());
}

#[tokio::test]
async fn a_large_body_arrives_when_the_token_is_right() {
    let (gateway, mock) = hooked(&json!({})).await;
    let message = format!("large-mark {}", "x".repeat(200 * 1024));
    let answer =
        post(&gateway, "/hooks/agent", &json!({"message": message, "deliver": false})).await;
    answer.run_id();
    let text = super::is_asked(&mock, "large-mark").await;
    assert!(text.contains(&message));
    // Below another bound there is another answer.
    edit(&gateway, |config| config["hooks"]["maxBodyBytes"] = json!(100));
    let body = json!({"message": "x".repeat(200)});
    until("the bound is another one", async || {
        let answer = post(&gateway, "/hooks/agent", &body).await;
        (answer.refusal() == (413, "payload too large".into())).then_some(())
    })
    .await;
    // Also when nobody says how long it is.
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("Authorization", bearer.as_str()), ("Transfer-Encoding", "chunked")];
    let chunks = format!("c8\r\n{}\r\n0\r\n\r\n", "x".repeat(200));
    let line = "POST /hooks/agent";
    let mut tcp = tokio::net::TcpStream::connect(gateway.address()).await.unwrap();
    let text = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    let text =
        format!("{line} HTTP/1.1\r\nHost: localhost\r\n{}\r\n{chunks}", text.collect::<String>());
    tokio::io::AsyncWriteExt::write_all(&mut tcp, text.as_bytes()).await.unwrap();
    assert_eq!(super::read(&mut tcp).await.status, 413);
    assert_eq!(send(&gateway, line, &[], None).await.status, 401);
}
