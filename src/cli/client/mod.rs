//! A client of the gateway's public WebSocket.
//!
//! Owns: where the gateway is and with which credentials ([`Target`]), the
//! handshake, requests and their answers, events. Promises: every way in which
//! a connection can fail is a [`ClientError`] whose text says what to do; a
//! credential stored on this machine never leaves it. Must not: print.

mod address;
mod connection;
mod error;
mod frame;
mod handshake;
mod socket;
mod target;
mod tls;

pub use address::{AddressError, GatewayUrl};
pub use connection::{Client, Incoming, RequestId};
pub use error::{ClientError, GatewayError};
pub use frame::Event;
pub use target::{LocalGateway, RemoteGateway, Target, TargetError};
pub use tls::{TlsFailure, authorities};
