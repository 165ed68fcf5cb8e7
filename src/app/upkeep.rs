//! What goes away by itself.

use std::sync::Arc;
use std::time::Duration;

use crate::config::Settings;
use crate::registry::Services;
use crate::store::Store;
use crate::store::atomic::{self, Swept};
use crate::support::blocking;

/// How often it is looked for.
const PRUNE_EVERY: Duration = Duration::from_hours(1);

/// Removes what crashes have left half written, and records of ended runs.
pub(super) async fn prune(services: Arc<Services>) {
    loop {
        sweep(&services).await;
        tokio::time::sleep(PRUNE_EVERY).await;
        let parts = services.runs.parts();
        if let Err(error) = parts.store.prune_runs(services.clock.now_ms()).await {
            tracing::warn!(%error, "records of old runs not pruned");
        }
    }
}

/// Ends the links to sessions where the config says that there are none: whoever switches them
/// on again later does not want the old ones back. A file that is not there, or empty, says
/// nothing: it may be in a folder that is not mounted yet.
pub(super) async fn end_links(settings: &Settings, store: &dyn Store) {
    if settings.gateway.dialects.claude_share || settings.file.is_blank {
        return;
    }
    match store.revoke_all_shares().await {
        Ok(0) => {}
        Ok(ended) => tracing::info!(ended, "sharing is off: links to sessions are deleted"),
        Err(error) => {
            tracing::error!(%error, "links to sessions are not deleted; they work once sharing is on");
        }
    }
}

async fn sweep(services: &Services) {
    let folder = services.settings.now().paths.state_dir.clone();
    let now_ms = services.clock.now_ms();
    let Ok(Swept { removed, failed }) = blocking(move || atomic::sweep(&folder, now_ms)).await
    else {
        return;
    };
    if removed > 0 {
        tracing::info!(removed, "removed files that a crash left half written");
    }
    if let Some(error) = failed.first() {
        let others = failed.len().saturating_sub(1);
        tracing::warn!(%error, others, "files that a crash left half written may stay");
    }
}
