//! A page that speaks as the document of Claude sessions says, in Chromium.

use serde_json::{Value, json};

use crate::stage::{Api, call, config};
use crate::support::client::{ALL_SCOPES, standard_connect};
use crate::support::{Browser, Gateway, GatewayOptions, MockProvider, SECRET, tls};

/// A page that the gateway does not serve, but knows.
const PAGE: &str = "https://ui.example/";
const STEPS: &str = "tests/e2e/claude_page.mjs";

#[tokio::test]
async fn a_page_sees_texts_grow_calls_of_tools_and_nothing_twice_when_it_comes_again() {
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::Anthropic);
    config["gateway"]["tls"] = json!({"enabled": true});
    config["gateway"]["controlUi"] = json!({"allowedOrigins": [PAGE.trim_end_matches('/')]});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let certificate = gateway.state_dir().join("gateway/tls/gateway-cert.pem");
    let mut client = tls::open(gateway.port(), &certificate).await.unwrap();
    let hello = client.request("connect", standard_connect(&ALL_SCOPES)).await;
    assert_eq!(hello["ok"], true, "{hello}");
    let made = call(&mut client, "sessions.create", json!({"label": "page"})).await;
    let id = made["sessionId"].as_str().unwrap();
    let path = format!("/api/claude/sessions/{id}/subscribe?access_token={SECRET}");
    let arguments = json!({"command": "echo from the tool"});
    let args = json!({
        "page": PAGE,
        "socket": format!("wss://localhost:{}{path}", gateway.port()),
        "streams": "@mock stream n=30 delay=30",
        "calls": format!("@mock tool name=exec args={arguments} then=done"),
    });
    let browser = Browser::new().page(PAGE, "<!doctype html><title>A page</title><main></main>");
    let told = browser.trusts(&certificate).run(STEPS, args).await;
    let words: String = (1..=30).map(|i| format!("w{i} ")).collect();
    let texts = |name: &str| -> Vec<Value> {
        let shown = told[name].as_array().unwrap();
        shown.iter().map(|it| json!([it["role"], it["text"]])).collect()
    };
    let lengths: Vec<_> =
        told["grew"].as_array().unwrap().iter().map(|it| it.as_u64().unwrap()).collect();
    assert!(lengths.len() > 10 && lengths.is_sorted(), "{lengths:?}");
    assert_eq!(texts("first")[1], json!(["assistant", words.trim_end()]), "{told}");
    assert_eq!(told["calls"], json!([{"name": "Bash", "input": arguments}]), "{told}");
    assert_eq!(texts("second").last().unwrap(), &json!(["assistant", "done"]), "{told}");
    assert_eq!(told["again"], told["second"], "nothing is there twice");
    assert_eq!(told["isIdle"], true);
}
