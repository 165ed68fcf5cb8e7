//! Who asks for a change, and of which session.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;

use super::find::found;
use crate::auth::Principal;
use crate::http::{Asked, Manner, cx_of};
use crate::registry::{Reply, Services};
use crate::store::OverviewRow;

/// A request without its body.
pub(super) struct Who {
    pub services: Arc<Services>,
    pub manner: Manner,
    principal: Principal,
    id: String,
}

impl Who {
    pub(super) fn of(asked: &Asked<'_>) -> Self {
        Self {
            services: Arc::clone(&asked.gateway.services),
            manner: asked.manner,
            principal: asked.caller.principal.clone(),
            id: asked.path.get("id").to_owned(),
        }
    }

    /// The session that the path names.
    pub(super) async fn session(&self) -> Result<OverviewRow, Response> {
        found(&self.services, self.manner, &self.id).await
    }

    /// Calls a method in the caller's name.
    pub(super) async fn call(&self, method: &str, params: &Value) -> Result<Value, Response> {
        let reply = cx_of(&self.services, &self.principal).call(method, params).await;
        reply.map_err(|error| self.manner.of_error(&error))
    }

    /// Whether the caller may call a method.
    pub(super) fn check(&self, method: &str) -> Result<(), Response> {
        let reply: Reply<()> = cx_of(&self.services, &self.principal).check(method);
        reply.map_err(|error| self.manner.of_error(&error))
    }

    /// The answer to a request that makes no sense.
    pub(super) fn bad(&self, why: &str) -> Response {
        self.manner.error(StatusCode::BAD_REQUEST, why)
    }
}
