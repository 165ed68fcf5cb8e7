//! Other ways to speak with the same agent.
//!
//! Owns: the wire of each dialect. Promises: what a dialect does it does by the
//! methods of the registry, in the name of whoever asks. Must not: run an agent,
//! store a message or decide an approval itself.

pub mod chat;
