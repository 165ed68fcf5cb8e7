//! The page of nodes and devices.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::Place;
use crate::stage::{admin, call, until};
use crate::support::guest::Guest;
use crate::support::{Gateway, NodeClient, WsClient};

const COMMANDS: [&str; 3] = ["system.run", "system.execApprovals.get", "system.execApprovals.set"];

const POLL: Duration = Duration::from_millis(20);

/// A node that was approved.
async fn builder(gateway: &Gateway, client: &mut WsClient) -> NodeClient {
    let node = NodeClient::connect(gateway, "Builder", "linux", &COMMANDS).await;
    let request = until("a node that waits", async || {
        let list = call(client, "node.pair.list", json!({})).await;
        Some(list["pending"].get(0)?["requestId"].clone())
    });
    let request = request.await;
    call(client, "node.pair.approve", json!({"requestId": request})).await;
    // Its commands are those of a connection that comes after that.
    drop(node);
    NodeClient::connect(gateway, "Builder", "linux", &COMMANDS).await
}

/// Waits for what a visit brings; the visit has a limit.
async fn some<T>(look: impl AsyncFnMut() -> Option<T>) -> T {
    let mut look = look;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        sleep(POLL).await;
    }
}

/// Waits until a node is asked for this command for the nth time.
async fn wanted(node: &NodeClient, command: &str, nth: usize) -> Value {
    some(async || node.requests().into_iter().filter(|it| it["command"] == command).nth(nth)).await
}

/// Keeps the file of approvals of a node; what it is in the end.
async fn keeps_approvals(node: &mut NodeClient) -> Value {
    let snapshot = |file: &Value, hash: &str| {
        json!({"path": "/home/builder/exec-approvals.json", "exists": true, "hash": hash,
            "file": file})
    };
    let file = json!({"version": 1, "defaults": {"security": "deny"}, "agents": {}});
    let asked = wanted(node, "system.execApprovals.get", 0).await;
    node.answer(&asked, snapshot(&file, "h1")).await;
    let asked = wanted(node, "system.execApprovals.set", 0).await;
    let params: Value = serde_json::from_str(asked["paramsJSON"].as_str().unwrap()).unwrap();
    assert_eq!(params["baseHash"], "h1");
    node.answer(&asked, snapshot(&params["file"], "h2")).await;
    let asked = wanted(node, "system.execApprovals.get", 1).await;
    node.answer(&asked, snapshot(&params["file"], "h2")).await;
    params["file"].clone()
}

#[tokio::test]
async fn approvals_bindings_and_devices_are_decided_on_the_page_of_nodes() {
    let place = Place::with(|config| {
        config["gateway"]["trustedProxies"] = json!(["127.0.0.1"]);
        config["gateway"]["nodes"] = json!({"allowCommands": &COMMANDS[1..]});
    });
    let place = place.await;
    let gateway = &place.gateway;
    let mut client = admin(gateway).await;
    let mut node = builder(gateway, &mut client).await;
    let guest = |name: &str| Guest::new(name, &["operator.read"]).says("displayName", name);
    let laptop = guest("Laptop");
    let (_connection, auth) = laptop.come(gateway).await;
    let (phone, stranger) = (guest("Phone").far(), guest("Stranger").far());
    let knocking = async {
        some(async || {
            let list = call(&mut client, "device.pair.list", json!({})).await;
            let paired = list["paired"].as_array()?.clone();
            paired.into_iter().find(|device| device["clientId"] == "openclaw-control-ui")
        })
        .await;
        phone.asks(gateway).await;
        stranger.asks(gateway).await;
    };
    let page = place.visit("nodes", json!({}));
    let (seen, (), on_node) = tokio::join!(page, knocking, keeps_approvals(&mut node));
    seen.check_calls(&["exec.approvals.set", "exec.approvals.node.get", "exec.approvals.node.set"]);
    let nodes = seen.told["nodes"].to_string();
    assert!(nodes.contains("connected") && nodes.contains("system.run"), "{nodes}");
    let dialogs = seen.told["dialogs"].to_string();
    assert!(dialogs.contains("Reject this device") && dialogs.contains("Revoke token"));

    assert_eq!(on_node["defaults"]["security"], "full");
    let mut client = admin(gateway).await;
    let file = call(&mut client, "exec.approvals.get", json!({})).await["file"].take();
    let defaults = json!({"security": "allowlist", "askFallback": "allowlist"});
    assert_eq!(file["defaults"], defaults, "{file}");
    assert_eq!(file["agents"]["main"]["allowlist"][0]["pattern"], "/usr/bin/git", "{file}");
    let config = fs::read_to_string(gateway.config_path()).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    assert_eq!(config["agents"]["list"][0]["tools"]["exec"]["node"], json!(node.id));
    phone.come(gateway).await;
    let (error, _) = stranger.refused(gateway).await;
    assert_eq!(error["details"]["code"], "PAIRING_REQUIRED", "{error}");
    let old = laptop.with(json!({"deviceToken": auth["deviceToken"]})).far();
    let (error, _) = old.refused(gateway).await;
    assert_eq!(error["code"], "INVALID_REQUEST", "{error}");
}
