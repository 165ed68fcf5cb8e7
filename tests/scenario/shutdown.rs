//! SIGTERM, and good-byes of clients.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;

use crate::reload::signal;
use crate::stage::{Api, admin, call, deltas, end_of, lines, row, scripted, start, told};
use crate::support::client::SOON;
use crate::support::{Gateway, GatewayOptions, SECRET, WsClient, default_config};

/// Less than any limit that a stop waits for: runs have ten seconds, sockets
/// before their `connect` have fifteen.
const AT_ONCE: Duration = Duration::from_secs(5);
/// How long a stop waits for answers that are being sent.
const ANSWERS: Duration = Duration::from_secs(2);
/// More than the buffers of two sockets hold.
const LARGE: usize = 16 * 1024 * 1024;

fn is_shutdown(frame: &Value) -> bool {
    frame["event"] == "shutdown"
}

#[tokio::test]
async fn a_stop_lets_the_run_end_and_says_good_bye() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    let idle = admin(&gateway).await;
    start(&mut client, "main", "@mock stream n=15 delay=60", "run-1").await;
    deltas(&client, "run-1", 1).await;
    gateway.signal_term();
    let said = client.wait_for(SOON, is_shutdown).await.expect("a shutdown event");
    assert_eq!(said["payload"], json!({"reason": "gateway stopping", "restartExpectedMs": null}));
    let params = json!({"sessionKey": "work", "message": "too late", "idempotencyKey": "run-2"});
    let refused = client.request("chat.send", params).await;
    assert_eq!(refused["error"]["code"], "UNAVAILABLE", "{refused}");
    let health = call(&mut client, "health", json!({})).await;
    assert_eq!((&health["ok"], &health["stopping"]), (&json!(false), &json!(true)), "{health}");
    let end = end_of(&client, "run-1").await;
    assert_eq!(end["state"], "final", "{end}");
    for connection in [&client, &idle] {
        let closed = connection.wait_closed(SOON).await.expect("a close");
        assert_eq!((closed.code, closed.reason.as_str()), (1012, "service restart"));
    }
    let status = gateway.wait_exit(SOON).await.expect("an exit");
    assert_eq!(status.code(), Some(0));
    let events = client.frames();
    let place = |wanted: &dyn Fn(&Value) -> bool| events.iter().position(wanted).unwrap();
    let final_at = place(&|frame| frame["payload"]["state"] == "final");
    assert!(place(&is_shutdown) < final_at);

    gateway.restart().await;
    let mut client = admin(&gateway).await;
    assert_eq!(told(&mut client, "main").await.len(), 2);
    assert_eq!(row(&mut client, "agent:main:main").await["status"], "done");
    assert_eq!(told(&mut client, "work").await, lines(&[]));
}

#[tokio::test]
async fn a_stop_waits_for_the_messages_that_wait_too() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    for index in 0..4 {
        let text = format!("{index} @mock stream n=5 delay=20");
        start(&mut client, "main", &text, &format!("run-{index}")).await;
    }
    gateway.signal_term();
    for index in 0..4 {
        assert_eq!(end_of(&client, &format!("run-{index}")).await["state"], "final");
    }
    assert_eq!(gateway.wait_exit(SOON).await.expect("an exit").code(), Some(0));
}

/// A connection over which a large file is being sent, and that file.
async fn fetching(gateway: &Gateway) -> (TcpStream, Vec<u8>) {
    let folder = gateway.state_dir().join("media");
    fs::create_dir_all(&folder).unwrap();
    let file = vec![7; LARGE];
    fs::write(folder.join("large.bin"), &file).unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 * 1024).unwrap();
    let mut tcp = socket.connect(gateway.address().parse().unwrap()).await.unwrap();
    let head = format!(
        "GET /__openclaw__/assistant-media?source={} HTTP/1.1\r\nHost: localhost\r\n\
        Authorization: Bearer {SECRET}\r\nConnection: close\r\n\r\n",
        folder.join("large.bin").display()
    );
    tcp.write_all(head.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    tcp.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    (tcp, file)
}

#[tokio::test]
async fn a_stop_waits_for_answers_that_are_being_sent() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let client = admin(&gateway).await;
    let (mut tcp, file) = fetching(&gateway).await;
    let began = Instant::now();
    gateway.signal_term();
    client.wait_closed(SOON).await.expect("a close");
    let mut rest = Vec::new();
    let read = tcp.read_to_end(&mut rest).await;
    // On a machine that is so slow it may have been cut off.
    let is_late = began.elapsed() >= ANSWERS;
    assert!(rest.ends_with(&file) || is_late, "{} bytes came: {read:?}", rest.len());
    assert_eq!(gateway.wait_exit(SOON).await.expect("an exit").code(), Some(0));
}

#[tokio::test]
async fn a_stop_does_not_wait_for_who_reads_no_answer() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let (tcp, _file) = fetching(&gateway).await;
    gateway.signal_term();
    assert_eq!(gateway.wait_exit(SOON).await.expect("an exit").code(), Some(0));
    drop(tcp);
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    start(&mut client, "main", "@mock stream n=400 delay=50", "run-1").await;
    deltas(&client, "run-1", 1).await;
    gateway.signal_term();
    client.wait_for(SOON, is_shutdown).await.expect("a shutdown event");
    gateway.signal_term();
    gateway.wait_exit(AT_ONCE).await.expect("an exit at once");

    gateway.restart().await;
    let mut client = admin(&gateway).await;
    let row = row(&mut client, "agent:main:main").await;
    assert_eq!((&row["status"], &row["hasActiveRun"]), (&json!("failed"), &json!(false)));
    assert_eq!(told(&mut client, "main").await[0].0, "user");
}

#[tokio::test]
async fn an_idle_gateway_stops_in_a_moment() {
    let (mut gateway, _mock) = scripted(Api::OpenAi).await;
    let client = admin(&gateway).await;
    let waiting = gateway.open().await;
    waiting.nonce().await;
    gateway.signal_term();
    let status = gateway.wait_exit(AT_ONCE).await.expect("an exit");
    assert_eq!(status.code(), Some(0));
    assert_eq!(client.wait_closed(SOON).await.unwrap().code, 1012);
    assert_eq!(waiting.wait_closed(SOON).await.unwrap().code, 1006);
}

#[tokio::test]
async fn a_client_that_says_good_bye_is_answered_whatever_it_speaks() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let path = format!("/api/chat/ws?token={SECRET}");
    let chat = WsClient::open_with(&gateway.address(), &path, &[]).await.expect("a connection");
    let stranger = WsClient::open(&gateway.address()).await;
    stranger.nonce().await;
    for mut client in [admin(&gateway).await, chat, stranger] {
        client.close().await;
        let closed = client.wait_closed(SOON).await.expect("an end");
        assert_eq!(closed.code, 1005, "a close frame, and not a cut");
    }
}

/// A gateway that a shell has started by this line.
async fn started_by(line: &str) -> Gateway {
    let root = TempDir::with_prefix("clawgate-test-").unwrap();
    let script = root.path().join("start.sh");
    fs::write(&script, format!("#!/bin/sh\n{line}\n")).unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o700)).unwrap();
    let options = GatewayOptions {
        through: Some(script),
        ..GatewayOptions::with_config(default_config("127.0.0.1:9"))
    };
    Gateway::start_in(root, options).await.unwrap()
}

#[tokio::test]
async fn the_end_of_its_terminal_is_a_stop_like_another() {
    let mut gateway = started_by("exec env --default-signal=HUP \"$@\"").await;
    let client = admin(&gateway).await;
    signal(&gateway, Signal::HUP);
    let said = client.wait_for(SOON, is_shutdown).await.expect("a shutdown event");
    assert_eq!(said["payload"]["reason"], "gateway stopping");
    // A terminal may say it again; nobody is in a hurry.
    signal(&gateway, Signal::HUP);
    assert_eq!(client.wait_closed(SOON).await.unwrap().code, 1012);
    assert_eq!(gateway.wait_exit(SOON).await.expect("an exit").code(), Some(0));
    assert!(!gateway.stderr().contains("stopped at once"), "{}", gateway.stderr());
}

#[tokio::test]
async fn who_starts_it_with_nohup_may_close_the_terminal() {
    let gateway = started_by("trap '' HUP\nexec \"$@\"").await;
    let status = fs::read_to_string(format!("/proc/{}/status", gateway.pid().unwrap())).unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    // The first bit stands for signal 1.
    assert_eq!(u64::from_str_radix(ignored.trim(), 16).unwrap() & 1, 1, "nobody hears of it");
    let mut client = admin(&gateway).await;
    signal(&gateway, Signal::HUP);
    call(&mut client, "health", json!({})).await;
    assert!(client.closed().is_none() && client.frames().into_iter().all(|it| !is_shutdown(&it)));
}
