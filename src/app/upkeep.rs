//! What goes away by itself.

use std::sync::Arc;
use std::time::Duration;

use crate::config::{AgentsSettings, Settings};
use crate::dialects::chat::media;
use crate::registry::Services;
use crate::store::atomic::{self, Swept};
use crate::store::{Store, StoreError};
use crate::support::{Clock, blocking};

/// How often it is looked for.
const PRUNE_EVERY: Duration = Duration::from_hours(1);
/// When records of runs are looked at first: what the last process has left undone needs
/// them, and is taken up by then.
const PRUNE_AFTER: Duration = Duration::from_mins(5);

/// Removes what crashes have left half written, files of old answers, records of ended
/// runs, and what was indexed of workspaces that no agent has any more.
pub(super) async fn prune(services: Arc<Services>) {
    let store = &*services.runs.parts().store;
    tokio::join!(prune_files(&services, store), prune_runs(store, &*services.clock));
}

async fn prune_files(services: &Services, store: &dyn Store) {
    loop {
        sweep(services).await;
        if let Err(error) = forget_memory(&services.settings.now(), store).await {
            tracing::warn!(%error, "memory files of agents that are gone not forgotten");
        }
        tokio::time::sleep(PRUNE_EVERY).await;
    }
}

async fn prune_runs(store: &dyn Store, clock: &dyn Clock) {
    tokio::time::sleep(PRUNE_AFTER).await;
    loop {
        if let Err(error) = store.prune_runs(clock.now_ms()).await {
            tracing::warn!(%error, "records of old runs not pruned");
        }
        tokio::time::sleep(PRUNE_EVERY).await;
    }
}

/// Of an agent that is gone nothing is kept in the index of memory files.
async fn forget_memory(settings: &Settings, store: &dyn Store) -> Result<(), StoreError> {
    let AgentsSettings { list, defaults, .. } = &settings.agents;
    let workspaces = list.iter().map(|agent| &agent.workspace).chain([&defaults.workspace]);
    let kept: Vec<_> = workspaces.map(|it| it.display().to_string()).collect();
    while store.forget_memory_but(kept.clone()).await? {}
    Ok(())
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
    let settings = services.settings.now();
    let now_ms = services.clock.now_ms();
    let sweeping = blocking(move || {
        let folder = &settings.paths.state_dir;
        media::sweep(folder);
        let swept = atomic::sweep(folder, now_ms);
        // The config file may be elsewhere, and what is left of it has its secrets.
        let beside = atomic::sweep_beside(&settings.file.path, now_ms);
        Swept { removed: swept.removed.saturating_add(beside), ..swept }
    });
    let Ok(Swept { removed, failed }) = sweeping.await else { return };
    if removed > 0 {
        tracing::info!(removed, "removed files that a crash left half written");
    }
    if let Some(error) = failed.first() {
        let others = failed.len().saturating_sub(1);
        tracing::warn!(%error, others, "files that a crash left half written may stay");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Env, preview};
    use crate::store::{MemoryFile, MemoryUpdate, NewRun, RunOutcome, SqliteStore};
    use crate::support::SystemClock;

    #[tokio::test(start_paused = true)]
    async fn records_of_old_runs_go_soon_after_the_start() {
        let home = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&home.path().join("x.sqlite")).unwrap();
        let run = |name: &str| NewRun {
            scope: "chat".into(),
            key: name.into(),
            run_id: name.into(),
            session_key: "agent:main:main".into(),
            text_hash: None,
            message: None,
            now_ms: 1,
        };
        store.claim_run(run("old")).await.unwrap();
        store.finish_run("chat", "old", RunOutcome::Done, true, 2).await.unwrap();
        let soon = PRUNE_AFTER + Duration::from_secs(1);
        let pruning = prune_runs(&store, &SystemClock);
        tokio::time::timeout(soon, pruning).await.unwrap_err();
        // Written after whatever was to be written by then.
        store.claim_run(run("next")).await.unwrap();
        assert!(store.run("old").await.unwrap().is_none());
    }

    #[tokio::test]
    async fn memory_is_indexed_for_as_long_as_an_agent_has_the_workspace() {
        let home = tempfile::tempdir().unwrap();
        let env = Env::fixed([], home.path());
        let store = SqliteStore::open(&home.path().join("x.sqlite")).unwrap();
        let of = |list: &str| {
            let agents = format!("{{defaults: {{workspace: '/usual'}}, list: [{list}]}}");
            preview(&format!("{{agents: {agents}}}"), &env).unwrap()
        };
        // More than are forgotten in one commit.
        let many = |number: u32| MemoryUpdate {
            file: MemoryFile { path: format!("{number}.md"), ..MemoryFile::default() },
            ..MemoryUpdate::default()
        };
        for workspace in ["/a", "/b", "/usual"] {
            let indexed = (0..250).map(many).collect();
            store.update_memory(workspace, indexed, Vec::new()).await.unwrap();
        }
        let left = async || {
            let mut left = Vec::new();
            for workspace in ["/a", "/b", "/usual"] {
                let files = store.memory_files(workspace).await.unwrap();
                left.extend((!files.is_empty()).then_some(workspace));
            }
            left
        };
        let both = of("{id: 'a', workspace: '/a'}, {id: 'b', workspace: '/b'}");
        forget_memory(&both, &store).await.unwrap();
        assert_eq!(left().await, ["/a", "/b", "/usual"]);
        forget_memory(&of("{id: 'b', workspace: '/b'}"), &store).await.unwrap();
        assert_eq!(left().await, ["/b", "/usual"]);
    }
}
