//! Bodies of HTTP requests (CVE-2026-28478, CVE-2026-29612, CVE-2026-28452): read
//! for a path that somebody has, up to a bound of bytes and time, and from
//! strangers only so often (GHSA-5m9r-p9g7-679c).

use std::time::Duration;

use clawgate::http::all_routes;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::routes::path_of;
use crate::support::{Gateway, GatewayOptions, default_config};

/// Longer than a body may take.
const LIMIT: Duration = Duration::from_secs(25);
/// Far more than any body may have.
const FLOOD: usize = 64 * 1024 * 1024;
/// How much more memory the gateway may need meanwhile, in KiB: the largest body
/// of a hook here is 1 MiB of files.
const ROOM_KIB: u64 = 16 * 1024;
const HOOK: &str = "/webhooks/default";

async fn with_webhook(enabled: bool) -> Gateway {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"]["trustedProxies"] = json!(["127.0.0.1"]);
    config["channels"] = json!({"webhook": {"enabled": enabled,
        "secret": "a secret for signing webhooks", "allowFrom": ["ann"], "mediaMaxMb": 1,
    }});
    Gateway::start(GatewayOptions::with_config(config)).await
}

async fn gateway() -> Gateway {
    let gateway = with_webhook(true).await;
    // Channels come after the first hello.
    let headers = "Content-Length: 0\r\nConnection: close\r\n";
    while status(open(&gateway, HOOK, headers).await).await == 503 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    gateway
}

async fn open(gateway: &Gateway, path: &str, headers: &str) -> TcpStream {
    let mut tcp = TcpStream::connect(gateway.address()).await.unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    tcp.write_all(head.as_bytes()).await.unwrap();
    tcp
}

/// The status of the answer; 0 when the connection just ends.
async fn status(mut tcp: TcpStream) -> u16 {
    let mut answer = Vec::new();
    let read = timeout(LIMIT, tcp.read_to_end(&mut answer)).await;
    let _ = read.expect("the gateway ends the connection");
    let answer = String::from_utf8_lossy(&answer);
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}

/// Sends chunks until the other side has had enough.
async fn flood(gateway: &Gateway, path: &str) -> u16 {
    let mut tcp = open(gateway, path, "Transfer-Encoding: chunked\r\n").await;
    let chunk = [b"10000\r\n".as_slice(), &vec![b'x'; 0x10000], b"\r\n"].concat();
    for _ in 0..FLOOD / chunk.len() {
        let written = timeout(LIMIT, tcp.write_all(&chunk)).await.expect("no end of waiting");
        if written.is_err() {
            break;
        }
    }
    status(tcp).await
}

#[tokio::test]
async fn a_body_without_end_is_cut_and_needs_no_memory() {
    let gateway = gateway().await;
    let before = gateway.resident_kib().unwrap();
    let others = [HOOK, "/hooks/agent", "/chat", "/nobody/has/this"].map(str::to_owned);
    for path in all_routes().filter_map(|route| path_of(route.place)).chain(others) {
        let code = flood(&gateway, &path).await;
        assert!([0, 401, 404, 405, 413].contains(&code), "{path}: {code}");
        let now = gateway.resident_kib().unwrap();
        assert!(now < before + ROOM_KIB, "{path}: {before} KiB became {now}");
    }
    // The length is believed when it says too much.
    let tcp = open(&gateway, HOOK, "Content-Length: 9999999999\r\n").await;
    assert_eq!(status(tcp).await, 413);
    gateway.open().await;
}

#[tokio::test]
async fn a_body_that_never_comes_is_not_waited_for() {
    let gateway = gateway().await;
    let mut tcp = open(&gateway, HOOK, "Content-Length: 100\r\n").await;
    tcp.write_all(b"{").await.unwrap();
    let code = status(tcp).await;
    assert!([0, 408].contains(&code), "{code}");
    gateway.open().await;
}

/// What is answered to somebody there who proves nothing.
async fn ask(gateway: &Gateway, from: &str) -> u16 {
    let headers = format!("X-Forwarded-For: {from}\r\nContent-Length: 0\r\nConnection: close\r\n");
    // Without a body there is nothing that a refusal could leave unread.
    status(open(gateway, HOOK, &headers).await).await
}

#[tokio::test]
async fn a_channel_that_does_not_run_gives_strangers_no_tries_back() {
    let gateway = with_webhook(false).await;
    for attempt in 0..100 {
        assert_eq!(ask(&gateway, "203.0.113.9").await, 503, "{attempt}");
    }
    assert_eq!(ask(&gateway, "203.0.113.9").await, 429);
}

#[tokio::test]
async fn strangers_have_so_many_tries_at_a_signature() {
    let gateway = gateway().await;
    let ask = async |from: &str| ask(&gateway, from).await;
    for attempt in 0..100 {
        assert_eq!(ask("203.0.113.9").await, 401, "{attempt}");
    }
    assert_eq!(ask("203.0.113.9").await, 429);
    // The spelling of an address is none of its own, and others have theirs.
    assert_eq!(ask("::ffff:203.0.113.9").await, 429);
    assert_eq!(ask("203.0.113.10").await, 401);
}
