//! `POST <hooks.path>/…`: other programs tell or ask an agent something.
//!
//! Owns: who may ask by which token, and what is answered. Promises: nothing of a
//! body is read before the token is known to be right, and each try is paid for
//! before that; what is answered well is on disk. Must not: log what somebody has
//! sent.

mod mapped;
mod policy;
mod sent;
mod wanted;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use crate::config::HooksSettings;
use crate::config::hooks::proves;
use crate::cron::HookError;
use crate::gateway::Gateway;
use crate::protocol::methods::cron::WakeMode;
use crate::registry::Services;
use crate::support::{json, strict_json};

use super::body::{self, Pace, Unread};
use super::caller::once;
use super::credential::bearer;
use super::manner::{json_answer, later};
use super::{Asked, not_found};
use sent::Sent;
use wanted::{Action, Asking};

const IN_QUERY: &str = "Hook token must be provided via Authorization: Bearer <token> or \
    X-OpenClaw-Token header (query parameters are not allowed).";
/// Somebody who is told that there is too much to do comes again after so long,
/// in milliseconds.
const BUSY_MS: u64 = 30_000;
/// The same while the gateway restarts.
const STOPPING_MS: u64 = 5_000;

/// Whether a path is that of hooks, or below it.
pub(super) fn has(gateway: &Gateway, path: &str) -> bool {
    let settings = gateway.services.settings.now();
    settings.hooks.enabled && below(&settings.hooks, path).is_some()
}

/// What stands behind the path of hooks, without slashes before it.
fn below<'a>(hooks: &HooksSettings, path: &'a str) -> Option<&'a str> {
    let rest = path.strip_prefix(hooks.path.as_str())?;
    (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/'))
}

pub(super) async fn answer(asked: Asked<'_>) -> Response {
    let Asked { gateway, wire, peer, parts, body, .. } = asked;
    let services = &gateway.services;
    let settings = services.settings.now();
    let hooks = &settings.hooks;
    let Some(path) = below(hooks, parts.uri.path()) else { return not_found() };
    let query = parts.uri.query().unwrap_or_default();
    if form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "token") {
        return text(StatusCode::BAD_REQUEST, IN_QUERY);
    }
    // Paid before anything is compared (GHSA-5m9r-p9g7-679c).
    let auth = gateway.auth.now();
    let paid = auth.pay_hook_token(peer).await;
    if prove(hooks, path, shown(&parts.headers)).is_none() {
        return match paid {
            Ok(_) => text(StatusCode::UNAUTHORIZED, "Unauthorized"),
            Err(wait_ms) => {
                later(wait_ms, text(StatusCode::TOO_MANY_REQUESTS, "Too Many Requests"))
            }
        };
    }
    match paid {
        Ok(paid) => paid.succeeded(),
        Err(_) => auth.forgive_hook_token(peer),
    }
    wire.trust();
    if path.is_empty() {
        return not_found();
    }
    let limit = hooks.max_body_bytes;
    let payload = match payload(&parts.headers, body, limit).await {
        Ok(payload) => payload,
        Err(refusal) => return refusal,
    };
    // The body may have come for long, and the token have been taken away meanwhile.
    let settings = services.settings.now();
    let hooks = &settings.hooks;
    let proven = prove(hooks, path, shown(&parts.headers)).filter(|_| hooks.enabled);
    let Some(proven) = proven else { return text(StatusCode::UNAUTHORIZED, "Unauthorized") };
    let now = crate::sessions::iso_time(services.clock.now_ms());
    let sent = Sent { payload: &payload, headers: &parts.headers, query, path, now: &now };
    match done(services, hooks, &sent, &proven).await {
        Some(Ok(answer)) => json_answer(StatusCode::OK, &answer),
        Some(Err(refusal)) => refusal.answer(),
        None => not_found(),
    }
}

/// The token that a request shows.
fn shown(headers: &HeaderMap) -> Option<&str> {
    bearer(headers).or_else(|| once(headers, "x-openclaw-token").filter(|it| !it.is_empty()))
}

/// Which mappings a request may use, if it may ask for its path at all. All
/// tokens are compared, whichever is right.
fn prove(hooks: &HooksSettings, path: &str, shown: Option<&str>) -> Option<Vec<bool>> {
    let is_right = |token| shown.is_some_and(|shown| proves(token, shown));
    let general = hooks.token.as_ref().is_some_and(is_right);
    let mappings = &hooks.mappings;
    let own = mappings.iter().map(|it| it.token.as_ref().map_or(general, is_right));
    let own: Vec<bool> = own.collect();
    let is_built_in = matches!(path, "" | "wake" | "agent");
    let meant: Vec<_> =
        mappings.iter().zip(&own).filter(|(it, _)| !is_built_in && it.has_path(path)).collect();
    let may = if meant.is_empty() { general } else { meant.iter().any(|(_, own)| **own) };
    may.then_some(own)
}

/// The body; what is no object and no list has nothing in it, as in the original.
async fn payload(
    headers: &HeaderMap,
    body: axum::body::Body,
    limit: u64,
) -> Result<Value, Response> {
    let bytes = body::read(headers, body, limit, Pace::Steady).await.map_err(unread)?;
    if bytes.is_empty() {
        return Ok(json!({}));
    }
    let value = strict_json(&bytes)
        .map_err(|error| Refusal::Wrong(format!("the body is no JSON: {error}")).answer())?;
    Ok(if value.is_object() || value.is_array() { value } else { json!({}) })
}

/// Why a request is not taken up.
enum Refusal {
    /// It is not as it has to be.
    Wrong(String),
    /// It is not kept.
    Unkept(HookError),
}

impl Refusal {
    fn answer(self) -> Response {
        let error = |text: &str| json!({"ok": false, "error": text});
        match self {
            Self::Wrong(text) => json_answer(StatusCode::BAD_REQUEST, &error(&text)),
            Self::Unkept(why) => {
                let (wait_ms, text) = match &why {
                    HookError::TooLong(_) => return Self::Wrong(why.to_string()).answer(),
                    HookError::Busy => (BUSY_MS, why.to_string()),
                    HookError::Stopping => (STOPPING_MS, why.to_string()),
                    HookError::Store(fault) => {
                        tracing::error!(error = %fault, "hook not kept");
                        (BUSY_MS, "it cannot be kept now; send it again later".to_owned())
                    }
                };
                later(wait_ms, json_answer(StatusCode::SERVICE_UNAVAILABLE, &error(&text)))
            }
        }
    }
}

/// Takes a request up. None where nothing is at its path.
async fn done(
    services: &Services,
    hooks: &HooksSettings,
    sent: &Sent<'_>,
    proven: &[bool],
) -> Option<Result<Value, Refusal>> {
    let read = |sent: &Sent<'_>| match sent.path {
        "wake" => Some(wanted::wake(sent.payload)),
        "agent" => Some(wanted::agent(sent.payload).map(Action::Ask)),
        _ => mapped::action(hooks, sent, proven),
    };
    let action = match read(sent)? {
        Ok(action) => action,
        Err(why) => return Some(Err(Refusal::Wrong(why))),
    };
    let key = match policy::idempotency_key(sent) {
        Ok(key) => key,
        Err(why) => return Some(Err(Refusal::Wrong(why))),
    };
    let claim = key.map(|key| {
        // The time is not part of what makes two requests the same.
        let timeless = read(&Sent { now: "", ..*sent });
        policy::claim(sent.path, &key, timeless.and_then(Result::ok).as_ref())
    });
    Some(match action {
        Action::Skip => Ok(json!({"ok": true, "skipped": true})),
        Action::Tell { text, mode } => tell(services, claim, &text, mode).await,
        Action::Ask(asking) => ask(services, hooks, claim, *asking).await,
    })
}

async fn tell(
    services: &Services,
    claim: Option<String>,
    text: &str,
    mode: WakeMode,
) -> Result<Value, Refusal> {
    let cron = &services.runs.parts().cron;
    cron.tell_by_hook(&services.runs, claim, text, mode).await.map_err(Refusal::Unkept)?;
    Ok(json!({"ok": true, "mode": mode}))
}

async fn ask(
    services: &Services,
    hooks: &HooksSettings,
    claim: Option<String>,
    asking: Asking,
) -> Result<Value, Refusal> {
    let settings = services.settings.now();
    let (keys, ids) = (services.keys.now(), &services.ids);
    let ask = policy::settle(hooks, &settings.agents, &keys, &**ids, asking);
    let ask = ask.map_err(Refusal::Wrong)?;
    let cron = &services.runs.parts().cron;
    let run_id = cron.ask_by_hook(&services.runs, claim, ask).await.map_err(Refusal::Unkept)?;
    Ok(json!({"ok": true, "runId": run_id}))
}

fn text(status: StatusCode, text: &'static str) -> Response {
    (status, text).into_response()
}

fn unread(why: Unread) -> Response {
    let text = match why {
        Unread::TooLarge => "payload too large",
        Unread::TooSlow => "request body timeout",
    };
    let answer = json_answer(why.status(), &json!({"ok": false, "error": text}));
    ([(header::CONNECTION, "close")], answer).into_response()
}
