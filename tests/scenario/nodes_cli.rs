//! `clawgate nodes` against a gateway with a node.

use std::process::Output;
use std::time::Duration;

use serde_json::json;
use tokio::process::Command;

use crate::program::{json_of, said};
use crate::stage::{Api, Stage};
use crate::support::{Gateway, NodeClient, SECRET, program};

async fn nodes(gateway: &Gateway, args: &[&str]) -> Output {
    Command::new(program())
        .arg("nodes")
        .args(args)
        .args(["--url", &format!("ws://{}", gateway.address()), "--token", SECRET])
        .env_clear()
        .env("HOME", gateway.state_dir())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap()
}

#[tokio::test]
async fn nodes_are_listed_approved_named_asked_and_removed() {
    let gateway = Stage::new(Api::OpenAi).await.gateway;
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &["location.get"]).await;
    let list = said(&nodes(&gateway, &["list"]).await);
    assert!(list.contains("Phone") && list.contains("connected"), "{list}");
    assert!(list.contains("Waiting for"), "{list}");
    let list = json_of(&nodes(&gateway, &["list", "--json"]).await);
    let request = list["pending"][0]["requestId"].as_str().unwrap().to_owned();

    // Its device was approved, but nobody has let it have its commands.
    let approval = async || {
        let shown = said(&nodes(&gateway, &["describe", "phone"]).await);
        let row = shown.lines().find(|line| line.starts_with("approved")).unwrap();
        row.split_whitespace().next_back().unwrap().to_owned()
    };
    assert_eq!(approval().await, "no");
    let approved = said(&nodes(&gateway, &["approve", &request[..8]]).await);
    assert_eq!(approved, "Phone may be asked for: location.get\n");
    assert_eq!(approval().await, "yes");
    let renamed = json_of(&nodes(&gateway, &["rename", "phone", "Mine", "--json"]).await);
    assert_eq!(renamed, json!({"nodeId": phone.id, "displayName": "Mine"}));
    let shown = said(&nodes(&gateway, &["describe", &phone.id[..8]]).await);
    assert!(shown.contains("can be asked") && shown.contains("location.get"), "{shown}");

    // It takes longer than an answer of the gateway may, and not as long as it has.
    let params = "{\"exact\":true}";
    let limits = ["--timeout", "1", "--timeout-ms", "20000"];
    let invoke = [&["invoke", "mine", "location.get", "--params", params][..], &limits].concat();
    let asking = nodes(&gateway, &invoke);
    let answering = async {
        let request = phone.asked("location.get", 1).await;
        assert_eq!(request["paramsJSON"], r#"{"exact":true}"#);
        tokio::time::sleep(Duration::from_secs(2)).await;
        phone.answer(&request, json!({"lat": 1})).await
    };
    let (asked, _) = tokio::join!(asking, answering);
    assert_eq!(json_of(&asked), json!({"lat": 1}));

    // The forms of OpenClaw.
    let renamed = nodes(&gateway, &["rename", "--node", "mine", "--name", "Ours"]).await;
    assert!(said(&renamed).contains("is called Ours"), "{renamed:?}");
    let limits = ["--invoke-timeout", "20000", "--idempotency-key", "k"];
    let invoke = ["invoke", "--node", "ours", "--command", "location.get"];
    let invoke = [&invoke[..], &limits].concat();
    let asking = nodes(&gateway, &invoke);
    let answering = async {
        let request = phone.asked("location.get", 2).await;
        phone.answer(&request, json!({"lat": 2})).await
    };
    let (asked, _) = tokio::join!(asking, answering);
    assert_eq!(json_of(&asked), json!({"lat": 2}));
    let list = json_of(&nodes(&gateway, &["status", "--json"]).await);
    assert_eq!(list["nodes"][0]["displayName"], "Ours", "{list}");
    for wrong in [&["describe"][..], &["describe", "a", "--node", "b"], &["rename", "ours"]] {
        let output = nodes(&gateway, wrong).await;
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {output:?}");
    }

    let removed = said(&nodes(&gateway, &["remove", "--node", "Ours"]).await);
    assert_eq!(removed, "Ours is no longer approved\n");
    let refused = nodes(&gateway, &["invoke", "Phone", "location.get"]).await;
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && told.contains("does not support"), "{told}");
    for unknown in [&["describe", "nobody"][..], &["approve", "x"], &["rename", "nobody", "y"]] {
        let output = nodes(&gateway, unknown).await;
        assert_eq!(output.status.code(), Some(1), "{unknown:?}: {output:?}");
    }
}
