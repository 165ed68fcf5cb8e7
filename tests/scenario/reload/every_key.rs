//! Every key of the documentation is set otherwise while clients are connected.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::{config, edit, until};
use crate::stage::{Api, admin, ask, call, connect};
use crate::support::client::standard_connect;
use crate::support::{Gateway, GatewayOptions, MockProvider};

/// Where clients come in, and by what: these are flipped in `auth.rs` and `file.rs`; and
/// what is a variable only, which no file changes.
const ELSEWHERE: [&str; 8] = [
    "gateway.port",
    "gateway.bind",
    "gateway.customBindHost",
    "gateway.auth.mode",
    "gateway.auth.token",
    "gateway.auth.password",
    "gateway.auth.sharedSecretScopes",
    "gateway.maxPreauthPerIp",
];

/// A key and another value for it. A path ends at the key that is documented.
fn flips() -> Vec<(&'static str, Value)> {
    let text = include_str!("flips.json");
    let flips: Vec<(String, Value)> = serde_json::from_str(text).unwrap();
    flips.into_iter().map(|(key, value)| (&*key.leak(), value)).collect()
}

/// The keys of the tables of `docs/configuration.md`.
fn documented() -> BTreeSet<String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    let text = fs::read_to_string(docs).unwrap();
    let sections = [
        "gateway.",
        "session.",
        "agents.",
        "cron.",
        "tools.",
        "messages.",
        "commands.",
        "models.",
        "auth.",
        "secrets.",
        "skills.",
        "mcp.",
        "channels.",
        "bindings",
        "logging.",
        "talk.",
        "hooks.",
        "audio.",
        "ui.",
        "env.",
    ];
    let cells = text.lines().filter_map(|line| line.strip_prefix("| `")?.split('|').next());
    let keys = cells.flat_map(|cell| cell.split('`').map(str::to_owned).collect::<Vec<_>>());
    let is_key = |key: &String| {
        sections.iter().any(|section| key.starts_with(section)) && !key.contains(' ')
    };
    keys.filter(is_key).collect()
}

/// Sets the member at a dotted path; items of lists are found by their index.
fn set(config: &mut Value, path: &str, value: Value) {
    let mut at = config;
    for step in path.split('.') {
        at = match step.parse::<usize>() {
            Ok(index) => &mut at[index],
            Err(_) => &mut at[step],
        };
    }
    *at = value;
}

#[test]
fn every_documented_key_is_among_those_that_are_flipped() {
    let flips = flips();
    let is_known = |key: &String| {
        let key = key.replace("[]", ".0");
        // `<…>` stands for names of the user's choice.
        let parts: Vec<_> = key.split('.').collect();
        let is_it = |flip: &str| {
            let steps: Vec<_> = flip.split('.').collect();
            steps.len() >= parts.len()
                && parts
                    .iter()
                    .zip(&steps)
                    .all(|(part, step)| part.starts_with('<') || part == step)
        };
        ELSEWHERE.contains(&&*key)
            || flips.iter().any(|(flip, value)| {
                is_it(flip)
                    || key.starts_with(flip) && value.pointer(&pointer(&key, flip)).is_some()
            })
    };
    let missing: Vec<_> = documented().into_iter().filter(|key| !is_known(key)).collect();
    assert!(missing.is_empty(), "documented, and not flipped: {missing:?}");
}

/// The rest of a key below a flip, as a pointer into its value.
fn pointer(key: &str, flip: &str) -> String {
    key.strip_prefix(flip).unwrap_or_default().replace('.', "/")
}

#[tokio::test]
async fn every_key_is_in_use_at_once_and_nobody_is_disconnected() {
    let mock = MockProvider::start().await;
    let mut first = crate::stage::config(mock.address(), Api::OpenAi);
    first["gateway"]["reload"] = json!({"mode": "hot", "debounceMs": 0});
    let gateway = Gateway::start(GatewayOptions::with_config(first)).await;
    let mut client = admin(&gateway).await;
    let others =
        [admin(&gateway).await, connect(&gateway, &standard_connect(&["operator.read"])).await];
    let base = config(&gateway);
    for (key, value) in flips() {
        edit(&gateway, |config| {
            *config = base.clone();
            set(config, key, value.clone());
        });
        let seen = until(&mut client, "config.get", |seen| {
            assert_eq!(seen["issues"], json!([]), "{key}: {value}: {seen}");
            seen["runtimeConfig"] == seen["resolved"]
        })
        .await;
        assert_eq!(
            seen["resolved"].pointer(&format!("/{}", key.replace('.', "/"))).is_some(),
            !value.is_null(),
            "{key} is in the file"
        );
        let wants_restart = key.starts_with("gateway.tls.")
            || key == "gateway.dialects.ports"
            || key.starts_with("gateway.dialects.claude.projects");
        // One section of every test's file means nothing here.
        let warnings = seen["warnings"].as_array().unwrap().iter();
        let warnings: Vec<_> = warnings.filter(|warning| warning["path"] != "update").collect();
        let is_restart =
            |warning: &&Value| warning["message"].as_str().unwrap().contains("restart");
        assert_eq!(!warnings.is_empty(), wants_restart, "{key}: {warnings:?}");
        assert!(warnings.iter().all(is_restart), "{key}: {warnings:?}");
    }
    edit(&gateway, |config| *config = base.clone());
    until(&mut client, "config.get", |seen| seen["runtimeConfig"] == seen["resolved"]).await;
    assert!(client.closed().is_none() && others.iter().all(|other| other.closed().is_none()));
    ask(&mut client, "main", "hello", "after").await;
    assert_eq!(gateway.stderr().matches("ready address").count(), 1, "it was never restarted");
}

#[tokio::test]
async fn what_is_set_is_what_clients_see_from_then_on() {
    let mock = MockProvider::start().await;
    let mut first = crate::stage::config(mock.address(), Api::OpenAi);
    first["gateway"]["reload"] = json!({"mode": "hot", "debounceMs": 0});
    let gateway = Gateway::start(GatewayOptions::with_config(first)).await;
    let mut client = admin(&gateway).await;
    edit(&gateway, |config| {
        config["session"] = json!({"mainKey": "chief", "scope": "global"});
        config["agents"]["list"] = json!([{"id": "ann", "default": true}, {"id": "bob"}]);
        config["agents"]["defaults"]["model"]["primary"] = json!("mock/mock-2");
        config["agents"]["defaults"]["heartbeat"]["every"] = json!("7m");
        config["cron"] = json!({"enabled": false});
        config["tools"] = json!({"deny": ["exec"]});
        config["channels"] = json!({"webhook": {"secret": "s3cret-s3cret-s3cret-s3cret", "url": "http://127.0.0.1:9/"}});
        config["gateway"]["controlUi"] = json!({"allowedOrigins": ["https://panel.example"]});
    });
    let agents = until(&mut client, "agents.list", |told| told["defaultId"] == "ann").await;
    assert_eq!((&agents["mainKey"], &agents["scope"]), (&json!("chief"), &json!("global")));
    assert_eq!(agents["agents"].as_array().unwrap().len(), 2);
    let hello = gateway.open().await.request("connect", standard_connect(&[])).await;
    assert_eq!(hello["payload"]["snapshot"]["sessionDefaults"]["mainKey"], "chief");
    assert_eq!(call(&mut client, "cron.status", json!({})).await["enabled"], false);
    until(&mut client, "health", |told| told["heartbeatSeconds"] == 420).await;
    let status = until(&mut client, "channels.status", |told| {
        told["channels"]["webhook"]["running"] == true
    });
    status.await;
    let mut params = standard_connect(&[]);
    params["client"]["id"] = json!("webchat-ui");
    let page = [("Origin".to_owned(), "https://panel.example".to_owned())];
    let mut page =
        crate::support::WsClient::open_with(&gateway.address(), "/", &page).await.unwrap();
    let answer = page.request("connect", params).await.to_string();
    assert!(!answer.contains("ORIGIN"), "{answer}");
    ask(&mut client, "main", "hello", "by-two").await;
    assert_eq!(mock.requests().last().unwrap().body["model"], "mock-2");
    let tools =
        call(&mut client, "tools.effective", json!({"sessionKey": "main"})).await.to_string();
    assert!(!tools.contains("\"exec\"") && tools.contains("\"read\""), "{tools}");
    // And back: the channel ends, and so does everything else.
    edit(&gateway, |config| {
        let members = config.as_object_mut().unwrap();
        members.retain(|name, _| ["gateway", "models", "agents"].contains(&&**name));
    });
    until(&mut client, "channels.status", |told| {
        told["channels"]["webhook"]["configured"] == false
    })
    .await;
    assert_eq!(call(&mut client, "cron.status", json!({})).await["enabled"], true);
    assert!(client.closed().is_none());
}
