//! In which words a request is refused.
//!
//! The clients of each API read their own: what a request would get of the
//! software that the API was made by.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use crate::auth::HttpRefusal;
use crate::protocol::{ErrorCode, ErrorKind, ErrorShape, Scope, missing_scope};
use crate::support::json;

/// In which words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Those of OpenClaw, as recorded.
    Recorded,
    /// `{"error": text}`.
    Claude,
    /// `{"status": word, "message": text}`.
    Chat,
    /// `{"error": {message, type}}`, with the types that OpenAI's clients know.
    OpenAi,
}

const TOO_MANY: &str = "Too many failed authentication attempts. Please try again later.";
const CANNOT_LOOK: &str = "The gateway cannot look up devices now.";

impl Manner {
    /// For somebody who is not let in.
    pub(super) fn refused(self, refusal: HttpRefusal) -> Response {
        match refusal {
            HttpRefusal::Unauthorized => self.unauthorized(),
            HttpRefusal::Locked { wait_ms } => {
                let answer = self.error(StatusCode::TOO_MANY_REQUESTS, TOO_MANY);
                later(wait_ms, answer)
            }
            HttpRefusal::Unavailable(why) => {
                tracing::error!(error = why.message, "a request cannot be looked at");
                self.error(StatusCode::SERVICE_UNAVAILABLE, CANNOT_LOOK)
            }
        }
    }

    fn unauthorized(self) -> Response {
        let status = StatusCode::UNAUTHORIZED;
        match self {
            Self::Recorded | Self::OpenAi => self.error(status, "Unauthorized"),
            Self::Claude => {
                json_answer(status, &json!({"error": "Unauthorized", "code": "INVALID_TOKEN"}))
            }
            Self::Chat => self.error(status, "Invalid or missing admin secret"),
        }
    }

    /// For somebody who may not do this.
    pub fn forbidden(self, message: &str) -> Response {
        if matches!(self, Self::Recorded | Self::OpenAi) {
            return not_ok(StatusCode::FORBIDDEN, "forbidden", message);
        }
        self.error(StatusCode::FORBIDDEN, message)
    }

    /// For somebody whose rights lack this one.
    pub fn lacks(self, scope: Scope) -> Response {
        self.forbidden(&missing_scope(scope.as_str()))
    }

    /// For a page that may not ask, or one under a name that may be anybody's.
    pub(super) fn foreign(self, why: &str) -> Response {
        match self {
            Self::Recorded => (StatusCode::FORBIDDEN, format!("{why}\n")).into_response(),
            Self::Claude | Self::Chat | Self::OpenAi => self.forbidden(why),
        }
    }

    /// Where nothing is.
    pub(super) fn not_found(self) -> Response {
        match self {
            Self::Recorded | Self::OpenAi => (StatusCode::NOT_FOUND, "Not Found").into_response(),
            Self::Claude | Self::Chat => self.error(StatusCode::NOT_FOUND, "Not Found"),
        }
    }

    /// Where something is, but not for this method; `allowed` says for which.
    pub(super) fn no_such_method(self, allowed: &str) -> Response {
        let (status, message) = (StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
        let answer = match self {
            Self::Recorded | Self::OpenAi => (status, message).into_response(),
            Self::Claude | Self::Chat => self.error(status, message),
        };
        ([(header::ALLOW, allowed)], answer).into_response()
    }

    /// For whatever else went wrong.
    pub fn error(self, status: StatusCode, message: &str) -> Response {
        let body = match self {
            Self::Recorded => json!({"error": {"message": message, "type": word(status)}}),
            Self::Claude => json!({"error": message}),
            Self::Chat => json!({"status": chat_word(status), "message": message}),
            Self::OpenAi => json!({"error": {"message": message, "type": openai_word(status)}}),
        };
        json_answer(status, &body)
    }

    /// For what a method refused.
    pub fn of_error(self, error: &ErrorShape) -> Response {
        let answer = self.error(status_of(error), &error.message);
        match error.retry_after_ms {
            Some(wait_ms) => later(wait_ms, answer),
            None => answer,
        }
    }
}

/// `{ok: false, error: {type, message}}`, as the original has it where it answers a
/// question of its own.
pub(super) fn not_ok(status: StatusCode, kind: &str, message: &str) -> Response {
    json_answer(status, &json!({"ok": false, "error": {"type": kind, "message": message}}))
}

/// The same for what a method refused.
pub(super) fn not_ok_for(error: &ErrorShape) -> Response {
    let status = status_of(error);
    let answer = not_ok(status, word(status), &error.message);
    match error.retry_after_ms {
        Some(wait_ms) => later(wait_ms, answer),
        None => answer,
    }
}

/// What an error of a method comes to in HTTP.
fn status_of(error: &ErrorShape) -> StatusCode {
    match (error.code, error.kind) {
        (ErrorCode::ApprovalNotFound, _) | (_, ErrorKind::NotFound) => StatusCode::NOT_FOUND,
        (_, ErrorKind::PermissionDenied | ErrorKind::MissingScope) => StatusCode::FORBIDDEN,
        (_, ErrorKind::RateLimited) => StatusCode::TOO_MANY_REQUESTS,
        (ErrorCode::AgentTimeout, _) | (_, ErrorKind::Timeout) => StatusCode::GATEWAY_TIMEOUT,
        (ErrorCode::Unavailable | ErrorCode::NotLinked, _) => StatusCode::SERVICE_UNAVAILABLE,
        (_, ErrorKind::InvalidParams | ErrorKind::Taken) => StatusCode::BAD_REQUEST,
        (_, ErrorKind::InternalError) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn word(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "unauthorized",
        403 => "forbidden",
        404 => "not_found",
        429 => "rate_limited",
        400..=499 => "invalid_request",
        _ => "unavailable",
    }
}

/// The word of OpenAI for what a status says.
pub fn openai_word(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 | 403 | 429 => word(status),
        400..=499 => "invalid_request_error",
        _ => "api_error",
    }
}

/// Its clients know two of these words; everything else is an error to them.
fn chat_word(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 | 403 | 429 => word(status),
        _ => "error",
    }
}

/// The answer with the time after which to ask again, in whole seconds.
pub(super) fn later(wait_ms: u64, answer: Response) -> Response {
    let wait = wait_ms.div_ceil(1000).max(1).to_string();
    ([(header::RETRY_AFTER, wait)], answer).into_response()
}

/// An answer in JSON.
pub fn json_answer(status: StatusCode, body: &Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json; charset=utf-8")];
    (status, kind, body.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_method_has_the_status_that_says_whose_fault_it_is() {
        for (error, status) in [
            (ErrorShape::invalid("x"), 400),
            (ErrorShape::denied("x"), 403),
            (ErrorShape::not_paired("x"), 403),
            (ErrorShape::not_found("x"), 404),
            (ErrorShape::unavailable("x").kind(ErrorKind::RateLimited), 429),
            (ErrorShape::unavailable("x"), 503),
            (ErrorShape::unavailable("x").kind(ErrorKind::Timeout), 504),
        ] {
            assert_eq!(status_of(&error).as_u16(), status, "{error:?}");
        }
        let passing = ErrorShape::unavailable("x").retry_after(1200);
        assert_eq!(Manner::Claude.of_error(&passing).headers()["retry-after"], "2");
    }
}
