//! The locks, flags and bells of the code whose every interleaving is tried.
//!
//! `tests/models` compiles the files that use these as they are, with others in the
//! place of this module that let a scheduler decide who goes on next.

pub use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub use parking_lot::{Mutex, MutexGuard, RwLock};
pub use tokio::sync::Notify;
