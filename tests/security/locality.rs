//! Only a direct connection of this machine is local, and being local mints
//! nothing by itself (GHSA-rggc-m335-3wvj, CVE-2026-35656, CVE-2026-53817); no
//! page of elsewhere is paired by itself (CVE-2026-62220).

use serde_json::json;

use crate::stage::{admin, call};
use crate::support::guest::{Guest, proxied_config};
use crate::support::{Gateway, GatewayOptions, default_config};

#[tokio::test]
async fn any_header_of_a_proxy_makes_a_device_wait() {
    // Nobody is trusted to forward; the headers come from whoever likes.
    let config = default_config("127.0.0.1:9");
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    for (name, value) in [
        ("Forwarded", "for=127.0.0.1"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "localhost"),
        ("X-Real-IP", "127.0.0.1"),
        ("x-real-ip", ""),
    ] {
        let guest = Guest::new(name, &["operator.admin"]).header(name, value);
        let (error, _) = guest.refused(&gateway).await;
        assert_eq!(error["details"]["reason"], "not-paired", "{name}: {error}");
    }
    let mut operator = admin(&gateway).await;
    let list = call(&mut operator, "device.pair.list", json!({})).await;
    assert_eq!(list["paired"], json!([]));
    let ips: Vec<_> =
        list["pending"].as_array().unwrap().iter().map(|row| row["remoteIp"].clone()).collect();
    assert!(ips.iter().all(|ip| ip == "127.0.0.1"), "no header says who it is: {ips:?}");
}

#[tokio::test]
async fn being_on_this_machine_is_worth_no_token() {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"]["auth"] = json!({"mode": "none"});
    let mut gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let guest = Guest::new("visitor", &["operator.admin"]).with(json!({}));
    let (mut client, auth) = guest.come(&gateway).await;
    assert_eq!((auth.get("deviceToken"), auth.get("deviceTokens")), (None, None));
    let list = call(&mut client, "device.pair.list", json!({})).await;
    assert_eq!(list["paired"], json!([]), "nothing outlasts the mode");
    // From elsewhere a person decides, in this mode too.
    let far = guest.clone().far();
    let id = far.asks(&gateway).await;
    call(&mut client, "device.pair.approve", json!({"requestId": id})).await;
    assert!(far.come(&gateway).await.1["deviceToken"].is_string());
    let text = default_config("127.0.0.1:9").to_string().replace("<WORKSPACE>", "/tmp");
    std::fs::write(gateway.config_path(), text).unwrap();
    gateway.restart().await;
    let other = Guest::new("other visitor", &["operator.admin"]).with(json!({}));
    let (error, _) = other.refused(&gateway).await;
    assert_eq!(error["details"]["code"], "AUTH_TOKEN_MISSING");
}

#[tokio::test]
async fn a_page_of_elsewhere_waits_even_on_this_machine() {
    let mut config = proxied_config();
    config["gateway"]["controlUi"] = json!({"allowedOrigins": ["*"]});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let ui = |name: &str| {
        Guest::new(name, &["operator.read"])
            .says("id", "openclaw-control-ui")
            .says("mode", "webchat")
    };
    for (origin, is_paired) in [
        ("https://evil.example", false),
        ("https://127.0.0.1.evil.example", false),
        ("https://localhost.evil.example", false),
        ("http://localhost:5173", true),
    ] {
        let (_, answer) = ui(origin).header("Origin", origin).knock(&gateway).await;
        assert_eq!(answer["ok"] == true, is_paired, "{origin}: {answer}");
        if !is_paired {
            assert_eq!(answer["error"]["details"]["reason"], "not-paired", "{origin}");
        }
    }
    // A page that says that it is a program is still a page.
    let program =
        Guest::new("program", &["operator.read"]).header("Origin", "http://localhost:5173");
    assert_eq!(program.refused(&gateway).await.0["details"]["reason"], "not-paired");
}
