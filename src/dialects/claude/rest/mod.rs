//! What clients of Claude sessions ask for by HTTP.
//!
//! Owns: the two shapes of a session, their states, pages of them, what is read,
//! put away and shown. Promises: lists read the index only, no transcript; changes
//! are made by methods, with the caller's rights. Must not: know sockets.

mod cursor;
mod edit;
mod find;
mod list;
mod messages;
pub mod notifications;
pub mod read_state;
mod shape;
pub mod share;
mod state;
mod theirs;
mod who;

pub(super) use edit::{archive, create, deactivate, delete, patch, unarchive};
pub use find::{NOT_FOUND, by_id};
pub(super) use list::{all, every, one};
pub(super) use messages::messages;
pub(super) use theirs::{READ_ONLY, mark_read as mark_theirs_read};
