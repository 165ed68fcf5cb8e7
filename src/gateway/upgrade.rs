//! The HTTP request that becomes a WebSocket.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{ConnectInfo, FromRequestParts, Request, State};
use axum::http::header::{self, HeaderMap, HeaderName};
use axum::http::{StatusCode, request};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;

use crate::auth::{Auth, Peer};
use crate::bus::Hub;
use crate::http;
use crate::protocol::hello::MAX_PAYLOAD;
use crate::registry::Services;

use super::connection;
use super::io::{Incoming, Wire};
use super::preauth::PreauthBudget;
use super::socket::Socket;

/// Most bytes of a message before `connect`.
const PREAUTH_MESSAGE: u32 = 64 * 1024;
/// Most bytes that the header of one masked frame takes (RFC 6455 §5.2).
const FRAME_HEADER: u32 = 14;
/// Read buffer of each connection. The library's default of 128 KiB is what
/// every client would cost.
const READ_BUFFER: usize = 4 * 1024;
/// Write buffer after which a flush is tried.
const WRITE_BUFFER: usize = 16 * 1024;
/// Headers that a proxy adds; a request with one is never local.
const FORWARDING: [&str; 5] =
    ["forwarded", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-real-ip"];

/// What every connection shares.
pub struct Gateway {
    /// What the methods work with.
    pub services: Arc<Services>,
    /// Who may come in.
    pub auth: Auth,
    /// Who is in.
    pub hub: Arc<Hub>,
    /// Who waits to come in.
    pub preauth: PreauthBudget,
}

impl Gateway {
    /// Puts the parts together.
    pub fn new(services: Arc<Services>, auth: Auth, hub: Arc<Hub>) -> Self {
        let preauth = PreauthBudget::new(services.settings.gateway.max_preauth_per_ip);
        Self { services, auth, hub, preauth }
    }
}

/// Serves the listener until the task is dropped: an upgrade is taken on any
/// path.
pub async fn serve(listener: TcpListener, gateway: Arc<Gateway>) -> std::io::Result<()> {
    let routes = Router::new().fallback(answer).with_state(gateway);
    let service = routes.into_make_service_with_connect_info::<Wire>();
    axum::serve(Incoming(listener), service).await
}

async fn answer(
    State(gateway): State<Arc<Gateway>>,
    ConnectInfo(wire): ConnectInfo<Wire>,
    request: Request,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let peer = peer_of(wire.remote.ip(), &parts.headers);
    if !is_upgrade(&parts) {
        let answer = http::answer(&gateway, &peer, &parts, body).await;
        return answer.unwrap_or_else(|| about(&gateway, &parts));
    }
    let Some(permit) = gateway.preauth.enter(gateway.auth.place_of(&peer)) else {
        return (
            StatusCode::SERVICE_UNAVAILABLE,
            [(header::CONNECTION, "close"), (header::CONTENT_TYPE, "text/plain; charset=utf-8")],
            "Too many unauthenticated sockets",
        )
            .into_response();
    };
    let upgrade = match WebSocketUpgrade::from_request_parts(&mut parts, &gateway).await {
        Ok(upgrade) => upgrade,
        Err(refusal) => return refusal.into_response(),
    };
    wire.meter.limit(PREAUTH_MESSAGE + FRAME_HEADER);
    upgrade
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        // One message may be as large as history answers get; the queue in
        // front of this buffer is what bounds a slow client.
        .max_write_buffer_size(4 * MAX_PAYLOAD)
        .max_message_size(MAX_PAYLOAD)
        .max_frame_size(MAX_PAYLOAD)
        .on_upgrade(move |socket| async move {
            let tasks = gateway.services.tasks.clone();
            let socket = Socket::new(socket, wire);
            // Boxed, or both this task and the one below would have its size.
            let connection = Box::pin(connection::run(gateway, socket, peer, permit));
            // A panic ends this connection only; the supervisor has counted it.
            let _ = tasks.spawn("connection", connection).await;
        })
}

fn is_upgrade(parts: &request::Parts) -> bool {
    parts
        .headers
        .get(header::UPGRADE)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

fn peer_of(remote: IpAddr, headers: &HeaderMap) -> Peer {
    let text = |name: HeaderName| {
        let value = headers.get(name)?.to_str().ok()?.trim();
        (!value.is_empty()).then(|| value.to_owned())
    };
    // All lines of the header form one chain, in order.
    let forwarded_for: Vec<_> =
        headers.get_all("x-forwarded-for").iter().filter_map(|line| line.to_str().ok()).collect();
    Peer {
        remote,
        forwarded_for: (!forwarded_for.is_empty()).then(|| forwarded_for.join(",")),
        is_forwarded: FORWARDING.iter().any(|name| headers.contains_key(*name)),
        // An origin that is no text is still an origin, only not an allowed one.
        origin: headers
            .get(header::ORIGIN)
            .filter(|value| !value.is_empty())
            .map(|value| value.to_str().unwrap_or("null").to_owned()),
        host: text(header::HOST),
    }
}

/// What a browser or curl sees that came without upgrading.
fn about(gateway: &Gateway, parts: &request::Parts) -> Response {
    if parts.uri.path() != "/" {
        return (StatusCode::NOT_FOUND, "Not Found\n").into_response();
    }
    let port = gateway.services.settings.gateway.port;
    let text = format!(
        "clawgate {} is running.\n\nThis address speaks the OpenClaw gateway protocol over WebSocket: ws://<this host>:{port}/\nTry: clawgate chat \"hi\"\n",
        env!("CARGO_PKG_VERSION"),
    );
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}
