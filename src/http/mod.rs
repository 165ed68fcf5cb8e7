//! What is asked for by HTTP without a WebSocket.
//!
//! Owns: which path is whose, in one table (`routes`). Promises: a request is
//! answered by a route of that table or not at all; no page that is not allowed
//! reaches one that takes no proof of its own; a body has a bound of bytes and
//! of time, and is read for a path that somebody has only. Must not: know what
//! a request means.

mod about;
mod caller;
mod headers;
mod home;
mod hooks;
mod metrics;
mod page;
mod routes;
mod ui;

use axum::body::Body;
use axum::http::{Method, StatusCode, header, request};
use axum::response::{IntoResponse, Response};

use crate::auth::{Peer, origin};
use crate::gateway::Gateway;
use crate::telemetry::traces;

pub use headers::secured;
pub use routes::{Entry, Place, ROUTES, Route};
pub use ui::Tickets;

/// A request that has found its route.
struct Asked<'a> {
    gateway: &'a Gateway,
    peer: &'a Peer,
    parts: &'a request::Parts,
    body: Body,
}

/// The answer to a request.
pub async fn answer(
    gateway: &Gateway,
    peer: &Peer,
    parts: &request::Parts,
    body: Body,
) -> Response {
    let watch = metrics::Watch::begin(parts);
    let answer = Box::pin(of_route(gateway, peer, parts, body));
    let answered = secured(traces::within(watch.context(), answer).await);
    watch.end(&answered);
    answered
}

async fn of_route(gateway: &Gateway, peer: &Peer, parts: &request::Parts, body: Body) -> Response {
    let route = routes::find(gateway, &parts.method, parts.uri.path());
    let auth = gateway.auth.now();
    // What proves by itself who sent it may come from anywhere, and so may who
    // wants what everybody gets.
    if route.is_none_or(|route| [Entry::Open, Entry::Reader].contains(&route.entry))
        && let Err(refusal) = origin::check_request(peer, auth.pages(), auth.is_proxy(peer.remote))
    {
        return (StatusCode::FORBIDDEN, format!("{refusal}\n")).into_response();
    }
    let Some(route) = route else { return not_found() };
    if !route.methods.contains(&parts.method) {
        let allowed: Vec<_> = route.methods.iter().map(Method::as_str).collect();
        let allow = [(header::ALLOW, allowed.join(", "))];
        return (StatusCode::METHOD_NOT_ALLOWED, allow, "Method Not Allowed").into_response();
    }
    metrics::of_route(route.place, (route.answer)(Asked { gateway, peer, parts, body }).await)
}

/// What is answered where nothing is.
fn not_found() -> Response {
    (StatusCode::NOT_FOUND, "Not Found").into_response()
}
