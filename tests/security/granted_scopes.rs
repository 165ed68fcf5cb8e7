//! What a client asks for never adds to what its credential is worth
//! (CVE-2026-22172, CVE-2026-35663, CVE-2026-32042), and what it says of itself
//! changes nothing (CVE-2026-41299).

use std::collections::BTreeSet;

use clawgate::protocol::connect::{CLIENT_IDS, CLIENT_MODES};
use serde_json::{Value, json};

use crate::stage::{admin, call};
use crate::support::client::ALL_SCOPES;
use crate::support::guest::{Guest, proxied_config};
use crate::support::{Gateway, GatewayOptions};

async fn gateway() -> Gateway {
    Gateway::start(GatewayOptions::with_config(proxied_config())).await
}

/// Every set of these scopes, and names that are none.
fn wishes() -> impl Iterator<Item = Vec<&'static str>> {
    (0..64_u32).map(|bits| {
        let mut wish: Vec<_> =
            (0..6).filter(|bit| bits >> bit & 1 == 1).map(|bit| ALL_SCOPES[bit]).collect();
        if bits % 3 == 0 {
            wish.extend(["operator.made.up", "*", "OPERATOR.ADMIN", " operator.admin "]);
        }
        wish
    })
}

/// What a connection can do: the methods that its hello names.
fn methods(hello: &Value) -> BTreeSet<String> {
    serde_json::from_value(hello["payload"]["features"]["methods"].clone()).unwrap()
}

#[tokio::test]
async fn whatever_is_asked_for_a_credential_gives_what_it_is_worth() {
    let gateway = gateway().await;
    // Approved for reading, by a person.
    let known = Guest::new("reader", &["operator.read"]).far();
    let id = known.asks(&gateway).await;
    let mut operator = admin(&gateway).await;
    call(&mut operator, "device.pair.approve", json!({"requestId": id})).await;
    let token = known.token(&gateway).await;
    let (_, hello) = known.knock(&gateway).await;
    let worth = methods(&hello);
    assert!(worth.contains("sessions.list") && !worth.contains("chat.send"));
    for wish in wishes() {
        for auth in [json!({"token": crate::support::SECRET}), json!({"deviceToken": token})] {
            for from in [Guest::new("reader", &wish), Guest::new("reader", &wish).far()] {
                let (_, answer) = from.with(auth.clone()).knock(&gateway).await;
                let is_covered = wish.iter().all(|scope| *scope == "operator.read");
                assert_eq!(answer["ok"] == true, is_covered, "{wish:?} {auth}: {answer}");
                if answer["ok"] == true {
                    assert!(methods(&answer).is_subset(&worth), "{wish:?} {auth}");
                }
            }
        }
        // The secret without a device, from afar, as whatever program.
        let mut bare = Guest::new("-", &wish).far().params;
        bare["client"] =
            json!({"id": "gateway-client", "mode": "backend", "version": "1", "platform": "x"});
        let headers = Guest::new("-", &[]).far().headers;
        let mut client =
            crate::support::WsClient::open_with(&gateway.address(), "/", &headers).await.unwrap();
        let answer = client.request("connect", bare).await;
        assert_eq!(answer["payload"]["auth"]["scopes"], json!([]), "{wish:?}");
        assert_eq!(methods(&answer), BTreeSet::from(["health".to_owned()]), "{wish:?}");
    }
    let list = call(&mut operator, "device.pair.list", json!({})).await;
    assert_eq!(list["paired"][0]["scopes"], json!(["operator.read"]), "nothing was added");
}

#[tokio::test]
async fn what_a_client_calls_itself_gives_it_no_right() {
    let gateway = gateway().await;
    let known = Guest::new("reader", &["operator.read"]).far();
    let request = known.asks(&gateway).await;
    let mut operator = admin(&gateway).await;
    call(&mut operator, "device.pair.approve", json!({"requestId": request})).await;
    let (_, hello) = known.knock(&gateway).await;
    let worth = methods(&hello);
    // Pages are checked for their origin whatever else they say.
    let page = "https://gateway.example";
    for id in CLIENT_IDS {
        for mode in CLIENT_MODES {
            let is_page = ["openclaw-control-ui", "webchat-ui"].contains(&id) || mode == "webchat";
            let as_this = |guest: Guest| guest.says("id", id).says("mode", mode).far();
            let (_, answer) = as_this(known.clone()).knock(&gateway).await;
            if is_page {
                let code = &answer["error"]["details"]["code"];
                assert_eq!(*code, "CONTROL_UI_ORIGIN_NOT_ALLOWED", "{id} {mode}");
                continue;
            }
            assert_eq!(methods(&answer), worth, "{id} {mode}: {answer}");
            let more = as_this(Guest::new("reader", &["operator.admin"]));
            let (error, _) = more.refused(&gateway).await;
            assert_eq!(error["details"]["reason"], "scope-upgrade", "{id} {mode}");
            let stranger = as_this(Guest::new("stranger", &["operator.read"]));
            let (error, _) = stranger.refused(&gateway).await;
            assert_eq!(error["details"]["reason"], "not-paired", "{id} {mode}");
            let guess = as_this(known.clone()).with(json!({"token": "guess"}));
            let (error, _) = guess.refused(&gateway).await;
            assert_eq!(error["details"]["authReason"], "token_mismatch", "{id} {mode}");
            let foreign = as_this(known.clone()).header("Origin", page);
            let (error, _) = foreign.refused(&gateway).await;
            assert_eq!(error["details"]["code"], "CONTROL_UI_ORIGIN_NOT_ALLOWED", "{id} {mode}");
        }
    }
    for (member, value) in [
        ("displayName", "operator.admin"),
        ("version", "999.0.0"),
        ("instanceId", "gateway"),
        ("modelIdentifier", "admin"),
    ] {
        let (_, answer) = known.clone().says(member, value).knock(&gateway).await;
        assert_eq!(methods(&answer), worth, "{member}");
    }
}
