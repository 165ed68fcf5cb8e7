//! Asks who a request is.
//!
//! Promises: whoever is not let in learns it before anything of his body is
//! read; every try is paid for where logins pay.

use axum::http::{HeaderMap, request};
use axum::response::Response;

use crate::auth::origin::{self, Listing};
use crate::auth::{HttpCaller, HttpShown, Peer};
pub(super) use crate::gateway::once;
use crate::gateway::{Footing, Gateway, Wire};
use crate::protocol::Scope;

use super::credential::{bearer, is_meant};
use super::manner::Manner;

const UNMEANT: &str = "a cookie alone does not say which page asks";

/// Who asks, by the header alone, if he may read.
///
/// # Errors
/// The answer to somebody who may not.
pub(super) async fn reader(
    gateway: &Gateway,
    wire: &Wire,
    peer: &Peer,
    headers: &HeaderMap,
) -> Result<HttpCaller, Response> {
    let caller = admitted(gateway, peer, headers, bearer(headers), Manner::Recorded).await?;
    let caller = holder(caller, Scope::Read, Manner::Recorded)?;
    wire.trust();
    Ok(caller)
}

/// Who asks, by a credential where clients of this API have it, if he may do so
/// much.
///
/// # Errors
/// The answer to somebody who may not.
pub(crate) async fn let_in(
    gateway: &Gateway,
    peer: &Peer,
    parts: &request::Parts,
    (scope, manner): (Scope, Manner),
) -> Result<(HttpCaller, Footing), Response> {
    let auth = gateway.auth.now();
    let shown = manner.credential(parts);
    // All may be allowed, and then a page says nothing by being it.
    let is_anybody = origin::listing(peer, auth.pages()) == Some(Listing::ByStar);
    let is_known = peer.origin.is_some() && (!is_anybody || origin::is_own_page(peer));
    if shown.as_ref().is_some_and(|it| it.is_ambient) && !is_meant(is_known, parts) {
        return Err(manner.forbidden(UNMEANT));
    }
    let text = shown.as_ref().map(|it| it.text.as_str());
    let caller = admitted(gateway, peer, &parts.headers, text, manner).await?;
    let caller = holder(caller.of_peer(peer), scope, manner)?;
    let footing = Footing::new(auth, caller.standing.clone());
    Ok((caller, footing))
}

/// The answer to a page that may not ask, or not under the name that it uses.
pub(crate) fn foreign(gateway: &Gateway, peer: &Peer, manner: Manner) -> Option<Response> {
    let auth = gateway.auth.now();
    let checked = origin::check_request(peer, auth.pages(), auth.is_passed_on(peer));
    checked.err().map(|refusal| manner.foreign(&refusal.to_string()))
}

/// Who asks, by this credential.
///
/// # Errors
/// The answer to somebody who is not let in.
pub(super) async fn admitted(
    gateway: &Gateway,
    peer: &Peer,
    headers: &HeaderMap,
    credential: Option<&str>,
    manner: Manner,
) -> Result<HttpCaller, Response> {
    let wanted = wanted_scopes(headers);
    let shown = HttpShown { bearer: credential, scopes: wanted.as_deref() };
    let (auth, now) = (gateway.auth.now(), gateway.services.clock.now_ms());
    auth.admit_http(shown, peer, now).await.map_err(|refusal| manner.refused(refusal))
}

fn holder(caller: HttpCaller, scope: Scope, manner: Manner) -> Result<HttpCaller, Response> {
    if caller.principal.allows(scope) { Ok(caller) } else { Err(manner.lacks(scope)) }
}

/// What a request wants to have of what it is worth: what all lines of the header
/// name. Of a line that cannot be read nothing is wanted.
fn wanted_scopes(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all("x-openclaw-scopes").iter();
    let lines: Vec<_> = lines.map(|line| line.to_str().unwrap_or_default()).collect();
    (!lines.is_empty()).then(|| lines.join(","))
}
