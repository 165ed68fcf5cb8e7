//! Removing an agent, and then its folders.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::RosterError;
use super::place::real;
use super::{Roster, entries, trash};
use crate::config::{Settings, document};
use crate::sessions::AgentId;

/// An agent that is not there any more.
#[derive(Debug)]
pub struct Removed {
    /// Its id.
    pub id: AgentId,
    /// So many bindings went with it.
    pub bindings: usize,
    /// So many places among agents that reach each other did.
    pub allowed: usize,
    /// Where it worked.
    pub workspace: PathBuf,
    /// Its credentials and conversations.
    pub folder: PathBuf,
    /// Whether the workspace is that of others as well.
    is_shared: bool,
}

/// What became of the folders of an agent.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Discarded {
    /// Where they are now.
    pub moved: Vec<PathBuf>,
    /// Those that stay, and why.
    pub kept: Vec<(PathBuf, String)>,
}

impl Roster {
    /// Takes an agent and what names it out of the config.
    ///
    /// # Errors
    /// See [`RosterError`]; it stays then.
    pub fn remove(&self, id: &AgentId) -> Result<Removed, RosterError> {
        if id.as_str() == entries::MAIN {
            return Err(RosterError::Needed(id.clone()));
        }
        let (mut counts, mut before) = ((0, 0), None);
        let plan = |config: &Value| {
            if !entries::has(config, id) {
                return Err(RosterError::NotFound(id.clone()));
            }
            before = Some(document::meaning(config, &self.env)?);
            let mut config = config.clone();
            counts = entries::remove(&mut config, id)?;
            Ok(config)
        };
        let after = self.write(plan, |_| Ok(()))?;
        let before = before.as_ref().unwrap_or(&after);
        let workspace = before.agents.agent_or_default(id.as_str()).workspace;
        let is_shared = is_shared(&workspace, &after);
        let folder = after.paths.agent_dir(id.as_str());
        let (bindings, allowed) = counts;
        Ok(Removed { id: id.clone(), bindings, allowed, workspace, folder, is_shared })
    }

    /// Moves the folders of a removed agent to the trash, but for a workspace
    /// that others use, and those that cannot be moved.
    pub fn discard(&self, removed: &Removed) -> Discarded {
        let mut discarded = Discarded::default();
        let Some(home) = self.env.home() else {
            let reason = "there is no home folder, so there is no trash";
            let both = [&removed.workspace, &removed.folder];
            discarded.kept = both.map(|path| (path.clone(), reason.to_owned())).into();
            return discarded;
        };
        for path in [&removed.workspace, &removed.folder] {
            let why = self.why_kept(path, removed);
            let moved = match why {
                Some(reason) => Err(reason),
                None => self.throw_away(path, home),
            };
            match moved {
                Ok(moved) => discarded.moved.extend(moved),
                Err(reason) => {
                    tracing::warn!(path = %path.display(), reason, "a removed agent's folder stays");
                    discarded.kept.push((path.clone(), reason));
                }
            }
        }
        discarded
    }

    fn throw_away(&self, path: &Path, home: &Path) -> Result<Option<PathBuf>, String> {
        let state = self.paths().map_err(|error| error.to_string())?.state_dir;
        let moved = trash::throw_away(path, home, &state, self.clock.now_ms());
        moved.map_err(|error| error.to_string())
    }

    /// Why this folder is not moved.
    fn why_kept(&self, path: &Path, removed: &Removed) -> Option<String> {
        if *path != removed.workspace {
            return None;
        }
        if removed.is_shared {
            return Some("another agent works there".into());
        }
        // Written into the file by hand, it may be any folder.
        let paths = self.paths().ok()?;
        super::place::check(path, &paths, &self.env).err().map(|error| error.to_string())
    }
}

/// Whether an agent that is left works there, or in a folder in it.
fn is_shared(workspace: &Path, after: &Settings) -> bool {
    let gone = real(workspace);
    let agents = after.agents.list.iter().map(|agent| &agent.workspace);
    let mut places = agents.chain([&after.agents.defaults.workspace]);
    places.any(|place| real(place).starts_with(&gone))
}
