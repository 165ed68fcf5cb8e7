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
        self.take_out(id, true)
    }

    /// What that would take out, for a note of it; the config stays as it is.
    ///
    /// # Errors
    /// As of that.
    pub fn removal(&self, id: &AgentId) -> Result<Removed, RosterError> {
        self.take_out(id, false)
    }

    fn take_out(&self, id: &AgentId, is_meant: bool) -> Result<Removed, RosterError> {
        if id.as_str() == entries::MAIN {
            return Err(RosterError::Needed(id.clone()));
        }
        let (mut counts, mut before) = ((0, 0), None);
        let plan = |config: &Value| {
            if !entries::has(config, id) {
                return Err(RosterError::NotFound(id.clone()));
            }
            before = Some(document::meaning(config, &self.env)?);
            let mut without = config.clone();
            counts = entries::remove(&mut without, id)?;
            Ok(if is_meant { without } else { config.clone() })
        };
        let after = self.write(plan, |_| Ok(()))?;
        let before = before.as_ref().unwrap_or(&after);
        let workspace = before.agents.agent_or_default(id.as_str()).workspace;
        let folder = after.paths.agent_dir(id.as_str());
        let (bindings, allowed) = counts;
        Ok(Removed { id: id.clone(), bindings, allowed, workspace, folder })
    }

    /// Moves the folders of a removed agent to the trash, but for those that agents of
    /// the config as it is by now use, and those that cannot be moved. Nobody adds an agent
    /// meanwhile.
    pub fn discard(&self, removed: &Removed) -> Discarded {
        let mut discarded = Discarded::default();
        let looked = self.write(
            |config| Ok(config.clone()),
            |now| {
                discarded = self.discard_unused(removed, now);
                Ok(())
            },
        );
        if let Err(error) = looked {
            let reason = format!("whether another agent works there is not known: {error}");
            tracing::warn!(agent = %removed.id, reason, "a removed agent's folders stay");
            let both = [&removed.workspace, &removed.folder];
            discarded.kept = both.map(|path| (path.clone(), reason.clone())).into();
        }
        discarded
    }

    fn discard_unused(&self, removed: &Removed, now: &Settings) -> Discarded {
        let mut discarded = Discarded::default();
        for path in [&removed.workspace, &removed.folder] {
            let moved = match self.why_kept(path, removed, now) {
                Some(reason) => Err(reason),
                None => self.throw_away(path, &now.paths.state_dir),
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

    fn throw_away(&self, path: &Path, state: &Path) -> Result<Option<PathBuf>, String> {
        let home = self.env.home().ok_or("there is no home folder, so there is no trash")?;
        let moved = trash::throw_away(path, home, state, self.clock.now_ms());
        moved.map_err(|error| error.to_string())
    }

    /// Why this folder is not moved.
    fn why_kept(&self, path: &Path, removed: &Removed, now: &Settings) -> Option<String> {
        if is_used(path, now) {
            return Some("another agent works there".into());
        }
        if *path != removed.workspace {
            let is_back = now.agents.has(removed.id.as_str());
            return is_back.then(|| "there is an agent of this name again".into());
        }
        // Written into the file by hand, it may be any folder.
        super::place::check(path, &now.paths, &self.env).err().map(|error| error.to_string())
    }
}

/// Whether an agent works there, or in a folder in it.
fn is_used(folder: &Path, now: &Settings) -> bool {
    let gone = real(folder);
    let agents = now.agents.list.iter().map(|agent| &agent.workspace);
    let mut places = agents.chain([&now.agents.defaults.workspace]);
    places.any(|place| real(place).starts_with(&gone))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::agent::roster::NewAgent;
    use crate::config::Env;
    use crate::support::SystemClock;

    #[test]
    fn what_an_agent_uses_that_came_after_the_removal_stays() {
        let home = tempfile::tempdir().unwrap();
        let workspace = home.path().join("ws");
        let env = Env::fixed([], home.path());
        let roster = Roster::new(env, Arc::new(SystemClock), Box::new(|_: &str| Ok(())));
        let add = |name: &str| {
            let workspace = Some(workspace.display().to_string());
            let new = NewAgent { name: name.into(), workspace, ..NewAgent::default() };
            roster.create(new).unwrap().id
        };
        let id = add("old");
        let removed = roster.remove(&id).unwrap();
        add("old");
        let folder = home.path().join(".openclaw/agents/old");
        let kept = |path: &Path, reason: &str| (path.to_owned(), reason.to_owned());
        let expected = Discarded {
            moved: Vec::new(),
            kept: vec![
                kept(&workspace, "another agent works there"),
                kept(&folder, "there is an agent of this name again"),
            ],
        };
        assert_eq!(roster.discard(&removed), expected);
        assert!(workspace.is_dir() && folder.is_dir());
        let removed = roster.remove(&id).unwrap();
        let discarded = roster.discard(&removed);
        assert_eq!((discarded.moved.len(), discarded.kept.len()), (2, 0));
        assert!(!workspace.exists() && !folder.exists());
    }
}
