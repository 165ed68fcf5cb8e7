//! The action chat: `/api/chat/ws` and what is asked for beside it.
//!
//! Owns: the frames, routes and slash commands of that dialect; docs/action-chat.md
//! tells what they are. Must not: have rights or state of its own.

pub mod book;
pub mod commands;
pub mod guardrails;
mod live;
pub mod lockdown;
mod login;
pub mod media;
mod rest;
pub mod retention;
mod routes;
pub mod settings;
pub mod setup;

use std::future::ready;

use super::Dialect;
use crate::http::{Manner, SocketEntry, SocketRoute};
use crate::protocol::Scope;

/// Its tables.
pub static DIALECT: Dialect =
    Dialect { name: "chat", manner: Manner::Chat, routes: &routes::ROUTES, sockets: &SOCKETS };

/// Who may read may watch and resume; what else is done is done by methods, which
/// say what it needs.
static SOCKETS: [SocketRoute; 1] = [SocketRoute {
    path: live::PATH,
    entry: SocketEntry::Caller(Scope::Read),
    open: |asked| Box::pin(ready(live::open(asked))),
}];
