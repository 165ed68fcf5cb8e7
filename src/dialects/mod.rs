//! Protocols of other clients, spoken on the same sessions.
//!
//! Promises: what a client of a dialect does goes through the one door to the
//! methods, with its own rights. Must not: keep conversations of its own.

pub mod claude;
