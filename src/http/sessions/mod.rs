//! The paths below `/sessions`, as the original has them: what is said in a session,
//! and the end of what a sub-agent does.
//!
//! Must not: read a transcript or stop a run in a way of its own.

mod follow;
mod kill;
mod page;

use axum::http::StatusCode;
use axum::response::Response;

pub(super) use kill::{kill, scope_of_requester};
pub(super) use page::history;

use super::manner::not_ok;

/// Nobody has said anything under this key.
fn unknown(written: &str) -> Response {
    not_ok(StatusCode::NOT_FOUND, "not_found", &format!("Session not found: {written}"))
}
