//! What can be asked for.

use axum::http::Method;

use super::{chat, embeddings, models, responses};
use crate::http::{Entry, Place, Route};
use crate::protocol::Scope;

/// Where conversations are.
pub const CHAT: &str = "/v1/chat/completions";
/// Where the newer form of them is.
pub const RESPONSES: &str = "/v1/responses";

/// The table.
pub static ROUTES: [Route; 6] = [
    Route {
        place: Place::Api("/v1/models"),
        methods: &[Method::GET],
        entry: Entry::Caller(Scope::Read),
        answer: |asked| Box::pin(std::future::ready(models::list(&asked))),
    },
    Route {
        place: Place::Api("/v1/models/:model"),
        methods: &[Method::GET],
        entry: Entry::Caller(Scope::Read),
        answer: |asked| Box::pin(std::future::ready(models::one(&asked))),
    },
    // Some clients leave the slash as it is.
    Route {
        place: Place::Api("/v1/models/:family/:agent"),
        methods: &[Method::GET],
        entry: Entry::Caller(Scope::Read),
        answer: |asked| Box::pin(std::future::ready(models::one(&asked))),
    },
    Route {
        place: Place::Api(CHAT),
        methods: &[Method::POST],
        entry: Entry::Caller(Scope::Write),
        answer: |asked| Box::pin(chat::answer(asked)),
    },
    Route {
        place: Place::Api(RESPONSES),
        methods: &[Method::POST],
        entry: Entry::Caller(Scope::Write),
        answer: |asked| Box::pin(responses::answer(asked)),
    },
    Route {
        place: Place::Api("/v1/embeddings"),
        methods: &[Method::POST],
        entry: Entry::Caller(Scope::Write),
        answer: |asked| Box::pin(embeddings::answer(asked)),
    },
];
