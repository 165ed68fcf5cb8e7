//! What integration tests share: the gateway as a child process, a WebSocket
//! client, device keys and a scripted model provider.
//!
//! Promises: loopback traffic only; every wait has a deadline; a test ends only
//! the processes it started. Must not: know what a single test checks.
#![allow(dead_code, unused_imports, reason = "each test crate uses its own part of this module")]

pub mod client;
pub mod config;
pub mod device;
pub mod gateway;
pub mod mock;
pub mod node;

pub use client::{Closed, Incoming, Received, Refusal, WsClient};
pub use config::{SECRET, default_config};
pub use device::DeviceKey;
pub use gateway::{Gateway, GatewayOptions};
pub use mock::MockProvider;

/// Milliseconds since the Unix epoch, as on the wire.
pub fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
