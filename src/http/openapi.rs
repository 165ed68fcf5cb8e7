//! What the gateway offers by HTTP, described for tools: `docs/openapi.json`.

use axum::http::header;
use axum::response::{IntoResponse, Response};

use crate::support::unpacked;

/// Where it is.
pub const PATH: &str = "/openapi.json";

/// As gzip (RFC 1952).
const DOCUMENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/packed/docs/openapi.json"));

/// The document. It is part of the program, the same for everybody.
pub fn answer() -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json; charset=utf-8")];
    (kind, unpacked(DOCUMENT)).into_response()
}
