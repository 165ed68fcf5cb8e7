//! `GET /health` in the words of the dialect, below `gateway.dialects.prefix` only:
//! without it the path is OpenClaw's.

use axum::response::Response;

use crate::http::{Asked, ok};
use crate::support::json;

pub fn answer(asked: &Asked<'_>) -> Response {
    let services = &asked.gateway.services;
    let mode = services.settings.now().gateway.mode.to_string();
    let version = env!("CARGO_PKG_VERSION");
    ok(&json!({"ok": true, "status": "ok", "version": version, "mode": mode}))
}
