//! What clients of the action chat ask for by HTTP.
//!
//! Owns: the form of the answers. Promises: the same rights and the same data as by
//! methods; nothing is answered in lock down mode. Must not: change anything but by
//! methods and by what the slash commands do, too.

mod guardrails;
mod health;
mod history;
pub mod media;
mod pages;
mod sessions;

use std::future::ready;

use axum::http::{Method, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

use super::{lockdown, login};
use crate::http::{Asked, Entry, Place, Route, json_answer, ok};
use crate::protocol::{ErrorShape, Scope};
use crate::support::BoxFuture;

/// Most bytes of a body: a whole set of guardrails is some ten thousand.
const BODY_MAX: u64 = 1024 * 1024;

/// An answer, or why there is none.
type Answered = Result<Value, Failed>;

/// Why there is none.
enum Failed {
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
async fn answered<'a>(
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
fn shut(asked: &Asked<'_>) -> Option<Response> {
    let status = StatusCode::from_u16(lockdown::STATUS).unwrap_or(StatusCode::FORBIDDEN);
    lockdown::is_on(&asked.gateway.services.settings.now())
        .then(|| json_answer(status, &lockdown::body()))
}

macro_rules! line {
    ($method:ident $path:literal $scope:ident $answer:path) => {
        Route {
            place: Place::Api($path),
            methods: &[Method::$method],
            entry: Entry::Caller(Scope::$scope),
            answer: |asked| Box::pin(answered(asked, |asked| Box::pin($answer(asked)))),
        }
    };
}

/// The table.
pub static ROUTES: [Route; 30] = [
    Route {
        place: Place::Api("/api/auth/check"),
        methods: &[Method::POST],
        // From no page that is not allowed: it would be a way to try secrets.
        entry: Entry::Open,
        answer: |asked| Box::pin(login::check(asked)),
    },
    Route {
        place: Place::Api("/health"),
        methods: &[Method::GET],
        entry: Entry::Public,
        answer: |asked| Box::pin(ready(health::answer(&asked))),
    },
    Route {
        place: Place::Api("/api/media/:file"),
        methods: &[Method::GET],
        entry: Entry::Caller(Scope::Read),
        answer: |asked| Box::pin(media::answer(asked)),
    },
    line!(GET "/api/chat/suggestions" Read pages::suggestions),
    line!(GET "/api/chat/models" Read pages::models),
    line!(GET "/api/models" Read pages::models),
    line!(GET "/api/setup/status" Read pages::setup),
    line!(GET "/api/profile" Read pages::profile),
    line!(GET "/api/skills" Read pages::skills),
    line!(GET "/api/sessions" Read sessions::list),
    line!(DELETE "/api/sessions" Admin sessions::delete_all),
    line!(GET "/api/sessions/stats" Read sessions::stats),
    line!(GET "/api/sessions/policy" Read sessions::policy),
    line!(PUT "/api/sessions/policy" Admin sessions::set_policy),
    line!(GET "/api/sessions/:id" Read sessions::get),
    line!(DELETE "/api/sessions/:id" Admin sessions::delete),
    line!(GET "/api/guardrails/config" Read guardrails::config),
    line!(PUT "/api/guardrails/config" Admin guardrails::set_config),
    line!(GET "/api/guardrails/rules" Read guardrails::rules),
    line!(POST "/api/guardrails/rules" Admin guardrails::add_rule),
    line!(PUT "/api/guardrails/rules/:id" Admin guardrails::update_rule),
    line!(DELETE "/api/guardrails/rules/:id" Admin guardrails::delete_rule),
    line!(PUT "/api/guardrails/policies/:ctx/:tool" Admin guardrails::set_policy),
    line!(PUT "/api/guardrails/model-policies/:model/:ctx/:tool" Admin guardrails::set_model_policy),
    line!(GET "/api/guardrails/contexts" Read guardrails::contexts),
    line!(GET "/api/guardrails/tools" Read guardrails::tools),
    line!(GET "/api/guardrails/inventory" Read guardrails::inventory),
    line!(GET "/api/guardrails/presets" Read guardrails::presets),
    line!(POST "/api/guardrails/presets/:id" Admin guardrails::apply_preset),
    line!(POST "/api/guardrails/set-all" Admin guardrails::set_all),
];

/// A good answer without more to say.
fn done() -> Value {
    json!({"status": "ok"})
}
