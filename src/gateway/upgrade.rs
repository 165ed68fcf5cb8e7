//! The HTTP request that becomes a WebSocket.

use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header;
use axum::http::{StatusCode, request};
use axum::response::{IntoResponse, Response};
use futures_util::future::join_all;
use tokio::net::TcpListener;

use crate::auth::Auth;
use crate::bus::Hub;
use crate::dialects::Dialects;
use crate::dialects::claude::history::Histories;
use crate::dialects::claude::live::Rooms;
use crate::dialects::claude::projects::Projects;
use crate::http;
use crate::registry::Services;
use crate::support::Live;

use super::answering::Answering;
use super::connection;
use super::door::Door;
use super::footing::Footing;
use super::headers::peer_of;
use super::incoming::Incoming;
use super::io::Wire;
use super::opening::Opening;
use super::preauth::PreauthBudget;
use super::serving::serve_all;
use super::socket::Socket;
use super::talk::Opened;
use super::tls::Tls;
use super::unproven::UnprovenBodies;

/// Most bytes of a message before `connect`.
const PREAUTH_MESSAGE: u32 = 64 * 1024;
/// Most bytes that the header of one masked frame takes (RFC 6455 §5.2).
const FRAME_HEADER: u32 = 14;

/// What every connection shares.
pub struct Gateway {
    /// What the methods work with.
    pub services: Arc<Services>,
    /// Who may come in.
    pub auth: Live<Auth>,
    /// Who is in.
    pub hub: Arc<Hub>,
    /// How connections come in there.
    pub door: Arc<Door>,
    /// Who waits to come in.
    pub preauth: PreauthBudget,
    /// Bodies of those who prove who they are by all of them.
    pub unproven: UnprovenBodies,
    /// What browsers may show without a credential.
    pub tickets: http::Tickets,
    /// Who uploads files.
    pub uploads: Arc<http::UploadPlaces>,
    /// Histories of Claude sessions.
    pub histories: Histories,
    /// Sessions that clients of Claude Code look at.
    pub claude: Rooms,
    /// Sessions that Claude Code itself has here, if they are shown.
    pub projects: Option<Projects>,
    /// What else may be spoken here, where the configuration lets it.
    pub dialects: Dialects,
}

impl Gateway {
    /// Puts the parts together.
    pub fn new(services: Arc<Services>, auth: Auth, hub: Arc<Hub>, dialects: Dialects) -> Self {
        let preauth = PreauthBudget::new(services.settings.now().gateway.max_preauth_per_ip);
        let tickets = http::Tickets::default();
        let (uploads, histories) = (Arc::default(), Histories::default());
        let (claude, auth) = (Rooms::default(), Live::new(auth));
        let folder = services.settings.now().gateway.dialects.claude_projects.clone();
        let projects = folder.map(|folder| Projects::new(folder, services.tasks.clone()));
        let unproven = UnprovenBodies::default();
        let door = Arc::new(Door::new(Arc::clone(&hub)));
        Self {
            services,
            auth,
            hub,
            door,
            preauth,
            unproven,
            tickets,
            uploads,
            histories,
            claude,
            projects,
            dialects,
        }
    }
}

/// Serves the listeners until the task is dropped: an upgrade is taken on any
/// path, as our own protocol where it is no dialect's.
pub async fn serve(listeners: Vec<TcpListener>, tls: Option<Arc<Tls>>, gateway: Arc<Gateway>) {
    let routes = Router::new().fallback(answer).with_state(Arc::clone(&gateway));
    let serve = |listener| {
        let incoming = Incoming::new(listener, Arc::clone(&gateway), tls.clone());
        serve_all(incoming, routes.clone(), &gateway)
    };
    join_all(listeners.into_iter().map(serve)).await;
}

async fn answer(
    State(gateway): State<Arc<Gateway>>,
    ConnectInfo(wire): ConnectInfo<Wire>,
    request: Request,
) -> Response {
    let answering = Answering::begin(&wire.meter);
    let answer = answer_of(Arc::clone(&gateway), wire, request).await;
    // A WebSocket is no answer of HTTP.
    let is_upgraded = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
    let answer = if is_upgraded { answer } else { http::secured(&gateway, answer) };
    answering.until_sent(answer)
}

async fn answer_of(gateway: Arc<Gateway>, wire: Wire, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    // Of two names one would be judged, and the other be what somebody before us went by.
    if parts.headers.get_all(header::HOST).iter().nth(1).is_some() {
        return refusal(StatusCode::BAD_REQUEST, "More than one Host header");
    }
    let auth = gateway.auth.now();
    let wanted = auth.vouchers().wanted_headers();
    let peer = peer_of(wire.remote.ip(), &parts.uri, &parts.headers, wanted);
    if !is_upgrade(&parts) {
        return http::answer(gateway, wire, peer, parts, body).await;
    }
    match http::upgrade(&gateway, &peer, &parts).await {
        Err(refusal) => return refusal,
        Ok(Some(asked)) => return of_dialect(gateway, parts, asked),
        Ok(None) => {}
    }
    // First: what becomes no WebSocket takes no place of one.
    let opening = match Opening::of(parts) {
        Ok(opening) => opening,
        Err(refusal) => return refusal,
    };
    if !wire.permit.upgrade(auth.place_of(&peer)) {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "Too many unauthenticated sockets");
    }
    wire.meter.limit(PREAUTH_MESSAGE + FRAME_HEADER);
    let tasks = gateway.services.tasks.clone();
    opening.accept(&tasks, move |socket| connection::run(gateway, socket, peer))
}

/// The last answer on a connection.
fn refusal(status: StatusCode, why: &'static str) -> Response {
    let headers =
        [(header::CONNECTION, "close"), (header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    (status, headers, why).into_response()
}

/// Upgrades a connection that has proved itself already.
fn of_dialect(
    gateway: Arc<Gateway>,
    parts: request::Parts,
    (opened, footing): (Opened, Footing),
) -> Response {
    let opening = match Opening::of(parts) {
        Ok(opening) => opening,
        Err(refusal) => return refusal,
    };
    let tasks = gateway.services.tasks.clone();
    opening.accept(&tasks, async move |socket: Socket| {
        socket.authenticated();
        let end = opened.run(gateway, socket, footing).await;
        tracing::info!(%end, "a connection of a dialect has ended");
    })
}

fn is_upgrade(parts: &request::Parts) -> bool {
    parts
        .headers
        .get(header::UPGRADE)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}
