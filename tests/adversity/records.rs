//! However a connection ends, the log has it once (#138818).

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::seen::{health, number, records};
use crate::stage::{Api, admin, ask, call, deltas, end_of, scripted, start, until};
use crate::support::Gateway;
use crate::support::client::standard_connect;

type Socket = WebSocketStream<TcpStream>;

/// What waits for a connection when it fails.
const WAITING: usize = 24;
const TEXT: usize = 512 * 1024;

/// A connection that does not read, with its id.
async fn connect(gateway: &Gateway) -> (Socket, String) {
    let tcp = TcpSocket::new_v4().unwrap();
    tcp.set_recv_buffer_size(4096).unwrap();
    let tcp = tcp.connect(gateway.address().parse().unwrap()).await.unwrap();
    let (mut socket, _) = client_async(format!("ws://{}/", gateway.address()), tcp).await.unwrap();
    say(&mut socket, "connect", standard_connect(&["operator.write"])).await;
    loop {
        let Message::Text(text) = socket.next().await.unwrap().unwrap() else { continue };
        let frame: Value = serde_json::from_str(&text).unwrap();
        if frame["id"] == "connect" {
            let id = frame["payload"]["server"]["connId"].as_str().unwrap().to_owned();
            return (socket, id);
        }
    }
}

async fn say(socket: &mut Socket, method: &str, params: Value) {
    let frame = json!({"type": "req", "id": method, "method": method, "params": params});
    socket.send(Message::text(frame.to_string())).await.unwrap();
}

/// Asks for more than the system takes at once, so that much of it waits.
async fn ask_for_much(gateway: &Gateway, socket: &mut Socket, id: &str) {
    for _ in 0..WAITING {
        say(socket, "chat.message.get", json!({"sessionKey": "large", "messageId": id})).await;
    }
    until("a queue", async || {
        let waiting = number(gateway, "clawgate_outbox_bytes").await;
        (waiting > 1_000_000.0).then_some(())
    })
    .await;
}

/// How connections end.
#[derive(Debug, Clone, Copy)]
enum End {
    /// Both ends say good-bye.
    Closed,
    /// The client ends without a word.
    Dropped,
    /// Its system says that there is nobody.
    Reset,
    /// It sends what no client may.
    TooLarge,
}

#[tokio::test]
async fn however_a_connection_ends_the_log_has_it_once_and_its_queue_is_freed() {
    let (gateway, _mock) = scripted(Api::OpenAi).await;
    let mut client = admin(&gateway).await;
    ask(&mut client, "large", "hello", "run-large").await;
    let params = json!({"sessionKey": "large", "message": "x".repeat(TEXT)});
    let large = call(&mut client, "chat.inject", params).await["messageId"].clone();
    let large = large.as_str().unwrap();
    for (round, end) in [End::Closed, End::Dropped, End::Reset, End::TooLarge].iter().enumerate() {
        let (mut socket, id) = connect(&gateway).await;
        ask_for_much(&gateway, &mut socket, large).await;
        let run = format!("run-{round}");
        start(&mut client, "main", "@mock stream n=10 delay=30", &run).await;
        deltas(&client, &run, 1).await;
        match end {
            End::Closed => {
                socket.close(None).await.unwrap();
                while let Some(Ok(_)) = socket.next().await {}
            }
            End::Dropped => drop(socket),
            End::Reset => {
                socket.get_ref().set_zero_linger().unwrap();
                drop(socket);
            }
            End::TooLarge => {
                let (mut out, mut into) = socket.split();
                let large = out.send(Message::text("x".repeat(26 * 1024 * 1024)));
                let read = async { while let Some(Ok(_)) = into.next().await {} };
                let _ = tokio::join!(large, read);
            }
        }
        let is_told = async || (!of(&gateway, &id).is_empty()).then_some(());
        until("a record", is_told).await;
        end_of(&client, &run).await;
        let is_freed = async || {
            let waiting = number(&gateway, "clawgate_outbox_bytes").await;
            (waiting < 1_000_000.0).then_some(())
        };
        until("an empty queue", is_freed).await;
        let told = of(&gateway, &id);
        assert_eq!(told.len(), 1, "{end:?}: {told:#?}");
        assert!(told[0].contains("disconnected"), "{end:?}: {told:#?}");
    }
    assert_eq!(health(&mut client).await["ok"], true);
}

/// What the log has of a connection that has ended.
fn of(gateway: &Gateway, id: &str) -> Vec<String> {
    let mut told = records(gateway, id);
    told.retain(|line| !line.contains(" DEBUG ") && !line.contains("welcome: connected"));
    told
}
