//! The dialect of Claude Code's web clients: `/api/claude/sessions`.
//!
//! Owns: what a session of ours looks like to a client that knows Claude Code.
//! Must not: run an agent, or store a message, but by the methods of the gateway.

pub mod export;
pub mod format;
pub mod history;
mod pages;
