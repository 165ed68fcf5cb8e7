//! What a session was about becomes a memory of its agent when it begins anew.

use std::fs;

use serde_json::{Value, json};

use tempfile::TempDir;

use crate::reset::with_session;
use crate::stage::{Api, admin, ask, call, config, connect, lines, told};
use crate::support::client::standard_connect;
use crate::support::{Gateway, GatewayOptions, MockProvider};

const WELL: &str = "@mock text text=\"It is well\"";

async fn remembering(hook: Value) -> (Gateway, MockProvider) {
    with_internal(json!({"entries": {"session-memory": hook}})).await
}

async fn with_internal(internal: Value) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["hooks"]["internal"] = internal;
    (Gateway::start(GatewayOptions::with_config(config)).await, mock)
}

/// Names and texts of what is remembered, in the order of their names.
fn memories(gateway: &Gateway) -> Vec<(String, String)> {
    let Ok(folder) = fs::read_dir(gateway.workspace().join("memory")) else { return Vec::new() };
    let mut memories: Vec<_> = folder
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    memories.sort();
    memories
}

#[tokio::test]
async fn what_was_said_last_is_kept_once_for_each_conversation() {
    let (gateway, _mock) = remembering(json!({"enabled": true, "messages": 3})).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", "@mock text text=\"Too long ago\"", "run-1").await;
    ask(&mut client, "main", "/status", "run-2").await;
    ask(&mut client, "main", WELL, "run-3").await;
    let history = call(&mut client, "chat.history", json!({"sessionKey": "main"})).await;
    let id = history["sessionId"].as_str().unwrap().to_owned();
    ask(&mut client, "main", "/new", "run-4").await;
    let [(name, text)] = &memories(&gateway)[..] else { panic!("{:?}", memories(&gateway)) };
    let (time, rest) = name.split_at("2026-11-28-1405".len());
    assert!(time.chars().all(|c| c.is_ascii_digit() || c == '-'), "{name}");
    assert_eq!(rest, format!("-{id}.md"));
    let (head, said) = text.split_once("## Conversation Summary\n").unwrap();
    let facts = format!(
        "- **Session Key**: agent:main:main\n- **Session ID**: {id}\n- **Source**: webchat\n\n"
    );
    assert!(head.starts_with("# Session: ") && head.ends_with(&facts), "{head}");
    assert_eq!(
        said,
        format!("\nassistant: Too long ago\n\nuser: {WELL}\n\nassistant: It is well\n")
    );

    // Nobody has said anything since.
    ask(&mut client, "main", "/reset", "run-5").await;
    assert_eq!(memories(&gateway).len(), 1);
    ask(&mut client, "main", WELL, "run-6").await;
    call(&mut client, "sessions.reset", json!({"key": "main"})).await;
    assert_eq!(memories(&gateway).len(), 2);
}

#[tokio::test]
async fn a_memory_that_cannot_be_written_is_told_in_the_log_and_holds_nobody_up() {
    let (mut gateway, _mock) = remembering(json!({"enabled": true})).await;
    fs::write(gateway.workspace().join("memory"), "no folder").unwrap();
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", WELL, "run-1").await;
    call(&mut client, "sessions.reset", json!({"key": "main"})).await;
    assert!(told(&mut client, "main").await.is_empty());
    gateway.terminate().await;
    let said = gateway.stderr();
    assert!(said.contains("a session is not remembered"), "{said}");
}

#[tokio::test]
async fn nothing_is_kept_unless_somebody_wants_it() {
    let entry = json!({"session-memory": {"enabled": true}});
    for internal in [
        json!({"entries": {"command-logger": {"enabled": true}}}),
        json!({"enabled": true, "entries": {"session-memory": {"enabled": false}}}),
        json!({"enabled": false, "entries": entry}),
    ] {
        let (gateway, _mock) = with_internal(internal).await;
        let mut client = admin(&gateway).await;
        ask(&mut client, "main", WELL, "run-1").await;
        ask(&mut client, "main", "/new", "run-2").await;
        assert!(memories(&gateway).is_empty());
    }
}

/// A gateway that remembers, with a session that is so many hours old.
async fn with_old(key: &str, hours: i64) -> (Gateway, MockProvider) {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["hooks"] = json!({"internal": {"enabled": true}});
    let root = TempDir::with_prefix("clawgate-test-").unwrap();
    with_session(&root.path().join("state"), key, hours, hours);
    let options = GatewayOptions::with_config(config);
    (Gateway::start_in(root, options).await.unwrap(), mock)
}

/// Too old for another message: whatever the time is, 25 hours ago is before the last reset.
async fn stale() -> (Gateway, MockProvider) {
    with_old("agent:main:main", 25).await
}

#[tokio::test]
async fn a_stale_session_is_remembered_by_the_command_that_begins_it_anew() {
    for (command, first) in [("/new", "✅ New session started."), (&format!("/new {WELL}"), WELL)]
    {
        let (gateway, _mock) = stale().await;
        let mut client = admin(&gateway).await;
        ask(&mut client, "main", command, "run-1").await;
        let [(name, text)] = &memories(&gateway)[..] else { panic!("{:?}", memories(&gateway)) };
        assert!(name.ends_with("-s-old.md"), "{name}");
        assert!(text.ends_with("## Conversation Summary\n\nuser: long ago\n"), "{text}");
        assert_eq!(told(&mut client, "main").await[0].1, first, "it has begun anew");
    }
}

#[tokio::test]
async fn a_stale_session_begins_anew_by_its_age_where_the_command_is_refused() {
    let (gateway, _mock) = stale().await;
    let scopes = standard_connect(&["operator.read", "operator.write"]);
    let mut client = connect(&gateway, &scopes).await;
    ask(&mut client, "main", "/new", "run-1").await;
    let said = told(&mut client, "main").await;
    assert_eq!(said, lines(&[("assistant", "⚠️ /new: missing scope: operator.admin")]));
    assert!(memories(&gateway).is_empty());
}

#[tokio::test]
async fn nothing_of_an_agent_that_is_gone_goes_into_the_memory_of_another() {
    let (gateway, _mock) = with_old("agent:gone:main", 1).await;
    let mut client = admin(&gateway).await;
    let gone = json!({"key": "agent:gone:main"});
    let before = told(&mut client, "agent:gone:main").await;
    assert_eq!(before, lines(&[("user", "long ago")]));
    call(&mut client, "sessions.reset", gone).await;
    assert!(told(&mut client, "agent:gone:main").await.is_empty());
    assert!(memories(&gateway).is_empty());
}

#[tokio::test]
async fn a_session_whose_place_another_one_takes_is_remembered_if_that_is_said() {
    let (gateway, _mock) = remembering(json!({})).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "main", WELL, "run-1").await;
    let child = json!({"parentSessionKey": "main", "label": "one"});
    call(&mut client, "sessions.create", child).await;
    assert!(memories(&gateway).is_empty());
    let next = json!({"parentSessionKey": "main", "label": "two", "emitCommandHooks": true});
    call(&mut client, "sessions.create", next).await;
    let [(_, text)] = &memories(&gateway)[..] else { panic!("{:?}", memories(&gateway)) };
    assert!(text.contains("agent:main:main") && text.contains("It is well"), "{text}");
}
