//! `POST /api/auth/check`: whether a secret is the right one.

use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use crate::http::{Asked, ok};
use crate::support::json;

/// Most bytes of its body: a secret and its name.
const MOST_BYTES: u64 = 4096;

/// Always an answer with `authenticated`, and the time to wait for somebody who
/// has tried too often. What is shown with the request itself is looked at
/// first, then its body.
pub(super) async fn check(mut asked: Asked<'_>) -> Response {
    let in_body = if asked.has_credential() {
        None
    } else {
        let body = match asked.bytes(MOST_BYTES).await {
            Ok(body) => body,
            Err(refusal) => return refusal,
        };
        let body: Option<Value> = serde_json::from_slice(&body).ok();
        body.and_then(|body| Some(body["secret"].as_str()?.to_owned()))
    };
    match asked.admit(in_body).await {
        Ok(_) => ok(&json!({"authenticated": true})),
        Err(refusal) => {
            let answer = ok(&json!({"authenticated": false}));
            match refusal.headers().get(RETRY_AFTER) {
                Some(wait) => ([(RETRY_AFTER, wait.clone())], answer).into_response(),
                None => answer,
            }
        }
    }
}
