//! Conversations.
//!
//! Owns: session keys, the session index, transcripts, history views.
//! Promises: what was acknowledged is on disk; a transcript only grows.
//! Must not: know about sockets, runs or models.

pub mod key;

pub use key::{AgentId, KeyRules, SessionKey};
