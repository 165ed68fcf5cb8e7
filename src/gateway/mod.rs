//! Sockets: listen, upgrade, handshake, connection.
//!
//! Owns: the listener and every open WebSocket. Promises: nothing is read
//! without a bound in bytes and time; one connection's trouble is its own;
//! every close says why. Must not: know what a method does.

mod accepting;
mod accompanied;
mod answering;
mod connection;
mod control;
mod door;
mod footing;
mod frames;
mod handshake;
mod headers;
mod incoming;
mod io;
mod leave;
mod line;
mod meter;
mod opening;
mod preauth;
mod render;
mod serving;
mod socket;
mod talk;
pub mod tls;
mod transport;
mod unproven;
mod upgrade;
mod welcome;

pub use accompanied::{Companion, accompanied};
pub use control::{ControlSocket, challenge as control_challenge};
pub use door::Door;
pub use footing::Footing;
pub use frames::Frames;
pub use headers::once;
pub use io::Wire;
pub use leave::Leave;
pub use socket::Utf8Bytes;
pub use talk::{Opened, Speaker};
pub use unproven::{BodyShare, UnprovenBodies};
pub use upgrade::{Gateway, serve};
