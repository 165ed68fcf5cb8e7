//! The WebSocket of a session: its history, then what happens in it.
//!
//! Owns: `/api/claude/sessions/:id/subscribe`. Promises: see the parts. Must not:
//! run an agent, store a message or decide about an approval but by methods.
//!
//! - [`Rooms`]: a room for each session that somebody looks at, with one task that
//!   hears its runs (`room.rs`), who looks and what is not stored yet (`state.rs`).
//! - `teller.rs`, `turn.rs`, `answer.rs`, `side.rs`: news as frames.
//! - `history.rs`: what was said before, in pages.
//! - `speaker.rs`, `hear.rs`: a connection, and what it says.
//! - `questions.rs`: what waits for a person.

mod answer;
mod frame;
mod hear;
mod history;
mod init;
mod questions;
mod room;
mod rooms;
mod side;
mod speaker;
mod state;
mod teller;
mod turn;

use axum::http::StatusCode;
use axum::response::Response;

use crate::dialects::claude::rest::NOT_FOUND;
use crate::gateway::Opened;
use crate::http::{OpenAsked, SocketRoute};
use crate::protocol::Scope;
use crate::sessions::SessionKey;

pub use rooms::{Rooms, Seat};

use speaker::Viewer;

/// Where it is spoken.
pub static SOCKETS: [SocketRoute; 1] = [SocketRoute {
    path: "/api/claude/sessions/:id/subscribe",
    scope: Scope::Read,
    open: |asked| Box::pin(open(asked)),
}];

async fn open(asked: OpenAsked) -> Result<Opened, Response> {
    let services = &asked.gateway.services;
    let id = asked.path.get("id");
    let found = services.sessions.by_id(id).await.map_err(|error| {
        tracing::error!(%error, "sessions cannot be looked up");
        asked.manner.error(StatusCode::SERVICE_UNAVAILABLE, "sessions cannot be looked up")
    })?;
    let Some(row) = found else {
        return Err(asked.manner.error(StatusCode::NOT_FOUND, NOT_FOUND));
    };
    let from = asked.query("fromUuid").and_then(|uuid| uuid.parse().ok());
    let (subscriber, _) = asked.subscriber(&[]);
    let of = (SessionKey::from_canonical(row.key), row.entry.session_id);
    Ok(Opened::new("claude", Viewer::new(asked.gateway, subscriber, of, from)))
}
