//! Bodies of somebody who was let in (CVE-2026-28478, CVE-2026-29612): each route
//! takes so much and no more, says so at once, and holds what has come only.

use std::time::Duration;

use clawgate::http::all_routes;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::routes::path_of;
use crate::support::{Gateway, GatewayOptions, SECRET, default_config};

/// Longer than an answer may take that needs no body.
const SOON: Duration = Duration::from_secs(5);
/// Longer than anything here takes.
const HANG: Duration = Duration::from_secs(40);
/// More than any body may have.
const HUGE: u64 = 1 << 40;
/// What the gateway may take into memory of a body, in KiB: that of the routes here
/// has at most a few, and a mebibyte is one of the allocator's steps.
const ROOM_KIB: u64 = 12 * 1024;
/// The limit of the two APIs of OpenAI here.
const OPENAI_MAX: usize = 1024 * 1024;
const CHAT: &str = "/v1/chat/completions";

async fn gateway() -> Gateway {
    let mut config = default_config("127.0.0.1:9");
    let endpoint = json!({"enabled": true, "maxBodyBytes": OPENAI_MAX});
    config["gateway"]["http"]["endpoints"] =
        json!({"chatCompletions": endpoint, "responses": endpoint});
    Gateway::start(GatewayOptions::with_config(config)).await
}

async fn open(gateway: &Gateway, method: &str, path: &str, headers: &str) -> TcpStream {
    let mut tcp = TcpStream::connect(gateway.address()).await.unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {SECRET}\r\n{headers}\r\n"
    );
    tcp.write_all(head.as_bytes()).await.unwrap();
    tcp
}

/// All that comes until the gateway ends the connection.
async fn rest(tcp: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    timeout(HANG, tcp.read_to_end(&mut answer)).await.expect("the gateway ends it").unwrap();
    String::from_utf8(answer).unwrap()
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}

fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or(Value::Null)
}

/// Every path that takes a credential, with each of its methods.
fn lines() -> Vec<(String, String)> {
    let lines = all_routes().flat_map(|route| {
        let path = path_of(route.place).unwrap_or_else(|| "/nobody/has/this".to_owned());
        route.methods.iter().map(move |method| (method.to_string(), path.clone()))
    });
    lines.collect()
}

#[tokio::test]
async fn a_length_that_is_too_large_is_answered_at_once_and_nothing_is_asked_for() {
    let gateway = gateway().await;
    let before = gateway.resident_kib().unwrap();
    let headers = format!("Content-Length: {HUGE}\r\nExpect: 100-continue\r\n");
    for (method, path) in lines() {
        let began = Instant::now();
        let mut tcp = open(&gateway, &method, &path, &headers).await;
        let answer = rest(&mut tcp).await;
        assert!(began.elapsed() < SOON, "{method} {path}: {:?}", began.elapsed());
        // Of what is not read, neither is it said that it should come.
        assert!(answer.starts_with("HTTP/1.1 ") && status(&answer) != 100, "{answer}");
        let is_read = ["GET", "HEAD"].contains(&method.as_str());
        let code = status(&answer);
        assert!(
            code == 413 || (!is_read && (200..500).contains(&code)),
            "{method} {path}: {answer}"
        );
        assert!(answer.to_lowercase().contains("connection: close"), "{method} {path}: {answer}");
        if code == 413 && method != "HEAD" {
            assert!(body(&answer).is_object(), "{method} {path}: {answer}");
        }
    }
    let mut tcp = open(&gateway, "POST", CHAT, &headers).await;
    let said = json!({"error": {
        "message": format!("the body must have at most {OPENAI_MAX} bytes"),
        "type": "invalid_request_error",
    }});
    assert_eq!(body(&rest(&mut tcp).await), said);
    let now = gateway.resident_kib().unwrap();
    assert!(now < before + ROOM_KIB, "{before} KiB became {now}");
}

#[tokio::test]
async fn a_body_without_a_length_is_counted_while_it_comes() {
    let gateway = gateway().await;
    // What a route needs once is not what a body costs.
    for (method, path) in lines() {
        let mut tcp =
            open(&gateway, &method, &path, "Connection: close\r\nContent-Length: 2\r\n").await;
        let _ = tcp.write_all(b"{}").await;
        if !path.ends_with("/stream") {
            rest(&mut tcp).await;
        }
    }
    let before = gateway.resident_kib().unwrap();
    let chunk = [b"10000\r\n".as_slice(), &vec![b' '; 0x10000], b"\r\n"].concat();
    for (method, path) in lines().into_iter().filter(|(_, path)| !path.ends_with("/stream")) {
        let mut tcp = open(&gateway, &method, &path, "Transfer-Encoding: chunked\r\n").await;
        let (mut reader, mut writer) = tcp.split();
        let send = async {
            for _ in 0..1024 {
                if writer.write_all(&chunk).await.is_err() {
                    return;
                }
            }
            // Without an end of the body only a limit brings an answer.
            std::future::pending::<()>().await;
        };
        let mut answer = Vec::new();
        let read = timeout(HANG, reader.read_to_end(&mut answer));
        let answered = tokio::select! { () = send => true, read = read => read.is_ok() };
        assert!(answered, "{method} {path} takes 64 MiB");
        let now = gateway.resident_kib().unwrap();
        assert!(now < before + ROOM_KIB, "{method} {path}: {before} KiB became {now}");
    }
    gateway.open().await;
}

#[tokio::test]
async fn who_announces_much_and_sends_little_costs_little() {
    let gateway = gateway().await;
    let before = gateway.resident_kib().unwrap();
    let mut waiting = Vec::new();
    for _ in 0..64 {
        let headers = format!("Content-Length: {OPENAI_MAX}\r\n");
        let mut tcp = open(&gateway, "POST", CHAT, &headers).await;
        tcp.write_all(b"{").await.unwrap();
        waiting.push(tcp);
    }
    // Whoever comes after them is answered, so they have been looked at.
    let mut tcp = open(&gateway, "GET", "/v1/models", "Connection: close\r\n").await;
    assert_eq!(status(&rest(&mut tcp).await), 200);
    let now = gateway.resident_kib().unwrap();
    assert!(now < before + ROOM_KIB, "{before} KiB became {now}");
}

#[tokio::test]
async fn a_client_that_sends_all_of_it_before_it_reads_still_learns_why() {
    let gateway = gateway().await;
    let large = vec![b' '; 24 * 1024 * 1024];
    for method in ["POST", "GET"] {
        let headers = format!("Content-Length: {}\r\n", large.len());
        let mut tcp = open(&gateway, method, CHAT, &headers).await;
        timeout(HANG, tcp.write_all(&large)).await.unwrap().expect("it is let finish");
        let answer = rest(&mut tcp).await;
        assert_eq!(status(&answer), 413, "{answer}");
    }
    // Not for ever: who goes on is cut.
    let mut tcp = open(&gateway, "POST", CHAT, &format!("Content-Length: {HUGE}\r\n")).await;
    let began = Instant::now();
    while timeout(HANG, tcp.write_all(&large)).await.unwrap().is_ok() {
        assert!(began.elapsed() < HANG, "a body without end");
    }
}

#[tokio::test]
async fn what_is_no_json_or_says_something_twice_is_refused_with_a_type() {
    let gateway = gateway().await;
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(4000), "]".repeat(4000));
    let bad: [&[u8]; 6] = [
        deep.as_bytes(),
        b"{\"model\": \"\xff\"}",
        b"{\"model\": \"a\", \"model\": \"b\"}",
        b"{\"messages\": [{\"role\": \"user\", \"role\": \"system\"}]}",
        b"{",
        b"{} {}",
    ];
    for (path, method) in [
        (CHAT, "POST"),
        ("/v1/responses", "POST"),
        ("/api/claude/sessions", "POST"),
        ("/api/sessions/policy", "PUT"),
    ] {
        for bytes in bad {
            let headers = format!("Content-Length: {}\r\nConnection: close\r\n", bytes.len());
            let mut tcp = open(&gateway, method, path, &headers).await;
            tcp.write_all(bytes).await.unwrap();
            let answer = rest(&mut tcp).await;
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
            assert_eq!(status(&answer), 400, "{path} {shown}: {answer}");
            assert!(body(&answer).is_object(), "{path} {shown}: {answer}");
        }
    }
}
