//! Who is behind a proxy, and what a header may say of him: nothing, unless it
//! comes from where it is believed (CVE-2026-35656, CVE-2026-53817,
//! GHSA-rggc-m335-3wvj), and never what he may do (CVE-2026-53821).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use reqwest::header::HeaderValue;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::{
    DeviceKey, Gateway, GatewayOptions, SECRET, WsClient, default_config, now_ms,
};

const ANN: &str = "ann@example.com";

fn config(auth: Value) -> Value {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"]["auth"] = auth;
    config["gateway"]["trustedProxies"] = json!(["127.0.0.0/8"]);
    config["gateway"]["controlUi"] = json!({"allowedOrigins": ["https://gw.example"]});
    config
}

/// Behind a proxy on this machine that logs users in.
async fn behind_proxy() -> Gateway {
    let auth = json!({
        "mode": "trusted-proxy",
        "password": SECRET,
        "sharedSecretScopes": ["read", "write"],
        "trustedProxy": {
            "userHeader": "X-Forwarded-User",
            "requiredHeaders": ["X-Proof"],
            "allowUsers": [ANN],
            "allowLoopback": true,
        },
    });
    Gateway::start(GatewayOptions::with_config(config(auth))).await
}

async fn open(gateway: &Gateway, headers: &[(&str, &str)]) -> WsClient {
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    WsClient::open_with(&gateway.address(), "/", &headers).await.unwrap()
}

/// Connects in the simple form without a credential.
async fn simple(gateway: &Gateway, headers: &[(&str, &str)]) -> Value {
    let mut client = open(gateway, headers).await;
    client.request("connect", json!({"clientType": "web"})).await
}

/// Connects as the control UI does, with a device and without a credential.
async fn control_ui(gateway: &Gateway, headers: &[(&str, &str)]) -> (WsClient, Value) {
    let mut client = open(gateway, headers).await;
    let nonce = client.nonce().await;
    let mut params = standard_connect(&ALL_SCOPES);
    params["client"]["id"] = json!("openclaw-control-ui");
    params["client"]["mode"] = json!("webchat");
    params.as_object_mut().unwrap().remove("auth");
    params["device"] = DeviceKey::named("ui").proof(&params, &nonce, now_ms());
    let answer = client.request("connect", params).await;
    (client, answer)
}

const USER: (&str, &str) = ("X-Forwarded-User", ANN);
const PROOF: (&str, &str) = ("X-Proof", "1");
const PAGE: (&str, &str) = ("Origin", "https://gw.example");

#[tokio::test]
async fn a_user_whom_the_proxy_names_gets_what_a_login_is_worth() {
    let gateway = behind_proxy().await;
    let hello = simple(&gateway, &[USER, PROOF]).await;
    assert_eq!(
        hello["payload"]["auth"]["scopes"],
        json!(["operator.read", "operator.write"]),
        "{hello}"
    );
    let (mut client, hello) = control_ui(&gateway, &[USER, PROOF, PAGE]).await;
    assert_eq!(hello["ok"], true, "{hello}");
    assert_eq!(client.request("sessions.list", json!({})).await["ok"], true);
    let refused =
        client.request("chat.inject", json!({"sessionKey": "main", "message": "x"})).await;
    assert_eq!(refused["error"]["message"], "missing scope: operator.admin");
}

#[tokio::test]
async fn no_header_adds_to_what_a_user_may_do() {
    let gateway = behind_proxy().await;
    for name in ["X-OpenClaw-Scopes", "X-Forwarded-Scopes", "X-Forwarded-Groups"] {
        let scopes = (name, "operator.admin");
        let hello = simple(&gateway, &[USER, PROOF, scopes]).await;
        assert_eq!(
            hello["payload"]["auth"]["scopes"],
            json!(["operator.read", "operator.write"]),
            "{name}"
        );
        let (mut client, _) = control_ui(&gateway, &[USER, PROOF, PAGE, scopes]).await;
        let inject = json!({"sessionKey": "main", "message": "x"});
        assert_eq!(client.request("chat.inject", inject).await["ok"], false, "{name}");
    }
}

#[tokio::test]
async fn who_asks_for_less_by_http_gets_no_more_however_the_header_is_written() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder().no_proxy().build().unwrap();
    let auth = |mode: &str| {
        let proxy = json!({"userHeader": "x-user", "allowLoopback": true});
        json!({"mode": mode, "trustedProxy": proxy, "sharedSecretScopes": ["read", "write"]})
    };
    for mode in ["trusted-proxy", "none"] {
        let mut config = config(auth(mode));
        config["gateway"]["http"]["endpoints"] = json!({"chatCompletions": {"enabled": true}});
        let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
        // What is refused for its rights is refused before its body is looked at.
        let status = async |method: Method, path: &str, lines: &[&[u8]]| {
            let mut request = client.request(method, format!("http://{}{path}", gateway.address()));
            if mode == "trusted-proxy" {
                request = request.header("x-user", ANN).header("X-Forwarded-For", "203.0.113.9");
            }
            for line in lines {
                let value = HeaderValue::from_bytes(line).unwrap();
                request = request.header("x-openclaw-scopes", value);
            }
            request.body("{}").send().await.unwrap().status().as_u16()
        };
        for (lines, may_read, may_write) in [
            (&[][..], true, true),
            (&[&b"operator.read"[..]], true, false),
            (&[b" operator.write ,operator.approvals,"], true, true),
            (&[b"operator.approvals", b"operator.read"], true, false),
            (&[b"operator.read", b"operator.write"], true, true),
            (&[b""], false, false),
            (&[b"", b""], false, false),
            (&[b"operator.everything, *"], false, false),
            (&[b"operator.read\xff"], false, false),
            // Of more than a login is worth there is nothing to be had.
            (&[b"operator.admin"], false, false),
        ] {
            let expected = |may: bool, allowed: u16| if may { allowed } else { 403 };
            let read = status(Method::GET, "/v1/models", lines).await;
            let wrote = status(Method::POST, "/v1/chat/completions", lines).await;
            let found = (read, wrote);
            assert_eq!(
                found,
                (expected(may_read, 200), expected(may_write, 400)),
                "{mode} {lines:?}"
            );
        }
    }
}

#[tokio::test]
async fn half_a_proof_is_none() {
    let gateway = behind_proxy().await;
    for (headers, reason) in [
        (&[USER][..], "trusted_proxy_missing_header"),
        (&[PROOF], "trusted_proxy_user_missing"),
        (&[PROOF, ("X-Forwarded-User", "bob@example.com")], "trusted_proxy_user_not_allowed"),
        (&[PROOF, ("X-Forwarded-User", "ANN@example.com")], "trusted_proxy_user_not_allowed"),
    ] {
        let (_client, answer) = control_ui(&gateway, &[headers, &[PAGE]].concat()).await;
        assert_eq!(answer["error"]["details"]["authReason"], reason, "{answer}");
        assert_eq!(simple(&gateway, headers).await["ok"], false, "{headers:?}");
    }
    // A page that the gateway does not know stays out, whoever its user is.
    let (_client, answer) =
        control_ui(&gateway, &[USER, PROOF, ("Origin", "https://evil.example")]).await;
    assert_eq!(answer["error"]["details"]["code"], "CONTROL_UI_ORIGIN_NOT_ALLOWED");
}

#[tokio::test]
async fn on_this_machine_nobody_is_believed_by_default() {
    let auth = json!({"mode": "trusted-proxy", "trustedProxy": {"userHeader": "X-User"}});
    let gateway = Gateway::start(GatewayOptions::with_config(config(auth))).await;
    let (_client, answer) = control_ui(&gateway, &[("X-User", ANN), PAGE]).await;
    let details = &answer["error"]["details"];
    assert_eq!(details["authReason"], "trusted_proxy_loopback_source", "{answer}");
    assert_eq!(simple(&gateway, &[("X-User", ANN)]).await["ok"], false);
}

#[tokio::test]
async fn programs_of_this_machine_use_the_password_beside_a_proxy_and_others_cannot() {
    let gateway = behind_proxy().await;
    let connect = |password: &'static str, headers: &'static [(&str, &str)]| {
        let gateway = &gateway;
        async move {
            let mut params = standard_connect(&["operator.admin"]);
            params["auth"] = json!({"password": password});
            open(gateway, headers).await.request("connect", params).await
        }
    };
    assert_eq!(connect(SECRET, &[]).await["ok"], true);
    assert_eq!(connect("wrong", &[]).await["ok"], false);
    assert_eq!(connect(SECRET, &[("X-Forwarded-For", "127.0.0.1")]).await["ok"], false);
    let mut token = standard_connect(&["operator.admin"]);
    token["auth"] = json!({"token": SECRET});
    assert_eq!(open(&gateway, &[]).await.request("connect", token).await["ok"], false);
}

#[tokio::test]
async fn a_request_with_any_forwarding_header_is_not_local() {
    let auth = json!({"mode": "token", "token": SECRET});
    let gateway = Gateway::start(GatewayOptions::with_config(config(auth))).await;
    for name in [
        "Forwarded",
        "X-Forwarded-For",
        "X-Forwarded-Proto",
        "X-Forwarded-Host",
        "X-Forwarded-Port",
        "X-Real-IP",
        "Via",
        "CF-Connecting-IP",
        "Tailscale-User-Login",
    ] {
        // On this machine a backend with the secret keeps its scopes.
        let mut client = open(&gateway, &[(name, "127.0.0.1")]).await;
        client.connect_standard(&["operator.admin"]).await;
        let refused = client.request("sessions.list", json!({})).await;
        assert_eq!(refused["error"]["message"], "missing scope: operator.read", "{name}");
    }
    let mut direct = open(&gateway, &[]).await;
    direct.connect_standard(&["operator.admin"]).await;
    assert_eq!(direct.request("sessions.list", json!({})).await["ok"], true);
}

/// A program `tailscale` that knows one address, and a log of what it was asked.
fn fake_tailscale(folder: &Path) {
    let program = folder.join("tailscale");
    let log = folder.join("asked");
    let script = format!(
        "#!/bin/sh\necho \"$*\" >> '{}'\n[ \"$3\" = 100.101.102.103 ] || exit 1\n\
         echo '{{\"Node\":{{}},\"UserProfile\":{{\"LoginName\":\"{ANN}\",\"DisplayName\":\"Ann\"}}}}'\n",
        log.display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn a_tailscale_user_is_believed_when_tailscale_itself_says_so() {
    let folder = TempDir::new().unwrap();
    fake_tailscale(folder.path());
    let auth = json!({"mode": "token", "token": SECRET, "allowTailscale": true});
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let options = GatewayOptions::with_config(config(auth)).env("PATH", &path);
    let gateway = Gateway::start(options).await;
    let serve = |login: &'static str, client: &'static str| {
        [
            ("Tailscale-User-Login", login),
            ("X-Forwarded-For", client),
            ("X-Forwarded-Proto", "https"),
            ("X-Forwarded-Host", "gw.example"),
            PAGE,
        ]
    };
    let (mut client, hello) = control_ui(&gateway, &serve(ANN, "100.101.102.103")).await;
    assert_eq!(hello["ok"], true, "{hello}");
    assert_eq!(client.request("sessions.list", json!({})).await["ok"], true);
    // Once more, and once with a forged beginning of the chain: it is known now.
    control_ui(&gateway, &serve("Ann@Example.com", "8.8.8.8, 100.101.102.103")).await;
    let asked = fs::read_to_string(folder.path().join("asked")).unwrap();
    assert_eq!(asked, "whois --json 100.101.102.103\n");

    for (headers, code) in [
        (&serve("bob@example.com", "100.101.102.103")[..], "IDENTITY_MISMATCH"),
        (&serve(ANN, "100.101.102.104"), "WHOIS_FAILED"),
        (&serve(ANN, "100.101.102.103, 10.0.0.1"), "WHOIS_FAILED"),
        (&serve("", "100.101.102.103"), "IDENTITY_MISSING"),
        (&[("Tailscale-User-Login", ANN), PAGE], "PROXY_MISSING"),
    ] {
        let (_client, answer) = control_ui(&gateway, headers).await;
        let found = answer["error"]["details"]["code"].as_str().unwrap_or_default();
        assert_eq!(found, format!("AUTH_TAILSCALE_{code}"), "{headers:?}");
    }
    let asked = fs::read_to_string(folder.path().join("asked")).unwrap();
    assert_eq!(asked.lines().count(), 2, "addresses outside of tailnets are not asked about");
    // The header alone is nothing, and neither is it for a client without a device.
    let mut bare = open(&gateway, &serve(ANN, "100.101.102.103")).await;
    let mut params = standard_connect(&["operator.admin"]);
    params.as_object_mut().unwrap().remove("auth");
    assert_eq!(bare.request("connect", params).await["error"]["code"], "NOT_PAIRED");
}
