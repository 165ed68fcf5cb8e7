//! One session by its id.

use axum::http::StatusCode;
use axum::response::Response;

use crate::http::Manner;
use crate::registry::Services;
use crate::store::{OverviewQuery, OverviewRow, StoreError};

/// What is said where there is no such session.
pub const NOT_FOUND: &str = "Session not found";

/// The session whose current transcript has this id, with its marks.
///
/// # Errors
/// When the index cannot be read.
pub async fn by_id(services: &Services, id: &str) -> Result<Option<OverviewRow>, StoreError> {
    let store = &services.runs.parts().store;
    let Some(row) = store.session_by_id(id).await? else { return Ok(None) };
    let query = OverviewQuery { key: Some(row.key), limit: 1, ..OverviewQuery::default() };
    let found = store.session_overview(query).await?.rows.into_iter().next();
    // It may have got another transcript in between.
    Ok(found.filter(|found| found.row.entry.session_id == id))
}

/// The answer where there is no such session.
pub(super) fn not_found(manner: Manner) -> Response {
    manner.error(StatusCode::NOT_FOUND, NOT_FOUND)
}

/// The answer when the store fails; what it was is in the log.
pub(super) fn unavailable(manner: Manner, error: &StoreError) -> Response {
    tracing::error!(%error, "sessions cannot be looked up");
    manner.error(StatusCode::SERVICE_UNAVAILABLE, "The gateway cannot look up sessions now.")
}
