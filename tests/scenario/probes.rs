//! `/healthz` and `/readyz`, for whoever keeps watch.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::control_ui::http;
use crate::stage::{Api, admin, deltas, scripted, start, until};
use crate::support::{Gateway, SECRET};

async fn asked(gateway: &Gateway, path: &str, headers: &[(&str, &str)]) -> (StatusCode, Value) {
    let mut request = http().get(format!("http://{}{path}", gateway.address()));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = request.send().await.unwrap();
    assert_eq!(answer.headers()["cache-control"], "no-store");
    (answer.status(), serde_json::from_str(&answer.text().await.unwrap()).unwrap())
}

#[tokio::test]
async fn a_gateway_is_live_and_ready_and_tells_strangers_no_more() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let live = json!({"ok": true, "status": "live"});
    assert_eq!(asked(&gateway, "/healthz?x=1", &[]).await, (StatusCode::OK, live));
    let far = ("X-Forwarded-For", "203.0.113.9");
    let bearer = format!("Bearer {SECRET}");
    for path in ["/ready", "/readyz"] {
        assert_eq!(asked(&gateway, path, &[far]).await.1, json!({"ready": true}));
        assert_eq!(
            asked(&gateway, path, &[("Origin", "https://evil.example")]).await.1,
            json!({"ready": true})
        );
        for headers in [&[][..], &[far, ("Authorization", &bearer)]] {
            let (status, told) = asked(&gateway, path, headers).await;
            assert_eq!((status, &told["failing"]), (StatusCode::OK, &json!([])), "{told}");
            assert!(told["uptimeMs"].is_u64(), "{told}");
        }
    }
}

#[tokio::test]
async fn a_gateway_that_stops_is_live_and_not_ready() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "@mock stream n=20 delay=100", "run-1").await;
    deltas(&client, "run-1", 1).await;
    gateway.signal_term();
    let not_ready = async || {
        let (status, told) = asked(&gateway, "/readyz", &[]).await;
        (status == StatusCode::SERVICE_UNAVAILABLE).then_some(told)
    };
    let told = until("an end of its readiness", not_ready).await;
    assert_eq!((&told["ready"], &told["failing"]), (&json!(false), &json!(["stopping"])));
    assert_eq!(asked(&gateway, "/healthz", &[]).await.0, StatusCode::OK);
    gateway.terminate().await.expect("an end");
}
