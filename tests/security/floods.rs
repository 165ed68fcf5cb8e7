//! Much at once from those who have not logged in (CVE-2026-28478, CVE-2026-29612,
//! GHSA-4xwj-mcc7-x7x5): every read has a bound, so memory stays where it is.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::stage::{admin, call};
use crate::support::{Gateway, GatewayOptions, default_config};

const FLOODS: usize = 100;
/// What each of them sends, if it may.
const FLOOD: usize = 8 * 1024 * 1024;
/// What they may cost together. The bound of each is 64 KiB.
const MAX_GROWTH_KIB: u64 = 32 * 1024;
const HANG: Duration = Duration::from_secs(30);

async fn gateway() -> Gateway {
    let options = GatewayOptions::with_config(default_config("127.0.0.1:9"));
    let limit = FLOODS.to_string();
    Gateway::start(options.env("OPENCLAW_MAX_PREAUTH_CONNECTIONS_PER_IP", &limit)).await
}

/// Sends `head` and then `part` again and again until the other end has enough.
async fn flood(address: String, head: &'static str, part: &'static [u8]) {
    let mut tcp = TcpStream::connect(address).await.unwrap();
    let send = async {
        tcp.write_all(head.as_bytes()).await?;
        for _ in 0..FLOOD / part.len() {
            tcp.write_all(part).await?;
        }
        std::io::Result::Ok(())
    };
    // Whether it was all sent or cut short: what counts is the gateway's memory.
    let _ = send.await;
    let mut rest = Vec::new();
    let _ = timeout(HANG, tcp.read_to_end(&mut rest)).await.expect("the gateway ends it");
}

const UPGRADE: &str = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

#[tokio::test]
async fn floods_before_login_need_no_memory_and_disturb_nobody() {
    let line: &[u8] =
        b"X-Padding: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n";
    let word: &[u8] = &[b'x'; 4096];
    // The head of a frame that announces 8 MiB.
    let frame: &[u8] = &[0x81, 0xff, 0, 0, 0, 0, 0, 0x80, 0, 0, 1, 2, 3, 4];
    for (head, part) in [
        ("GET / HTTP/1.1\r\nHost: localhost\r\n", line),
        ("GET /", word),
        ("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8388608\r\n\r\n", word),
        (UPGRADE, frame),
        (UPGRADE, word),
    ] {
        let gateway = gateway().await;
        let mut client = admin(&gateway).await;
        let before = gateway.resident_kib().unwrap();
        let mut floods = JoinSet::new();
        for _ in 0..FLOODS {
            floods.spawn(flood(gateway.address(), head, part));
        }
        call(&mut client, "health", serde_json::json!({})).await;
        while let Some(done) = floods.join_next().await {
            done.unwrap();
        }
        let peak = peak_kib(gateway.pid().unwrap());
        assert!(peak < before + MAX_GROWTH_KIB, "{head:?}: from {before} to {peak} KiB");
        call(&mut client, "health", serde_json::json!({})).await;
    }
}

/// The most memory that the process ever had.
fn peak_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}
