//! What its clients ask for by HTTP.

use std::future::ready;

use axum::http::Method;
use axum::response::Response;

use super::rest;
use crate::http::{Entry, Place, Route, ok};
use crate::protocol::Scope;
use crate::support::json;

const SESSIONS: &str = "/api/claude/sessions";
const SESSION: &str = "/api/claude/sessions/:id";

/// The answer, whichever it is.
fn either(answer: Result<Response, Response>) -> Response {
    answer.unwrap_or_else(|refusal| refusal)
}

macro_rules! route {
    ($method:ident $place:expr, $scope:ident, $answer:path) => {
        Route {
            place: Place::Api($place),
            methods: &[Method::$method],
            entry: Entry::Caller(Scope::$scope),
            answer: |asked| Box::pin(async { either($answer(asked).await) }),
        }
    };
}

/// The token in the path is the proof.
macro_rules! shared {
    ($place:expr, $answer:path) => {
        Route {
            place: Place::Api($place),
            methods: &[Method::GET],
            entry: Entry::Signed,
            answer: |asked| Box::pin(async { either($answer(asked).await) }),
        }
    };
}

/// The table.
pub static ROUTES: [Route; 16] = [
    // Its page shows nothing before it has heard that somebody is logged in with
    // the provider. Here that is the gateway's own business.
    Route {
        place: Place::Api("/api/claude/auth-status"),
        methods: &[Method::GET],
        entry: Entry::Public,
        answer: |_| Box::pin(ready(ok(&json!({"loggedIn": true})))),
    },
    route!(GET SESSIONS, Read, rest::every),
    route!(POST SESSIONS, Write, rest::create),
    route!(GET "/api/claude/sessions/all", Read, rest::all),
    route!(GET SESSION, Read, rest::one),
    route!(PATCH SESSION, Admin, rest::patch),
    route!(DELETE SESSION, Admin, rest::delete),
    route!(GET "/api/claude/sessions/:id/messages", Read, rest::messages),
    route!(POST "/api/claude/sessions/:id/deactivate", Write, rest::deactivate),
    route!(POST "/api/claude/sessions/:id/archive", Write, rest::archive),
    route!(POST "/api/claude/sessions/:id/unarchive", Write, rest::unarchive),
    route!(POST "/api/claude/sessions/:id/share", Admin, rest::share::create),
    route!(DELETE "/api/claude/sessions/:id/share", Admin, rest::share::revoke),
    shared!("/api/share/:token", rest::share::session),
    shared!("/api/share/:token/messages", rest::share::messages),
    Route {
        place: Place::Api("/api/notifications/stream"),
        methods: &[Method::GET],
        entry: Entry::Caller(Scope::Read),
        answer: |asked| Box::pin(rest::notifications::stream(asked)),
    },
];
