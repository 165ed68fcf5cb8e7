//! Connections that say nothing (CVE-2026-41399, GHSA-mfg5-7q5g-f37j,
//! CVE-2026-42437, CVE-2026-41343): they are bounded, and keep nobody out. That a
//! client is let in within 100 ms meanwhile is measured by `benches/load`.

use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use futures_util::future::join_all;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::stage::{admin, call, until};
use crate::support::client::WsClient;
use crate::support::{Gateway, GatewayOptions, default_config};

/// Connections that may wait, of all clients together.
const MAX_WAITING: usize = 1024;
/// Enough to have some of them cut.
const SILENT: usize = MAX_WAITING + 200;
/// So many that all who wait are cut several times over.
const MANY: usize = 8 * MAX_WAITING;
/// Who log in at one time meanwhile.
const LOGINS: usize = 8;
/// As many as one address may have.
const OF_ONE_ADDRESS: usize = 32;

/// Sooner than the first who is silent has to go, after 15 s.
const BEFORE_THE_END: Duration = Duration::from_secs(10);

/// This process holds the other ends.
fn allow_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

/// A connection from another loopback address, as if from another machine.
async fn from_afar(gateway: &Gateway, number: usize) -> TcpStream {
    let last = u8::try_from(number / OF_ONE_ADDRESS + 1).unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(Ipv4Addr::new(127, 0, 7, last).into(), 0)).unwrap();
    socket.connect(gateway.address().parse().unwrap()).await.unwrap()
}

#[tokio::test]
async fn thousands_of_silent_connections_keep_no_client_out() {
    allow_files();
    let gateway = Gateway::start(GatewayOptions::with_config(default_config("127.0.0.1:9"))).await;
    let mut before = admin(&gateway).await;
    let mut silent = Vec::new();
    for number in 0..SILENT {
        silent.push(from_afar(&gateway, number).await);
    }
    // Who logs in finds room, and who has logged in is not disturbed.
    let mut client = admin(&gateway).await;
    call(&mut client, "health", json!({})).await;
    call(&mut before, "health", json!({})).await;
    // The first ones were cut to make that room; those at the end still wait.
    let mut byte = [0];
    let first = silent.first_mut().unwrap();
    assert!(matches!(first.read(&mut byte).await, Ok(0) | Err(_)), "it was cut");
    let last = silent.last_mut().unwrap();
    assert!(
        last.try_read(&mut byte).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    );
}

#[tokio::test]
async fn whoever_logs_in_while_thousands_come_that_say_nothing_is_let_in() {
    allow_files();
    let gateway = Gateway::start(GatewayOptions::with_config(default_config("127.0.0.1:9"))).await;
    let address = gateway.address().to_owned();
    // As fast as they can come: more than those that wait, in the time of a login.
    let flood = std::thread::spawn(move || -> Vec<_> {
        (0..MANY).map(|_| std::net::TcpStream::connect(&address).unwrap()).collect()
    });
    let log_in = || async {
        loop {
            admin(&gateway).await;
            if flood.is_finished() {
                break;
            }
        }
    };
    join_all((0..LOGINS).map(|_| log_in())).await;
    drop(flood.join().unwrap());
}

#[tokio::test]
async fn more_silent_connections_than_the_gateway_has_files_keep_no_client_out() {
    let root = TempDir::with_prefix("clawgate-test-").unwrap();
    let through = root.path().join("through");
    fs::write(&through, "#!/bin/sh\nulimit -n 64\nexec \"$@\"\n").unwrap();
    fs::set_permissions(&through, Permissions::from_mode(0o700)).unwrap();
    let options = GatewayOptions {
        through: Some(through),
        ..GatewayOptions::with_config(default_config("127.0.0.1:9"))
    };
    let gateway = Gateway::start_in(root, options).await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..80 {
        silent.push(TcpStream::connect(gateway.address()).await.unwrap());
    }
    let client = timeout(BEFORE_THE_END, admin(&gateway)).await;
    call(&mut client.expect("it is let in"), "health", json!({})).await;
}

#[tokio::test]
async fn silent_websockets_of_one_address_leave_room_for_others() {
    let gateway = Gateway::start(GatewayOptions::with_config(default_config("127.0.0.1:9"))).await;
    let mut silent = Vec::new();
    for _ in 0..OF_ONE_ADDRESS {
        let tcp = from_afar(&gateway, 0).await;
        let url = format!("ws://{}/", gateway.address());
        silent.push(WsClient::upgrade(Box::new(tcp), &url, &[]).await.unwrap());
    }
    let mut client = admin(&gateway).await;
    call(&mut client, "health", json!({})).await;
    // A neighbour gets in as soon as one of them has been silent for long enough.
    let neighbour = || async {
        let tcp = from_afar(&gateway, 0).await;
        let url = format!("ws://{}/", gateway.address());
        WsClient::upgrade(Box::new(tcp), &url, &[]).await.ok()
    };
    until("room for a neighbour", neighbour).await;
}
