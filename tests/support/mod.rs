//! What integration tests share: the gateway as a child process, a WebSocket
//! client, device keys and a scripted model provider.
//!
//! Promises: loopback traffic only; every wait has a deadline; a test ends only
//! the processes it started. Must not: know what a single test checks.
#![allow(dead_code, unused_imports, reason = "each test crate uses its own part of this module")]

pub mod browser;
pub mod client;
pub mod config;
pub mod control_ui;
pub mod debian;
pub mod device;
pub mod gateway;
pub mod guest;
pub mod installed;
pub mod mock;
pub mod node;
pub mod node_client;
pub mod not_run;
pub mod npm;
pub mod openclaw;
pub mod original_ui;
pub mod place;
pub mod pty;
pub mod python;
pub mod tested;
pub mod tls;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub use browser::Browser;
pub use client::{Closed, Incoming, Received, Refusal, WsClient};
pub use config::{SECRET, default_config};
pub use device::DeviceKey;
pub use gateway::{Gateway, GatewayOptions};
pub use mock::MockProvider;
pub use node_client::NodeClient;
pub use not_run::not_run;
pub use place::closed_place;
pub use tested::program;

/// What a server at `host:port` has under a path, as JSON.
pub async fn get_json(address: &str, path: &str) -> serde_json::Value {
    let mut tcp = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    tcp.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).await.unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

/// Milliseconds since the Unix epoch, as on the wire.
pub fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
