//! Which model answers where.

use std::collections::HashMap;
use std::sync::Arc;

use crate::config::AgentsSettings;
use crate::providers::{Catalog, Choice, ModelInfo, ModelRef};
use crate::sessions::{AgentId, KeyRules, SessionEntry, SessionKey};

/// An agent whose configured model there is not.
#[derive(Debug, thiserror::Error)]
#[error(
    "agents.list: agent \"{agent}\" wants the model \"{model}\", which is not known; known are {known}"
)]
pub struct UnknownModel {
    agent: String,
    model: String,
    known: String,
}

/// The models of sessions: a session's own choice, else its agent's, else the
/// default.
#[derive(Clone)]
pub struct Models {
    catalog: Arc<Catalog>,
    keys: Arc<KeyRules>,
    by_agent: Arc<HashMap<AgentId, Arc<ModelInfo>>>,
}

impl Models {
    /// Looks up the model of each agent.
    ///
    /// # Errors
    /// When an agent names a model that there is not.
    pub fn new(
        catalog: Arc<Catalog>,
        keys: Arc<KeyRules>,
        agents: &AgentsSettings,
    ) -> Result<Self, UnknownModel> {
        let mut by_agent = HashMap::new();
        for agent in &agents.list {
            let Some(wanted) = &agent.model else { continue };
            let found = ModelRef::parse(&wanted.primary).and_then(|name| catalog.find(&name));
            let model = found.ok_or_else(|| UnknownModel {
                agent: agent.id.clone(),
                model: wanted.primary.clone(),
                known: names(&catalog),
            })?;
            by_agent.insert(AgentId::normalize(&agent.id), model);
        }
        Ok(Self { catalog, keys, by_agent: Arc::new(by_agent) })
    }

    /// All models there are.
    pub const fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// The model that answers when nobody asks for another one, and why.
    pub fn default_choice(&self) -> &Choice {
        self.catalog.default_choice()
    }

    /// The model of an agent.
    pub fn of_agent(&self, agent: &AgentId) -> Arc<ModelInfo> {
        Arc::clone(self.by_agent.get(agent).unwrap_or(&self.default_choice().model))
    }

    /// The model that answers in a session.
    pub fn of_session(&self, key: &SessionKey, entry: Option<&SessionEntry>) -> Arc<ModelInfo> {
        let chosen = entry.and_then(|entry| {
            let id = entry.model_override.as_ref()?;
            let name = match &entry.provider_override {
                Some(provider) => ModelRef { provider: provider.clone(), model: id.clone() },
                None => ModelRef::parse(id)?,
            };
            self.catalog.find(&name)
        });
        chosen.unwrap_or_else(|| self.of_agent(&key.agent(&self.keys)))
    }
}

fn names(catalog: &Catalog) -> String {
    let names: Vec<_> = catalog.models().iter().map(|m| m.reference().to_string()).collect();
    names.join(", ")
}
