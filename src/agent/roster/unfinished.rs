//! Removals of agents that a kill or the disk has come between.
//!
//! Promises: one is noted before the config lets the agent go, until nothing of it is left to
//! be done: what did not come to that, the next start completes. Must not: touch anything of
//! an agent that the config has.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Removed, Roster};
use crate::agent::RunsParts;
use crate::config::{Env, Paths};
use crate::sessions::{AgentId, Remains, SessionKey, SessionQuery};
use crate::store::{SourceNote, Store, StoreError};
use crate::support::{blocking, with_cause};

/// The print of such a note, as no file has one: the folders of the agent go as well.
const FILES: &str = "agent-removed files";
/// They stay, or have been seen to.
const KEPT: &str = "agent-removed kept";

impl Removed {
    /// What notes that this is being done, to its folders as well or not.
    pub fn note(&self, with_files: bool) -> SourceNote {
        SourceNote {
            path: self.folder.display().to_string(),
            print: if with_files { FILES } else { KEPT }.to_owned(),
            ids: vec![self.workspace.display().to_string()],
        }
    }

    /// What such a note says; `None` for another one.
    fn noted(note: &SourceNote, paths: &Paths) -> Option<(Self, bool)> {
        let with_files = match note.print.as_str() {
            FILES => true,
            KEPT => false,
            _ => return None,
        };
        let id = AgentId::normalize(Path::new(&note.path).file_name()?.to_str()?);
        let folder = paths.agent_dir(id.as_str());
        let workspace = PathBuf::from(note.ids.first()?);
        Some((Self { id, bindings: 0, allowed: 0, workspace, folder }, with_files))
    }
}

/// Takes such a note out. Where something is left but the folders, which have been seen to,
/// the next start still looks for that.
pub async fn settle_removal(store: &dyn Store, note: SourceNote, is_whole: bool) {
    let settled = if is_whole {
        store.drop_sources(vec![note])
    } else {
        store.note_sources(vec![SourceNote { print: KEPT.to_owned(), ..note }])
    };
    if let Err(error) = settled.await {
        tracing::warn!(%error, "the next start looks for what a removed agent had");
    }
}

/// Completes what was begun, for the start, when nothing is at work yet. Where it fails the
/// next start tries again.
///
/// # Errors
/// When it cannot be read what was begun.
pub async fn finish_removals(parts: &RunsParts, env: &Env) -> Result<(), StoreError> {
    let settings = parts.settings.now();
    for note in parts.store.sources().await? {
        let Some((removed, with_files)) = Removed::noted(&note, &settings.paths) else { continue };
        let id = removed.id.clone();
        // The config did not let it go, or has got one of its name since.
        if settings.agents.has(id.as_str()) {
            settle_removal(&*parts.store, note, true).await;
            continue;
        }
        match finish(parts, env, removed, with_files).await {
            Ok(()) => {
                settle_removal(&*parts.store, note, true).await;
                tracing::info!(agent = %id, "the removal of an agent is completed");
            }
            Err(error) => tracing::error!(agent = %id, error,
                "something of a removed agent is left; the next start tries again"),
        }
    }
    Ok(())
}

/// Takes away what the agent has left. The folders come last: they are moved once.
async fn finish(
    parts: &RunsParts,
    env: &Env,
    removed: Removed,
    with_files: bool,
) -> Result<(), String> {
    let query = SessionQuery { agent: Some(removed.id.to_string()), ..SessionQuery::default() };
    let page = parts.sessions.list(query).await.map_err(|error| with_cause(&error))?;
    for row in page.entries {
        let key = SessionKey::from_canonical(row.key);
        let deleted = parts.sessions.delete(&key, Remains::WithAgent).await;
        deleted.map_err(|error| with_cause(&error))?;
        parts.session_deleted(&key);
    }
    let forgotten = parts.approvals.forget(&removed.id).await;
    forgotten.map_err(|error| with_cause(&error))?;
    if with_files {
        let clock = Arc::clone(&parts.clock);
        // The config file stays as it is.
        let roster = Roster::new(env.clone(), clock, Box::new(|_: &str| Ok(())));
        let discarded = blocking(move || roster.discard(&removed)).await;
        discarded.map_err(|error| with_cause(&error))?;
    }
    Ok(())
}
