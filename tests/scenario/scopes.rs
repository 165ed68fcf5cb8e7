//! What a connection may call and hear.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::stage::{Api, admin, ask, call, connect, end_of, scripted};
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::{Gateway, WsClient};

/// Longer than the 30 s between two ticks.
const TICK_LIMIT: Duration = Duration::from_secs(35);

/// Events that say what is said; they need `operator.read`.
const CONVERSATION: [&str; 5] =
    ["agent", "chat", "session.message", "session.tool", "sessions.changed"];

/// The scopes that are good for `needed`.
fn is_good_for(held: &str, needed: &str) -> bool {
    let is_write_for_read = held == "operator.write" && needed == "operator.read";
    held == "operator.admin" || held == needed || is_write_for_read
}

/// Every method of the table, as an admin's hello names them.
async fn methods(gateway: &Gateway) -> Vec<String> {
    let hello = gateway.open().await.request("connect", standard_connect(&ALL_SCOPES)).await;
    serde_json::from_value(hello["payload"]["features"]["methods"].clone()).unwrap()
}

/// The scope that a call is refused for.
async fn missing(client: &mut WsClient, method: &str) -> Option<String> {
    // Params that no method takes: nothing happens when the call is let in.
    let answer = client.request(method, json!({"noSuchMember": true})).await;
    let message = answer["error"]["message"].as_str()?;
    message.strip_prefix("missing scope: ").map(str::to_owned)
}

#[tokio::test]
async fn every_method_is_refused_without_its_scope_and_only_then() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let methods = methods(&gateway).await;
    assert!(methods.len() > 10, "{methods:?}");
    let mut nobody = connect(&gateway, &standard_connect(&[])).await;
    let mut needs = BTreeMap::new();
    for method in &methods {
        needs.insert(method.as_str(), missing(&mut nobody, method).await);
    }
    let open: Vec<_> =
        needs.iter().filter(|(_, need)| need.is_none()).map(|(name, _)| *name).collect();
    assert_eq!(open, ["health"]);
    assert_eq!(needs["chat.send"].as_deref(), Some("operator.write"));
    assert_eq!(needs["chat.history"].as_deref(), Some("operator.read"));
    assert_eq!(needs["chat.inject"].as_deref(), Some("operator.admin"));
    for scope in ALL_SCOPES {
        let mut one = connect(&gateway, &standard_connect(&[scope])).await;
        for (method, need) in &needs {
            let expected = need.clone().filter(|need| !is_good_for(scope, need));
            // Done, it ends the connection; begin_again.rs has it.
            if expected.is_none() && *method == "gateway.restart.request" {
                continue;
            }
            let refused = missing(&mut one, method).await;
            assert_eq!(refused, expected, "{method} with {scope}");
        }
        let hello = gateway.open().await.request("connect", standard_connect(&[scope])).await;
        let advertised = hello["payload"]["features"]["methods"].as_array().unwrap().len();
        let allowed = needs.values().flatten().filter(|need| is_good_for(scope, need)).count();
        assert_eq!(advertised, allowed + open.len(), "hello tells what may be called");
    }
}

#[tokio::test]
async fn a_method_that_does_not_exist_is_a_secret_of_admins() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut writer = connect(&gateway, &standard_connect(&["operator.write"])).await;
    assert_eq!(missing(&mut writer, "no.such").await.as_deref(), Some("operator.admin"));
    let answer = admin(&gateway).await.request("no.such", json!({})).await;
    assert_eq!(answer["error"]["message"], "unknown method: no.such");
}

#[tokio::test]
async fn without_the_read_scope_a_connection_hears_no_conversation_but_the_heartbeat() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let scopes = ["operator.approvals", "operator.pairing"];
    let mut deaf = connect(&gateway, &standard_connect(&scopes)).await;
    let mut reader = connect(&gateway, &standard_connect(&["operator.read"])).await;
    call(&mut reader, "sessions.subscribe", json!({})).await;
    for method in ["sessions.subscribe", "sessions.messages.subscribe"] {
        assert_eq!(missing(&mut deaf, method).await.as_deref(), Some("operator.read"));
    }
    let mut sender = admin(&gateway).await;
    let text = "@mock tool name=session_status then=done";
    ask(&mut sender, "main", text, "run-1").await;
    end_of(&reader, "run-1").await;
    let is_tick = |frame: &Value| frame["event"] == "tick";
    deaf.wait_for(TICK_LIMIT, is_tick).await.expect("a tick");
    call(&mut deaf, "health", json!({})).await;
    let heard = |client: &WsClient, name: &str| {
        client.frames().iter().filter(|frame| frame["event"] == name).count()
    };
    for name in CONVERSATION {
        assert_eq!(heard(&deaf, name), 0, "{name}");
        assert!(heard(&reader, name) > 0, "{name}");
    }
    assert!(heard(&deaf, "health") > 0);
    let frames = deaf.frames();
    let seqs = frames.iter().filter_map(|frame| frame["seq"].as_u64());
    assert!(seqs.eq(0..frames.iter().filter(|frame| frame["type"] == "event").count() as u64));
}
