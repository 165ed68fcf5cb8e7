//! What goes away by itself.

use std::sync::Arc;
use std::time::Duration;

use crate::registry::Services;
use crate::store::atomic;
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

async fn sweep(services: &Services) {
    let folder = services.settings.now().paths.state_dir.clone();
    let now_ms = services.clock.now_ms();
    match blocking(move || atomic::sweep(&folder, now_ms)).await {
        Ok(Ok(0)) | Err(_) => {}
        Ok(Ok(removed)) => tracing::info!(removed, "removed files that a crash left half written"),
        Ok(Err(error)) => tracing::warn!(%error, "files that a crash left half written stay"),
    }
}
