//! A credential counts when it was validated, not when it is there
//! (CVE-2026-28472), and no method runs before `connect` (CVE-2026-25593).

use serde_json::{Value, json};

use crate::stage::admin;
use crate::support::client::SOON;
use crate::support::guest::{Guest, proxied_config};
use crate::support::{Gateway, GatewayOptions, SECRET, WsClient, now_ms};

/// What is wrong with the proof of a device.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Proof {
    None,
    Forged,
    Replayed,
    OtherText,
    OtherId,
    Old,
    Good,
}

const PROOFS: [Proof; 7] = [
    Proof::None,
    Proof::Forged,
    Proof::Replayed,
    Proof::OtherText,
    Proof::OtherId,
    Proof::Old,
    Proof::Good,
];

async fn gateway() -> Gateway {
    Gateway::start(GatewayOptions::with_config(proxied_config())).await
}

/// Comes with this proof; the answer.
async fn come(gateway: &Gateway, guest: &Guest, proof: Proof, replayed: &Value) -> Value {
    let mut client = WsClient::open_with(&gateway.address(), "/", &guest.headers).await.unwrap();
    let nonce = client.nonce().await;
    let mut params = guest.params.clone();
    let good = guest.key().proof(&params, &nonce, now_ms());
    let mut other = params.clone();
    other["scopes"] = json!(["operator.admin", "operator.read"]);
    params["device"] = match proof {
        Proof::None => Value::Null,
        Proof::Forged => {
            let mut forged = good;
            forged["signature"] = "A".repeat(86).into();
            forged
        }
        Proof::Replayed => replayed.clone(),
        Proof::OtherText => guest.key().proof(&other, &nonce, now_ms()),
        Proof::OtherId => {
            let mut stolen = good;
            stolen["id"] = Guest::new("somebody else", &[]).id().into();
            stolen
        }
        Proof::Old => guest.key().proof(&params, &nonce, now_ms() - 130_000),
        Proof::Good => good,
    };
    if proof == Proof::None {
        params.as_object_mut().unwrap().remove("device");
    }
    let answer = client.request("connect", params).await;
    if answer["ok"] != true {
        assert_eq!(client.wait_closed(SOON).await.unwrap().code, 1008);
    }
    answer
}

#[tokio::test]
async fn only_validated_combinations_get_in_and_only_a_good_device_gets_scopes() {
    let gateway = gateway().await;
    let guest = Guest::new("matrix", &["operator.read"]);
    let token = guest.token(&gateway).await;
    let proof_of_then = guest.key().proof(&guest.params, "a nonce of another socket", now_ms());
    let other = Guest::new("another device", &["operator.read"]).token(&gateway).await;
    for (auth, is_good) in [
        (json!({}), false),
        (json!({"token": "wrong"}), false),
        (json!({"token": ""}), false),
        (json!({"password": SECRET}), false),
        (json!({"deviceToken": "wrong"}), false),
        (json!({"deviceToken": SECRET}), false),
        (json!({"bootstrapToken": SECRET}), false),
        (json!({"token": other}), false),
        (json!({"deviceToken": other}), false),
        (json!({"token": "wrong", "deviceToken": "wrong"}), false),
        (json!({"token": SECRET}), true),
        (json!({"deviceToken": token}), true),
        (json!({"token": token}), true),
        (json!({"token": SECRET, "deviceToken": "wrong"}), true),
        (json!({"token": "wrong", "deviceToken": token}), true),
    ] {
        for from in [guest.clone(), guest.clone().far()] {
            let from = from.with(auth.clone());
            for proof in PROOFS {
                let answer = come(&gateway, &from, proof, &proof_of_then).await;
                let knows_secret = auth["token"] == SECRET;
                let expected = match proof {
                    Proof::Good => is_good,
                    // Without a device the secret lets in, and gives nothing.
                    Proof::None => knows_secret,
                    _ => false,
                };
                assert_eq!(answer["ok"] == true, expected, "{auth} {proof:?}: {answer}");
                if answer["ok"] == true {
                    let granted = &answer["payload"]["auth"]["scopes"];
                    let worth =
                        if proof == Proof::Good { json!(["operator.read"]) } else { json!([]) };
                    assert_eq!(*granted, worth, "{auth} {proof:?}");
                }
                if ![Proof::Good, Proof::None].contains(&proof) {
                    let code = answer["error"]["details"]["code"].as_str().unwrap();
                    assert!(code.starts_with("DEVICE_AUTH_"), "{auth} {proof:?}: {answer}");
                }
            }
        }
    }
}

#[tokio::test]
async fn no_method_runs_before_connect() {
    let gateway = gateway().await;
    let hello = gateway.open().await.connect_standard(&crate::support::client::ALL_SCOPES).await;
    let methods: Vec<String> =
        serde_json::from_value(hello["payload"]["features"]["methods"].clone()).unwrap();
    assert!(methods.len() > 50);
    for method in methods {
        let mut client = gateway.open().await;
        let params = json!({
            "requestId": "x", "deviceId": "x", "role": "operator", "sessionKey": "main",
            "message": "x", "idempotencyKey": "x", "raw": "{}",
        });
        let answer = client.request(&method, params).await;
        assert_eq!(
            answer["error"]["message"], "invalid handshake: first request must be connect",
            "{method}"
        );
        assert_eq!(client.wait_closed(SOON).await.unwrap().code, 1008, "{method}");
    }
    let mut operator = admin(&gateway).await;
    let list = operator.request("sessions.list", json!({})).await;
    assert_eq!(list["payload"]["sessions"], json!([]), "nothing was begun");
}
