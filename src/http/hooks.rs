//! Paths of channels: services bring messages to them.

use std::time::Duration;

use axum::body::to_bytes;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::channels::{Channels, HookAnswer, HookRequest};
use crate::gateway::Gateway;

use super::Asked;

/// How long a body may take: services send it at once.
const BODY_LIMIT: Duration = Duration::from_secs(10);

/// Most bytes of a request to a path; `None` when no channel has it.
pub(super) fn limit(gateway: &Gateway, path: &str) -> Option<u64> {
    channels(gateway).hook_limit(path)
}

fn channels(gateway: &Gateway) -> &Channels {
    &gateway.services.runs.parts().channels
}

pub(super) async fn answer(asked: Asked<'_>) -> Response {
    let Asked { gateway, peer, parts, body } = asked;
    let path = parts.uri.path();
    let limit = limit(gateway, path).unwrap_or_default();
    // What is said to be too large is not read.
    let length = parts.headers.get(header::CONTENT_LENGTH).and_then(|it| it.to_str().ok());
    if length.and_then(|it| it.parse::<u64>().ok()).is_some_and(|length| length > limit) {
        return too_large(limit);
    }
    // Paid before anything is read or compared (GHSA-5m9r-p9g7-679c).
    if !gateway.auth.now().pay_hook(peer, gateway.services.clock.now_ms()) {
        return written(&HookAnswer::error(429, "too many requests that prove nothing"));
    }
    let reading = to_bytes(body, usize::try_from(limit).unwrap_or(usize::MAX));
    let body = match tokio::time::timeout(BODY_LIMIT, reading).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return too_large(limit),
        Err(_) => return closing(&HookAnswer::error(408, "the body took too long")),
    };
    let headers = &parts.headers;
    let header = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
    let answer = channels(gateway).hook(path, HookRequest { header: &header, body: &body }).await;
    if answer.is_known() {
        gateway.auth.now().forgive_hook(peer);
    }
    written(&answer)
}

fn written(answer: &HookAnswer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = [
        (header::CONTENT_TYPE, "application/json; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (status, headers, answer.body.to_string()).into_response()
}

fn too_large(limit: u64) -> Response {
    closing(&HookAnswer::error(413, &format!("the body must have at most {limit} bytes")))
}

/// What of a body was not read is not read any more.
fn closing(answer: &HookAnswer) -> Response {
    ([(header::CONNECTION, "close")], written(answer)).into_response()
}
