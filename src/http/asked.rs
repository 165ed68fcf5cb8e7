//! A request that has found its route, and what answers to one are made of.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header, request};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::auth::{HttpCaller, Peer, Principal};
use crate::bus::Subscriber;
use crate::gateway::{Footing, Gateway, Wire};
use crate::protocol::{Profile, Scope, Version};
use crate::registry::{Caller, Ctx, Reply, Services};
use crate::support::{json, strict_json};

use super::attending::Attending;
use super::body::Pace;
use super::manner::{Manner, json_answer};
use super::pattern::PathValues;
use super::query;
use super::{body, caller};

/// Which program a request is from; nobody says.
const CLIENT: &str = "http";

/// A request that has found its route.
pub struct Asked<'a> {
    /// What every request shares.
    pub gateway: &'a Arc<Gateway>,
    /// The connection.
    pub wire: &'a Wire,
    /// The other side.
    pub peer: &'a Peer,
    /// Its head.
    pub parts: &'a request::Parts,
    /// What stands in its path where the route has names.
    pub path: PathValues,
    /// In which words it is refused.
    pub manner: Manner,
    /// Who asks; somebody without rights where the route asks for none.
    pub caller: HttpCaller,
    /// What it was let in with.
    pub footing: Footing,
    /// Its body.
    pub body: Body,
    /// Cancelled when whoever asks has gone away before the answer.
    pub gone: CancellationToken,
}

impl Asked<'_> {
    /// The decoded value of a name in the query, if it is there once.
    pub fn query(&self, name: &str) -> Option<String> {
        query::value(&self.parts.uri, name)
    }

    /// Whether it shows a credential where clients of the API have it.
    pub fn has_credential(&self) -> bool {
        self.manner.credential(self.parts).is_some()
    }

    /// Who asks, by what the request itself shows, or else by this. For routes
    /// that are open; the others know their caller.
    ///
    /// # Errors
    /// The answer to somebody who is not let in.
    pub fn admit(
        &self,
        otherwise: Option<String>,
    ) -> impl Future<Output = Result<HttpCaller, Response>> + Send {
        let Self { gateway, peer, parts, manner, .. } = *self;
        let shown = manner.credential(parts).filter(|it| !it.is_ambient);
        let shown = shown.map(|it| it.text).or(otherwise);
        async move { caller::admitted(gateway, peer, &parts.headers, shown.as_deref(), manner).await }
    }

    /// Who asks, if he may do so much and his page may ask: for routes that take a
    /// ticket and were shown none.
    ///
    /// # Errors
    /// The answer to somebody who is not let in.
    pub fn let_in(
        &self,
        scope: Scope,
    ) -> impl Future<Output = Result<HttpCaller, Response>> + Send {
        let Self { gateway, wire, peer, parts, manner, .. } = *self;
        async move {
            if let Some(refusal) = caller::foreign(gateway, peer, manner) {
                return Err(refusal);
            }
            let (caller, _) = caller::let_in(gateway, peer, parts, (scope, manner)).await?;
            wire.trust();
            Ok(caller)
        }
    }

    /// What calls in the name of the caller work with. Of calls with one of these
    /// the second waits for the first, when both enter the lane of one session;
    /// so make one for each.
    pub fn cx(&self) -> Ctx {
        cx_of(&self.gateway.services, &self.caller.principal)
    }

    /// Calls a method in the name of the caller.
    ///
    /// # Errors
    /// Those of the method, in the words of the API.
    pub fn call<'p>(
        &self,
        method: &'p str,
        params: &'p Value,
    ) -> impl Future<Output = Result<Value, Response>> + Send + use<'p> {
        let (cx, manner) = (self.cx(), self.manner);
        async move {
            let reply: Reply<Value> = cx.call(method, params).await;
            reply.map_err(|error| manner.of_error(&error))
        }
    }

    /// The body, of at most `limit` bytes. There is nothing left of it then.
    ///
    /// # Errors
    /// The answer to a body that is too large or too slow.
    pub async fn bytes(&mut self, limit: u64) -> Result<Bytes, Response> {
        let (manner, headers) = (self.manner, &self.parts.headers);
        let (body, pace) = (std::mem::take(&mut self.body), Pace::of(self.caller.proof));
        let reading = body::read(headers, body, limit, pace);
        let read = if pace.may_be_long(headers) {
            let (attending, _cx) = self.attend().await;
            let read = attending.unless_cut(reading).await;
            read.ok_or_else(|| Attending::cut(manner))?
        } else {
            reading.await
        };
        read.map_err(|why| why.answer(manner, limit))
    }

    /// The body as JSON; an object without members where there is none.
    ///
    /// # Errors
    /// The answer to a body that is no JSON, says something twice, or is not to be
    /// had.
    pub async fn json(&mut self, limit: u64) -> Result<Value, Response> {
        let bytes = self.bytes(limit).await?;
        if bytes.is_empty() {
            return Ok(json!({}));
        }
        let invalid = |_| self.manner.error(StatusCode::BAD_REQUEST, "Invalid request body");
        strict_json(&bytes).map_err(invalid)
    }
}

/// What calls in the name of this caller work with. Nothing is told to it beside
/// its answers: it is in no list of those who are connected.
pub fn cx_of(services: &Arc<Services>, principal: &Principal) -> Ctx {
    cx_with(services, subscriber(services, principal, &[]))
}

/// A connection of this caller that has not joined the hub yet.
pub(super) fn subscriber(
    services: &Services,
    principal: &Principal,
    caps: &[String],
) -> Arc<Subscriber> {
    let conn_id = services.ids.uuid().into();
    Arc::new(Subscriber::new(conn_id, Arc::new(principal.clone()), caps))
}

/// What calls in the name of this connection work with.
pub fn cx_with(services: &Arc<Services>, subscriber: Arc<Subscriber>) -> Ctx {
    let caller = Caller {
        principal: Arc::clone(&subscriber.principal),
        subscriber,
        profile: Profile::Standard(Version::V3),
        client_id: CLIENT.into(),
        person: None,
        name: CLIENT.into(),
        place: None,
        is_webchat: false,
        is_dashboard: false,
        is_retrying: false,
        key_names: Arc::default(),
    };
    Ctx::new(Arc::clone(services), caller)
}

/// A good answer in JSON, which nobody keeps.
pub fn ok(body: &Value) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], json_answer(StatusCode::OK, body)).into_response()
}
