//! The recorded requests, sent again line by line.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{Answer, hooked, read, send};
use crate::support::Gateway;

const HEADERS: [&str; 7] = [
    "x-content-type-options",
    "referrer-policy",
    "permissions-policy",
    "content-type",
    "content-length",
    "allow",
    "retry-after",
];

async fn again(gateway: &Gateway, req: &Value) -> Answer {
    let line = format!("{} {}", req["method"].as_str().unwrap(), req["path"].as_str().unwrap());
    let headers = req["headers"].as_object().unwrap().iter();
    let headers: Vec<_> =
        headers.map(|(name, value)| (name.as_str(), value.as_str().unwrap())).collect();
    send(gateway, &line, &headers, req["body"].as_str()).await
}

/// A body without what is new each time.
fn shape(body: &str) -> String {
    match serde_json::from_str::<Value>(body) {
        Ok(mut body) if body["runId"].is_string() => {
            assert_eq!(body["runId"].as_str().unwrap().len(), 36);
            body["runId"] = json!("<run>");
            body.to_string()
        }
        _ => body.to_owned(),
    }
}

#[tokio::test]
async fn each_recorded_request_is_answered_as_it_was_but_for_three_that_are_better() {
    let hooks = json!({"token": "hook-secret", "mappings": [{
        "match": {"path": "mapped"}, "action": "wake", "textTemplate": "{{who}} {{n}}"}]});
    let (gateway, _mock) = hooked(&hooks).await;
    let Ok(folder) = std::env::var("CLAWGATE_REFERENCE") else { return };
    let trace = fs::read_to_string(Path::new(&folder).join("traces/http/hooks.jsonl")).unwrap();
    let lines = trace.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut compared = 0;
    let mut wrong = 0;
    for line in lines.filter(|line| line["req"].is_object()) {
        let (req, res) = (&line["req"], &line["res"]);
        let recorded_body = req["body"].as_str().unwrap_or_default();
        // Beyond the bound the original cuts the connection: nobody learns why.
        if res["error"].is_string() || res["raw"].is_string() {
            let answer = too_large(&gateway, req["body"].is_string()).await;
            assert_eq!(answer.status, 413, "{line}");
            assert_eq!(answer.body, r#"{"ok":false,"error":"payload too large"}"#);
            continue;
        }
        // Only the first, the twentieth and what follows were written down.
        if line["note"] == "wrong token 20" {
            while wrong < 19 {
                assert_eq!(again(&gateway, req).await.status, 401);
                wrong += 1;
            }
        }
        let answer = again(&gateway, req).await;
        wrong += usize::from(line["note"] == "wrong token 1");
        assert_eq!(json!(answer.status), res["status"], "{line}");
        // Only the words of the parser are its own.
        if recorded_body == "{oops" {
            let (_, why) = answer.refusal();
            assert!(why.starts_with("the body is no JSON: ") && why.contains("line 1"), "{why}");
            continue;
        }
        for name in HEADERS {
            assert_eq!(answer.header(name), res["headers"][name].as_str(), "{name} of {line}");
        }
        assert_eq!(shape(&answer.body), shape(res["body"].as_str().unwrap()), "{line}");
        compared += 1;
    }
    assert_eq!(compared, 19);
}

/// A request that says that it has 300 KiB, with or without them.
async fn too_large(gateway: &Gateway, is_sent: bool) -> Answer {
    let body = format!("{{\"message\":\"{}\"}}", "y".repeat(300 * 1024));
    let mut tcp = TcpStream::connect(gateway.address()).await.unwrap();
    let head = format!(
        "POST /hooks/agent HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer hook-secret\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    tcp.write_all(head.as_bytes()).await.unwrap();
    if is_sent {
        tcp.write_all(body.as_bytes()).await.unwrap();
    }
    read(&mut tcp).await
}

#[tokio::test]
async fn the_same_idempotency_key_has_the_same_run() {
    let (gateway, mock) = hooked(&json!({})).await;
    let body = json!({"message": "once-mark", "deliver": false});
    let ask = async |headers: &[(&str, &str)], body: &Value| {
        super::post_with(&gateway, "/hooks/agent", super::TOKEN, headers, body).await.run_id()
    };
    let first = ask(&[("Idempotency-Key", "k-1")], &body).await;
    assert_eq!(ask(&[("Idempotency-Key", "k-1")], &body).await, first);
    assert_eq!(ask(&[("X-OpenClaw-Idempotency-Key", "k-1")], &body).await, first);
    // Another key, another message, or none: another run.
    let second = ask(&[("Idempotency-Key", "k-2")], &body).await;
    let other = json!({"message": "once-mark too", "deliver": false});
    let third = ask(&[("Idempotency-Key", "k-1")], &other).await;
    assert!(first != second && first != third && second != third);
    let mut client = crate::stage::admin(&gateway).await;
    for run in [&first, &second, &third] {
        assert_eq!(super::end(&mut client, run).await["status"], "ok");
    }
    assert_eq!(super::asked(&mock, "once-mark").len(), 3);
}

#[tokio::test]
async fn an_idempotency_key_that_is_too_long_is_refused_by_its_name() {
    let (gateway, _mock) = hooked(&json!({})).await;
    let long = "k".repeat(257);
    let mut body = json!({"message": "x", "deliver": false});
    for name in ["Idempotency-Key", "X-OpenClaw-Idempotency-Key"] {
        let headers = [(name, long.as_str())];
        let answer =
            super::post_with(&gateway, "/hooks/agent", super::TOKEN, &headers, &body).await;
        assert_eq!(answer.refusal(), (400, format!("{name} must have at most 256 bytes")));
    }
    body["idempotencyKey"] = long.into();
    let answer = super::post(&gateway, "/hooks/agent", &body).await;
    let why = "idempotencyKey must have at most 256 bytes".to_owned();
    assert_eq!(answer.refusal(), (400, why));
}
