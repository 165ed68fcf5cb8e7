//! Paths of channels: services bring messages to them.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{StatusCode, header, request};
use axum::response::{IntoResponse, Response};

use crate::auth::Peer;
use crate::channels::{HookAnswer, HookRequest};
use crate::gateway::Gateway;

/// How long a body may take: services send it at once.
const BODY_LIMIT: Duration = Duration::from_secs(10);

pub(super) async fn answer(
    gateway: &Gateway,
    peer: &Peer,
    parts: &request::Parts,
    body: Body,
) -> Option<Response> {
    let (path, services) = (parts.uri.path(), &gateway.services);
    let channels = &services.runs.parts().channels;
    let limit = channels.hook_limit(path)?;
    if parts.method != axum::http::Method::POST {
        let refused = written(&HookAnswer::error(405, "only POST is taken here"));
        return Some(([(header::ALLOW, "POST")], refused).into_response());
    }
    // Paid before anything is read or compared (GHSA-5m9r-p9g7-679c).
    if !gateway.auth.now().pay_hook(peer, services.clock.now_ms()) {
        return Some(written(&HookAnswer::error(429, "too many requests that prove nothing")));
    }
    let reading = to_bytes(body, usize::try_from(limit).unwrap_or(usize::MAX));
    let body = match tokio::time::timeout(BODY_LIMIT, reading).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => {
            let text = format!("the body must have at most {limit} bytes");
            return Some(closing(&HookAnswer::error(413, &text)));
        }
        Err(_) => return Some(closing(&HookAnswer::error(408, "the body took too long"))),
    };
    let headers = &parts.headers;
    let header = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
    let answer = channels.hook(path, HookRequest { header: &header, body: &body }).await;
    if answer.is_known() {
        gateway.auth.now().forgive_hook(peer);
    }
    Some(written(&answer))
}

fn written(answer: &HookAnswer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = [
        (header::CONTENT_TYPE, "application/json; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (status, headers, answer.body.to_string()).into_response()
}

/// What of a body was not read is not read any more.
fn closing(answer: &HookAnswer) -> Response {
    ([(header::CONNECTION, "close")], written(answer)).into_response()
}
