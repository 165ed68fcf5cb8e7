//! What is taken away is gone: sockets that stand on it close within a second,
//! and old secrets fail (CVE-2026-34503, CVE-2026-53843, GHSA-68x5-xx89-w9mm,
//! GHSA-m8wm-r5vq-qjpg).

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::stage::{admin, call};
use crate::support::guest::{Guest, proxied_config};
use crate::support::{Gateway, GatewayOptions, SECRET, WsClient, now_ms};

/// How long a connection may outlast what it stands on.
const AT_ONCE: Duration = Duration::from_secs(1);

/// A gateway that takes nothing for so long takes nothing any more.
const STUCK: Duration = Duration::from_secs(1);

async fn gateway() -> Gateway {
    Gateway::start(GatewayOptions::with_config(proxied_config())).await
}

/// Takes something away; the sockets that must be gone then.
async fn take_away(operator: &mut WsClient, method: &str, params: Value, sockets: &[&WsClient]) {
    let began = Instant::now();
    call(operator, method, params).await;
    for socket in sockets {
        let closed = socket.wait_closed(AT_ONCE).await;
        let closed = closed.unwrap_or_else(|| panic!("{method}: still open"));
        assert_eq!((closed.code, closed.reason.as_str()), (4001, "device removed"), "{method}");
    }
    assert!(began.elapsed() < AT_ONCE, "{method} took {:?}", began.elapsed());
}

#[tokio::test]
async fn what_stands_on_a_token_falls_with_it_and_nothing_else_does() {
    let gateway = gateway().await;
    let mut operator = admin(&gateway).await;
    let (bystander, _) = Guest::new("bystander", &["operator.read"]).come(&gateway).await;
    for method in ["device.token.rotate", "device.token.revoke", "device.pair.remove"] {
        let name = format!("guest of {method}");
        let guest = Guest::new(&name, &["operator.read"]);
        let token = guest.token(&gateway).await;
        let own = guest.clone().with(json!({"deviceToken": token}));
        let in_secret = guest.clone().with(json!({"token": token}));
        let (first, _) = own.come(&gateway).await;
        let (second, _) = guest.come(&gateway).await;
        let (third, _) = in_secret.clone().far().come(&gateway).await;
        let (node, _) = Guest::node(&name).come(&gateway).await;
        let params = if method == "device.pair.remove" {
            json!({"deviceId": guest.id()})
        } else {
            json!({"deviceId": guest.id(), "role": "operator"})
        };
        take_away(&mut operator, method, params, &[&first, &second, &third]).await;
        if method == "device.pair.remove" {
            assert!(node.wait_closed(AT_ONCE).await.is_some(), "all roles go with the device");
        } else {
            assert_eq!(node.closed(), None, "{method} is about one role");
        }
        for old in [own.clone(), own.far(), in_secret.clone(), in_secret.far()] {
            let (error, _) = old.refused(&gateway).await;
            let code = error["details"]["code"].as_str().unwrap().to_owned();
            let expected = ["AUTH_DEVICE_TOKEN_MISMATCH", "AUTH_TOKEN_MISMATCH"];
            assert!(expected.contains(&code.as_str()), "{method}: {code}");
        }
    }
    assert_eq!(bystander.closed(), None);
    assert_eq!(operator.closed(), None);
}

/// A device that says hello, asks for much and then reads nothing; its
/// connection's id.
async fn deaf(gateway: &Gateway, guest: &Guest) -> (WebSocketStream<TcpStream>, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 * 1024).unwrap();
    let tcp = socket.connect(gateway.address().parse().unwrap()).await.unwrap();
    let (mut socket, _) = client_async(format!("ws://{}/", gateway.address()), tcp).await.unwrap();
    let next = async |socket: &mut WebSocketStream<TcpStream>| loop {
        if let Message::Text(text) = socket.next().await.unwrap().unwrap() {
            return serde_json::from_str::<Value>(&text).unwrap();
        }
    };
    let challenge = next(&mut socket).await;
    let mut params = guest.params.clone();
    let nonce = challenge["payload"]["nonce"].as_str().unwrap();
    params["device"] = guest.key().proof(&params, nonce, now_ms());
    let frame = json!({"type": "req", "id": "c", "method": "connect", "params": params});
    socket.send(Message::text(frame.to_string())).await.unwrap();
    let hello = loop {
        let frame = next(&mut socket).await;
        if frame["id"] == "c" {
            break frame;
        }
    };
    let conn_id = hello["payload"]["server"]["connId"].as_str().expect("hello").to_owned();
    // Until the gateway cannot write any more, and therefore reads no more.
    let request = json!({"type": "req", "id": "x", "method": "commands.list", "params": {}});
    let ask = || Message::text(request.to_string());
    while timeout(STUCK, socket.send(ask())).await.is_ok() {}
    (socket, conn_id)
}

#[tokio::test]
async fn a_device_that_does_not_read_is_cut_off_as_well() {
    let gateway = gateway().await;
    let mut operator = admin(&gateway).await;
    let guest = Guest::new("deaf", &["operator.read"]);
    let (_socket, conn_id) = deaf(&gateway, &guest).await;
    call(&mut operator, "device.pair.remove", json!({"deviceId": guest.id()})).await;
    let began = Instant::now();
    let is_gone = || {
        let log = gateway.stderr();
        log.lines().any(|line| line.contains(&conn_id) && line.contains("closed with 4001"))
    };
    while !is_gone() {
        // A second to be cut off, and one in which it may take the close frame.
        assert!(began.elapsed() < 3 * AT_ONCE, "it is still there");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn whoever_comes_while_the_device_goes_does_not_stay() {
    let gateway = gateway().await;
    let mut operator = admin(&gateway).await;
    for round in 0..8 {
        let guest = Guest::new(&format!("racer {round}"), &["operator.read"]);
        let token = guest.token(&gateway).await;
        let own = guest.clone().with(json!({"deviceToken": token}));
        let coming = (0..6).map(|_| own.knock(&gateway));
        let removing = call(&mut operator, "device.pair.remove", json!({"deviceId": guest.id()}));
        let (came, _) = tokio::join!(join_all(coming), removing);
        for (client, answer) in came {
            let closed = client.wait_closed(AT_ONCE).await;
            assert!(closed.is_some(), "round {round}: still open after {answer}");
        }
    }
}

#[tokio::test]
async fn a_secret_that_was_changed_is_good_for_nothing_after_the_start() {
    let mut gateway = gateway().await;
    let guest = Guest::new("laptop", &["operator.read"]);
    let token = guest.token(&gateway).await;
    let text = std::fs::read_to_string(gateway.config_path()).unwrap();
    std::fs::write(gateway.config_path(), text.replace(SECRET, "another-secret")).unwrap();
    gateway.restart().await;
    let (error, _) = guest.refused(&gateway).await;
    assert_eq!(error["details"]["code"], "AUTH_TOKEN_MISMATCH");
    // What was approved for the device itself stays.
    guest.with(json!({"deviceToken": token})).come(&gateway).await;
}
