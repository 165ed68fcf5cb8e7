//! What is asked for by HTTP without a WebSocket.
//!
//! Owns: which path is whose, in one table (`routes`). Promises: a request is
//! answered by a route of that table or not at all; no page that is not allowed
//! reaches one that takes no proof of its own; a body has a bound of bytes and
//! of time, and is read for a path that somebody has only. Must not: know what
//! a request means.

mod about;
mod asked;
mod body;
mod caller;
mod credential;
mod headers;
mod health;
mod home;
mod hooks;
mod manner;
mod metrics;
pub mod openai;
mod openapi;
mod page;
mod pattern;
mod query;
mod request_id;
mod routes;
mod sockets;
mod stream;
mod ui;

use std::sync::Arc;

use axum::body::Body;
use axum::http::request;
use axum::response::Response;
use tokio::time::Instant;

use crate::auth::{HttpCaller, Peer};
use crate::gateway::{Footing, Gateway, Wire};
use crate::support::millis;
use crate::telemetry::traces;

use routes::Found;

pub use asked::{Asked, cx_of, cx_with, ok};
pub use headers::secured;
pub use manner::{Manner, json_answer};
pub use pattern::PathValues;
pub use routes::{Entry, Place, ROUTES, Route, all_routes};
pub use sockets::{OpenAsked, SocketEntry, SocketRoute, upgrade};
pub use ui::Tickets;

/// The answer to a request.
pub async fn answer(
    gateway: &Arc<Gateway>,
    wire: &Wire,
    peer: &Peer,
    parts: &request::Parts,
    body: Body,
) -> Response {
    let (id, began) = (request_id::of(&parts.headers, &*gateway.services.ids), Instant::now());
    let watch = metrics::Watch::begin(parts);
    let answering = Box::pin(of_route(gateway, wire, peer, parts, body));
    let answered = traces::within(watch.context(), answering).await;
    let answer = answered.unwrap_or_else(|refusal| refusal);
    watch.end(&answer);
    let status = answer.status().as_u16();
    // Not the address: there may be a credential in it, or a name of a session.
    tracing::debug!(request = id, method = %parts.method, status, ms = millis(began.elapsed()), "answered");
    request_id::named(secured(answer), &id)
}

/// # Errors
/// The answer to a request that reaches no route, or is not let in.
async fn of_route(
    gateway: &Arc<Gateway>,
    wire: &Wire,
    peer: &Peer,
    parts: &request::Parts,
    body: Body,
) -> Result<Response, Response> {
    let found = routes::find(gateway, &parts.method, parts.uri.path());
    let (manner, entry) = match &found {
        Found::Line { route, manner, .. } => (*manner, Some(route.entry)),
        Found::OtherMethods { entry, manner, .. } => (*manner, Some(*entry)),
        Found::Nothing(manner) => (*manner, None),
    };
    if !entry.is_some_and(Entry::is_for_any_page)
        && let Some(refusal) = caller::foreign(gateway, peer, manner)
    {
        return Err(refusal);
    }
    let (route, path) = match found {
        Found::Line { route, values, .. } => (route, values),
        Found::OtherMethods { allowed, .. } => return Err(manner.no_such_method(&allowed)),
        Found::Nothing(_) => return Err(manner.not_found()),
    };
    let (caller, footing) = match route.entry {
        Entry::Caller(scope) => {
            let let_in = caller::let_in(gateway, peer, parts, (scope, manner)).await;
            let let_in = let_in.map_err(|refusal| metrics::of_route(route.place, refusal))?;
            wire.trust();
            let_in
        }
        Entry::Open | Entry::Public | Entry::Reader | Entry::Signed | Entry::Ticket(_) => {
            (HttpCaller::nobody(), Footing::new(gateway.auth.now(), None))
        }
    };
    let asked = Asked { gateway, wire, peer, parts, path, manner, caller, footing, body };
    Ok(metrics::of_route(route.place, (route.answer)(asked).await))
}

/// What is answered where nothing is.
fn not_found() -> Response {
    Manner::Recorded.not_found()
}
