//! `/v1/models`: the agents, as models.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;

use super::target::{DEFAULT, FAMILY};
use crate::http::{Asked, json_answer};
use crate::support::json;

/// All of them.
pub fn list(asked: &Asked<'_>) -> Response {
    let data: Vec<_> = names(asked).iter().map(|name| model(name)).collect();
    json_answer(StatusCode::OK, &json!({"object": "list", "data": data}))
}

/// One of them.
pub fn one(asked: &Asked<'_>) -> Response {
    let wanted = match asked.path.get("model") {
        "" => format!("{}/{}", asked.path.get("family"), asked.path.get("agent")),
        model => model.to_owned(),
    };
    if names(asked).contains(&wanted) {
        return json_answer(StatusCode::OK, &model(&wanted));
    }
    asked.manner.error(StatusCode::BAD_REQUEST, "Invalid model id.")
}

fn names(asked: &Asked<'_>) -> Vec<String> {
    let agents = &asked.gateway.services.settings.now().agents;
    let own = |id: &str| format!("{FAMILY}/{id}");
    let others = agents.list.iter().map(|agent| &agent.id).filter(|id| **id != agents.default_id);
    let ids = std::iter::once(&agents.default_id).chain(others);
    let first = [FAMILY.to_owned(), own(DEFAULT)];
    first.into_iter().chain(ids.map(|id| own(id))).collect()
}

fn model(id: &str) -> Value {
    json!({"id": id, "object": "model", "created": 0, "owned_by": FAMILY, "permission": []})
}
