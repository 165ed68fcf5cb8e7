//! Who a connection is and what it may do.
//!
//! Owns: credentials, device proofs, paired devices and their tokens, the origin
//! rule, users that a proxy names, the limiter of failed logins, the gateway's own
//! identity, and [`Principal`], which nobody else
//! can make. Promises: what a client asks for never adds to what its
//! credential is worth; secrets are compared in constant time. Must not: know
//! frames or sockets.

mod admission;
mod arrival;
mod device;
mod failure;
mod http;
mod identity;
mod limiter;
pub mod origin;
pub mod pairing;
mod peer;
mod principal;
mod shared_secret;
mod simple;
#[cfg(test)]
mod tests;
mod tries;
mod vouch;

pub use admission::{Admission, Auth, Refusal};
pub use arrival::DeviceGrant;
pub use failure::AuthFailure;
pub use http::{HttpCaller, HttpProof, HttpRefusal, HttpShown};
pub use identity::{DeviceIdentity, IdentityError};
pub use limiter::Limiter;
pub use peer::{Peer, bucket};
pub use principal::{Login, Owner, Principal};
pub use vouch::{Claims, Vouch, Voucher};
