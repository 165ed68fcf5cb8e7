//! Which models may answer in a session when its own does not.

use std::collections::HashMap;
use std::sync::Arc;

use crate::config::{AgentsSettings, ModelSetting};
use crate::providers::{Catalog, Failover, ModelInfo, Route};
use crate::sessions::{AgentId, SessionKey};

use super::models::Models;

/// The fallbacks of each agent.
pub(super) struct Fallbacks {
    of_all: Vec<Arc<ModelInfo>>,
    by_agent: HashMap<AgentId, Vec<Arc<ModelInfo>>>,
}

impl Fallbacks {
    /// Looks the names up. One that there is not is passed over and logged: a
    /// model that may be needed one day is no reason not to start today.
    pub fn new(catalog: &Catalog, agents: &AgentsSettings) -> Self {
        let find = |setting: Option<&ModelSetting>, place: &str| {
            let names = setting.and_then(|setting| setting.fallbacks.as_ref())?;
            let known = names.iter().filter_map(|name| {
                let model = catalog.named(name);
                if model.is_none() {
                    tracing::warn!("{place}.model.fallbacks: there is no model \"{name}\"");
                }
                model
            });
            Some(known.collect::<Vec<_>>())
        };
        let own = agents.list.iter().filter_map(|agent| {
            let place = format!("agents.list[{}]", agent.id);
            Some((AgentId::normalize(&agent.id), find(agent.model.as_ref(), &place)?))
        });
        Self {
            of_all: find(agents.defaults.model.as_ref(), "agents.defaults").unwrap_or_default(),
            by_agent: own.collect(),
        }
    }

    fn of(&self, agent: &AgentId) -> &[Arc<ModelInfo>] {
        self.by_agent.get(agent).unwrap_or(&self.of_all)
    }
}

impl Models {
    /// What fails over between models and credentials.
    pub fn failover(&self) -> Arc<Failover> {
        Arc::clone(&self.known().failover)
    }

    /// The way to an answer in a session whose model is `model`: that one, the
    /// fallbacks of its agent, and at last the agent's own model.
    pub fn route(&self, key: &SessionKey, agent: &AgentId, model: Arc<ModelInfo>) -> Route {
        let (primary, known) = (self.of_agent(agent), self.known());
        let mut others: Vec<Arc<ModelInfo>> = Vec::new();
        for other in known.fallbacks.of(agent).iter().chain(std::iter::once(&primary)) {
            let name = other.reference();
            if !model.is(&name) && others.iter().all(|known| !known.is(&name)) {
                others.push(Arc::clone(other));
            }
        }
        known.failover.route(agent.as_str(), key.as_str(), model, others)
    }
}
