//! Connections that ask by HTTP: what ends them, and what does not.

use std::fs;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, timeout};

use crate::openai::offering;
use crate::stage::{admin, call, until};
use crate::support::control_ui::write_control_ui;
use crate::support::{Gateway, GatewayOptions, SECRET, default_config};

/// How long a connection has for its next request.
const REQUEST_LIMIT: Duration = Duration::from_secs(15);
/// Longer than anything here takes.
const HANG: Duration = Duration::from_secs(60);
/// More than the buffers of two sockets hold.
const LARGE: usize = 48 * 1024 * 1024;

async fn gateway(max_waiting: &str) -> Gateway {
    let options = GatewayOptions::with_config(default_config("127.0.0.1:9"));
    Gateway::start(options.env("OPENCLAW_MAX_PREAUTH_CONNECTIONS_PER_IP", max_waiting)).await
}

/// A connection whose other end cannot send far ahead.
async fn open(gateway: &Gateway) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 * 1024).unwrap();
    socket.connect(gateway.address().parse().unwrap()).await.unwrap()
}

async fn ask(tcp: &mut TcpStream, path: &str, lines: &str) {
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n");
    tcp.write_all(head.as_bytes()).await.unwrap();
}

/// The head of an answer and the length of its body.
async fn head(tcp: &mut TcpStream) -> (String, usize) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(HANG, tcp.read_u8()).await.expect("an answer").unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(0, |length| length.parse().unwrap());
    (head, length)
}

async fn body(tcp: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut body = vec![0; length];
    timeout(HANG, tcp.read_exact(&mut body)).await.expect("all of it").unwrap();
    body
}

/// How long the gateway leaves the connection open from now on.
async fn lasts(mut tcp: TcpStream) -> Duration {
    let began = Instant::now();
    let mut rest = Vec::new();
    let _ = timeout(HANG, tcp.read_to_end(&mut rest)).await.expect("the gateway ends it");
    began.elapsed()
}

#[tokio::test]
async fn a_slow_reader_of_a_large_file_gets_all_of_it_and_may_ask_again() {
    let gateway = gateway("1").await;
    let folder = gateway.state_dir().join("media");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("large.bin"), vec![7; LARGE]).unwrap();
    let path = format!(
        "/__openclaw__/assistant-media?source={}",
        folder.join("large.bin").to_str().unwrap()
    );
    let bearer = format!("Authorization: Bearer {SECRET}\r\n");
    let mut tcp = open(&gateway).await;
    ask(&mut tcp, &path, &bearer).await;
    let (told, length) = head(&mut tcp).await;
    assert!(told.starts_with("http/1.1 200") && length == LARGE, "{told}");
    let began = Instant::now();
    let mut came = 0;
    let mut others = Vec::new();
    while began.elapsed() < REQUEST_LIMIT + Duration::from_secs(2) {
        came += body(&mut tcp, 16 * 1024).await.len();
        // Who waits to log in is given up for others; who has proved himself is not.
        others.push(open(&gateway).await);
        sleep(Duration::from_secs(1)).await;
    }
    assert!(body(&mut tcp, LARGE - came).await.iter().all(|byte| *byte == 7));
    ask(&mut tcp, "/clawgate/", "").await;
    assert!(head(&mut tcp).await.0.starts_with("http/1.1 200"));
}

#[tokio::test]
async fn a_connection_answers_many_requests_and_becomes_a_websocket_at_last() {
    let gateway = gateway("32").await;
    let mut tcp = open(&gateway).await;
    let padding = format!("X-Padding: {}\r\n", "x".repeat(2048));
    let bearer = format!("{padding}Authorization: Bearer {SECRET}\r\n");
    for number in 0..100 {
        let lines = if number % 2 == 0 { &bearer } else { &padding };
        ask(&mut tcp, "/__openclaw/control-ui-config.json", lines).await;
        let (told, length) = head(&mut tcp).await;
        let expected = if number % 2 == 0 { "http/1.1 200" } else { "http/1.1 401" };
        assert!(told.starts_with(expected), "{number}: {told}");
        body(&mut tcp, length).await;
    }
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    ask(&mut tcp, "/", upgrade).await;
    assert!(head(&mut tcp).await.0.starts_with("http/1.1 101"));
    admin(&gateway).await;
}

#[tokio::test]
async fn a_request_is_found_in_the_log_by_its_name_and_not_by_its_address() {
    let options = GatewayOptions::with_config(default_config("127.0.0.1:9"));
    let gateway = Gateway::start(options.env("RUST_LOG", "debug")).await;
    let mut tcp = open(&gateway).await;
    for (given, is_kept) in [("mine-1.a", true), ("no name", false), ("", false)] {
        ask(&mut tcp, "/no/such?token=hidden", &format!("X-Request-Id: {given}\r\n")).await;
        let (told, length) = head(&mut tcp).await;
        body(&mut tcp, length).await;
        let id = told.lines().find_map(|line| line.strip_prefix("x-request-id: ")).unwrap();
        assert_eq!(id == given, is_kept, "{told}");
        let logged = async || gateway.stderr().contains(id).then_some(());
        until("a line of the log", logged).await;
    }
    assert!(!gateway.stderr().contains("hidden") && !gateway.stderr().contains("/no/such"));
}

#[tokio::test]
async fn whoever_is_silent_or_slow_with_a_head_is_cut_after_his_time() {
    let gateway = gateway("32").await;
    let silent = open(&gateway).await;
    let mut idle = open(&gateway).await;
    ask(&mut idle, "/clawgate/", "").await;
    let (_, length) = head(&mut idle).await;
    body(&mut idle, length).await;
    let trickled = async {
        let mut tcp = open(&gateway).await;
        let began = Instant::now();
        while tcp.write_all(b"G").await.is_ok() {
            assert!(began.elapsed() < HANG, "a head without end");
            sleep(Duration::from_millis(100)).await;
        }
        began.elapsed()
    };
    let (silent, idle, trickled) = tokio::join!(lasts(silent), lasts(idle), trickled);
    for lasted in [silent, idle, trickled] {
        let most = REQUEST_LIMIT + Duration::from_secs(10);
        assert!(lasted > REQUEST_LIMIT - Duration::from_secs(1) && lasted < most, "{lasted:?}");
    }
}

/// Everything that comes until the gateway ends the connection.
async fn rest(tcp: &mut TcpStream) -> String {
    let mut rest = Vec::new();
    timeout(HANG, tcp.read_to_end(&mut rest)).await.expect("an end").unwrap();
    String::from_utf8(rest).unwrap()
}

fn question(stream: bool, version: &str, lines: &str) -> String {
    let message = json!({"role": "user", "content": "@mock stream n=3 delay=100"});
    let body = json!({"model": "openclaw", "stream": stream, "messages": [message]}).to_string();
    format!(
        "POST /v1/chat/completions HTTP/{version}\r\nHost: localhost\r\n{lines}\
         Authorization: Bearer {SECRET}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn requests_that_are_sent_ahead_are_answered_in_their_order() {
    let (gateway, _mock) = offering().await;
    let mut tcp = open(&gateway).await;
    let unread = "POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
    tcp.write_all(format!("{}{unread}", question(false, "1.1", "")).as_bytes()).await.unwrap();
    ask(&mut tcp, "/healthz", "").await;
    ask(&mut tcp, "/v1/models", "").await;
    ask(&mut tcp, "/healthz?last", "Connection: close\r\n").await;
    let mut answers = Vec::new();
    for _ in 0..5 {
        let (told, length) = head(&mut tcp).await;
        answers.push((told[9..12].to_owned(), body(&mut tcp, length).await));
    }
    let live = br#"{"ok":true,"status":"live"}"#.to_vec();
    assert!(String::from_utf8_lossy(&answers[0].1).contains("w1 w2 w3"), "{answers:?}");
    let statuses: Vec<_> = answers.iter().map(|(status, _)| status.as_str()).collect();
    assert_eq!(statuses, ["200", "405", "200", "401", "200"]);
    assert!(answers[2].1 == live && answers[4].1 == live, "{answers:?}");
    assert_eq!(rest(&mut tcp).await, "");
}

#[tokio::test]
async fn who_speaks_http_1_0_gets_an_answer_that_ends_with_the_connection() {
    let (gateway, _mock) = offering().await;
    let mut tcp = open(&gateway).await;
    tcp.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").await.unwrap();
    let told = rest(&mut tcp).await;
    assert!(told.starts_with("HTTP/1.0 200") && told.ends_with("\"live\"}"), "{told}");

    let mut tcp = open(&gateway).await;
    for _ in 0..2 {
        tcp.write_all(b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").await.unwrap();
        let (told, length) = head(&mut tcp).await;
        assert!(told.contains("\r\nconnection: keep-alive"), "{told}");
        body(&mut tcp, length).await;
    }
    // A stream has no length, and this client knows no chunks.
    tcp.write_all(question(true, "1.0", "").as_bytes()).await.unwrap();
    let told = rest(&mut tcp).await;
    let (head, events) = told.split_once("\r\n\r\n").unwrap();
    assert!(!head.to_lowercase().contains("transfer-encoding"), "{head}");
    assert!(events.starts_with("data: {") && events.ends_with("data: [DONE]\n\n"), "{events}");
    assert!(events.split("\n\n").all(|it| it.is_empty() || it.starts_with("data: ")), "{events}");
}

#[tokio::test]
async fn whoever_says_close_gets_this_answer_and_no_other() {
    let (gateway, _mock) = offering().await;
    let close = "Connection: close\r\n";
    for (first, end) in [
        (question(false, "1.1", close), "}}"),
        (question(true, "1.1", close), "0\r\n\r\n"),
        (format!("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n{close}\r\n"), "}}"),
    ] {
        let mut tcp = open(&gateway).await;
        tcp.write_all(first.as_bytes()).await.unwrap();
        ask(&mut tcp, "/healthz", "").await;
        let told = rest(&mut tcp).await;
        assert!(told.to_lowercase().contains("\r\nconnection: close"), "{told}");
        assert!(told.matches("HTTP/1.1 ").count() == 1 && told.ends_with(end), "{told}");
    }
}

#[tokio::test]
async fn head_is_get_without_its_body() {
    let (gateway, _mock) = offering().await;
    write_control_ui(&gateway.state_dir().join("control-ui"));
    let mut tcp = open(&gateway).await;
    let bearer = format!("Authorization: Bearer {SECRET}\r\n");
    for path in [
        "/",
        "/health",
        "/healthz",
        "/readyz",
        "/metrics",
        "/openapi.json",
        "/clawgate/",
        "/v1/models",
        "/v1/models/openclaw",
        "/v1/models/nope",
        "/v1/chat/completions",
        "/favicon.svg",
        "/assets/nope.js",
        "/avatar/main?meta=1",
        "/__openclaw/control-ui-config.json",
        "/api/nothing",
    ] {
        ask(&mut tcp, path, &bearer).await;
        let (got, length) = head(&mut tcp).await;
        body(&mut tcp, length).await;
        let request = format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n{bearer}\r\n");
        tcp.write_all(request.as_bytes()).await.unwrap();
        // Were there a body, it would be taken for the head of the next answer.
        let (told, _) = head(&mut tcp).await;
        assert_eq!(lasting(&told), lasting(&got), "{path}");
    }
    ask(&mut tcp, "/healthz", "Connection: close\r\n").await;
    assert!(rest(&mut tcp).await.ends_with("\"live\"}"));
}

#[tokio::test]
async fn connections_that_wait_for_their_next_request_are_no_tasks_of_the_gateway() {
    let gateway = gateway("100").await;
    let mut client = admin(&gateway).await;
    let mut tasks = async || {
        let health = call(&mut client, "health", json!({"probe": true})).await;
        health["services"]["tasks"]["alive"].as_u64().unwrap()
    };
    let before = tasks().await;
    let mut waiting = Vec::new();
    for _ in 0..20 {
        let mut tcp = open(&gateway).await;
        ask(&mut tcp, "/healthz", "").await;
        let (_, length) = head(&mut tcp).await;
        body(&mut tcp, length).await;
        waiting.push(tcp);
    }
    // Others come and go.
    let now = tasks().await;
    assert!(now < before + 10, "{before} and then {now}");
}

/// The lines of a head that are the same for every request, sorted. How much is
/// told of uptime and numbers is not.
fn lasting(head: &str) -> Vec<&str> {
    let passing = ["date: ", "x-request-id: ", "content-length: "];
    let lines = head.trim_end().lines();
    let mut lines: Vec<_> =
        lines.filter(|line| !passing.iter().any(|name| line.starts_with(name))).collect();
    lines.sort_unstable();
    lines
}
