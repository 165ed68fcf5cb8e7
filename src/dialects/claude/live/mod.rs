//! The WebSocket of a session: its history, then what happens in it.
//!
//! Owns: `/api/claude/sessions/:id/subscribe`, `/api/share/:token/subscribe`. Promises: see the parts. Must not:
//! run an agent, store a message or decide about an approval but by methods.
//!
//! - [`Rooms`]: a room for each session that somebody looks at, with one task that
//!   hears its runs (`room.rs`), who looks and what is not stored yet (`state.rs`).
//! - `teller.rs`, `turn.rs`, `answer.rs`, `open.rs`, `side.rs`: news as frames.
//! - `history.rs`: what was said before, in pages.
//! - `speaker.rs`, `hear.rs`: a connection, and what it says.
//! - `guest.rs`: a connection that came by a link.
//! - `questions.rs`: what waits for a person.
//! - `theirs.rs`: a session that Claude Code itself has.

mod answer;
mod frame;
mod guest;
mod hear;
mod history;
mod init;
mod open;
mod questions;
mod room;
mod rooms;
mod side;
mod speaker;
mod state;
mod teller;
mod theirs;
mod turn;

use axum::http::StatusCode;
use axum::response::Response;

use crate::dialects::claude::projects::Projects;
use crate::dialects::claude::rest::NOT_FOUND;
use crate::gateway::Opened;
use crate::http::{OpenAsked, SocketEntry, SocketRoute};
use crate::protocol::Scope;
use crate::sessions::SessionKey;

pub use rooms::{Rooms, Seat};

use speaker::Viewer;
use theirs::Reader;

/// Where it is spoken.
pub static SOCKETS: [SocketRoute; 2] = [
    SocketRoute {
        path: "/api/claude/sessions/:id/subscribe",
        entry: SocketEntry::Caller(Scope::Read),
        open: |asked| Box::pin(open(asked)),
    },
    SocketRoute {
        path: "/api/share/:token/subscribe",
        entry: SocketEntry::Signed,
        open: |asked| Box::pin(guest::open(asked)),
    },
];

async fn open(asked: OpenAsked) -> Result<Opened, Response> {
    let services = &asked.gateway.services;
    let id = asked.path.get("id");
    let found = services.sessions.by_id(id).await.map_err(|error| {
        tracing::error!(%error, "sessions cannot be looked up");
        asked.manner.error(StatusCode::SERVICE_UNAVAILABLE, "sessions cannot be looked up")
    })?;
    let from = asked.query("fromUuid");
    let (subscriber, _) = asked.subscriber(&[]);
    let Some(row) = found else {
        let (projects, id) = their(&asked, id).await?;
        let reader = Reader::new(asked.gateway, projects, subscriber, (id, from));
        return Ok(Opened::new("claude", reader));
    };
    let from = from.and_then(|uuid| uuid.parse().ok());
    let of = (SessionKey::from_canonical(row.key), row.entry.session_id);
    Ok(Opened::new("claude", Viewer::new(asked.gateway, subscriber, of, from)))
}

/// The session with this id that Claude Code itself has.
async fn their(asked: &OpenAsked, id: &str) -> Result<(Projects, String), Response> {
    let manner = asked.manner;
    if let Some(projects) = &asked.gateway.projects {
        let found = projects.find(id).await.map_err(|error| {
            tracing::error!(%error, "the sessions of Claude Code cannot be read");
            manner.error(StatusCode::SERVICE_UNAVAILABLE, "sessions cannot be looked up")
        })?;
        if let Some(found) = found {
            return Ok((projects.clone(), found.id));
        }
    }
    Err(manner.error(StatusCode::NOT_FOUND, NOT_FOUND))
}
