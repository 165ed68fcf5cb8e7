//! What the gateway offers by HTTP, described for tools: `docs/openapi.json`.

use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};

use super::packed::of_program;

/// Where it is.
pub const PATH: &str = "/openapi.json";

/// As gzip (RFC 1952).
const DOCUMENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/packed/docs/openapi.json"));

/// The document. It is part of the program, the same for everybody.
pub fn answer(headers: &HeaderMap) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json; charset=utf-8")];
    (kind, of_program(headers, DOCUMENT)).into_response()
}
