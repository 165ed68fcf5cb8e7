//! `clawgate dashboard`: its link logs one browser in, once, and what it holds
//! stays nowhere.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::guest::said;
use crate::support::{Browser, Gateway, GatewayOptions, default_config, original_ui};

const STEPS: &str = "tests/e2e/login.mjs";
/// What our own page shows once it is in.
const SHELL: &str = ".shell nav a";

async fn gateway(settings: Value) -> Gateway {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"].as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    Gateway::start(GatewayOptions::with_config(config)).await
}

/// A link as the command prints it, and the code in it.
async fn link(gateway: &Gateway) -> (String, String) {
    let url = said(gateway, &["dashboard", "--no-open"]).await.trim().to_owned();
    let (_, fragment) = url.split_once("#code=").unwrap();
    let code = fragment.split('&').next().unwrap().to_owned();
    assert!(code.len() >= 43, "256 bits: {url}");
    (url, code)
}

/// Fails when any file below holds this text.
fn is_in_no_file(folder: &Path, text: &str) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            is_in_no_file(&path, text);
        } else if let Ok(bytes) = std::fs::read(&path) {
            let found = bytes.windows(text.len()).any(|window| window == text.as_bytes());
            assert!(!found, "{} holds the code", path.display());
        }
    }
}

/// That there is no way back to the link, and that it lets nobody else in: they
/// stay on the page of this address.
fn check_link_is_used_up(told: &Value, login: &str) {
    assert_eq!((&told["isBack"], &told["referrer"]), (&json!(true), &json!("")), "{told}");
    for (place, has_way_on) in [("again", true), ("elsewhere", false)] {
        let told = &told[place];
        assert_eq!(told["refusal"], "AUTH_BOOTSTRAP_TOKEN_INVALID", "{told}");
        assert_eq!(told["href"], login, "{told}");
        let text = told["text"].as_str().unwrap();
        assert!(text.contains("clawgate dashboard"), "{text}");
        assert_eq!(text.contains("Go on without a link"), has_way_on, "{text}");
    }
}

/// The one device that is paired, with what a web UI needs.
fn check_paired(list: &Value) -> &Value {
    let paired = list["paired"].as_array().unwrap();
    assert_eq!((paired.len(), &list["pending"]), (1, &json!([])), "{list}");
    let expected = [
        "operator.admin",
        "operator.approvals",
        "operator.pairing",
        "operator.read",
        "operator.write",
    ];
    assert_eq!(paired[0]["tokens"][0]["scopes"], json!(expected), "{list}");
    &paired[0]["deviceId"]
}

async fn devices(gateway: &Gateway) -> Value {
    let list = said(gateway, &["devices", "list", "--json"]).await;
    serde_json::from_str(&list).unwrap()
}

fn check_traces(gateway: &Gateway, told: &Value, code: &str) {
    assert_eq!(told["seen"], json!([]), "{told}");
    assert!(!told.to_string().contains(code), "{told}");
    for text in [gateway.stdout(), gateway.stderr()] {
        assert!(!text.contains(code), "{text}");
    }
    is_in_no_file(gateway.root(), code);
}

/// Logs our own page in, out and in again.
async fn check_own_page(gateway: &Gateway, browser: &Browser, origin: &str) {
    let (url, code) = link(gateway).await;
    let page = format!("{origin}/clawgate/");
    assert!(url.starts_with(&page), "{url}");
    let leave = json!({"button": "Sign out", "then": "[data-refusal]"});
    let args = json!({"url": url, "code": code, "inside": SHELL, "leave": leave});
    let told = browser.run(STEPS, args).await;
    // Views may put their own name behind.
    let is_page = |href: &Value| href.as_str().unwrap().split('#').next() == Some(page.as_str());
    assert!(is_page(&told["href"]) && is_page(&told["reloaded"]), "{told}");
    check_link_is_used_up(&told, &format!("{page}login"));
    check_traces(gateway, &told, &code);
    let list = devices(gateway).await;
    let identity = |of: &Value, name: &str| {
        let kept = of["stored"]["databases"]["clawgate.identity"].as_array().unwrap();
        let name = format!("/clawgate/ {name}");
        kept.iter().find(|entry| entry[0] == *name).map(|entry| entry[1].clone())
    };
    let key = identity(&told, "key").unwrap();
    assert_eq!(&key["id"], check_paired(&list));
    assert_eq!(key["privateKey"], json!({"extractable": false}));
    assert!(identity(&told, "token").is_some_and(|token| token.is_string()), "{told}");
    assert_eq!(identity(&told["left"], "token"), None, "{told}");
}

#[tokio::test]
async fn a_link_logs_one_browser_in_and_leaves_nothing_of_its_code() {
    let gateway = gateway(json!({})).await;
    let origin = format!("http://{}", gateway.address());
    check_own_page(&gateway, &Browser::new(), &origin).await;
}

#[tokio::test]
async fn a_link_to_a_gateway_that_encrypts_does_the_same() {
    let gateway = gateway(json!({"tls": {"enabled": true}})).await;
    let certificate = gateway.state_dir().join("gateway/tls/gateway-cert.pem");
    let origin = format!("https://{}", gateway.address());
    check_own_page(&gateway, &Browser::new().trusts(&certificate), &origin).await;
}

#[tokio::test]
async fn a_link_logs_the_original_control_ui_in_without_a_word_typed() {
    let ui = json!({"root": original_ui::folder(), "basePath": "/openclaw"});
    let gateway = gateway(json!({"controlUi": ui})).await;
    let (url, code) = link(&gateway).await;
    let base = format!("http://{}/openclaw", gateway.address());
    let login = format!("{base}/clawgate/login");
    assert_eq!(url, format!("{login}#code={code}&ui=control"));
    // It was used with another gateway, by a token that is none here.
    let here = base.replacen("http", "ws", 1);
    let settings = json!({"gatewayUrl": "ws://gw.example", "theme": "dash"}).to_string();
    let typed = format!("openclaw.control.token.v1:{here}");
    let args = json!({
        "url": url, "code": code, "inside": "textarea:enabled",
        "before": {
            "local": {"openclaw.control.settings.v1": settings},
            "session": {typed: "a token of an earlier time"},
        },
        "leave": {
            "at": login, "button": "Sign the Control UI out",
            "then": "[data-login=idle]:not(:has(button))",
        },
    });
    let told = Browser::new().run(STEPS, args).await;
    for href in [&told["href"], &told["reloaded"]] {
        assert!(href.as_str().unwrap().starts_with(&format!("{base}/")), "{told}");
    }
    check_link_is_used_up(&told, &login);
    check_traces(&gateway, &told, &code);
    let local = |of: &Value, name: &str| -> Value {
        serde_json::from_str(of["stored"]["local"][name].as_str().unwrap()).unwrap()
    };
    let list = devices(&gateway).await;
    let identity = local(&told, "openclaw-device-identity-v1");
    assert_eq!(&identity["deviceId"], check_paired(&list));
    let tokens = local(&told, "openclaw.device.auth.v1");
    assert_eq!(tokens["deviceId"], identity["deviceId"], "{tokens}");
    assert!(tokens["tokens"]["operator"]["token"].is_string(), "{tokens}");
    let settings = local(&told, "openclaw.control.settings.v1");
    assert_eq!((&settings["gatewayUrl"], &settings["theme"]), (&json!(here), &json!("dash")));
    assert_eq!(local(&told["left"], "openclaw.device.auth.v1")["tokens"], json!({}));
}
