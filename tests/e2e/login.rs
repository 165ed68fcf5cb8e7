//! `clawgate dashboard`: its link logs one browser in, once, and what it holds
//! stays nowhere.

use std::path::Path;

use serde_json::{Value, json};

use crate::stage::{admin, call};
use crate::support::guest::said;
use crate::support::{Browser, Gateway, GatewayOptions, default_config};

const STEPS: &str = "tests/e2e/login.mjs";
/// What our own page shows once it is in.
const SHELL: &str = ".shell nav a";

async fn gateway() -> Gateway {
    Gateway::start(GatewayOptions::with_config(default_config("127.0.0.1:9"))).await
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

fn check_traces(gateway: &Gateway, told: &Value, code: &str) {
    assert_eq!(told["seen"], json!([]), "{told}");
    assert!(!told.to_string().contains(code), "{told}");
    for text in [gateway.stdout(), gateway.stderr()] {
        assert!(!text.contains(code), "{text}");
    }
    is_in_no_file(gateway.root(), code);
}

#[tokio::test]
async fn a_link_logs_one_browser_in_and_leaves_nothing_of_its_code() {
    let gateway = gateway().await;
    let (url, code) = link(&gateway).await;
    let page = format!("http://127.0.0.1:{}/clawgate/", gateway.port());
    let args = json!({"url": url, "code": code, "inside": SHELL, "leave": "Sign out"});
    let told = Browser::new().run(STEPS, args).await;
    // Views may put their own name behind.
    let is_page = |href: &Value| href.as_str().unwrap().split('#').next() == Some(page.as_str());
    assert!(is_page(&told["href"]) && is_page(&told["reloaded"]), "{told}");
    assert_eq!(told["back"], "about:blank", "the link is no place to come back to: {told}");
    assert_eq!(told["referrer"], "", "{told}");
    check_traces(&gateway, &told, &code);

    for (place, has_way_on) in [("again", true), ("elsewhere", false)] {
        let told = &told[place];
        assert_eq!(told["refusal"], "AUTH_BOOTSTRAP_TOKEN_INVALID", "{told}");
        assert_eq!(told["href"], format!("{page}login"), "{told}");
        let text = told["text"].as_str().unwrap();
        assert!(text.contains("clawgate dashboard"), "{text}");
        assert_eq!(text.contains("Go on without a link"), has_way_on, "{text}");
    }
    assert_eq!(told["left"], "AUTH_TOKEN_MISSING", "{told}");

    // One device, with what the page needs, and a key that stays in the browser.
    let list = call(&mut admin(&gateway).await, "device.pair.list", json!({})).await;
    let paired = list["paired"].as_array().unwrap();
    assert_eq!((paired.len(), &list["pending"]), (1, &json!([])), "{list}");
    let scopes = &paired[0]["tokens"][0]["scopes"];
    let expected = [
        "operator.admin",
        "operator.approvals",
        "operator.pairing",
        "operator.read",
        "operator.write",
    ];
    assert_eq!(scopes, &json!(expected), "{list}");
    let kept = told["stored"]["databases"]["clawgate.identity"].as_array().unwrap();
    let key = kept.iter().find(|entry| entry[0] == "/clawgate/ key").unwrap();
    assert_eq!(key[1]["id"], paired[0]["deviceId"]);
    assert_eq!(key[1]["privateKey"], json!({"extractable": false}));
}
