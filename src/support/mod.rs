//! Small tools that every layer uses.
//!
//! Owns: time, ids, supervised tasks, secrets, fingerprints, own addresses, values that are
//! replaced. Must not: know anything of the gateway's own nouns.

mod clock;
mod fingerprint;
mod hex;
mod ids;
mod json;
mod live;
mod permits;
mod route;
mod secret;
mod tasks;

pub use clock::{Clock, SystemClock, millis};
pub use fingerprint::Fingerprint;
pub use hex::hex;
pub use ids::{Ids, RandomIds};
pub use json::without_nulls;
pub use live::Live;
pub use permits::Permits;
pub use route::{is_own_address, route_to};
pub use secret::Secret;
pub use tasks::Tasks;

/// A boxed future, for traits that must stay usable as `dyn`.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
