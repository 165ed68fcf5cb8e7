//! Connections that ask by HTTP: what ends them, and what does not.

use std::fs;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, timeout};

use crate::stage::{admin, until};
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
