//! What a client may not do too much of.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::stage::{admin, call, send};
use crate::support::client::{SOON, standard_connect};
use crate::support::{Gateway, GatewayOptions, WsClient, default_config};

/// `policy.maxPayload`.
const MAX_PAYLOAD: usize = 26_214_400;
const MAX_BEFORE_CONNECT: usize = 65_536;
const MAX_UNAUTHENTICATED: usize = 32;
const MAX_IN_FLIGHT: usize = 64;
/// A connection that does not become a WebSocket lasts 15 s.
const HTTP_LIMIT: Duration = Duration::from_secs(25);

async fn gateway() -> Gateway {
    // No provider is asked here.
    Gateway::start(GatewayOptions::with_config(default_config("127.0.0.1:9"))).await
}

/// A request that is exactly `size` bytes long.
fn request_of(size: usize, method: &str) -> String {
    let frame = |padding: &str| {
        json!({"type": "req", "id": "big", "method": method, "params": {"pad": padding}})
            .to_string()
    };
    let text = frame(&"x".repeat(size - frame("").len()));
    assert_eq!(text.len(), size);
    text
}

#[tokio::test]
async fn before_connect_a_message_has_64_kib_at_most() {
    let gateway = gateway().await;
    let mut fits = gateway.open().await;
    fits.nonce().await;
    fits.send_text(request_of(MAX_BEFORE_CONNECT, "health")).await;
    let answer = fits.answer("big").await.expect("an answer to a message that fits");
    assert!(answer["error"]["message"].as_str().unwrap().starts_with("invalid"), "{answer}");

    let mut too_large = gateway.open().await;
    too_large.nonce().await;
    too_large.send_text(request_of(MAX_BEFORE_CONNECT + 1, "health")).await;
    assert_eq!(too_large.wait_closed(SOON).await.unwrap().code, 1009);

    let mut flood = gateway.open().await;
    flood.nonce().await;
    flood.send_text(request_of(8 * 1024 * 1024, "health")).await;
    assert_eq!(flood.wait_closed(SOON).await.unwrap().code, 1009);
}

#[tokio::test]
async fn after_connect_a_message_has_max_payload_at_most() {
    let gateway = gateway().await;
    let mut client = gateway.open().await;
    let hello = client.request("connect", standard_connect(&["operator.read"])).await;
    assert_eq!(hello["payload"]["policy"]["maxPayload"], MAX_PAYLOAD);
    client.send_text(request_of(MAX_PAYLOAD, "health")).await;
    client.answer("big").await.expect("an answer to a message that fits");
    call(&mut client, "health", json!({})).await;
    client.send_text(request_of(MAX_PAYLOAD + 1, "health")).await;
    let closed = client.wait_closed(SOON).await.unwrap();
    assert_eq!(closed.code, 1009);
    // Who sends it again learns why, and what to do instead (#10243).
    assert!(closed.reason.contains("POST /api/chat/uploads"), "{}", closed.reason);
    // Nobody else is disturbed.
    let mut other = admin(&gateway).await;
    call(&mut other, "health", json!({})).await;
}

#[tokio::test]
async fn an_address_has_32_sockets_that_did_not_connect() {
    let gateway = gateway().await;
    let mut connected = admin(&gateway).await;
    let mut waiting = Vec::new();
    for _ in 0..MAX_UNAUTHENTICATED {
        waiting.push(gateway.open().await);
    }
    let Err(refusal) = WsClient::open_with(&gateway.address(), "/", &[]).await else {
        panic!("one more was let in");
    };
    assert_eq!(refusal.status, 503);
    assert_eq!(refusal.body, "Too many unauthenticated sockets");
    call(&mut connected, "health", json!({})).await;
    // Who connects, and who goes, makes room for another.
    let mut first = waiting.pop().unwrap();
    assert_eq!(first.connect_standard(&["operator.read"]).await["ok"], true);
    waiting.push(gateway.open().await);
    waiting.pop().unwrap().close().await;
    crate::stage::until("room for another", || async {
        WsClient::open_with(&gateway.address(), "/", &[]).await.ok()
    })
    .await;
}

#[tokio::test]
async fn the_addresses_of_one_v6_network_share_their_sockets() {
    let mut config = default_config("127.0.0.1:9");
    config["gateway"]["trustedProxies"] = json!(["127.0.0.1"]);
    let options = GatewayOptions::with_config(config);
    let options = options.env("OPENCLAW_MAX_PREAUTH_CONNECTIONS_PER_IP", "1");
    let gateway = Gateway::start(options).await;
    let open_from = |ip: &str| {
        let headers = [("X-Forwarded-For".to_owned(), ip.to_owned())];
        let address = gateway.address();
        async move { WsClient::open_with(&address, "/", &headers).await.map_err(|r| r.status) }
    };
    let _first = open_from("2001:db8::1").await.unwrap();
    assert_eq!(open_from("2001:db8::2").await.err(), Some(503));
    open_from("2001:db8:0:1::1").await.unwrap();
}

#[tokio::test]
async fn an_upgrade_that_is_refused_takes_no_place() {
    let options = GatewayOptions::with_config(default_config("127.0.0.1:9"));
    let options = options.env("OPENCLAW_MAX_PREAUTH_CONNECTIONS_PER_IP", "1");
    let gateway = Gateway::start(options).await;
    let mut tcp = TcpStream::connect(gateway.address()).await.unwrap();
    let head = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
        Upgrade: websocket\r\nSec-WebSocket-Version: 7\r\n\r\n";
    tcp.write_all(head.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    timeout(HTTP_LIMIT, tcp.read_exact(&mut status)).await.unwrap().unwrap();
    assert_eq!(&status, b"HTTP/1.1 400");
    // Its connection is open still.
    let other = WsClient::open_with(&gateway.address(), "/", &[]).await;
    assert_eq!(other.err().map(|refusal| refusal.status), None);
    drop(tcp);
}

#[tokio::test]
async fn who_does_not_connect_in_time_is_closed() {
    let options = GatewayOptions::with_config(default_config("127.0.0.1:9"));
    let options = options.env("OPENCLAW_HANDSHAKE_TIMEOUT_MS", "300");
    let gateway = Gateway::start(options).await;
    let mut connected = admin(&gateway).await;
    // Before the gateway can have begun to count.
    let began = tokio::time::Instant::now();
    let silent = gateway.open().await;
    assert_eq!(silent.wait_closed(SOON).await.unwrap().code, 1000);
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
    call(&mut connected, "health", json!({})).await;
}

#[tokio::test]
async fn a_connection_that_stays_plain_http_ends_in_time() {
    let gateway = gateway().await;
    let mut tcp = TcpStream::connect(gateway.address()).await.unwrap();
    tcp.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let read = timeout(HTTP_LIMIT, tcp.read_to_end(&mut answer)).await;
    let text = String::from_utf8_lossy(&answer);
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    read.expect("the gateway ends the connection").unwrap();
}

#[tokio::test]
async fn the_hundred_and_second_message_of_a_session_is_refused_and_forgotten() {
    let (gateway, _mock) = crate::stage::scripted_queueing("followup").await;
    let mut client = admin(&gateway).await;
    send(&mut client, "main", "/queue cap:1000", "cap").await;
    for index in 0..=100 {
        let text = format!("{index} @mock stream n=400 delay=50");
        let answer = send(&mut client, "main", &text, &format!("run-{index}")).await;
        assert_eq!(answer["status"], "started");
    }
    let params =
        json!({"sessionKey": "main", "message": "one more @mock text", "idempotencyKey": "more"});
    let refused = client.request("chat.send", params).await;
    assert_eq!(refused["error"]["code"], "UNAVAILABLE", "{refused}");
    let stopped = call(&mut client, "chat.abort", json!({"sessionKey": "main"})).await;
    assert_eq!(stopped["runIds"].as_array().unwrap().len(), 101);
    let told = crate::stage::told(&mut client, "main").await;
    assert!(!told.iter().any(|(_, text)| text == "one more @mock text"), "it was not accepted");
    let again = crate::stage::ask(&mut client, "main", "one more @mock text", "more").await;
    assert_eq!(again["state"], "final");
}

#[tokio::test]
async fn messages_that_cause_no_answer_do_not_hold_up_the_next_request() {
    let gateway = gateway().await;
    let mut client = admin(&gateway).await;
    for _ in 0..200 {
        client.send_text("x").await;
    }
    call(&mut client, "health", json!({})).await;
}

#[tokio::test]
async fn the_sixty_fifth_request_is_read_when_one_of_those_under_way_is_answered() {
    let gateway = gateway().await;
    let mut client = admin(&gateway).await;
    for index in 0..MAX_IN_FLIGHT {
        let params = json!({"runId": "unknown", "timeoutMs": 300});
        let frame = json!({"type": "req", "id": format!("wait-{index}"), "method": "agent.wait", "params": params});
        client.send(&frame).await;
    }
    call(&mut client, "health", json!({})).await;
    let waited = client
        .frames()
        .into_iter()
        .filter(|frame| frame["id"].as_str().is_some_and(|id| id.starts_with("wait-")));
    assert_ne!(waited.count(), 0, "health was answered before any of them");
}
