//! The WebSocket of the dialect, `/api/chat/ws`.
//!
//! Owns: what is said on one connection: a view of one conversation at a time.
//! Promises: everything is done by methods, with the rights of who was let in; a
//! response ends with one `done`. What others say in the conversation meanwhile is
//! not told here: who wants it reads `GET /api/sessions/:id`, or resumes.

mod action;
mod asked;
mod conversation;
mod follow;
mod frame;
mod speaker;
mod turn;
mod view;
mod work;

use axum::http::StatusCode;
use axum::response::Response;

use crate::dialects::chat::lockdown;
use crate::gateway::Opened;
use crate::http::{OpenAsked, json_answer};
use crate::registry::{ACTION_CHAT, Caller};

use speaker::Connection;
use view::View;

/// Where it is.
pub const PATH: &str = "/api/chat/ws";

/// A connection for somebody who was let in; none in lock down mode.
///
/// # Errors
/// The answer to somebody who gets none.
pub fn open(asked: OpenAsked) -> Result<Opened, Response> {
    if lockdown::is_on(&asked.gateway.services.settings.now()) {
        let status = StatusCode::from_u16(lockdown::STATUS).unwrap_or(StatusCode::FORBIDDEN);
        return Err(json_answer(status, &lockdown::body()));
    }
    let (subscriber, cx) = asked.subscriber(&[]);
    // Others are told so who has decided something.
    let (client_id, name) = (ACTION_CHAT.into(), ACTION_CHAT.into());
    let caller = Caller { client_id, name, ..Caller::clone(&cx.caller) };
    let view = View::new(asked.gateway, subscriber, caller);
    Ok(Opened::new("chat", Connection::new(view)))
}
