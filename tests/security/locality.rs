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

/// A gateway that every page may reach.
async fn for_all_pages() -> Gateway {
    let mut config = proxied_config();
    config["gateway"]["controlUi"] = json!({"allowedOrigins": ["*"]});
    Gateway::start(GatewayOptions::with_config(config)).await
}

fn ui(name: &str) -> Guest {
    Guest::new(name, &["operator.read"]).says("id", "openclaw-control-ui").says("mode", "webchat")
}

#[tokio::test]
async fn a_page_of_elsewhere_waits_even_on_this_machine() {
    let gateway = for_all_pages().await;
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

/// Some browsers say of a WebSocket, too, whether its page is of the same site or origin; to
/// them a page on another port of this machine is of another origin.
#[tokio::test]
async fn a_page_of_this_machine_is_paired_whatever_its_browser_says_of_its_site() {
    let gateway = for_all_pages().await;
    for (origin, site, is_paired) in [
        ("http://localhost:5173", "same-origin", true),
        ("http://localhost:5173", "same-site", true),
        ("http://127.0.0.1:5173", "cross-site", true),
        ("https://evil.example", "same-site", false),
        ("https://evil.example", "cross-site", false),
    ] {
        let page = ui(&format!("{origin} {site}")).header("Origin", origin);
        let page = page.header("Sec-Fetch-Site", site).header("Sec-Fetch-Mode", "websocket");
        let (_, answer) = page.knock(&gateway).await;
        assert_eq!(answer["ok"] == true, is_paired, "{origin} {site}: {answer}");
        if !is_paired {
            assert_eq!(answer["error"]["details"]["reason"], "not-paired", "{origin}");
        }
    }
}
