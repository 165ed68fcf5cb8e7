//! Who may reach the gateway, on our page.

use clawgate::channels::webhook::{SIGNATURE, TIMESTAMP, sign};
use clawgate::support::Secret;
use serde_json::{Value, json};

use super::Place;
use crate::stage::{admin, call, until};
use crate::support::client::SOON;
use crate::support::guest::Guest;
use crate::support::now_ms;

/// The secret of the webhook by which people write.
const SIGNING: &str = "a-secret-of-32-characters-or-more";

/// A gateway behind a proxy of this machine, which people reach by a webhook.
async fn place() -> Place {
    Place::with(|config| {
        config["gateway"]["trustedProxies"] = json!(["127.0.0.1"]);
        config["channels"]["webhook"] =
            json!({"secret": SIGNING, "url": "http://127.0.0.1:9/", "dmPolicy": "pairing"});
    })
    .await
}

async fn pending(place: &Place) -> usize {
    let mut client = admin(&place.gateway).await;
    let list = call(&mut client, "device.pair.list", json!({})).await;
    list["pending"].as_array().unwrap().len()
}

/// Somebody writes for the first time.
async fn write_to(place: &Place) {
    let now = u64::try_from(now_ms()).unwrap() / 1000;
    let body = json!({"id": "m1", "text": "hello", "from": {"id": "eve", "name": "Eve"}});
    let body = body.to_string();
    let (time, signature) = sign(&Secret::new(SIGNING), now, body.as_bytes());
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://{}/webhooks/default", place.gateway.address());
    let request = client.post(url).header(TIMESTAMP, time).header(SIGNATURE, signature).body(body);
    let status = request.send().await.unwrap().status();
    assert!(status.is_success(), "{status}");
}

#[tokio::test]
async fn a_device_that_asks_appears_gets_in_and_is_cut_off_on_the_page() {
    let mut place = place().await;
    let mut steps = place.begin("devices", "decides", json!({}));
    let guest = Guest::new("phone", &["operator.read", "operator.write"]).far();
    let guest = guest.says("displayName", "Ann's phone");

    let asked = place.asked_for("knock", &mut steps).await;
    guest.asks(&place.gateway).await;
    asked.done();

    let asked = place.asked_for("approved", &mut steps).await;
    let (client, auth) = guest.come(&place.gateway).await;
    assert_eq!(auth["scopes"], json!(["operator.read", "operator.write"]));
    asked.done();

    let asked = place.asked_for("revoked", &mut steps).await;
    let closed = client.wait_closed(SOON).await.expect("its connection is closed");
    assert_eq!(closed.code, 4001);
    let token = auth["deviceToken"].clone();
    let (error, _) =
        guest.clone().with(json!({"deviceToken": token})).refused(&place.gateway).await;
    assert_eq!(error["details"]["code"], "AUTH_DEVICE_TOKEN_MISMATCH", "{error}");
    asked.done();

    let asked = place.asked_for("knock-again", &mut steps).await;
    let other = Guest::new("laptop", &["operator.admin"]).far().says("displayName", "A laptop");
    other.asks(&place.gateway).await;
    asked.done();

    let asked = place.asked_for("rejected", &mut steps).await;
    assert_eq!(pending(&place).await, 0);
    asked.done();
    let told = steps.await.unwrap();
    assert_eq!(told["errors"], json!([]), "{told}");
}

#[tokio::test]
async fn a_phone_a_node_and_a_person_are_let_in_on_the_page() {
    let mut place = place().await;
    let mut steps = place.begin("devices", "welcomes", json!({}));

    let asked = place.asked_for("node", &mut steps).await;
    let mut client = admin(&place.gateway).await;
    let node = json!({"nodeId": "camera-1", "displayName": "Camera", "platform": "linux",
        "caps": ["camera"], "commands": ["camera.snap"]});
    call(&mut client, "node.pair.request", node).await;
    asked.done();

    let asked = place.asked_for("person", &mut steps).await;
    until("the channel runs", async || {
        let status = call(&mut client, "channels.status", json!({})).await;
        (status["channels"]["webhook"]["running"] == true).then_some(())
    })
    .await;
    write_to(&place).await;
    asked.done();

    let told: Value = steps.await.unwrap();
    let nodes = call(&mut client, "node.pair.list", json!({})).await;
    assert_eq!(nodes["paired"][0]["displayName"], "Door camera", "{nodes}");
    let people = call(&mut client, "channels.pairing.list", json!({})).await;
    assert_eq!(people["people"][0]["person"], "eve", "{people}");
    assert_eq!(told["code"]["url"], "wss://gateway.example/", "{told}");
    let phone = Guest::new("app", &["operator.read"]).far();
    let phone = phone.with(json!({"bootstrapToken": told["code"]["bootstrapToken"]}));
    let (_client, auth) = phone.come(&place.gateway).await;
    assert!(auth["deviceToken"].is_string(), "{auth}");
}

#[tokio::test]
async fn who_waits_is_looked_for_again_and_again_whichever_view_is_shown() {
    let place = Place::new().await;
    place.run("devices", "looks_again", json!({})).await;
}
