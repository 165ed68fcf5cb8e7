//! Asks who a request is, and says no in the recorded words.

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::auth::{HttpCaller, HttpRefusal, HttpShown, Peer};
use crate::gateway::Gateway;
use crate::protocol::Scope;

/// Who asks.
///
/// # Errors
/// The answer to somebody who is not let in.
pub(super) async fn caller(
    gateway: &Gateway,
    peer: &Peer,
    headers: &HeaderMap,
) -> Result<HttpCaller, Response> {
    let shown = HttpShown { bearer: bearer(headers), scopes: once(headers, "x-openclaw-scopes") };
    let (auth, now) = (gateway.auth.now(), gateway.services.clock.now_ms());
    auth.admit_http(shown, peer, now).await.map_err(refused)
}

/// Who asks, if he may read.
///
/// # Errors
/// The answer to somebody who may not.
pub(super) async fn reader(
    gateway: &Gateway,
    peer: &Peer,
    headers: &HeaderMap,
) -> Result<HttpCaller, Response> {
    let caller = caller(gateway, peer, headers).await?;
    if caller.principal.allows(Scope::Read) {
        return Ok(caller);
    }
    let message = format!("missing scope: {}", Scope::Read.as_str());
    Err(forbidden(&message))
}

/// The answer to somebody who may not do this.
pub(super) fn forbidden(message: &str) -> Response {
    let error = json!({"ok": false, "error": {"type": "forbidden", "message": message}});
    json_answer(StatusCode::FORBIDDEN, &error)
}

fn refused(refusal: HttpRefusal) -> Response {
    let error = |kind: &str, message: &str| json!({"error": {"message": message, "type": kind}});
    match refusal {
        HttpRefusal::Unauthorized => {
            json_answer(StatusCode::UNAUTHORIZED, &error("unauthorized", "Unauthorized"))
        }
        HttpRefusal::Locked { wait_ms } => {
            let message = "Too many failed authentication attempts. Please try again later.";
            let error = error("rate_limited", message);
            let wait = wait_ms.div_ceil(1000).max(1).to_string();
            let answer = json_answer(StatusCode::TOO_MANY_REQUESTS, &error);
            ([(header::RETRY_AFTER, wait)], answer).into_response()
        }
        HttpRefusal::Unavailable(why) => {
            tracing::error!(error = why.message, "a request cannot be looked at");
            let error = error("unavailable", "The gateway cannot look up devices now.");
            json_answer(StatusCode::SERVICE_UNAVAILABLE, &error)
        }
    }
}

/// An answer in JSON.
pub(super) fn json_answer(status: StatusCode, body: &Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json; charset=utf-8")];
    (status, kind, body.to_string()).into_response()
}

/// What stands behind `Bearer`, if there is one such header.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = once(headers, header::AUTHORIZATION.as_str())?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// The value of a header that is there once.
pub(super) fn once<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut lines = headers.get_all(name).iter();
    let value = lines.next()?.to_str().ok()?.trim();
    lines.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn a_bearer_is_one_and_is_one_whole_word_of_the_header() {
        let of = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::AUTHORIZATION, HeaderValue::from_static(line));
            }
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(of(&["Bearer abc"]).as_deref(), Some("abc"));
        assert_eq!(of(&["bearer   a b "]).as_deref(), Some("a b"));
        for none in [&["Basic abc"][..], &["Bearer"], &["Bearer  "], &["Bearer a", "Bearer b"], &[]]
        {
            assert_eq!(of(none), None, "{none:?}");
        }
    }
}
