//! A command does what its sender may do by methods, no more and no less: every
//! command of the table with every set of rights.

use std::fs;

use serde_json::{Value, json};

use clawgate::commands::COMMANDS;

use crate::reload::put;
use crate::stage::{Api, admin, call, config, connect, end_of, text_of};
use crate::support::client::standard_connect;
use crate::support::{Gateway, GatewayOptions, MockProvider, WsClient};

/// What is given to commands that do something only with words.
const WORDS: &[(&str, &str)] = &[
    ("approve", "x allow-once"),
    ("config", "set ui.seamColor=red"),
    ("usage", "tokens"),
    ("activation", "always"),
    ("send", "off"),
    ("think", "low"),
    ("verbose", "on"),
    ("trace", "on"),
    ("fast", "on"),
    ("reasoning", "on"),
    ("elevated", "on"),
    ("exec", "ask=always"),
    ("model", "mock/mock-2"),
    ("queue", "collect"),
];

/// The right that a client misses for a method; nothing happens.
async fn missing(client: &mut WsClient, method: &str) -> Option<String> {
    let answer = client.request(method, json!({"noSuchMember": true})).await;
    let message = answer["error"]["message"].as_str()?;
    message.strip_prefix("missing scope: ").map(str::to_owned)
}

/// The right that a command was refused for, as its answer says.
fn refused(answer: &str) -> Option<String> {
    if answer.contains("require operator.admin") {
        return Some("operator.admin".to_owned());
    }
    let (_, scope) = answer.split_once("missing scope: ")?;
    Some(scope.trim().to_owned())
}

/// What a command may change.
async fn state(gateway: &Gateway, client: &mut WsClient, key: &str) -> Value {
    // A patch of nothing answers everything that is kept of the session.
    let mut session = call(client, "sessions.patch", json!({"key": key})).await["entry"].clone();
    if let Value::Object(members) = &mut session {
        members.remove("updatedAt");
    }
    json!({"session": session, "config": fs::read_to_string(gateway.config_path()).unwrap()})
}

#[tokio::test]
async fn every_command_needs_the_rights_of_the_methods_that_it_stands_for() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["commands"] = json!({"config": true});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let hello = gateway.open().await.connect_standard(&["operator.admin"]).await;
    let methods: Vec<String> =
        serde_json::from_value(hello["payload"]["features"]["methods"].clone()).unwrap();
    let mut owner = admin(&gateway).await;
    let (mut granted, mut denied) = (0, 0);
    for rights in [
        &["operator.read"][..],
        &["operator.write"],
        &["operator.approvals"],
        &["operator.pairing"],
        &["operator.read", "operator.write", "operator.approvals", "operator.pairing"],
        &["operator.admin"],
    ] {
        let mut client = connect(&gateway, &standard_connect(rights)).await;
        // begin_again.rs has the restart, after which nobody is connected.
        for spec in COMMANDS.iter().filter(|spec| !["stop", "restart"].contains(&spec.name)) {
            // One that may be set of groups only.
            let key = format!("agent:main:discord:group:{}-{}", spec.name, rights.join("-"));
            let note = json!({"key": key, "message": "/whoami"});
            call(&mut owner, "sessions.create", note).await;
            let mut needed = missing(&mut client, "chat.send").await;
            for method in spec.methods {
                // What does not exist cannot be allowed or refused, but the config.
                let counts = methods.iter().any(|it| it == method) || *method == "config.patch";
                if needed.is_none() && counts {
                    needed = missing(&mut client, method).await;
                }
            }
            let before = state(&gateway, &mut owner, &key).await;
            let words = WORDS.iter().find(|(name, _)| *name == spec.name).map(|(_, words)| *words);
            let line = format!("{} {}", spec.aliases[0], words.unwrap_or_default());
            let id = format!("{key} {line}");
            let params = json!({"sessionKey": key, "message": line, "idempotencyKey": id});
            let answer = client.request("chat.send", params).await;
            let got = if answer["ok"] == true {
                refused(&text_of(&end_of(&owner, &id).await["message"]))
            } else {
                refused(answer["error"]["message"].as_str().unwrap())
            };
            assert_eq!(got, needed, "{line} with {rights:?}");
            let after = state(&gateway, &mut owner, &key).await;
            if needed.is_some() {
                assert_eq!(after, before, "{line} with {rights:?} changed something");
                denied += 1;
            } else {
                granted += 1;
                let is_setting = words.is_some() && spec.name != "approve";
                assert!(!is_setting || after != before, "{line} did nothing");
            }
            // The next one finds the file as it was.
            put(&gateway, before["config"].as_str().unwrap());
        }
    }
    assert!(granted > 30 && denied > 60, "{granted} {denied}");
}

#[tokio::test]
async fn a_message_behind_a_refused_command_is_not_run() {
    let mock = MockProvider::start().await;
    let gateway =
        Gateway::start(GatewayOptions::with_config(config(mock.address(), Api::OpenAi))).await;
    let owner = admin(&gateway).await;
    let mut writer = connect(&gateway, &standard_connect(&["operator.write"])).await;
    let words = "/new and tell me";
    let params = json!({"sessionKey": "main", "message": words, "idempotencyKey": "new"});
    call(&mut writer, "chat.send", params).await;
    let end = end_of(&owner, "new").await;
    assert_eq!(text_of(&end["message"]), "⚠️ /new: missing scope: operator.admin");
    assert!(mock.requests().is_empty());
}
