//! Which agents there are: adding, changing and removing them.
//!
//! Owns: the entries of `agents.list`, `bindings` of agents, the folders that
//! come and go with them. Promises: a change is worked out and written with no
//! other one between, so that of two clients that make the same agent one is
//! refused; the folders of a new agent are there before its entry is; what is
//! removed is moved to the trash of the user, never deleted, and nothing that
//! another agent uses is moved. Must not: know who asks, or apply anything to a
//! running gateway. Everything here blocks.

mod bindings;
mod create;
mod delete;
mod entries;
mod error;
mod place;
mod text;
mod trash;
mod unfinished;
mod update;

use std::sync::Arc;

use serde_json::Value;

use crate::agent::workspace;
use crate::config::document::{self, ConfigIssue, ConfigWriteError};
use crate::config::{AgentSettings, Env, Paths, Settings};
use crate::store::atomic::create_private_dir;
use crate::support::Clock;

pub use bindings::{BindingPlace, Bound, Unbound};
pub use create::{Created, NewAgent};
pub use delete::{Discarded, Removed};
pub use error::RosterError;
pub use place::{check as check_workspace, misplaced};
pub(super) use trash::throw_away;
pub use unfinished::{finish_removals, settle_removal};
pub use update::AgentChange;

/// The agents of a config file.
pub struct Roster {
    env: Env,
    clock: Arc<dyn Clock>,
    would_work: Box<WouldWork>,
}

/// Whether the gateway that runs would work with this text of the config file.
pub type WouldWork = dyn Fn(&str) -> Result<(), ConfigIssue> + Send;

impl Roster {
    /// Those of the gateway with these surroundings, which is asked whether it
    /// would work with a change.
    pub fn new(env: Env, clock: Arc<dyn Clock>, would_work: Box<WouldWork>) -> Self {
        Self { env, clock, would_work }
    }

    fn write(
        &self,
        plan: impl FnMut(&Value) -> Result<Value, RosterError>,
        prepare: impl FnMut(&Settings) -> Result<(), RosterError>,
    ) -> Result<Settings, RosterError> {
        document::change(&self.env, plan, prepare, &*self.would_work)
    }

    fn paths(&self) -> Result<Paths, RosterError> {
        Paths::resolve(&self.env).map_err(|error| ConfigWriteError::from(&error).into())
    }

    /// A workspace as it is written into the file: the path that is meant.
    fn written_workspace(&self, given: Option<&str>) -> Result<Option<String>, RosterError> {
        let Some(given) = given.map(str::trim).filter(|given| !given.is_empty()) else {
            return Ok(None);
        };
        let path = self.paths()?.expand(given);
        let path = path.map_err(|error| ConfigWriteError::from(&error))?;
        Ok(Some(path.display().to_string()))
    }

    /// Makes what an agent works with, and writes into its `IDENTITY.md` what
    /// the config says of it.
    fn set_up(&self, agent: &AgentSettings, settings: &Settings) -> Result<(), RosterError> {
        let (dir, paths) = (&agent.workspace, &settings.paths);
        place::check(dir, paths, &self.env)?;
        workspace::set_up(dir, &settings.workspace, self.clock.now_ms())?;
        create_private_dir(&paths.sessions_dir(&agent.id))?;
        Ok(workspace::present(dir, &agent.identity, settings)?)
    }
}
