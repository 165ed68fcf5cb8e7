//! Upgrades that are a dialect's: found by their path, let in before they are
//! such.
//!
//! Promises: somebody who is not let in gets an answer of HTTP in the words of the
//! dialect, and no WebSocket.

use std::sync::Arc;

use axum::http::request;
use axum::response::Response;

use crate::auth::{HttpCaller, Peer};
use crate::bus::Subscriber;
use crate::dialects;
use crate::gateway::{Footing, Gateway, Opened};
use crate::protocol::Scope;
use crate::registry::Ctx;
use crate::support::BoxFuture;

use super::asked::{cx_with, subscriber};
use super::caller::{foreign, let_in};
use super::manner::Manner;
use super::pattern::{PathValues, fit};
use super::query;

/// What somebody has to show before there is a WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketEntry {
    /// A proof that belongs to the route, which looks at it before all else; from
    /// any page.
    Signed,
    /// A credential, where clients of the API have it, of somebody who may do so
    /// much; from no page that is not allowed.
    Caller(Scope),
}

/// A path at which a dialect is spoken.
pub struct SocketRoute {
    /// The path; `:name` stands for any segment.
    pub path: &'static str,
    /// Who is let in.
    pub entry: SocketEntry,
    /// Looks whether there is what the path names. Nothing is joined or begun
    /// before the upgrade has succeeded.
    pub open: fn(OpenAsked) -> BoxFuture<'static, Result<Opened, Response>>,
}

/// Somebody who was let in asks for a connection.
pub struct OpenAsked {
    /// What every connection shares.
    pub gateway: Arc<Gateway>,
    /// The other side.
    pub peer: Peer,
    /// The head of the request.
    pub parts: request::Parts,
    /// What stands in its path where the route has names.
    pub path: PathValues,
    /// In which words it is refused.
    pub manner: Manner,
    /// Who asks; somebody without rights where the route asks for none.
    pub caller: HttpCaller,
}

impl OpenAsked {
    /// The decoded value of a name in the query, if it is there once.
    pub fn query(&self, name: &str) -> Option<String> {
        query::value(&self.parts.uri, name)
    }

    /// The connection as the bus sees it, and what calls in its name work with.
    /// `caps` are those that a client of the standard protocol would name.
    pub fn subscriber(&self, caps: &[String]) -> (Arc<Subscriber>, Ctx) {
        let services = &self.gateway.services;
        let subscriber = subscriber(services, &self.caller.principal, caps);
        let cx = cx_with(services, Arc::clone(&subscriber));
        (subscriber, cx)
    }
}

/// The connection that an upgrade asks for, and what it was let in with; `None`
/// when its path is no dialect's.
///
/// # Errors
/// The answer to an upgrade that is refused.
pub async fn upgrade(
    gateway: &Arc<Gateway>,
    peer: &Peer,
    parts: &request::Parts,
) -> Result<Option<(Opened, Footing)>, Response> {
    let uri_path = parts.uri.path();
    let of_table = |(dialect, path): (&'static dialects::Dialect, &str)| {
        dialect.sockets.iter().find_map(|route| Some((dialect, route, fit(route.path, path)?)))
    };
    let Some((dialect, route, path)) = dialects::at(gateway, uri_path).find_map(of_table) else {
        // Of a dialect that is not enabled there is nothing.
        let is_off = dialects::anywhere(gateway, uri_path).any(|it| of_table(it).is_some());
        return if is_off { Err(Manner::Recorded.not_found()) } else { Ok(None) };
    };
    let manner = dialect.manner;
    let (caller, footing) = match route.entry {
        SocketEntry::Signed => (HttpCaller::nobody(), Footing::new(gateway.auth.now(), None)),
        SocketEntry::Caller(scope) => {
            if let Some(refusal) = foreign(gateway, peer, manner) {
                return Err(refusal);
            }
            let_in(gateway, peer, parts, (scope, manner)).await?
        }
    };
    let (gateway, peer, parts) = (Arc::clone(gateway), peer.clone(), parts.clone());
    let asked = OpenAsked { gateway, peer, parts, path, manner, caller };
    let opened = (route.open)(asked).await?;
    Ok(Some((opened, footing)))
}
