//! What the gateway offers by HTTP, described for tools: `docs/openapi.json`.

use axum::http::header;
use axum::response::{IntoResponse, Response};

/// Where it is.
pub const PATH: &str = "/openapi.json";

const DOCUMENT: &str = include_str!("../../docs/openapi.json");

/// The document. It is part of the program, the same for everybody.
pub fn answer() -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json; charset=utf-8")];
    (kind, DOCUMENT).into_response()
}
