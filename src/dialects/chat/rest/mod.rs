//! What clients of the action chat ask for by HTTP.
//!
//! Owns: the form of the answers. Promises: the same rights and the same data as by
//! methods; nothing is answered in lock down mode. Must not: change anything but by
//! methods and by what the slash commands do, too.

pub mod guardrails;
pub mod health;
mod history;
pub mod pages;
pub mod sessions;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;

use super::lockdown;
use crate::http::{Asked, json_answer, ok};
use crate::protocol::ErrorShape;
use crate::support::{BoxFuture, json};

/// Most bytes of a body: a whole set of guardrails is some ten thousand.
const BODY_MAX: u64 = 1024 * 1024;

/// An answer, or why there is none.
pub type Answered = Result<Value, Failed>;

/// Why there is none.
pub enum Failed {
    /// What a method refused.
    Method(ErrorShape),
    /// Nothing is there.
    Missing(&'static str),
    /// The body is wrong.
    Body(Box<Response>),
}

impl From<ErrorShape> for Failed {
    fn from(error: ErrorShape) -> Self {
        Self::Method(error)
    }
}

impl From<Response> for Failed {
    fn from(response: Response) -> Self {
        Self::Body(Box::new(response))
    }
}

/// Answers, unless the dialect is shut.
pub async fn answered<'a>(
    asked: Asked<'a>,
    answer: fn(Asked<'a>) -> BoxFuture<'a, Answered>,
) -> Response {
    if let Some(shut) = shut(&asked) {
        return shut;
    }
    let manner = asked.manner;
    match answer(asked).await {
        Ok(body) => ok(&body),
        Err(Failed::Method(error)) => manner.of_error(&error),
        Err(Failed::Missing(what)) => manner.error(StatusCode::NOT_FOUND, what),
        Err(Failed::Body(response)) => *response,
    }
}

/// What everybody gets in lock down mode.
pub fn shut(asked: &Asked<'_>) -> Option<Response> {
    let status = StatusCode::from_u16(lockdown::STATUS).unwrap_or(StatusCode::FORBIDDEN);
    lockdown::is_on(&asked.gateway.services.settings.now())
        .then(|| json_answer(status, &lockdown::body()))
}

/// A good answer without more to say.
fn done() -> Value {
    json!({"status": "ok"})
}
