//! Changing an agent.

use serde_json::Value;

use super::error::RosterError;
use super::text::{AVATAR_MAX, LINE_MAX, line};
use super::{Roster, entries};
use crate::config::{AgentIdentity, AgentSettings};
use crate::sessions::AgentId;
use crate::support::json;

/// What is to be changed of an agent. What is `None` stays.
#[derive(Debug, Clone, Default)]
pub struct AgentChange {
    /// What people call it.
    pub name: Option<String>,
    /// Where it works, as a config file has it.
    pub workspace: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// Its emoji.
    pub emoji: Option<String>,
    /// Its picture.
    pub avatar: Option<String>,
    /// A few words on its manner.
    pub theme: Option<String>,
    /// Whether `name` is only what it calls itself.
    pub is_name_of_identity: bool,
}

impl Roster {
    /// Changes an agent; answers what it is now.
    ///
    /// # Errors
    /// See [`RosterError`]; nothing is changed then.
    pub fn update(&self, id: &AgentId, change: AgentChange) -> Result<AgentSettings, RosterError> {
        let name = line("name", change.name, LINE_MAX)?;
        let model = line("model", change.model, LINE_MAX)?;
        let identity = AgentIdentity {
            name: name.clone(),
            emoji: line("emoji", change.emoji, LINE_MAX)?,
            avatar: line("avatar", change.avatar, AVATAR_MAX)?,
            theme: line("theme", change.theme, LINE_MAX)?,
        };
        let workspace = self.written_workspace(change.workspace.as_deref())?;
        let name = name.filter(|_| !change.is_name_of_identity);
        let plan = |config: &Value| {
            if !entries::has(config, id) {
                return Err(RosterError::NotFound(id.clone()));
            }
            let mut config = config.clone();
            let entry = entries::entry(&mut config, id)?;
            for (member, text) in [("name", &name), ("workspace", &workspace)] {
                if let Some(text) = text {
                    entry.insert(member.into(), json!(text));
                }
            }
            if let Some(model) = &model {
                entries::set_model(entry, model);
            }
            entries::set_identity(entry, &identity);
            Ok(config)
        };
        let is_seen_in_files = workspace.is_some() || identity != AgentIdentity::default();
        let settings = self.write(plan, |settings| {
            let agent = settings.agents.agent_or_default(id.as_str());
            if is_seen_in_files { self.set_up(&agent, settings) } else { Ok(()) }
        })?;
        Ok(settings.agents.agent_or_default(id.as_str()))
    }
}
