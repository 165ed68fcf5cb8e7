//! What of a session somebody has seen. There is one person behind all clients of
//! this dialect, so it does not matter which of them looked.

use crate::agent::Change;
use crate::registry::Services;
use crate::sessions::SessionKey;
use crate::store::StoreError;

/// Somebody has a session before him: its results so far, and the permissions that
/// it asks for, are no news any more. Whoever watches sessions is told, if they were.
///
/// # Errors
/// When that cannot be written down.
pub async fn mark_read(services: &Services, key: &SessionKey) -> Result<(), StoreError> {
    let store = &services.runs.parts().store;
    if store.mark_session_read(key.as_str(), services.clock.now_ms()).await? {
        tell(services, key, "read").await?;
    }
    Ok(())
}

/// Tells whoever watches sessions that this was done to one.
///
/// # Errors
/// When it cannot be looked up.
pub(super) async fn tell(
    services: &Services,
    key: &SessionKey,
    reason: &str,
) -> Result<(), StoreError> {
    let entry = services.runs.parts().store.session(key.as_str()).await?;
    if entry.is_some() {
        let runs = services.runs.clone();
        drop(Change { runs, key: key.clone(), entry, reason: reason.into() });
    }
    Ok(())
}
