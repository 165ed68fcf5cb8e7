//! What a browser or curl sees that comes without upgrading.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::gateway::Gateway;

pub(super) fn answer(gateway: &Gateway) -> Response {
    let services = &gateway.services;
    if let Some(repair) = &services.repair {
        let text = format!("clawgate {} waits: {repair}.\n", env!("CARGO_PKG_VERSION"));
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    }
    let settings = &services.settings.now().gateway;
    let (port, s) = (settings.port, if settings.tls.enabled { "s" } else { "" });
    let text = format!(
        "clawgate {} is running.\n\nThis address speaks the OpenClaw gateway protocol over WebSocket: ws{s}://<this host>:{port}/\nTry: clawgate chat \"hi\"\n",
        env!("CARGO_PKG_VERSION"),
    );
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}
