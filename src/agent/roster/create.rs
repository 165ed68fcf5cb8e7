//! Adding an agent.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::bindings::{self, BindingPlace, Bound};
use super::error::RosterError;
use super::text::{AVATAR_MAX, LINE_MAX, line};
use super::{Roster, entries};
use crate::config::AgentIdentity;
use crate::sessions::AgentId;
use crate::support::json;

/// An agent that is to be.
#[derive(Debug, Clone, Default)]
pub struct NewAgent {
    /// What people call it; its id is made of it.
    pub name: String,
    /// Its id, where it is not to be made of the name.
    pub id: Option<String>,
    /// Where it works, as a config file has it; the usual place when absent.
    pub workspace: Option<String>,
    /// Its model; the default one when absent.
    pub model: Option<String>,
    /// Its emoji.
    pub emoji: Option<String>,
    /// Its picture.
    pub avatar: Option<String>,
}

/// An agent that is there now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// Its id.
    pub id: AgentId,
    /// What people call it.
    pub name: String,
    /// Where it works.
    pub workspace: PathBuf,
    /// Its model, if it has one of its own.
    pub model: Option<String>,
}

impl Roster {
    /// Adds an agent: its workspace with the files of a new one, the folder of
    /// its conversations, its entry.
    ///
    /// # Errors
    /// See [`RosterError`]; there is no entry then.
    pub fn create(&self, new: NewAgent) -> Result<Created, RosterError> {
        Ok(self.create_bound(new, &[])?.0)
    }

    /// The same with accounts of channels that it answers: with all of them, or not at all.
    ///
    /// # Errors
    /// See [`RosterError`]; there is no entry then.
    pub fn create_bound(
        &self,
        new: NewAgent,
        places: &[BindingPlace],
    ) -> Result<(Created, Bound), RosterError> {
        let name = line("name", Some(new.name), LINE_MAX)?.unwrap_or_default();
        let id = AgentId::normalize(new.id.as_deref().unwrap_or(&name));
        if id.as_str() == entries::MAIN {
            return Err(RosterError::Reserved(id));
        }
        let model = line("model", new.model, LINE_MAX)?;
        let identity = AgentIdentity {
            name: Some(name.clone()).filter(|name| !name.is_empty()),
            emoji: line("emoji", new.emoji, LINE_MAX)?,
            avatar: line("avatar", new.avatar, AVATAR_MAX)?,
            theme: None,
        };
        let workspace = self.written_workspace(new.workspace.as_deref())?;
        let mut bound = Bound::default();
        let plan = |config: &Value| {
            if entries::has(config, &id) {
                return Err(RosterError::Exists(id.clone()));
            }
            let mut entry = Map::new();
            entry.insert("id".into(), json!(id.as_str()));
            entry.insert("name".into(), json!(name));
            if let Some(workspace) = &workspace {
                entry.insert("workspace".into(), json!(workspace));
            }
            if let Some(model) = &model {
                entry.insert("model".into(), json!(model));
            }
            entries::set_identity(&mut entry, &identity);
            let mut config = config.clone();
            entries::add(&mut config, Value::Object(entry))?;
            bound = bind(&mut config, &id, places)?;
            Ok(config)
        };
        let settings = self.write(plan, |settings| {
            let agent = settings.agents.agent_or_default(id.as_str());
            self.set_up(&agent, settings)
        })?;
        let workspace = settings.agents.agent_or_default(id.as_str()).workspace;
        Ok((Created { id, name, workspace, model }, bound))
    }
}

/// Gives all of these accounts to the agent.
fn bind(config: &mut Value, id: &AgentId, places: &[BindingPlace]) -> Result<Bound, RosterError> {
    let mut bound = Bound::default();
    if !places.is_empty() {
        let list = entries::list(config, &["bindings"])?;
        for place in places {
            bindings::bind(list, id, place, &mut bound);
        }
    }
    match bound.conflicts.pop() {
        Some((place, owner)) => Err(RosterError::Taken(place, owner)),
        None => Ok(bound),
    }
}
