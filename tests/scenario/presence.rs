//! Who is shown as present.

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;

use crate::stage::{admin, call, until};
use crate::support::client::standard_connect;
use crate::support::{Gateway, GatewayOptions, default_config};

/// So many that for some the connection is gone before hello is written.
const HASTY: usize = 20;

/// Asks to connect and resets the connection without waiting for the answer.
async fn connect_and_reset(gateway: &Gateway, instance_id: &str) {
    let tcp = TcpStream::connect(gateway.address()).await.unwrap();
    tcp.set_zero_linger().unwrap();
    let (mut socket, _) = client_async(format!("ws://{}/", gateway.address()), tcp).await.unwrap();
    socket.next().await.unwrap().unwrap();
    let mut params = standard_connect(&["operator.read"]);
    params["client"]["instanceId"] = json!(instance_id);
    let frame = json!({"type": "req", "id": "1", "method": "connect", "params": params});
    socket.send(Message::text(frame.to_string())).await.unwrap();
}

#[tokio::test]
async fn who_goes_before_its_hello_is_not_shown_as_connected() {
    let gateway = Gateway::start(GatewayOptions::with_config(default_config("127.0.0.1:9"))).await;
    for index in 0..HASTY {
        connect_and_reset(&gateway, &format!("hasty-{index}")).await;
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
