//! Links by which whoever has one reads one session, and nothing else.
//!
//! Promises: a token is 256 random bits and is kept as its hash; a try is paid for
//! before it is looked up; what is revoked, unknown or switched off is not there.
//! Must not: show where anything is on this machine, beyond what was said.

use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::find::{by_id, unavailable};
use super::list::shown;
use super::messages::{answer, page_of, wanted};
use super::read_state::tell;
use super::who::Who;
use crate::auth::Peer;
use crate::auth::pairing::hash;
use crate::gateway::Gateway;
use crate::http::{Asked, Manner, ok};
use crate::sessions::SessionKey;
use crate::store::{OverviewRow, SessionShare};
use crate::support::{Secret, json};

/// Bytes of a token.
const TOKEN_BYTES: usize = 32;
const NOT_FOUND: &str = "Share not found";
const OFF: &str = "Sharing is off. An administrator turns it on with \
                   gateway.dialects.claude.share in the configuration.";
const TOO_MANY: &str = "Too many unknown links were tried. Please try again later.";

type Answer = Result<Response, Response>;

/// `POST /api/claude/sessions/:id/share`: a new link.
pub(in crate::dialects::claude) async fn create(asked: Asked<'_>) -> Answer {
    let who = Who::of(&asked);
    let listed = who.session().await?;
    if !is_on(asked.gateway) {
        return Err(who.manner.forbidden(OFF));
    }
    let mut bytes = [0; TOKEN_BYTES];
    if let Err(error) = getrandom::fill(&mut bytes) {
        tracing::error!(%error, "no token for a link");
        let why = "This machine gives no random numbers now.";
        return Err(who.manner.error(StatusCode::SERVICE_UNAVAILABLE, why));
    }
    let token = URL_SAFE_NO_PAD.encode(bytes);
    let session_id = listed.row.entry.session_id.clone();
    let share = SessionShare { token_hash: hash(&token), session_id };
    let services = &who.services;
    let added = services.runs.parts().store.add_share(share, services.clock.now_ms()).await;
    added.map_err(|error| unavailable(who.manner, &error))?;
    // The oldest may have given way.
    who.gateway.claude.look_at_links(&who.gateway, &listed.row.entry.session_id).await;
    changed(&who, &listed).await;
    Ok(ok(&json!({"shareToken": token, "shareUrl": format!("/api/share/{token}")})))
}

/// `DELETE /api/claude/sessions/:id/share`: no link to it works any more.
pub(in crate::dialects::claude) async fn revoke(asked: Asked<'_>) -> Answer {
    let who = Who::of(&asked);
    let listed = who.session().await?;
    let store = &who.services.runs.parts().store;
    let revoked = store.revoke_shares(&listed.row.entry.session_id).await;
    revoked.map_err(|error| unavailable(who.manner, &error))?;
    who.gateway.claude.look_at_links(&who.gateway, &listed.row.entry.session_id).await;
    changed(&who, &listed).await;
    Ok(ok(&json!({"success": true})))
}

async fn changed(who: &Who, listed: &OverviewRow) {
    let key = SessionKey::from_canonical(listed.row.key.as_str());
    if let Err(error) = tell(&who.services, &key, "share").await {
        tracing::warn!(%error, session = %key, "nobody was told of a change");
    }
}

/// `GET /api/share/:token`: what the session is.
pub(in crate::dialects::claude) async fn session(asked: Asked<'_>) -> Answer {
    let listed = find(asked.gateway, asked.peer, asked.manner, asked.path.get("token")).await?;
    let line = shown(&asked.gateway.services, listed);
    // No folder, no branch, no mode: that is the owner's business.
    Ok(ok(&json!({
        "sessionId": line.id,
        "title": line.title,
        "createdAt": line.created_at,
        "lastActivity": line.last_activity,
        "lastUserActivity": line.user_at,
        "messageCount": line.message_count,
        "readOnly": true,
    })))
}

/// `GET /api/share/:token/messages?page=N`.
pub(in crate::dialects::claude) async fn messages(asked: Asked<'_>) -> Answer {
    let listed = find(asked.gateway, asked.peer, asked.manner, asked.path.get("token")).await?;
    let (gateway, manner) = (asked.gateway, asked.manner);
    let page = wanted(&asked)?;
    let told = page_of(&gateway.services, &gateway.histories, &listed.row, page).await;
    let told = told.map(|page| {
        page.map(|mut page| {
            page.lines.iter_mut().for_each(|line| without_places(&mut line.value));
            page
        })
    });
    answer(manner, &listed.row.entry.session_id, page, told)
}

/// Takes out of a line or a frame where the session works.
pub fn without_places(line: &mut Value) {
    let Value::Object(members) = line else { return };
    for (name, instead) in [("cwd", ""), ("gitBranch", "HEAD")] {
        if let Some(place) = members.get_mut(name) {
            *place = json!(instead);
        }
    }
}

/// A link that somebody came by.
pub struct Link {
    /// The hash of its token.
    hash: Secret,
    /// The transcript that it shows.
    pub session_id: String,
}

/// Whether a link that held still does.
pub async fn holds(gateway: &Gateway, link: &Link) -> bool {
    let store = &gateway.services.runs.parts().store;
    // What cannot be looked up is not shown.
    let found = store.share(link.hash.expose()).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a link cannot be looked up");
        None
    });
    is_on(gateway) && found.is_some_and(|share| link.hash.matches(&share.token_hash))
}

async fn find(
    gateway: &Gateway,
    peer: &Peer,
    manner: Manner,
    token: &str,
) -> Result<OverviewRow, Response> {
    find_link(gateway, peer, manner, token).await.map(|(listed, _)| listed)
}

/// The session that a link shows, and the link.
///
/// # Errors
/// The answer to somebody who has none, or has tried too often.
pub async fn find_link(
    gateway: &Gateway,
    peer: &Peer,
    manner: Manner,
    token: &str,
) -> Result<(OverviewRow, Link), Response> {
    let none = || manner.error(StatusCode::NOT_FOUND, NOT_FOUND);
    if !is_on(gateway) {
        return Err(none());
    }
    let services = &gateway.services;
    let auth = gateway.auth.now();
    // Paid before anything is compared (GHSA-5m9r-p9g7-679c).
    let Some(paid) = auth.pay_hook(peer).await else {
        return Err(manner.error(StatusCode::TOO_MANY_REQUESTS, TOO_MANY));
    };
    let hash = Secret::new(hash(token));
    let found = services.runs.parts().store.share(hash.expose()).await;
    let found = found.map_err(|error| unavailable(manner, &error))?;
    let share = found.filter(|share| hash.matches(&share.token_hash)).ok_or_else(none)?;
    paid.succeeded();
    let listed = by_id(services, &share.session_id).await;
    let listed = listed.map_err(|error| unavailable(manner, &error))?.ok_or_else(none)?;
    Ok((listed, Link { hash, session_id: share.session_id }))
}

fn is_on(gateway: &Gateway) -> bool {
    gateway.services.settings.now().gateway.dialects.claude_share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_shown_to_others_does_not_say_where_it_was_written() {
        let mut line = json!({"type": "user", "cwd": "/home/me", "gitBranch": "secret",
            "message": {"content": "in /tmp"}});
        without_places(&mut line);
        let expected = json!({"type": "user", "cwd": "", "gitBranch": "HEAD",
            "message": {"content": "in /tmp"}});
        assert_eq!(line, expected);
    }
}
