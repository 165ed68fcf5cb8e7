//! Sessions that Claude Code itself has on this machine, in the same lists. They are
//! only read here: nobody talks in them, and their files stay as they are.

use std::io;

use axum::response::Response;
use serde_json::Value;

use super::find::not_found;
use super::who::Who;
use crate::dialects::claude::projects::{Head, ProjectSession, Projects, RawPage};
use crate::gateway::Gateway;
use crate::http::Manner;
use crate::registry::Services;
use crate::store::{OverviewFilter, OverviewPlace, SessionMarks, StoreError};
use crate::support::sort;

/// What is said to whoever wants to change one.
pub(in crate::dialects::claude) const READ_ONLY: &str = "This session is Claude Code's own: it can be read here, not changed \
                         or gone on with. Begin a new session instead.";

/// The key of the marks on one of them.
pub(super) fn key(id: &str) -> String {
    format!("claude-code:{id}")
}

/// Somebody has one before him. When that cannot be written down it is shown all
/// the same.
pub(in crate::dialects::claude) async fn mark_read(services: &Services, id: &str) {
    let store = &services.runs.parts().store;
    if let Err(error) = store.mark_session_read(&key(id), services.clock.now_ms()).await {
        tracing::warn!(%error, session = id, "not marked as read");
    }
}

/// Its place among all sessions. Nothing tells when a person was last in it, but
/// its file does when anybody was.
pub(super) fn place(head: &Head) -> OverviewPlace {
    OverviewPlace { user_at: head.modified_ms, session_id: head.id.clone() }
}

/// Those that a list is of, in its order, with their marks; how many there are on
/// all pages.
pub(super) async fn heads(
    gateway: &Gateway,
    filter: OverviewFilter,
) -> Result<Vec<(Head, SessionMarks)>, StoreError> {
    let Some(projects) = &gateway.projects else { return Ok(Vec::new()) };
    let mut heads = projects.heads().await.unwrap_or_else(|error| unread(&error));
    let keys = heads.iter().map(|head| key(&head.id)).collect();
    let marks = gateway.services.runs.parts().store.marks_of(keys).await?;
    let mut marks: std::collections::HashMap<_, _> = marks.into_iter().collect();
    sort::by_key(&mut heads, |head| std::cmp::Reverse(place(head)));
    let marked = heads.into_iter().map(|head| {
        let marks = marks.remove(&key(&head.id)).unwrap_or_default();
        (head, marks)
    });
    let is_wanted = |(head, marks): &(Head, SessionMarks)| match filter {
        OverviewFilter::All => true,
        OverviewFilter::Active => !marks.is_archived(&head.id),
        OverviewFilter::Archived => marks.is_archived(&head.id),
    };
    Ok(marked.filter(is_wanted).collect())
}

/// What there is to say of some; what has gone meanwhile is left out.
pub(super) async fn described(gateway: &Gateway, heads: Vec<Head>) -> Vec<ProjectSession> {
    let Some(projects) = gateway.projects.as_ref().filter(|_| !heads.is_empty()) else {
        return Vec::new();
    };
    projects.describe(heads).await.unwrap_or_else(|error| unread(&error))
}

/// The one with this id, and its marks.
///
/// # Errors
/// The answer when there is none.
pub(super) async fn found(
    gateway: &Gateway,
    manner: Manner,
    id: &str,
) -> Result<(ProjectSession, SessionMarks), Response> {
    let session = find(gateway, id).await.ok_or_else(|| not_found(manner))?;
    let marks = gateway.services.runs.parts().store.session_marks(&key(id)).await;
    Ok((session, marks.map_err(|error| super::find::unavailable(manner, &error))?))
}

async fn find(gateway: &Gateway, id: &str) -> Option<ProjectSession> {
    let found = gateway.projects.as_ref()?.find(id).await;
    found.unwrap_or_else(|error| unread(&error))
}

/// A page of one; `None` when it has no such page.
pub(super) async fn page(gateway: &Gateway, id: &str, page: usize) -> Option<RawPage> {
    let projects: &Projects = gateway.projects.as_ref()?;
    projects.page(id, page).await.unwrap_or_else(|error| unread(&error))
}

/// Its lines as values.
pub(super) fn lines(page: &RawPage) -> Vec<Value> {
    page.lines.iter().filter_map(|line| serde_json::from_str(&line.text).ok()).collect()
}

/// What is answered to whoever wants to change a session that is not ours: either
/// it is Claude Code's, or there is none.
pub(super) async fn refused(gateway: &Gateway, who: &Who, id: &str) -> Response {
    match find(gateway, id).await {
        Some(_) => who.bad(READ_ONLY),
        None => not_found(who.manner),
    }
}

fn unread<T: Default>(error: &io::Error) -> T {
    tracing::warn!(%error, "the sessions of Claude Code cannot be read");
    T::default()
}
