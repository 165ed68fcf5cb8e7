//! What its clients ask for by HTTP.

use std::future::ready;

use axum::http::Method;

use super::rest::{self, answered, guardrails, health, pages, sessions};
use super::{login, media};
use crate::http::{Entry, Place, Route};
use crate::protocol::Scope;

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
        place: Place::Api(media::PATH),
        methods: &[Method::GET],
        // An `<img>` has no header.
        entry: Entry::Ticket(Scope::Read),
        answer: |asked| {
            Box::pin(async move {
                match rest::shut(&asked) {
                    Some(shut) => shut,
                    None => media::answer(asked).await,
                }
            })
        },
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
