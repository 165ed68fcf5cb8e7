//! What pages of other origins may do with the API (Fetch, §3.2).
//!
//! Promises: the browser lets a page read an answer only when
//! `gateway.controlUi.allowedOrigins` has the page's origin. To be answered at all
//! is another matter, see [`super::caller::foreign`]. Must not: let anybody in.

use axum::http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HeaderName, HeaderValue, VARY,
};
use axum::http::{Method, StatusCode, request};
use axum::response::{IntoResponse, Response};

use crate::auth::{Peer, origin};
use crate::gateway::Gateway;

use super::routes::{Found, Place};

/// Headers that a page may send, beside those with one of [`ITS_FAMILIES`].
const ITS_HEADERS: [&str; 19] = [
    "accept",
    "authorization",
    "cache-control",
    "content-digest",
    "content-type",
    "idempotency-key",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "last-event-id",
    "openai-beta",
    "openai-organization",
    "openai-project",
    "range",
    "traceparent",
    "tracestate",
    "user-agent",
    "x-request-id",
];
/// Beginnings of others: those of the original, and those that the clients of
/// OpenAI add.
const ITS_FAMILIES: [&str; 2] = ["x-openclaw-", "x-stainless-"];
/// What a page may read of the head of an answer, beside what it always may.
const SHOWN: &str = "accept-ranges, allow, content-disposition, content-range, etag, location, \
    retry-after, x-request-id";
/// Seconds for which a browser need not ask again: a change of the list counts
/// after that at the latest. They forget it after two hours anyway.
const KEPT: &str = "600";
/// A page out of the internet asks whether it may reach this machine (Private
/// Network Access, §3.1).
const REQUEST_PRIVATE: &str = "access-control-request-private-network";
const ALLOW_PRIVATE: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// What a request's page may do with the answer.
#[derive(Debug)]
pub(super) struct Cors {
    /// The page that may read it.
    page: Option<Page>,
    /// Whether another page would have another answer.
    varies: bool,
}

#[derive(Debug)]
struct Page {
    origin: HeaderValue,
    /// Whether its browser may add the cookies of its user.
    has_cookies: bool,
}

impl Cors {
    /// What the page of this request may do with what was found.
    pub fn of(gateway: &Gateway, peer: &Peer, found: &Found) -> Self {
        if !found.place().is_none_or(is_for_programs) {
            return Self { page: None, varies: false };
        }
        let auth = gateway.auth.now();
        let pages = auth.pages();
        let may_ask = || origin::check_request(peer, pages, auth.is_passed_on(peer)).is_ok();
        let page = origin::listing(peer, pages).filter(|_| may_ask()).and_then(|listing| {
            let origin = HeaderValue::from_str(peer.origin.as_deref()?).ok()?;
            // Whose page it is was said by nobody who allows all.
            let is_named = listing == origin::Listing::ByName;
            Some(Page { origin, has_cookies: is_named && found.manner().has_cookie() })
        });
        Self { page, varies: !pages.allowed_origins.is_empty() }
    }

    /// The answer to a browser that asks what the page may send; none when it does
    /// not ask, or for a page or a path of which there is nothing to say. There is
    /// no credential in such a request.
    pub fn preflight(&self, parts: &request::Parts, found: &Found) -> Option<Response> {
        self.page.as_ref()?;
        let Found::OtherMethods { allowed, .. } = found else { return None };
        let headers = &parts.headers;
        let is_asked = headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        if parts.method != Method::OPTIONS || !is_asked {
            return None;
        }
        let mut answer = StatusCode::NO_CONTENT.into_response();
        let told = answer.headers_mut();
        told.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_str(allowed).ok()?);
        let asked = headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter();
        let names = asked.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
        let names: Vec<_> = names.map(str::trim).filter(|name| may_send(name)).collect();
        if !names.is_empty() {
            told.insert(
                ACCESS_CONTROL_ALLOW_HEADERS,
                HeaderValue::from_str(&names.join(", ")).ok()?,
            );
        }
        told.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(KEPT));
        if headers.get(REQUEST_PRIVATE).is_some_and(|it| it == "true") {
            told.insert(ALLOW_PRIVATE, HeaderValue::from_static("true"));
        }
        Some(answer)
    }

    /// The answer, for its page to read.
    pub fn marked(self, mut answer: Response) -> Response {
        let headers = answer.headers_mut();
        if self.varies {
            headers.append(VARY, HeaderValue::from_static("origin"));
        }
        let Some(page) = self.page else { return answer };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, page.origin);
        if page.has_cookies {
            headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        }
        if !headers.contains_key(ACCESS_CONTROL_ALLOW_METHODS) {
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(SHOWN));
        }
        answer
    }
}

/// Whether what is at a place is for programs. Pages are for people, and services
/// that bring messages are no pages.
fn is_for_programs(place: Place) -> bool {
    match place {
        Place::Path(path) => path != "/",
        Place::Api(_)
        | Place::Like(_)
        | Place::PagePath(_)
        | Place::UiPath(_)
        | Place::UiFolder(_)
        | Place::Folder(_) => true,
        _ => false,
    }
}

fn may_send(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_name = name.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it));
    is_name
        && (ITS_HEADERS.contains(&name.as_str())
            || ITS_FAMILIES.iter().any(|family| name.starts_with(family)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_may_send_what_clients_send_and_nothing_that_names_somebody() {
        for name in ["Authorization", "x-openclaw-session-key", "X-Stainless-OS", "traceparent"] {
            assert!(may_send(name), "{name}");
        }
        for name in ["", "*", "x-forwarded-for", "x-real-ip", "tailscale-user-login", "cookie"] {
            assert!(!may_send(name), "{name}");
        }
        assert!(!may_send("x-openclaw-a b") && !may_send("x-openclaw-\u{e4}"));
    }

    #[test]
    fn pages_for_people_are_not_shared() {
        assert!(is_for_programs(Place::Api("/v1/models")));
        assert!(is_for_programs(Place::Path("/health")));
        for place in [Place::Path("/"), Place::Page, Place::Hooks, Place::Ui] {
            assert!(!is_for_programs(place), "{place:?}");
        }
    }
}
