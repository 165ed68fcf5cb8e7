//! What is asked for by HTTP without a WebSocket.
//!
//! Owns: which path is whose. Promises: a body has a bound of bytes and of
//! time, and is read for a path that somebody has only. Must not: know what a
//! request means.

mod hooks;

use axum::body::Body;
use axum::http::request;
use axum::response::Response;

use crate::auth::Peer;
use crate::gateway::Gateway;

/// The answer to a request; `None` when nobody has its path.
pub async fn answer(
    gateway: &Gateway,
    peer: &Peer,
    parts: &request::Parts,
    body: Body,
) -> Option<Response> {
    hooks::answer(gateway, peer, parts, body).await
}
