//! Who a connection is and what it may do.
//!
//! Owns: credentials, device proofs, paired devices and their tokens, the origin rule, the limiter of failed
//! logins, the gateway's own identity, and [`Principal`], which nobody else
//! can make. Promises: what a client asks for never adds to what its
//! credential is worth; secrets are compared in constant time. Must not: know
//! frames or sockets.

mod admission;
mod arrival;
mod device;
mod identity;
mod limiter;
mod origin;
pub mod pairing;
mod peer;
mod principal;
mod shared_secret;
#[cfg(test)]
mod tests;

pub use admission::{Admission, Auth, Refusal};
pub use arrival::DeviceGrant;
pub use identity::{DeviceIdentity, IdentityError};
pub use limiter::Limiter;
pub use peer::Peer;
pub use principal::{Owner, Principal};
