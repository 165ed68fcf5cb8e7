//! The agents behind the API of OpenAI, as the original offers it.
//!
//! Owns: the paths below `/v1`, and what is made of their requests and of runs.
//! Promises: an agent answers with its own tools, under the rights of whoever
//! asks; who goes away before the end stops his run; a failure is never an empty
//! answer. Must not: run an agent in a way of its own, or keep a conversation.

mod chat;
mod embeddings;
mod fetch;
mod form;
mod models;
mod outcome;
mod read;
mod responses;
mod routes;
mod said;
mod sse;
mod target;
mod tools;
mod waiting;
mod words;

use crate::dialects::Dialect;
use crate::gateway::Gateway;

use super::Manner;

/// Its tables.
pub static DIALECT: Dialect =
    Dialect { name: "openai", manner: Manner::OpenAi, routes: &routes::ROUTES, sockets: &[] };

/// Whether what is at a path is enabled. What is not does not exist.
pub(crate) fn has(gateway: &Gateway, path: &str) -> bool {
    let settings = gateway.services.settings.now();
    let http = &settings.gateway.http;
    match path {
        routes::CHAT => http.chat_completions.enabled,
        routes::RESPONSES => http.responses.enabled,
        _ => http.any(),
    }
}
