//! Nodes while something changes: their connections, the config, what was decided
//! on them, and requests that come again.

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::channels::patch;
use crate::stage::{Api, Stage, admin, call, refusal, until};
use crate::support::client::SOON;
use crate::support::node_client::{connect_params, invoke, invoked};
use crate::support::{DeviceKey, Gateway, NodeClient, WsClient, now_ms};

async fn gateway() -> Gateway {
    Stage::new(Api::OpenAi).await.gateway
}

async fn row(client: &mut WsClient, node: &str) -> Value {
    call(client, "node.describe", json!({"nodeId": node})).await
}

/// Approves whatever waits.
async fn approve(client: &mut WsClient) {
    let pending = call(client, "node.pair.list", json!({})).await["pending"].clone();
    let request = json!({"requestId": pending[0]["requestId"]});
    call(client, "node.pair.approve", request).await;
}

/// Waits until the list of who is there says this of a device.
async fn is_listed(client: &mut WsClient, device: &str, reason: &str) {
    until(reason, async || {
        let all = call(&mut *client, "system-presence", json!({})).await;
        let is_it = |entry: &Value| entry["deviceId"] == device && entry["reason"] == reason;
        all.as_array().unwrap().iter().any(is_it).then_some(())
    })
    .await;
}

#[tokio::test]
async fn nothing_is_left_of_a_node_whose_device_is_removed_while_it_connects() {
    let gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let commands = ["location.get"];
    let node = NodeClient::connect(&gateway, "Phone", "iOS 18", &commands).await;
    let id = node.id.clone();
    drop(node);
    is_listed(&mut client, &id, "disconnect").await;

    // While somebody else holds the database the node is let in, and its device is removed
    // before the node is recorded.
    let database = Connection::open(gateway.state_dir().join("clawgate.sqlite")).unwrap();
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    let params = json!({"deviceId": id});
    let remove =
        json!({"type": "req", "id": "remove", "method": "device.pair.remove", "params": params});
    client.send(&remove).await;
    call(&mut client, "health", json!({})).await;
    let mut coming = gateway.open().await;
    let mut params = connect_params("Phone", "iOS 18", &commands);
    params["device"] = DeviceKey::named("Phone").proof(&params, &coming.nonce().await, now_ms());
    let connect = json!({"type": "req", "id": "connect", "method": "connect", "params": params});
    coming.send(&connect).await;
    is_listed(&mut client, &id, "connect").await;
    database.execute_batch("COMMIT").unwrap();

    assert_eq!(client.answer("remove").await.expect("an answer")["ok"], true);
    assert_eq!(coming.wait_closed(SOON).await.expect("it is closed").code, 4001);
    let rows = "SELECT (SELECT COUNT(*) FROM nodes) + (SELECT COUNT(*) FROM node_requests)";
    let left: i64 = database.query_row(rows, [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn an_older_connection_of_a_node_is_asked_when_the_newest_ends() {
    let gateway = gateway().await;
    let mut client = admin(&gateway).await;
    drop(NodeClient::connect(&gateway, "Phone", "iOS 18", &["device.info"]).await);
    let both = ["device.info", "location.get"];
    let mut old = NodeClient::connect(&gateway, "Phone", "iOS 18", &both).await;
    let since = row(&mut client, &old.id).await["connectedAtMs"].clone();
    let new = NodeClient::connect(&gateway, "Phone", "iOS 18", &both).await;
    assert_ne!(row(&mut client, &old.id).await["connectedAtMs"], since);
    // What is granted counts for both.
    approve(&mut client).await;
    drop(new);
    until("the older connection counts", async || {
        (row(&mut client, &old.id).await["connectedAtMs"] == since).then_some(())
    })
    .await;
    invoke(&mut client, "i", &old.id, "location.get", json!({})).await;
    let request = old.asked("location.get", 1).await;
    old.answer(&request, json!({"lat": 1})).await;
    assert_eq!(invoked(&client, "i").await["payload"]["payload"], json!({"lat": 1}));
}

#[tokio::test]
async fn a_command_that_the_config_allows_later_is_asked_for_and_counts_once_approved() {
    let gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let commands = ["location.get", "camera.snap"];
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &commands).await;
    approve(&mut client).await;
    let snap =
        |key: &str| json!({"nodeId": phone.id, "command": "camera.snap", "idempotencyKey": key});
    let text = refusal(&mut client, "node.invoke", snap("1")).await;
    assert!(text.contains("is not in the allowlist"), "{text}");

    patch(&mut client, &json!({"gateway": {"nodes": {"allowCommands": ["camera.snap"]}}})).await;
    let text = refusal(&mut client, "node.invoke", snap("2")).await;
    assert!(text.contains("does not support \"camera.snap\""), "{text}");
    let requested = client.wait_for(SOON, |frame| {
        frame["event"] == "node.pair.requested" && frame["payload"]["commands"] == json!(commands)
    });
    requested.await.expect("a request for what is allowed now");
    assert_eq!(row(&mut client, &phone.id).await["commands"], json!(["location.get"]));
    approve(&mut client).await;
    invoke(&mut client, "i", &phone.id, "camera.snap", json!({})).await;
    let request = phone.asked("camera.snap", 1).await;
    phone.answer(&request, json!({})).await;
    assert_eq!(invoked(&client, "i").await["ok"], true);

    patch(&mut client, &json!({"gateway": {"nodes": {"denyCommands": ["camera.snap"]}}})).await;
    assert_eq!(row(&mut client, &phone.id).await["commands"], json!(["location.get"]));
}

#[tokio::test]
async fn a_device_of_a_system_that_nobody_knows_is_asked_for_what_any_may_have() {
    let gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let commands = ["location.get", "camera.snap", "system.run"];
    let mut clock = NodeClient::connect(&gateway, "Clock", "esp32", &commands).await;
    assert_eq!(row(&mut client, &clock.id).await["commands"], json!(["location.get"]));
    invoke(&mut client, "i", &clock.id, "location.get", json!({})).await;
    let request = clock.asked("location.get", 1).await;
    clock.answer(&request, json!({"lat": 1})).await;
    assert_eq!(invoked(&client, "i").await["ok"], true);
}

#[tokio::test]
async fn nobody_changes_the_profiles_of_a_browser_by_way_of_its_node() {
    let gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let mut node = NodeClient::connect(&gateway, "Box", "linux", &["browser.proxy"]).await;
    let create = json!({"method": "POST", "path": "/profiles/create", "body": {"name": "poc"}});
    let create = json!({"nodeId": node.id, "command": "browser.proxy", "params": create,
        "timeoutMs": 1000, "idempotencyKey": "create"});
    let text = refusal(&mut client, "node.invoke", create).await;
    assert_eq!(text, "node.invoke cannot mutate persistent browser profiles via browser.proxy");
    let look = json!({"params": {"method": "GET", "path": "/profiles"}});
    invoke(&mut client, "look", &node.id, "browser.proxy", look).await;
    let request = node.asked("browser.proxy", 1).await;
    node.answer(&request, json!({"profiles": []})).await;
    assert_eq!(invoked(&client, "look").await["ok"], true);
    assert_eq!(node.requests().len(), 1, "it was not asked for the other");
}

#[tokio::test]
async fn what_a_tablet_cannot_do_in_the_background_waits_as_for_a_phone() {
    let gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let mut tablet = NodeClient::connect(&gateway, "Tablet", "iPadOS 18", &["canvas.eval"]).await;
    invoke(&mut client, "i", &tablet.id, "canvas.eval", json!({})).await;
    let request = tablet.asked("canvas.eval", 1).await;
    tablet.refuse(&request, "NODE_BACKGROUND_UNAVAILABLE", "in the background").await;
    let refused = invoked(&client, "i").await;
    assert_eq!(refused["error"]["details"]["code"], "QUEUED_UNTIL_FOREGROUND", "{refused}");
}

#[tokio::test]
async fn a_command_that_was_done_at_the_second_try_waits_no_longer() {
    let gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &["canvas.eval"]).await;
    for (key, count) in [("one", 1), ("two", 2)] {
        invoke(&mut client, key, &phone.id, "canvas.eval", json!({})).await;
        let request = phone.asked("canvas.eval", count).await;
        phone.refuse(&request, "NODE_BACKGROUND_UNAVAILABLE", "in the background").await;
        let refused = invoked(&client, key).await;
        assert_eq!(refused["error"]["details"]["code"], "QUEUED_UNTIL_FOREGROUND", "{refused}");
    }
    let mut other = admin(&gateway).await;
    let params = json!({"params": {"javaScript": "2"}});
    invoke(&mut other, "two", &phone.id, "canvas.eval", params).await;
    let error = invoked(&other, "two").await["error"].clone();
    assert_eq!(error["message"], "idempotencyKey was used for other params", "{error}");
    let mut again = admin(&gateway).await;
    invoke(&mut again, "one", &phone.id, "canvas.eval", json!({})).await;
    let request = phone.asked("canvas.eval", 3).await;
    let waiting = pulled(&mut phone).await;
    assert_eq!(waiting.len(), 1, "not what it is asked just now: {waiting:?}");
    phone.answer(&request, json!({"result": 1})).await;
    assert_eq!(invoked(&again, "one").await["ok"], true);
    assert_eq!(pulled(&mut phone).await, waiting, "the other one still waits");
}

/// The commands that a node fetches.
async fn pulled(node: &mut NodeClient) -> Vec<Value> {
    let pulled = call(&mut node.client, "node.pending.pull", json!({})).await;
    pulled["actions"].as_array().unwrap().clone()
}

/// What is answered to `canvas.eval` under this key.
async fn eval(gateway: &Gateway, node: &NodeClient, key: &str, params: Value) -> Value {
    let mut client = admin(gateway).await;
    invoke(&mut client, key, &node.id, "canvas.eval", params).await;
    invoked(&client, key).await
}

#[tokio::test]
async fn a_command_that_a_phone_has_fetched_is_not_done_twice_under_its_key() {
    let mut gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &["canvas.eval"]).await;
    let buy = || json!({"params": {"javaScript": "buy()"}});
    invoke(&mut client, "key", &phone.id, "canvas.eval", buy()).await;
    let request = phone.asked("canvas.eval", 1).await;
    phone.refuse(&request, "NODE_BACKGROUND_UNAVAILABLE", "in the background").await;
    let id = invoked(&client, "key").await["error"]["details"]["queuedActionId"].clone();
    let waiting = pulled(&mut phone).await;
    assert_eq!((&waiting[0]["id"], &waiting[0]["idempotencyKey"]), (&id, &json!("key")));

    let error = eval(&gateway, &phone, "key", buy()).await["error"].clone();
    assert_eq!(error["details"]["code"], "QUEUED_UNTIL_FOREGROUND", "{error}");
    assert_eq!((&error["details"]["queuedActionId"], &error["retryable"]), (&id, &json!(true)));
    assert_eq!(pulled(&mut phone).await[0]["id"], id, "it may fetch it again");

    call(&mut phone.client, "node.pending.ack", json!({"ids": [id]})).await;
    let done = json!({"ok": true, "nodeId": phone.id, "command": "canvas.eval", "payload": null,
        "payloadJSON": null, "queuedActionId": id});
    assert_eq!(eval(&gateway, &phone, "key", buy()).await["payload"], done);
    let other = eval(&gateway, &phone, "key", json!({"params": {"javaScript": "1"}})).await;
    assert_eq!(other["error"]["message"], "idempotencyKey was used for other params");
    assert_eq!(phone.requests().len(), 1, "it was asked once");
    gateway.kill9();
    gateway.restart().await;
    assert_eq!(eval(&gateway, &phone, "key", buy()).await["payload"], done);
}

#[tokio::test]
async fn a_command_that_could_not_be_asked_for_again_still_waits() {
    let gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &["canvas.eval"]).await;
    for (id, code, count) in [("one", "NODE_BACKGROUND_UNAVAILABLE", 1), ("two", "LOCKED", 2)] {
        let more = json!({"idempotencyKey": "key"});
        invoke(&mut client, id, &phone.id, "canvas.eval", more).await;
        let request = phone.asked("canvas.eval", count).await;
        phone.refuse(&request, code, "no").await;
        assert_eq!(invoked(&client, id).await["ok"], false);
    }
    assert_eq!(pulled(&mut phone).await.len(), 1);
}

#[tokio::test]
async fn a_command_that_was_asked_for_again_when_the_gateway_was_killed_still_waits() {
    let mut gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &["canvas.eval"]).await;
    invoke(&mut client, "key", &phone.id, "canvas.eval", json!({})).await;
    let request = phone.asked("canvas.eval", 1).await;
    phone.refuse(&request, "NODE_BACKGROUND_UNAVAILABLE", "in the background").await;
    let id = invoked(&client, "key").await["error"]["details"]["queuedActionId"].clone();
    let mut again = admin(&gateway).await;
    invoke(&mut again, "key", &phone.id, "canvas.eval", json!({})).await;
    phone.asked("canvas.eval", 2).await;
    gateway.kill9();
    gateway.restart().await;

    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &["canvas.eval"]).await;
    let waiting = pulled(&mut phone).await;
    assert_eq!(waiting.iter().map(|action| &action["id"]).collect::<Vec<_>>(), [&id]);
    call(&mut phone.client, "node.pending.ack", json!({"ids": [id]})).await;
    let answer = eval(&gateway, &phone, "key", json!({})).await;
    assert_eq!(answer["payload"]["queuedActionId"], id, "{answer}");
    assert!(phone.requests().is_empty());
}

#[tokio::test]
async fn a_key_with_other_params_is_refused_and_a_node_is_told_how_long_it_has() {
    let gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let mut phone = NodeClient::connect(&gateway, "Phone", "iOS 18", &["location.get"]).await;
    let params = |params: Value| json!({"params": params, "timeoutMs": 7_200_000});
    let wanted = json!({"exact": true, "within": {"s": 5, "m": 1}});
    invoke(&mut client, "key", &phone.id, "location.get", params(wanted)).await;
    let request = phone.asked("location.get", 1).await;
    assert_eq!(request["timeoutMs"], 7_200_000, "as long as it was given");
    phone.answer(&request, json!({"lat": 1})).await;
    let first = invoked(&client, "key").await["payload"].clone();
    assert_eq!(first["payload"], json!({"lat": 1}));

    let mut other = admin(&gateway).await;
    let turned = json!({"within": {"m": 1, "s": 5}, "exact": true});
    invoke(&mut other, "key", &phone.id, "location.get", params(turned)).await;
    assert_eq!(invoked(&other, "key").await["payload"], first);
    let mut other = admin(&gateway).await;
    invoke(&mut other, "key", &phone.id, "location.get", params(json!({"exact": false}))).await;
    let error = invoked(&other, "key").await["error"].clone();
    assert_eq!(error["code"], "INVALID_REQUEST");
    assert_eq!(error["message"], "idempotencyKey was used for other params");
    assert_eq!(phone.requests().len(), 1);
}

#[tokio::test]
async fn a_node_is_called_what_a_person_calls_it_until_it_is_removed() {
    let gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let node = NodeClient::connect(&gateway, "Phone", "iOS 18", &["location.get"]).await;
    approve(&mut client).await;
    let name = json!({"nodeId": node.id, "displayName": "Mine"});
    call(&mut client, "node.rename", name).await;
    assert_eq!(row(&mut client, &node.id).await["displayName"], "Mine", "while it is connected");
    drop(node);
    let more = ["location.get", "device.info"];
    let node = NodeClient::connect(&gateway, "Phone", "iOS 18", &more).await;
    approve(&mut client).await;
    assert_eq!(row(&mut client, &node.id).await["displayName"], "Mine", "after an approval");
    let paired = call(&mut client, "node.pair.list", json!({})).await["paired"].clone();
    assert_eq!(paired[0]["displayName"], "Mine", "{paired}");
    call(&mut client, "node.pair.remove", json!({"nodeId": node.id})).await;
    assert_eq!(row(&mut client, &node.id).await["displayName"], "Phone");
}

#[tokio::test]
async fn clients_hear_that_the_request_of_a_node_is_gone_with_what_it_was_granted() {
    let gateway = gateway().await;
    let mut client = admin(&gateway).await;
    let node = NodeClient::connect(&gateway, "Phone", "iOS 18", &["location.get"]).await;
    let pending = call(&mut client, "node.pair.list", json!({})).await["pending"].clone();
    call(&mut client, "node.pair.remove", json!({"nodeId": node.id})).await;
    for (request, decision) in [(&json!(""), "removed"), (&pending[0]["requestId"], "rejected")] {
        let resolved = client.wait_for(SOON, |frame| {
            frame["event"] == "node.pair.resolved" && frame["payload"]["requestId"] == *request
        });
        let told = resolved.await.expect("it is told")["payload"].clone();
        assert_eq!((&told["nodeId"], &told["decision"]), (&json!(node.id), &json!(decision)));
    }
}

#[tokio::test]
async fn what_a_connected_node_may_do_is_what_was_decided_last() {
    let gateway = gateway().await;
    let (mut one, mut other) = (admin(&gateway).await, admin(&gateway).await);
    for _ in 0..8 {
        let node = NodeClient::connect(&gateway, "Phone", "iOS 18", &["location.get"]).await;
        let pending = call(&mut one, "node.pair.list", json!({})).await["pending"].clone();
        let yes = json!({"requestId": pending[0]["requestId"]});
        let no = json!({"nodeId": node.id});
        // Whichever is first; that there is nothing to remove is an answer as well.
        tokio::join!(
            one.request("node.pair.approve", yes),
            other.request("node.pair.remove", no.clone())
        );
        let pairings = call(&mut one, "node.pair.list", json!({})).await;
        let is_paired = !pairings["paired"].as_array().unwrap().is_empty();
        let commands = row(&mut one, &node.id).await["commands"].clone();
        let granted = if is_paired { json!(["location.get"]) } else { json!([]) };
        assert_eq!(commands, granted, "{pairings}");
        if is_paired {
            call(&mut one, "node.pair.remove", no).await;
        }
    }
}
