//! What is asked for by HTTP without a WebSocket.
//!
//! Owns: which path is whose, in one table (`routes`). Promises: a request is
//! answered by a route of that table or not at all; no page that is not allowed
//! reaches one that takes no proof of its own; a body has a bound of bytes and
//! of time, and is read for a path that somebody has only; what changes something
//! is done to its end, though whoever asks goes away. Must not: know what a request
//! means.

mod about;
mod asked;
mod attending;
mod body;
mod caller;
mod cors;
mod credential;
mod headers;
mod health;
mod home;
mod hooks;
mod manner;
mod metrics;
pub mod openai;
mod openapi;
mod packed;
mod page;
mod pattern;
mod query;
mod request_id;
mod routes;
mod sessions;
mod sockets;
mod stream;
mod tools_invoke;
mod ui;
mod uploads;
mod webhooks;

use std::sync::Arc;

use axum::body::Body;
use axum::http::{StatusCode, request};
use axum::response::Response;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::auth::{HttpCaller, Peer};
use crate::gateway::{Footing, Gateway, Wire};
use crate::support::millis;
use crate::telemetry::{asked as marks, traces};

use routes::Found;

pub use asked::{Asked, cx_of, cx_with, ok};
pub use attending::{Attending, CUT};
pub use headers::secured;
pub use manner::{Manner, json_answer, openai_word};
pub use pattern::PathValues;
pub use routes::{Entry, Place, ROUTES, Route, all_routes};
pub use sockets::{OpenAsked, SocketEntry, SocketRoute, upgrade};
pub use ui::Tickets;
pub use uploads::Places as UploadPlaces;

/// The answer to a request. When whoever asks goes away, reading ends at once; what
/// may change something hears of it ([`Attending`]), and is not cut off in its middle.
pub async fn answer(
    gateway: Arc<Gateway>,
    wire: Wire,
    peer: Peer,
    parts: request::Parts,
    body: Body,
) -> Response {
    let id = request_id::of(&parts.headers, &*gateway.services.ids);
    let (tasks, is_reading) = (gateway.services.tasks.clone(), body::is_unwanted(&parts.method));
    let gone = CancellationToken::new();
    let going = gone.clone().drop_guard();
    let answering = async move { answer_marked(&gateway, &wire, &peer, &parts, body, gone).await };
    let answering = Box::pin(answering.instrument(marks::request(&id)));
    let answer = if is_reading {
        answering.await
    } else {
        tasks.result_of("http", answering).await.unwrap_or_else(broken)
    };
    going.disarm();
    request_id::named(answer, &id)
}

/// The answer where a route has panicked.
fn broken() -> Response {
    Manner::Recorded.error(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
}

async fn answer_marked(
    gateway: &Arc<Gateway>,
    wire: &Wire,
    peer: &Peer,
    parts: &request::Parts,
    body: Body,
    gone: CancellationToken,
) -> Response {
    let began = Instant::now();
    let (body, reading) = body::watched(body);
    let watch = metrics::Watch::begin(parts);
    let found = routes::find(gateway, &parts.method, parts.uri.path());
    let (entry, cors) = (found.entry(), cors::Cors::of(gateway, peer, &found));
    let answer = if let Some(answer) = cors.preflight(parts, &found) {
        answer
    } else {
        let answering = Box::pin(of_route(gateway, wire, peer, parts, (body, gone.clone()), found));
        let answered = traces::within(watch.context(), answering).await;
        let answer = answered.unwrap_or_else(|refusal| refusal);
        Box::pin(packed::packed(parts, entry, answer)).await
    };
    // Who has gone away hears no answer: there is none to count.
    if !gone.is_cancelled() {
        watch.end(&answer);
    }
    let answer = reading.ended(wire, &parts.headers, answer);
    let status = answer.status().as_u16();
    // Not the address: there may be a credential in it, or a name of a session.
    tracing::debug!(method = %parts.method, status, ms = millis(began.elapsed()), "answered");
    cors.marked(answer)
}

/// # Errors
/// The answer to a request that reaches no route, or is not let in.
async fn of_route(
    gateway: &Arc<Gateway>,
    wire: &Wire,
    peer: &Peer,
    parts: &request::Parts,
    (body, gone): (Body, CancellationToken),
    found: Found,
) -> Result<Response, Response> {
    let manner = found.manner();
    if !found.entry().is_some_and(Entry::is_for_any_page)
        && let Some(refusal) = caller::foreign(gateway, peer, manner)
    {
        return Err(refusal);
    }
    if let Some(refusal) = body::refused(parts, manner) {
        return Err(refusal);
    }
    let body = if body::is_unwanted(&parts.method) { Body::empty() } else { body };
    let (route, path) = match found {
        Found::Line { route, values, .. } => (route, values),
        Found::OtherMethods { allowed, .. } => return Err(manner.no_such_method(&allowed)),
        Found::Nothing(_) => return Err(manner.not_found()),
    };
    let scope = match route.entry {
        Entry::Caller(scope) => Some(scope),
        Entry::Requester => Some(sessions::scope_of_requester(peer)),
        Entry::Open | Entry::Public | Entry::Reader | Entry::Signed | Entry::Ticket(_) => None,
    };
    let (caller, footing) = match scope {
        Some(scope) => {
            let let_in = caller::let_in(gateway, peer, parts, (scope, manner)).await;
            let let_in = let_in.map_err(|refusal| metrics::of_route(route.place, refusal))?;
            wire.trust();
            let_in
        }
        None => (HttpCaller::nobody(), Footing::new(gateway.auth.now(), None)),
    };
    let asked = Asked { gateway, wire, peer, parts, path, manner, caller, footing, body, gone };
    Ok(metrics::of_route(route.place, (route.answer)(asked).await))
}

/// What is answered where nothing is.
fn not_found() -> Response {
    Manner::Recorded.not_found()
}
