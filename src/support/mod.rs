//! Small tools that every layer uses.
//!
//! Owns: time, ids, supervised tasks, secrets. Must not: know anything of the
//! gateway's own nouns.

mod clock;
mod hex;
mod ids;
mod secret;
mod tasks;

pub use clock::{Clock, SystemClock};
pub use hex::hex;
pub use ids::{Ids, RandomIds};
pub use secret::Secret;
pub use tasks::Tasks;

/// A boxed future, for traits that must stay usable as `dyn`.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
