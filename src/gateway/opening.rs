//! The opening handshake of a WebSocket (RFC 6455 §4.2).
//!
//! Owns: the way from a request to a [`Socket`] and the task that serves it. Promises: what
//! came behind the request is read first. Must not: know who asks.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, header, request};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;

use crate::support::Tasks;

use super::io::MeteredStream;
use super::socket::Socket;

/// The version that there is.
const VERSION: HeaderValue = HeaderValue::from_static("13");

/// A request for a WebSocket that is as it has to be.
pub struct Opening {
    answer: Response,
    upgrade: OnUpgrade,
}

impl Opening {
    /// What the request asks for; an answer that says what is wrong with it.
    pub fn of(mut parts: request::Parts) -> Result<Self, Response> {
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let request = Request::from_parts(parts, ());
        let answer = create_response_with_body(&request, Body::empty);
        let mut answer = answer.map_err(|error| refusal(&error))?;
        if let Some(chosen) = subprotocol(request.headers()) {
            answer.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, chosen);
        }
        let why = "this connection cannot become a WebSocket";
        let upgrade = upgrade.ok_or_else(|| (StatusCode::BAD_REQUEST, why).into_response())?;
        Ok(Self { answer, upgrade })
    }

    /// The answer with which the connection becomes a WebSocket, which is served by a task
    /// of its own. A panic ends that only; the supervisor counts it.
    pub fn accept<F: Future<Output = ()> + Send + 'static>(
        self,
        tasks: &Tasks,
        serve: impl FnOnce(Socket) -> F + Send + 'static,
    ) -> Response {
        let (Self { answer, upgrade }, servers) = (self, tasks.clone());
        tasks.spawn("upgrade", async move {
            match upgrade.await {
                // Nobody waits here for its end: this task would cost each client a kilobyte.
                Ok(upgraded) => {
                    if let Some(socket) = socket_of(upgraded) {
                        servers.spawn("connection", serve(socket));
                    }
                }
                // It is gone before it had its answer.
                Err(error) => tracing::debug!(%error, "a connection did not become a WebSocket"),
            }
        });
        answer
    }
}

/// The WebSocket, and what its client has sent behind the request.
fn socket_of(upgraded: Upgraded) -> Option<Socket> {
    let Ok(parts) = upgraded.downcast::<TokioIo<MeteredStream>>() else {
        tracing::error!("an upgraded connection is not what the listener gave");
        return None;
    };
    Some(Socket::new(parts.io.into_inner(), &parts.read_buf))
}

/// The first of the subprotocols that a client names, as the original chooses: browsers and
/// others end a connection for which they named some and none was chosen. What is said does
/// not depend on it.
fn subprotocol(headers: &HeaderMap) -> Option<HeaderValue> {
    let named = headers.get(header::SEC_WEBSOCKET_PROTOCOL)?.to_str().ok()?;
    let first = named.split(',').next()?.trim();
    let is_sign = |it: u8| it.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&it);
    let is_token = !first.is_empty() && first.bytes().all(is_sign);
    if is_token { HeaderValue::from_str(first).ok() } else { None }
}

/// What is wrong, in the library's words, and which version there is: a client may try
/// another one.
fn refusal(error: &Error) -> Response {
    if matches!(error, Error::Protocol(ProtocolError::WrongHttpMethod)) {
        let allowed = [(header::ALLOW, HeaderValue::from_static("GET"))];
        return (StatusCode::METHOD_NOT_ALLOWED, allowed, error.to_string()).into_response();
    }
    let version = [(header::SEC_WEBSOCKET_VERSION, VERSION)];
    (StatusCode::BAD_REQUEST, version, error.to_string()).into_response()
}
