//! For whoever keeps watch: whether the process is there, and whether it is of use.
//!
//! Promises: a process that turns is live, whatever else is wrong, so that nobody
//! restarts one that is only busy; it is ready when it takes work; no provider and
//! no disk keeps it from answering. Must not: tell strangers what is wrong.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use crate::auth::{HttpCaller, HttpProof};
use crate::handlers::look_again;
use crate::registry::Services;
use crate::support::{json, trouble};

use super::caller::{foreign, reader};
use super::{Asked, json_answer};

/// `/healthz`.
pub(super) fn live() -> Response {
    fresh(StatusCode::OK, &json!({"ok": true, "status": "live"}))
}

/// `/health`: the same, with what the action chat has there beside it.
pub(super) fn live_as(asked: &Asked<'_>) -> Response {
    let mode = asked.gateway.services.settings.now().gateway.mode.to_string();
    let version = env!("CARGO_PKG_VERSION");
    fresh(StatusCode::OK, &json!({"ok": true, "status": "live", "version": version, "mode": mode}))
}

/// `/ready` and `/readyz`. Why not is told to programs of this machine, and to
/// those who may read.
pub(super) async fn ready(asked: Asked<'_>) -> Response {
    let Asked { gateway, wire, peer, parts, manner, .. } = asked;
    look_again(&gateway.services).await;
    let failing = failing(&gateway.services);
    let mut told = json!({"ready": failing.is_empty()});
    // To be here, or to come through a proxy, is no proof for a page that may not ask.
    let is_meant = foreign(gateway, peer, manner).is_none();
    let is_near = peer.is_local() && is_meant;
    let proves = |caller: HttpCaller| is_meant || caller.proof != HttpProof::Place;
    if is_near || reader(gateway, wire, peer, &parts.headers).await.is_ok_and(proves) {
        told["failing"] = json!(failing);
        told["uptimeMs"] = json!(gateway.services.uptime_ms());
    }
    let status = if failing.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    fresh(status, &told)
}

/// What keeps it from taking work.
fn failing(services: &Services) -> Vec<&'static str> {
    let checks = [
        ("store", trouble::of("store").is_some()),
        ("transcripts", trouble::of("transcripts").is_some()),
        ("config", services.repair.is_some()),
        ("stopping", services.runs.is_stopping()),
    ];
    checks.into_iter().filter(|(_, fails)| *fails).map(|(name, _)| name).collect()
}

fn fresh(status: StatusCode, body: &Value) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], json_answer(status, body)).into_response()
}
