//! Sessions as a web interface for Claude Code has them.
//!
//! Owns: what a session of ours looks like to a client that knows Claude Code.
//! Must not: run an agent, or store a message, but by the methods of the gateway.

pub mod export;
pub mod format;
pub mod history;
mod pages;
mod routes;

use super::Dialect;
use crate::http::Manner;

/// Its tables.
pub static DIALECT: Dialect =
    Dialect { name: "claude", manner: Manner::Claude, routes: &routes::ROUTES, sockets: &[] };
