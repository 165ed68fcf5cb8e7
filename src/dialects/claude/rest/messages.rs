//! `GET /api/claude/sessions/:id/messages?page=N`.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;

use super::find::{by_id, unavailable};
use super::theirs;
use crate::dialects::claude::format::strip;
use crate::dialects::claude::history::{Histories, Page, facts};
use crate::gateway::Gateway;
use crate::http::{Asked, Manner, ok};
use crate::registry::Services;
use crate::sessions::{SessionError, SessionKey};
use crate::store::SessionRow;
use crate::support::json;

const NO_PAGE: &str = "page parameter is required";
const OUT_OF_RANGE: &str = "page out of range";

/// A page of what was said.
pub(in crate::dialects::claude) async fn messages(asked: Asked<'_>) -> Result<Response, Response> {
    let (gateway, manner) = (asked.gateway, asked.manner);
    let page = wanted(&asked)?;
    let id = asked.path.get("id");
    let found = by_id(&gateway.services, id).await;
    let Some(listed) = found.map_err(|error| unavailable(manner, &error))? else {
        return theirs_page(gateway, manner, id, page).await;
    };
    let told = page_of(&gateway.services, &gateway.histories, &listed.row, page).await;
    answer(manner, &listed.row.entry.session_id, page, told)
}

async fn theirs_page(
    gateway: &Gateway,
    manner: Manner,
    id: &str,
    page: usize,
) -> Result<Response, Response> {
    let (session, _) = theirs::found(gateway, manner, id).await?;
    let told = theirs::page(gateway, &session.id, page).await;
    let told = told.ok_or_else(|| manner.error(StatusCode::NOT_FOUND, OUT_OF_RANGE))?;
    let messages = theirs::lines(&told);
    Ok(written(&session.id, page, (told.total, told.is_sealed), &messages))
}

/// The number of the page that is asked for.
pub(super) fn wanted(asked: &Asked<'_>) -> Result<usize, Response> {
    let bad = || asked.manner.error(StatusCode::BAD_REQUEST, NO_PAGE);
    asked.query("page").and_then(|page| page.parse().ok()).ok_or_else(bad)
}

/// A page; `None` when there is no such page.
pub(super) async fn page_of(
    services: &Services,
    histories: &Histories,
    row: &SessionRow,
    page: usize,
) -> Result<Option<Page>, SessionError> {
    let key = SessionKey::from_canonical(row.key.as_str());
    let of = (&key, &row.entry);
    let workspace = services.runs.parts().agent_of(&key).workspace;
    let mut facts = facts(&services.sessions, of, workspace).await?;
    if let Some(mode) = &row.entry.permission_mode {
        facts.permission_mode.clone_from(mode);
    }
    histories.page(&services.sessions, of, Arc::new(facts), page).await
}

/// What is answered with a page.
pub(super) fn answer(
    manner: Manner,
    session_id: &str,
    page: usize,
    told: Result<Option<Page>, SessionError>,
) -> Result<Response, Response> {
    let told = told.map_err(|error| {
        tracing::error!(%error, session = session_id, "a page of a session cannot be read");
        manner.error(StatusCode::SERVICE_UNAVAILABLE, "The gateway cannot read the session now.")
    })?;
    let told = told.ok_or_else(|| manner.error(StatusCode::NOT_FOUND, OUT_OF_RANGE))?;
    let messages: Vec<Value> = told.lines.into_iter().map(|line| stripped(line.value)).collect();
    Ok(written(session_id, page, (told.total, told.is_sealed), &messages))
}

fn written(id: &str, page: usize, (total, sealed): (usize, bool), messages: &[Value]) -> Response {
    ok(&json!({
        "sessionId": id,
        "page": page,
        "totalPages": total,
        "messages": messages,
        "sealed": sealed,
    }))
}

fn stripped(mut line: Value) -> Value {
    strip(&mut line);
    line
}
