//! Paths of channels: services bring messages to them.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::channels::{Channels, HookAnswer, HookRefusal, HookRequest};
use crate::gateway::Gateway;

use super::Asked;
use super::body::{self, Pace, Unread};
use super::manner::later;

/// What is told while others send large bodies.
const BUSY: &str = "too many large requests are being read; send it again later";
/// After so long, in milliseconds: a body takes no longer.
const BUSY_MS: u64 = 10_000;

/// Most bytes of a request to a path; `None` when no channel has it.
pub(super) fn limit(gateway: &Gateway, path: &str) -> Option<u64> {
    channels(gateway).hook_limit(path)
}

fn channels(gateway: &Gateway) -> &Channels {
    &gateway.services.runs.parts().channels
}

pub(super) async fn answer(asked: Asked<'_>) -> Response {
    let Asked { gateway, wire, peer, parts, body, .. } = asked;
    let path = parts.uri.path();
    let limit = limit(gateway, path).unwrap_or_default();
    if body::is_said_too_large(&parts.headers, limit) {
        return unread(Unread::TooLarge, limit);
    }
    // Paid before anything is read or compared (GHSA-5m9r-p9g7-679c).
    let auth = gateway.auth.now();
    let Some(paid) = auth.pay_hook(peer).await else {
        return written(&HookAnswer::error(429, "too many requests that prove nothing"));
    };
    let headers = &parts.headers;
    let header = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
    let unproven = match channels(gateway).knows_hook(path, &header) {
        Some(true) => {
            paid.succeeded();
            wire.trust();
            None
        }
        Some(false) => return written(&HookAnswer::from(HookRefusal::Unauthorized)),
        None => {
            let bytes = body::said_length(headers).unwrap_or(limit);
            let Some(room) = gateway.unproven.take(auth.place_of(peer), bytes) else {
                return later(BUSY_MS, written(&HookAnswer::error(503, BUSY)));
            };
            wire.allow(bytes);
            Some((paid, room))
        }
    };
    let pace = if unproven.is_some() { Pace::Hasty } else { Pace::Steady };
    let body = match body::read(&parts.headers, body, limit, pace).await {
        Ok(body) => body,
        Err(why) => return unread(why, limit),
    };
    let answer = channels(gateway).hook(path, HookRequest { header: &header, body: &body }).await;
    if let Some((paid, _room)) = unproven
        && answer.is_known
    {
        paid.succeeded();
    }
    written(&answer)
}

fn written(answer: &HookAnswer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = [
        (header::CONTENT_TYPE, "application/json; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (status, headers, answer.body.to_string()).into_response()
}

/// What of a body was not read is not read any more.
fn unread(why: Unread, limit: u64) -> Response {
    let answer = HookAnswer::error(why.status().as_u16(), &why.message(limit));
    ([(header::CONNECTION, "close")], written(&answer)).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::config::channels::{OWN_FOLDERS, OWN_PATHS};
    use crate::http::page;
    use crate::http::routes::{Place, all_routes};

    #[test]
    fn no_path_of_a_channel_takes_a_path_of_the_gateway_away_and_all_others_may_be_its() {
        let mut paths = BTreeSet::from([page::PATH.trim_end_matches('/')]);
        let mut folders = BTreeSet::from([page::PATH]);
        for route in all_routes() {
            match route.place {
                Place::Path(path)
                | Place::Api(path)
                | Place::Like(path)
                | Place::PagePath(path)
                | Place::UiPath(path) => paths.insert(path),
                Place::UiFolder(path) | Place::Folder(path) => folders.insert(path),
                Place::Page | Place::Hooks | Place::Webhooks | Place::Ui => false,
            };
        }
        // Names in a path stand for anything.
        paths.retain(|path| !path.contains(':'));
        assert_eq!(paths, BTreeSet::from(OWN_PATHS));
        assert_eq!(folders, BTreeSet::from(OWN_FOLDERS));
    }
}
