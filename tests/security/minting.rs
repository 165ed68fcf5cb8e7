//! Nobody gives what he has not: approving and rotating mint no more than the
//! caller holds and the device was approved for (CVE-2026-32922,
//! CVE-2026-42422, CVE-2026-35639, CVE-2026-33579, GHSA-8v95-qqcm-qp9h).

use serde_json::{Value, json};

use crate::stage::{admin, call, connect};
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::guest::{Guest, proxied_config};
use crate::support::{Gateway, GatewayOptions};

/// Which callers and targets are tried; another number tries others.
const SEED: u64 = 20_261_122;
const ROUNDS: u64 = 60;

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn scopes(&mut self) -> Vec<&'static str> {
        let bits = self.roll(64);
        (0..6).filter(|bit| bits >> bit & 1 == 1).map(|bit| ALL_SCOPES[bit]).collect()
    }
}

/// Whether these scopes are good for that one.
fn is_good_for(held: &[String], scope: &str) -> bool {
    let has = |name: &str| held.iter().any(|held| held == name);
    has("operator.admin") || has(scope) || (scope == "operator.read" && has("operator.write"))
}

fn names(value: &Value) -> Vec<String> {
    serde_json::from_value(value.clone()).unwrap()
}

fn owned(scopes: &[&str]) -> Vec<String> {
    scopes.iter().map(|scope| (*scope).to_owned()).collect()
}

#[tokio::test]
async fn what_is_minted_is_held_by_the_caller_and_approved_for_the_target() {
    let gateway = Gateway::start(GatewayOptions::with_config(proxied_config())).await;
    let mut operator = admin(&gateway).await;
    let mut dice = Dice(SEED);
    let (mut approved, mut rotated) = (0, 0);
    for round in 0..ROUNDS {
        let asked = dice.scopes();
        let target = Guest::new(&format!("target {round}"), &asked).far();
        let request = target.asks(&gateway).await;
        let mut held = dice.scopes();
        held.push("operator.pairing");
        let mut caller = connect(&gateway, &standard_connect(&held)).await;
        let held = owned(&held);
        let answer = caller.request("device.pair.approve", json!({"requestId": request})).await;
        let seed = format!("seed {SEED}, round {round}: {held:?} for {asked:?}: {answer}");
        let may = asked.iter().all(|scope| is_good_for(&held, scope));
        // Admin and write bring others with them.
        assert!(answer["ok"] != true || may, "{seed}");
        if answer["ok"] != true {
            let message = answer["error"]["message"].as_str().unwrap();
            assert!(message.starts_with("missing scope: "), "{seed}");
            call(&mut operator, "device.pair.approve", json!({"requestId": request})).await;
        } else {
            approved += 1;
            let token = names(&answer["payload"]["device"]["tokens"][0]["scopes"]);
            assert!(token.iter().all(|scope| is_good_for(&held, scope)), "{seed}");
            assert!(token.iter().all(|scope| is_good_for(&owned(&asked), scope)), "{seed}");
        }
        let wanted = dice.scopes();
        let mut params = json!({"deviceId": target.id(), "role": "operator"});
        if dice.roll(3) > 0 {
            params["scopes"] = json!(wanted);
        }
        let before = target.token(&gateway).await;
        let answer = caller.request("device.token.rotate", params.clone()).await;
        let seed =
            format!("seed {SEED}, round {round}: {held:?} over {asked:?} with {params}: {answer}");
        if answer["ok"] == true {
            rotated += 1;
            let minted = names(&answer["payload"]["scopes"]);
            assert!(minted.iter().all(|scope| is_good_for(&held, scope)), "{seed}");
            assert!(minted.iter().all(|scope| is_good_for(&owned(&asked), scope)), "{seed}");
            assert!(answer["payload"].get("token").is_none(), "it is not the caller's: {seed}");
            let old = Guest::new(&format!("target {round}"), &[])
                .far()
                .with(json!({"deviceToken": before}));
            old.refused(&gateway).await;
        } else {
            assert_eq!(answer["error"]["message"], "device token rotation denied", "{seed}");
            assert_eq!(target.token(&gateway).await, before, "{seed}");
        }
        let other_role = json!({"deviceId": target.id(), "role": "node"});
        let answer = caller.request("device.token.rotate", other_role).await;
        assert_eq!(answer["error"]["message"], "device token rotation denied", "no other role");
    }
    assert!(approved > 5 && rotated > 5, "the rounds must try both: {approved}, {rotated}");
}

#[tokio::test]
async fn a_device_with_its_own_token_manages_itself_only() {
    let gateway = Gateway::start(GatewayOptions::with_config(proxied_config())).await;
    let small = Guest::new("small", &["operator.pairing"]);
    let token = small.token(&gateway).await;
    let large = Guest::new("large", &["operator.admin"]);
    large.token(&gateway).await;
    let stranger = Guest::new("stranger", &["operator.pairing"]).far();
    let request = stranger.asks(&gateway).await;
    let own = small.clone().with(json!({"deviceToken": token}));
    let (mut client, _) = own.come(&gateway).await;
    let list = call(&mut client, "device.pair.list", json!({})).await;
    assert_eq!(list["pending"], json!([]));
    assert_eq!(list["paired"].as_array().unwrap().len(), 1);
    let token_of = json!({"deviceId": large.id(), "role": "operator"});
    for (method, params, denied) in [
        ("device.token.rotate", token_of.clone(), "device token rotation denied"),
        ("device.token.revoke", token_of, "device token revocation denied"),
        ("device.pair.remove", json!({"deviceId": large.id()}), "device pairing removal denied"),
        ("device.pair.approve", json!({"requestId": request}), "device pairing approval denied"),
        ("device.pair.reject", json!({"requestId": request}), "device pairing rejection denied"),
        ("device.pair.setupCode", json!({}), "missing scope: operator.admin"),
    ] {
        let answer = client.request(method, params).await;
        assert_eq!(answer["error"]["message"], denied, "{method}");
    }
    // Asking for more and approving it oneself is no way either.
    let more = Guest::new("small", &["operator.pairing", "operator.admin"]);
    let (error, _) = more.refused(&gateway).await;
    let own_request = error["details"]["requestId"].clone();
    let answer = client.request("device.pair.approve", json!({"requestId": own_request})).await;
    assert_eq!(answer["error"]["message"], "missing scope: operator.admin");
}
