//! Who is shown as present.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::stage::{admin, call, connect, until};
use crate::support::client::{SOON, standard_connect};
use crate::support::{Gateway, GatewayOptions, default_config};

/// So many that for some the connection is gone before hello is written.
const HASTY: usize = 20;

/// Asks to connect, and does not wait for the answer; dropped, the connection is reset.
async fn ask_to_connect(gateway: &Gateway, instance_id: &str) -> WebSocketStream<TcpStream> {
    let tcp = TcpStream::connect(gateway.address()).await.unwrap();
    tcp.set_zero_linger().unwrap();
    let (mut socket, _) = client_async(format!("ws://{}/", gateway.address()), tcp).await.unwrap();
    socket.next().await.unwrap().unwrap();
    let mut params = standard_connect(&["operator.read"]);
    params["client"]["instanceId"] = json!(instance_id);
    let frame = json!({"type": "req", "id": "1", "method": "connect", "params": params});
    socket.send(Message::text(frame.to_string())).await.unwrap();
    socket
}

#[tokio::test]
async fn who_goes_before_its_hello_is_not_shown_as_connected() {
    let gateway = Gateway::start(GatewayOptions::with_config(default_config("127.0.0.1:9"))).await;
    for index in 0..HASTY {
        drop(ask_to_connect(&gateway, &format!("hasty-{index}")).await);
    }
    until("the departure of all", || async {
        let present = call(&mut admin(&gateway).await, "system-presence", json!({})).await;
        let is_hasty = |entry: &&Value| {
            entry["instanceId"].as_str().is_some_and(|id| id.starts_with("hasty-"))
        };
        let hasty: Vec<_> = present.as_array().unwrap().iter().filter(is_hasty).collect();
        let gone = hasty.iter().filter(|entry| entry["reason"] == "disconnect").count();
        (gone == HASTY).then_some(())
    })
    .await;
}

#[tokio::test]
async fn who_sees_his_good_bye_answered_is_not_shown_as_connected() {
    let gateway = Gateway::start(GatewayOptions::with_config(default_config("127.0.0.1:9"))).await;
    let mut watcher = admin(&gateway).await;
    for index in 0..HASTY {
        let instance_id = format!("polite-{index}");
        let mut socket = ask_to_connect(&gateway, &instance_id).await;
        socket.next().await.unwrap().unwrap();
        socket.send(Message::Close(None)).await.unwrap();
        while !socket.next().await.unwrap().unwrap().is_close() {}
        let present = call(&mut watcher, "system-presence", json!({})).await;
        let of_it = |entry: &&Value| entry["instanceId"] == *instance_id;
        let entry = present.as_array().unwrap().iter().find(of_it).expect("an entry");
        assert_eq!(entry["reason"], "disconnect", "{entry}");
    }
}

#[tokio::test]
async fn a_device_is_there_until_the_last_of_its_connections_has_ended() {
    let gateway = Gateway::start(GatewayOptions::with_config(default_config("127.0.0.1:9"))).await;
    let mut watcher = admin(&gateway).await;
    let mut params = standard_connect(&["operator.read"]);
    params["client"]["instanceId"] = json!("two-tabs");
    let tabs = [connect(&gateway, &params).await, connect(&gateway, &params).await];
    for (mut tab, reason) in tabs.into_iter().zip(["connect", "disconnect"]) {
        tab.close().await;
        tab.wait_closed(SOON).await.expect("an end");
        let present = call(&mut watcher, "system-presence", json!({})).await;
        let of_it = |entry: &&Value| entry["instanceId"] == "two-tabs";
        let entry = present.as_array().unwrap().iter().find(of_it).expect("an entry");
        assert_eq!(entry["reason"], reason, "{entry}");
    }
}
