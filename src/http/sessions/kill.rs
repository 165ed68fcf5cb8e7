//! `POST /sessions/<key>/kill`: stops what a sub-agent does.
//!
//! Promises: whoever is not on this machine speaks for the session that has begun
//! the sub-agent, and stops no others.

use axum::http::StatusCode;
use axum::response::Response;

use super::unknown;
use crate::auth::Peer;
use crate::handlers::session_rest;
use crate::http::caller::once;
use crate::http::manner::not_ok_for;
use crate::http::{Asked, json_answer};
use crate::protocol::Scope;
use crate::support::json;

const REQUESTER: &str = "x-openclaw-requester-session-key";
const NOT_NAMED: &str =
    "Session kills require a local admin request or requester session ownership.";

/// What a caller needs who comes from there.
pub(in crate::http) fn scope_of_requester(peer: &Peer) -> Scope {
    if peer.is_local() { Scope::Admin } else { Scope::Write }
}

/// `{ok: true, killed}`.
pub(in crate::http) async fn kill(asked: Asked<'_>) -> Response {
    let Asked { peer, parts, manner, .. } = asked;
    let written = asked.path.get("key").trim();
    let requester = once(&parts.headers, REQUESTER).filter(|key| !key.is_empty());
    // An admin of this machine stops whatever he names.
    let requester = if peer.is_local() { None } else { requester };
    if requester.is_none() && !peer.is_local() {
        return manner.forbidden(NOT_NAMED);
    }
    match session_rest::kill(&asked.cx(), written, requester).await {
        Ok(Some(killed)) => json_answer(StatusCode::OK, &json!({"ok": true, "killed": killed})),
        Ok(None) => unknown(written),
        Err(error) => not_ok_for(&error),
    }
}
