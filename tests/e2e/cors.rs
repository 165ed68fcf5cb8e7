//! Pages of other origins that use the API, in Chromium: one that is listed in
//! `gateway.controlUi.allowedOrigins`, and one that is not.

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::stage::{Api, config};
use crate::support::{Browser, Gateway, GatewayOptions, MockProvider, SECRET};

const STEPS: &str = "tests/e2e/cors.mjs";

/// A site on this machine with one empty page; it is gone when it is dropped.
struct Site {
    origin: String,
    _serving: JoinSet<()>,
}

impl Site {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let page = || async { Html("<!doctype html><title>A page</title>") };
        let site = Router::new().route("/", get(page));
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, site).await.unwrap() });
        Self { origin, _serving: serving }
    }
}

#[tokio::test]
async fn a_listed_page_reads_json_and_streams_and_another_page_reads_nothing() {
    let (listed, other) = (Site::open().await, Site::open().await);
    let mock = MockProvider::start().await;
    let mut config = config(mock.address(), Api::OpenAi);
    config["gateway"]["controlUi"] = json!({"allowedOrigins": [listed.origin]});
    config["gateway"]["http"]["endpoints"] = json!({"chatCompletions": {"enabled": true}});
    let gateway = Gateway::start(GatewayOptions::with_config(config)).await;
    let base = format!("http://{}", gateway.address());
    let visit = |site: &Site| {
        let args = json!({"page": site.origin, "gateway": base, "token": SECRET});
        async move { Browser::new().run(STEPS, args).await }
    };

    let told = visit(&listed).await;
    assert_eq!(told["models"]["status"], 200, "{told}");
    assert_eq!(told["models"]["first"], "openclaw", "{told}");
    assert!(told["models"]["requestId"].is_string(), "{told}");
    assert_eq!(told["whole"]["text"], "hello", "{told}");
    assert_eq!(told["stream"]["text"], "one two three", "{told}");
    assert_eq!(told["stream"]["isDone"], true, "{told}");
    assert!(told["stream"]["reads"].as_u64() > Some(1), "as it comes: {told}");
    assert_eq!(told["wrong"], json!({"status": 401, "type": "unauthorized"}), "{told}");
    assert_eq!(told["changed"]["status"], 200, "{told}");
    let calls = mock.calls().len();
    assert_eq!(calls, 2, "{told}");

    let told = visit(&other).await;
    let refused = Value::from("TypeError");
    for what in ["models", "whole", "stream", "wrong", "changed"] {
        assert_eq!(told[what]["failed"], refused, "{what}: {told}");
    }
    assert_eq!(mock.calls().len(), calls, "nothing was asked of the model");
}
