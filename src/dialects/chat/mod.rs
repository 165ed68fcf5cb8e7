//! The action chat: `/api/chat/ws` and what is asked for beside it.
//!
//! Owns: the frames, routes and slash commands of that dialect; docs/action-chat.md
//! tells what they are. Must not: have rights or state of its own.

pub mod book;
pub mod commands;
pub mod lockdown;
mod login;
pub mod retention;
mod routes;
pub mod settings;
pub mod setup;

use super::Dialect;
use crate::http::Manner;

/// Its tables.
pub static DIALECT: Dialect =
    Dialect { name: "chat", manner: Manner::Chat, routes: &routes::ROUTES, sockets: &[] };
