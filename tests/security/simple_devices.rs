//! `deviceAuth` of the simple profile: a proof like any other (CVE-2026-28472).

use std::fs;

use serde_json::{Value, json};

use crate::stage::{admin, call};
use crate::support::client::SOON;
use crate::support::guest::{FAR, proxied_config};
use crate::support::{DeviceKey, Gateway, GatewayOptions, SECRET, WsClient, now_ms};

/// What the secret, and so such a device, is worth here.
const WORTH: [&str; 4] =
    ["operator.admin", "operator.read", "operator.write", "operator.approvals"];

/// What is wrong with a proof, how it comes about by the nonce, and the code that
/// refuses it.
type Case<'a> = (&'a str, &'a dyn Fn(&str) -> Value, &'a str);

async fn gateway() -> Gateway {
    Gateway::start(GatewayOptions::with_config(proxied_config())).await
}

/// The proof of a device in the form of that profile.
fn proof(key: &DeviceKey, nonce: &str, token: &str, signed_at: i64) -> Value {
    let text = format!("v2|{}|web|webchat|operator||{signed_at}|{token}|{nonce}", key.id());
    json!({"deviceId": key.id(), "signature": key.sign(&text), "timestamp": signed_at})
}

/// Comes with what `params` makes of the nonce.
async fn come(
    gateway: &Gateway,
    is_far: bool,
    params: impl FnOnce(&str) -> Value,
) -> (WsClient, Value) {
    let far = [("X-Forwarded-For".to_owned(), FAR.to_owned())];
    let headers = if is_far { &far[..] } else { &[] };
    let mut client = WsClient::open_with(&gateway.address(), "/", headers).await.unwrap();
    let nonce = client.nonce().await;
    let answer = client.request("connect", params(&nonce)).await;
    (client, answer)
}

/// A device that knows the secret, or shows the token of its own.
fn shows(key: &DeviceKey, nonce: &str, own: Option<&str>) -> Value {
    let mut device = proof(key, nonce, own.unwrap_or(SECRET), now_ms());
    if own.is_none() {
        device["publicKey"] = key.public_key().into();
    }
    let name = if own.is_some() { "deviceToken" } else { "token" };
    json!({"clientType": "web", "deviceAuth": device, name: own.unwrap_or(SECRET)})
}

async fn paired(gateway: &Gateway, key: &DeviceKey) -> String {
    let (_client, hello) = come(gateway, false, |nonce| shows(key, nonce, None)).await;
    assert_eq!(hello["payload"]["auth"]["scopes"].as_array().unwrap().len(), 4, "{hello}");
    hello["payload"]["auth"]["deviceToken"].as_str().expect("a token").to_owned()
}

async fn paired_devices(gateway: &Gateway) -> Value {
    call(&mut admin(gateway).await, "device.pair.list", json!({})).await
}

#[tokio::test]
async fn a_device_in_the_simple_form_is_paired_here_and_comes_back_with_its_token() {
    let gateway = gateway().await;
    let key = DeviceKey::named("simple");
    let token = paired(&gateway, &key).await;
    let list = paired_devices(&gateway).await;
    assert_eq!(list["paired"][0]["deviceId"], key.id(), "{list}");
    assert_eq!(list["paired"][0]["clientId"], "web");
    for is_far in [false, true] {
        let (mut client, hello) =
            come(&gateway, is_far, |nonce| shows(&key, nonce, Some(&token))).await;
        assert_eq!(hello["ok"], true, "{hello}");
        let mut scopes: Vec<String> =
            serde_json::from_value(hello["payload"]["auth"]["scopes"].clone()).unwrap();
        scopes.sort();
        let mut worth = WORTH;
        worth.sort_unstable();
        assert_eq!(scopes, worth);
        assert_eq!(client.request("sessions.list", json!({})).await["ok"], true);
    }
}

#[tokio::test]
async fn whoever_takes_its_token_away_ends_its_connection() {
    let gateway = gateway().await;
    let key = DeviceKey::named("simple");
    let token = paired(&gateway, &key).await;
    let (client, _) = come(&gateway, true, |nonce| shows(&key, nonce, Some(&token))).await;
    let mut admin = admin(&gateway).await;
    call(&mut admin, "device.pair.remove", json!({"deviceId": key.id()})).await;
    assert!(client.wait_closed(SOON).await.is_some());
    let (_client, answer) = come(&gateway, true, |nonce| shows(&key, nonce, Some(&token))).await;
    assert_eq!(answer["error"]["code"], "permission_denied", "{answer}");
}

#[tokio::test]
async fn its_token_is_good_for_what_was_approved_and_not_for_more() {
    let gateway = gateway().await;
    let key = DeviceKey::named("reader");
    // Paired in the standard form, for reading.
    let mut client = gateway.open().await;
    let mut params = crate::support::client::standard_connect(&["operator.read"]);
    params["client"] = json!({"id": "cli", "mode": "cli", "version": "1", "platform": "linux"});
    params["device"] = key.proof(&params, &client.nonce().await, now_ms());
    let hello = client.request("connect", params).await;
    let token = hello["payload"]["auth"]["deviceToken"].as_str().unwrap().to_owned();
    let (mut client, hello) = come(&gateway, true, |nonce| shows(&key, nonce, Some(&token))).await;
    assert_eq!(hello["payload"]["auth"]["scopes"], json!(["operator.read"]), "{hello}");
    let refused = client.request("config.get", json!({})).await;
    assert_eq!(refused["ok"], true, "{refused}");
    let refused = client.request("chat.send", json!({"sessionKey": "main"})).await;
    assert_eq!(refused["error"]["message"], "missing scope: operator.write", "{refused}");
}

#[tokio::test]
async fn the_secret_is_worth_no_less_with_a_proof_and_pairs_nobody_from_elsewhere() {
    let gateway = gateway().await;
    let key = DeviceKey::named("far");
    let (_client, hello) = come(&gateway, true, |nonce| shows(&key, nonce, None)).await;
    assert_eq!(hello["payload"]["auth"]["scopes"].as_array().unwrap().len(), WORTH.len());
    assert_eq!(hello["payload"]["auth"]["deviceToken"], Value::Null);
    let list = paired_devices(&gateway).await;
    assert_eq!((&list["paired"], &list["pending"]), (&json!([]), &json!([])), "{list}");
}

#[tokio::test]
async fn a_token_of_earlier_takes_nothing_away_from_the_secret_beside_it() {
    let gateway = gateway().await;
    let key = DeviceKey::named("far");
    let stale = "A".repeat(43);
    let both = |nonce: &str| {
        let mut params = shows(&key, nonce, None);
        params["deviceToken"] = stale.as_str().into();
        params
    };
    let (_client, hello) = come(&gateway, true, both).await;
    assert_eq!(
        hello["payload"]["auth"]["scopes"].as_array().unwrap().len(),
        WORTH.len(),
        "{hello}"
    );
    let wrong = |nonce: &str| {
        let device = proof(&key, nonce, "wrong", now_ms());
        let mut params = both(nonce);
        params["deviceAuth"]["signature"] = device["signature"].clone();
        params["deviceAuth"]["timestamp"] = device["timestamp"].clone();
        params["token"] = "wrong".into();
        params
    };
    let (_client, answer) = come(&gateway, true, wrong).await;
    assert_eq!(answer["error"]["details"]["code"], "AUTH_TOKEN_MISMATCH", "{answer}");
}

#[tokio::test]
async fn who_came_by_the_secret_with_a_proof_goes_when_there_is_another_secret() {
    let gateway = gateway().await;
    let (far, near) = (DeviceKey::named("far"), DeviceKey::named("near"));
    let own = paired(&gateway, &near).await;
    let (stays, _) = come(&gateway, false, |nonce| shows(&near, nonce, Some(&own))).await;
    let (goes, hello) = come(&gateway, true, |nonce| shows(&far, nonce, None)).await;
    assert_eq!(hello["ok"], true, "{hello}");
    let text = fs::read_to_string(gateway.config_path()).unwrap();
    fs::write(gateway.config_path(), text.replace(SECRET, "another-secret-0003")).unwrap();
    let closed = goes.wait_closed(SOON).await.expect("it is closed");
    assert_eq!((closed.code, &*closed.reason), (4001, "gateway auth changed"));
    assert!(stays.closed().is_none(), "its own token is good");
}

#[tokio::test]
async fn a_proof_that_is_none_lets_nobody_in() {
    let gateway = gateway().await;
    let key = DeviceKey::named("simple");
    let token = paired(&gateway, &key).await;
    let other = DeviceKey::named("another");
    let good = |nonce: &str| shows(&key, nonce, Some(&token));
    let with = |nonce: &str, name: &str, value: Value| {
        let mut params = good(nonce);
        params["deviceAuth"][name] = value;
        params
    };
    let stale = proof(&key, "a nonce of another socket", &token, now_ms());
    let cases: [Case<'_>; 7] = [
        ("forged", &|nonce| with(nonce, "signature", "A".repeat(86).into()), "SIGNATURE_INVALID"),
        (
            "of another socket",
            &|_| json!({"clientType": "web", "deviceToken": token, "deviceAuth": stale}),
            "SIGNATURE_INVALID",
        ),
        (
            "old",
            &|nonce| with(nonce, "timestamp", (now_ms() - 130_000).into()),
            "SIGNATURE_EXPIRED",
        ),
        ("another nonce", &|nonce| with(nonce, "nonce", "x".into()), "NONCE_MISMATCH"),
        (
            "of another key",
            &|nonce| with(nonce, "publicKey", other.public_key().into()),
            "DEVICE_ID_MISMATCH",
        ),
        (
            "of a device that nobody knows",
            &|nonce| {
                let device = proof(&other, nonce, &token, now_ms());
                json!({"clientType": "web", "deviceToken": token, "deviceAuth": device})
            },
            "DEVICE_ID_MISMATCH",
        ),
        (
            "an invented one, as in the description of the protocol",
            &|_| {
                let device =
                    json!({"deviceId": "6ba7b810", "signature": "c2ln", "timestamp": now_ms()});
                json!({"clientType": "web", "token": SECRET, "deviceAuth": device})
            },
            "DEVICE_ID_MISMATCH",
        ),
    ];
    for (what, params, code) in cases {
        let (client, answer) = come(&gateway, false, params).await;
        let error = &answer["error"];
        assert_eq!(error["code"], "permission_denied", "{what}: {answer}");
        assert_eq!(error["details"]["code"], format!("DEVICE_AUTH_{code}"), "{what}");
        assert_eq!(client.wait_closed(SOON).await.unwrap().code, 1008, "{what}");
    }
    // The token of a device is nothing without its proof, under any name.
    for name in ["token", "deviceToken", "password"] {
        let connect = json!({"clientType": "web", name: token});
        let (_client, answer) = come(&gateway, false, |_| connect).await;
        assert_eq!(answer["ok"], false, "{name}: {answer}");
    }
    for (device, path) in [
        (
            json!({"signature": "x", "timestamp": 1}),
            "/deviceAuth: must have required property 'deviceId'",
        ),
        (json!("x"), "/deviceAuth: must be object"),
    ] {
        let connect = json!({"clientType": "web", "token": SECRET, "deviceAuth": device});
        let (_client, answer) = come(&gateway, false, |_| connect).await;
        let text = answer["error"]["message"].as_str().unwrap();
        assert!(text.contains(path), "{text}");
    }
}
