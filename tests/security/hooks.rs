//! Hooks (GHSA-2xcp-x87w-q377, GHSA-724r-v4wf-mqc5, CVE-2026-28393,
//! GHSA-5m9r-p9g7-679c): a token is guessed only so often, nothing of a stranger is
//! read, and no token or body comes into the log. Sessions, templates and tokens of
//! mappings are in `tests/scenario/hooks`.

use std::time::Duration;

use clawgate::channels::webhook::{SIGNATURE, TIMESTAMP, sign};
use clawgate::support::Secret;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::stage::{admin, call};
use crate::support::{Gateway, GatewayOptions, SECRET, default_config, now_ms};

const TOKEN: &str = "a-token-of-hooks-for-tests";
const SIGNING: &str = "a secret for signing webhooks";
const LIMIT: Duration = Duration::from_secs(20);

async fn gateway() -> Gateway {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"]["trustedProxies"] = json!(["127.0.0.1"]);
    config["hooks"] = json!({"enabled": true, "token": TOKEN});
    config["channels"] = json!({"webhook": {"secret": SIGNING, "allowFrom": ["ann"]}});
    let options = GatewayOptions::with_config(config).env("RUST_LOG", "trace");
    Gateway::start(options).await
}

/// Sends these bytes; status and text of the answer.
async fn ask(gateway: &Gateway, head: &str, body: &[u8]) -> (u16, String) {
    let mut tcp = TcpStream::connect(gateway.address()).await.unwrap();
    let head = format!("POST {head}\r\nHost: localhost\r\nConnection: close\r\n");
    tcp.write_all(format!("{head}Content-Length: {}\r\n\r\n", body.len()).as_bytes())
        .await
        .unwrap();
    tcp.write_all(body).await.unwrap();
    answer(&mut tcp).await
}

async fn answer(tcp: &mut TcpStream) -> (u16, String) {
    let mut bytes = Vec::new();
    let read = timeout(LIMIT, tcp.read_to_end(&mut bytes)).await;
    let _ = read.expect("the gateway ends the connection");
    let answer = String::from_utf8_lossy(&bytes).into_owned();
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (status, answer)
}

async fn wake(gateway: &Gateway, from: &str, token: &str) -> (u16, String) {
    let head =
        format!("/hooks/wake HTTP/1.1\r\nX-Forwarded-For: {from}\r\nAuthorization: Bearer {token}");
    ask(gateway, &head, br#"{"text":"x","mode":"next-heartbeat"}"#).await
}

#[tokio::test]
async fn a_token_is_guessed_so_often_and_the_right_one_counts_all_the_same() {
    let gateway = gateway().await;
    for attempt in 0..20 {
        assert_eq!(wake(&gateway, "203.0.113.9", "wrong").await.0, 401, "{attempt}");
    }
    let (status, answer) = wake(&gateway, "203.0.113.9", "wrong").await;
    assert_eq!(status, 429);
    assert!(answer.to_lowercase().contains("retry-after: 60\r\n"), "{answer}");
    // The spelling of an address is none of its own, and others have theirs.
    assert_eq!(wake(&gateway, "::ffff:203.0.113.9", "wrong").await.0, 429);
    assert_eq!(wake(&gateway, "203.0.113.10", "wrong").await.0, 401);
    assert_eq!(wake(&gateway, "203.0.113.9", TOKEN).await.0, 200);
    assert_eq!(wake(&gateway, "203.0.113.9", "wrong").await.0, 401);
}

#[tokio::test]
async fn who_races_tries_no_more_often() {
    let gateway = gateway().await;
    let tries = (0..60).map(|_| wake(&gateway, "203.0.113.11", "wrong"));
    let statuses = futures_util::future::join_all(tries).await;
    let tried = statuses.iter().filter(|(status, _)| *status == 401).count();
    assert_eq!(tried, 20, "{statuses:?}");
}

#[tokio::test]
async fn nothing_of_a_body_is_waited_for_that_comes_with_a_wrong_token() {
    let gateway = gateway().await;
    let mut tcp = TcpStream::connect(gateway.address()).await.unwrap();
    let head = "POST /hooks/agent HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\n\
                Content-Length: 100000\r\n\r\n";
    tcp.write_all(head.as_bytes()).await.unwrap();
    // Not a byte of the body is sent, and the answer is there.
    let mut first = [0_u8; 12];
    timeout(LIMIT, tcp.read_exact(&mut first)).await.expect("an answer").unwrap();
    assert_eq!(&first, b"HTTP/1.1 401");
}

#[tokio::test]
async fn no_token_and_no_body_comes_into_the_log() {
    let gateway = gateway().await;
    let body = br#"{"message":"private-words-of-a-body","deliver":false}"#;
    let agent = |token: &str| format!("/hooks/agent HTTP/1.1\r\nX-OpenClaw-Token: {token}");
    assert_eq!(ask(&gateway, &agent(TOKEN), body).await.0, 200);
    assert_eq!(ask(&gateway, &agent("a-guess-of-somebody"), body).await.0, 401);
    let query = format!("/hooks/agent?token={TOKEN} HTTP/1.1");
    let (status, answer) = ask(&gateway, &query, body).await;
    assert_eq!(status, 400);
    assert!(!answer.contains(TOKEN));
    let log = gateway.stderr();
    for part in [TOKEN, "a-guess-of-somebody"] {
        assert!(!log.contains(part), "{part} is in the log");
    }
    let told = log.lines().filter(|line| line.contains("private-words-of-a-body"));
    assert_eq!(told.count(), 0);
}

/// A message of 200 KiB with a signature of all of it, or of something else.
async fn signed(gateway: &Gateway, is_right: bool) -> (u16, String) {
    let text = "x".repeat(200 * 1024);
    let body = json!({"id": "large", "text": text, "from": {"id": "ann"}}).to_string();
    let now = u64::try_from(now_ms()).unwrap() / 1000;
    let what = if is_right { body.as_bytes() } else { b"something else".as_slice() };
    let (time, signature) = sign(&Secret::new(SIGNING), now, what);
    let head =
        format!("/webhooks/default HTTP/1.1\r\n{TIMESTAMP}: {time}\r\n{SIGNATURE}: {signature}");
    ask(gateway, &head, body.as_bytes()).await
}

#[tokio::test]
async fn a_large_body_whose_signature_is_over_all_of_it_arrives() {
    let gateway = gateway().await;
    // The channel begins after the gateway listens.
    let mut right = signed(&gateway, true).await;
    while right.0 == 503 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        right = signed(&gateway, true).await;
    }
    assert_eq!(right.0, 200, "{}", right.1);
    assert!(right.1.contains("\"accepted\""), "{}", right.1);
    assert_eq!(signed(&gateway, false).await.0, 401);
}

#[tokio::test]
async fn a_reference_that_lets_nobody_in_is_told_by_health() {
    let reference = |id: &str| json!({"source": "env", "provider": "default", "id": id});
    let alone = |id: &str| json!({"enabled": true, "token": reference(id)});
    let mut both = alone("NOPE");
    both["mappings"] = json!([{"match": {"path": "m"}, "action": "wake", "textTemplate": "m",
        "token": reference("HT")}]);
    let (reused, unset) = ("must not match gateway auth token", "NOPE is not set");
    for (hooks, why) in
        [(alone("HT"), [reused].as_slice()), (alone("NOPE"), &[unset]), (both, &[reused, unset])]
    {
        let mut config = default_config("127.0.0.1:9");
        config["gateway"]["trustedProxies"] = json!(["127.0.0.1"]);
        config["hooks"] = hooks;
        let gateway = Gateway::start(GatewayOptions::with_config(config).env("HT", SECRET)).await;
        assert_eq!(wake(&gateway, "203.0.113.9", SECRET).await.0, 401);
        let health = call(&mut admin(&gateway).await, "health", json!({})).await;
        assert_eq!(health["degraded"], json!(["hooks"]), "{health}");
        let error = health["services"]["hooks"]["error"].as_str().unwrap();
        assert!(why.iter().all(|why| error.contains(why)), "{error}");
    }
}
