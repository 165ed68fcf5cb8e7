//! Who asks for a change, and of which session.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;

use super::find::{by_id, unavailable};
use super::theirs;
use crate::auth::Principal;
use crate::gateway::Gateway;
use crate::http::{Asked, Manner, cx_of};
use crate::registry::{Reply, Services};
use crate::store::OverviewRow;

/// A request without its body.
pub(super) struct Who {
    pub gateway: Arc<Gateway>,
    pub services: Arc<Services>,
    pub manner: Manner,
    principal: Principal,
    id: String,
}

impl Who {
    pub(super) fn of(asked: &Asked<'_>) -> Self {
        Self {
            gateway: Arc::clone(asked.gateway),
            services: Arc::clone(&asked.gateway.services),
            manner: asked.manner,
            principal: asked.caller.principal.clone(),
            id: asked.path.get("id").to_owned(),
        }
    }

    /// The session that the path names, which must be ours.
    pub(super) async fn session(&self) -> Result<OverviewRow, Response> {
        self.own(&self.id).await
    }

    /// The session with this id, which must be ours.
    pub(super) async fn own(&self, id: &str) -> Result<OverviewRow, Response> {
        let found = by_id(&self.services, id).await;
        match found.map_err(|error| unavailable(self.manner, &error))? {
            Some(listed) => Ok(listed),
            None => Err(theirs::refused(&self.gateway, self, id).await),
        }
    }

    /// Key of the marks on the session that the path names, and its id.
    pub(super) async fn marked(&self) -> Result<(String, String), Response> {
        let found = by_id(&self.services, &self.id).await;
        if let Some(listed) = found.map_err(|error| unavailable(self.manner, &error))? {
            return Ok((listed.row.key, self.id.clone()));
        }
        let (session, _) = theirs::found(&self.gateway, self.manner, &self.id).await?;
        Ok((theirs::key(&session.id), session.id))
    }

    /// Calls a method in the caller's name.
    pub(super) async fn call(&self, method: &str, params: &Value) -> Result<Value, Response> {
        let reply = self.reply(method, params).await;
        reply.map_err(|error| self.manner.of_error(&error))
    }

    /// The same, with what the method itself says of it.
    pub(super) async fn reply(&self, method: &str, params: &Value) -> Reply<Value> {
        cx_of(&self.services, &self.principal).call(method, params).await
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
