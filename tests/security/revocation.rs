//! What is taken away is gone: sockets that stand on it close within a second,
//! and old secrets fail (CVE-2026-34503, CVE-2026-53843, GHSA-68x5-xx89-w9mm,
//! GHSA-m8wm-r5vq-qjpg).

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::stage::{admin, call};
use crate::support::guest::{Guest, proxied_config};
use crate::support::{Gateway, GatewayOptions, MockProvider, SECRET, WsClient, now_ms};

/// How long a connection may outlast what it stands on: most of the times, as a busy
/// machine is late now and then; and always.
const AT_ONCE: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(10);

/// A gateway that takes nothing for so long takes nothing any more.
const STUCK: Duration = Duration::from_secs(1);

async fn gateway() -> Gateway {
    Gateway::start(GatewayOptions::with_config(proxied_config())).await
}

fn mostly_at_once(mut times: Vec<Duration>) {
    times.sort_unstable();
    assert!(times[(times.len() - 1) / 2] < AT_ONCE, "{times:?}");
}

/// Takes something away, and with it these sockets; how long they outlast it.
async fn take_away(
    operator: &mut WsClient,
    method: &str,
    params: Value,
    sockets: &[&WsClient],
) -> Duration {
    let began = Instant::now();
    call(operator, method, params).await;
    for socket in sockets {
        let closed = socket.wait_closed(LATEST).await;
        let closed = closed.unwrap_or_else(|| panic!("{method}: still open"));
        assert_eq!((closed.code, closed.reason.as_str()), (4001, "device removed"), "{method}");
    }
    began.elapsed()
}

#[tokio::test]
async fn what_stands_on_a_token_falls_with_it_and_nothing_else_does() {
    let gateway = gateway().await;
    let mut operator = admin(&gateway).await;
    let (bystander, _) = Guest::new("bystander", &["operator.read"]).come(&gateway).await;
    let mut times = Vec::new();
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
        let sockets = [&first, &second, &third];
        times.push(take_away(&mut operator, method, params, &sockets).await);
        if method == "device.pair.remove" {
            assert!(node.wait_closed(LATEST).await.is_some(), "all roles go with the device");
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
    mostly_at_once(times);
    assert_eq!(bystander.closed(), None);
    assert_eq!(operator.closed(), None);
}

/// A device that says hello, then the same for ever and reads nothing; its connection's id.
async fn deaf(
    gateway: &Gateway,
    guest: &Guest,
    says: Message,
) -> (WebSocketStream<TcpStream>, String) {
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
    while let Ok(sent) = timeout(STUCK, socket.send(says.clone())).await {
        sent.expect("still open");
    }
    (socket, conn_id)
}

#[tokio::test]
async fn a_device_that_does_not_read_is_cut_off_as_well() {
    let gateway = gateway().await;
    let mut operator = admin(&gateway).await;
    let request = json!({"type": "req", "id": "x", "method": "commands.list", "params": {}});
    let said = [Message::text(request.to_string()), Message::Ping(vec![0; 125].into())];
    for (name, says) in ["asking", "pinging"].into_iter().zip(said) {
        let guest = Guest::new(name, &["operator.read"]);
        let (mut socket, conn_id) = deaf(&gateway, &guest, says).await;
        call(&mut operator, "device.pair.remove", json!({"deviceId": guest.id()})).await;
        let began = Instant::now();
        let is_gone = || {
            let log = gateway.stderr();
            log.lines().any(|line| line.contains(&conn_id) && line.contains("closed with 4001"))
        };
        while !is_gone() {
            assert!(began.elapsed() < LATEST, "it is still there, {name}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let read_away = async { while let Some(Ok(_)) = socket.next().await {} };
        timeout(LATEST, read_away).await.expect("an end");
    }
}

#[tokio::test]
async fn who_was_told_to_close_is_heard_no_more() {
    let gateway = gateway().await;
    let mut operator = admin(&gateway).await;
    let guest = Guest::new("stray", &["operator.read", "operator.write"]);
    let (mut stray, _) = guest.come(&gateway).await;
    // More calls for another role than are let pass, and at once what would be told to all.
    let request = |method: &str, params| json!({"type": "req", "id": "x", "method": method, "params": params});
    for _ in 0..12 {
        stray.send(&request("node.pending.drain", json!({}))).await;
    }
    for _ in 0..40 {
        stray.send(&request("talk.mode", json!({"enabled": true}))).await;
    }
    let closed = stray.wait_closed(LATEST).await.expect("it is closed");
    assert_eq!((closed.code, closed.reason.as_str()), (1008, "repeated unauthorized calls"));
    call(&mut operator, "health", json!({})).await;
    let told = operator.frames().into_iter().find(|frame| frame["event"] == "talk.mode");
    assert_eq!(told, None);
}

#[tokio::test]
async fn whoever_comes_while_the_device_goes_does_not_stay() {
    let gateway = gateway().await;
    let mut operator = admin(&gateway).await;
    for round in 0..8 {
        let guest = Guest::new(&format!("racer {round}"), &["operator.read"]);
        let token = guest.token(&gateway).await;
        let own = guest.clone().with(json!({"deviceToken": token}));
        let coming = (0..6).map(|_| own.ask(&gateway, "c"));
        let removing = call(&mut operator, "device.pair.remove", json!({"deviceId": guest.id()}));
        let (came, _) = tokio::join!(join_all(coming), removing);
        for client in came {
            let closed = client.wait_closed(LATEST).await;
            let closed = closed.unwrap_or_else(|| panic!("round {round}: still open"));
            // Not let in, or no more; each is told which.
            assert!([1008, 4001].contains(&closed.code), "round {round}: {closed:?}");
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

#[tokio::test]
async fn a_stream_of_a_session_ends_with_the_token_it_stands_on() {
    let gateway = gateway().await;
    let mut operator = admin(&gateway).await;
    let key = "agent:main:followed";
    call(&mut operator, "sessions.create", json!({"key": key})).await;
    let guest = Guest::new("follower", &["operator.read"]);
    let token = guest.token(&gateway).await;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = format!("http://{}/sessions/{key}/history", gateway.address());
    let asked = reqwest::Client::builder().no_proxy().build().unwrap().get(url);
    let asked = asked.bearer_auth(&token).header("accept", "text/event-stream");
    let answer = asked.try_clone().unwrap().send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let mut stream = answer.bytes_stream();
    let begin = stream.next().await.unwrap().unwrap();
    assert!(begin.starts_with(b"retry: 1000\n\nevent: history\n"), "{begin:?}");
    let params = json!({"deviceId": guest.id(), "role": "operator"});
    call(&mut operator, "device.token.revoke", params).await;
    call(&mut operator, "chat.inject", json!({"sessionKey": key, "message": "secret"})).await;
    let rest = timeout(LATEST, stream.collect::<Vec<_>>()).await.expect("it ends at once");
    assert!(rest.into_iter().flatten().all(|part| part.is_empty()), "and tells nothing more");
    assert_eq!(asked.send().await.unwrap().status(), 401);
}

/// A gateway that has the API of OpenAI.
async fn openai_gateway(mock: &MockProvider) -> Gateway {
    let mut config = crate::stage::config(mock.address(), crate::stage::Api::OpenAi);
    config["gateway"]["reload"] = json!({"mode": "hot", "debounceMs": 0});
    config["gateway"]["http"]["endpoints"] =
        json!({"chatCompletions": {"enabled": true}, "responses": {"enabled": true}});
    Gateway::start(GatewayOptions::with_config(config)).await
}

/// Requests of the API of OpenAI that are being answered, each in a session of its
/// own; what they end with.
async fn running(gateway: &Gateway, token: &str, mock: &MockProvider) -> JoinSet<(u16, String)> {
    let message = "@mock stream n=2000 delay=20";
    let chat = json!({"messages": [{"role": "user", "content": message}]});
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let (mut all, before) = (JoinSet::new(), mock.requests().len());
    for (path, body) in [("chat/completions", chat), ("responses", json!({"input": message}))] {
        for is_stream in [false, true] {
            let mut body = body.clone();
            body["stream"] = json!(is_stream);
            let url = format!("http://{}/v1/{path}", gateway.address());
            let request = client.post(url).bearer_auth(token).body(body.to_string());
            all.spawn(async move {
                let response = request.send().await.unwrap();
                (response.status().as_u16(), response.text().await.unwrap())
            });
        }
    }
    crate::stage::until("four runs", async || (mock.requests().len() >= before + 4).then_some(()))
        .await;
    all
}

/// Waits for the end of such requests, which is near, and of their runs; how long the
/// requests went on.
async fn are_cut(mut all: JoinSet<(u16, String)>, operator: &mut WsClient) -> Duration {
    let began = Instant::now();
    let mut statuses = Vec::new();
    while let Some(ended) = all.join_next().await {
        let (status, text) = ended.unwrap();
        assert!(text.contains("Unauthorized") && !text.contains("w2000"), "{text}");
        statuses.push(status);
    }
    statuses.sort_unstable();
    // A stream had begun well.
    assert_eq!(statuses, [200, 200, 401, 401]);
    let took = began.elapsed();
    assert!(took < LATEST, "{took:?}");
    crate::stage::until("the end of the runs", async || {
        let listed = call(operator, "sessions.list", json!({})).await;
        let rows = listed["sessions"].as_array().unwrap();
        (rows.len() >= 4 && rows.iter().all(|row| row["status"] == "killed")).then_some(())
    })
    .await;
    took
}

#[tokio::test]
async fn a_request_that_is_being_answered_falls_with_the_device_that_sent_it() {
    let mock = MockProvider::start().await;
    let gateway = openai_gateway(&mock).await;
    let mut operator = admin(&gateway).await;
    let mut times = Vec::new();
    for method in ["device.token.revoke", "device.pair.remove"] {
        let guest = Guest::new(&format!("asker of {method}"), &["operator.read", "operator.write"]);
        let token = guest.token(&gateway).await;
        let all = running(&gateway, &token, &mock).await;
        let mut params = json!({"deviceId": guest.id()});
        if method == "device.token.revoke" {
            params["role"] = json!("operator");
        }
        call(&mut operator, method, params).await;
        times.push(are_cut(all, &mut operator).await);
    }
    mostly_at_once(times);
}

#[tokio::test]
async fn a_request_that_is_being_answered_falls_with_the_secret_of_the_gateway() {
    let mock = MockProvider::start().await;
    let gateway = openai_gateway(&mock).await;
    let guest = Guest::new("bystander", &["operator.read", "operator.write", "operator.admin"]);
    let own = guest.clone().with(json!({"deviceToken": guest.token(&gateway).await}));
    let (mut operator, _) = own.come(&gateway).await;
    let all = running(&gateway, SECRET, &mock).await;
    let text = std::fs::read_to_string(gateway.config_path()).unwrap();
    std::fs::write(gateway.config_path(), text.replace(SECRET, "another-secret")).unwrap();
    are_cut(all, &mut operator).await;
}
