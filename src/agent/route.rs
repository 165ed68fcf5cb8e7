//! Which models may answer in a session when its own does not.

use std::collections::HashMap;
use std::sync::Arc;

use crate::config::{AgentsSettings, ModelSetting};
use crate::providers::{Catalog, Failover, ModelInfo, Route};
use crate::sessions::{AgentId, SessionKey};

use super::models::Models;
use super::run::ActiveRun;

/// A fallback that the configuration names and that there is not.
pub(super) struct MissingFallback {
    /// Where it stands.
    pub path: String,
    /// What it is called there.
    pub name: String,
}

/// The fallbacks of each agent.
pub(super) struct Fallbacks {
    of_all: Vec<Arc<ModelInfo>>,
    by_agent: HashMap<AgentId, Vec<Arc<ModelInfo>>>,
    /// Those that there are not.
    pub missing: Vec<MissingFallback>,
}

impl Fallbacks {
    /// Looks the names up. One that there is not is passed over and kept to be told: a
    /// model that may be needed one day is no reason not to start today.
    pub fn new(catalog: &Catalog, agents: &AgentsSettings) -> Self {
        let mut missing = Vec::new();
        let mut find = |setting: Option<&ModelSetting>, path: &str| {
            let names = setting.and_then(|setting| setting.fallbacks.as_ref())?;
            let known = names.iter().filter_map(|name| {
                let model = catalog.named(name);
                if model.is_none() {
                    missing.push(MissingFallback { path: path.to_owned(), name: name.clone() });
                }
                model
            });
            Some(known.collect::<Vec<_>>())
        };
        let of_all = find(agents.defaults.model.as_ref(), "agents.defaults.model.fallbacks");
        let own = agents.list.iter().enumerate().filter_map(|(index, agent)| {
            let path = format!("agents.list[{index}].model.fallbacks");
            Some((AgentId::normalize(&agent.id), find(agent.model.as_ref(), &path)?))
        });
        let by_agent = own.collect();
        Self { of_all: of_all.unwrap_or_default(), by_agent, missing }
    }

    /// Those of an agent, in their order.
    pub(super) fn of(&self, agent: &AgentId) -> &[Arc<ModelInfo>] {
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
        let known = self.known();
        let others = known.fallbacks.of(agent).iter().cloned().chain([self.of_agent(agent)]);
        let others = once(&model, others);
        known.failover.route(agent.as_str(), key.as_str(), model, others)
    }

    /// The way to an answer of a run: that of its session, unless its terms name
    /// other models. One that wants a model of its own is not answered by the
    /// agent's unasked.
    pub fn route_of(&self, run: &ActiveRun, agent: &AgentId, model: Arc<ModelInfo>) -> Route {
        let known = self.known();
        let others = match (&run.terms.fallbacks, &run.terms.model) {
            (None, None) => return self.route(&run.key, agent, model),
            (Some(names), _) => names.iter().filter_map(|name| self.fallback(name, run)).collect(),
            (None, Some(_)) => known.fallbacks.of(agent).to_vec(),
        };
        let others = once(&model, others.into_iter());
        known.failover.route(agent.as_str(), run.key.as_str(), model, others)
    }

    fn fallback(&self, name: &str, run: &ActiveRun) -> Option<Arc<ModelInfo>> {
        let found = self.wanted(name, &run.key).info;
        if found.is_none() {
            tracing::warn!(run = %run.id, "fallbacks: there is no model \"{name}\"");
        }
        found
    }
}

/// The models beside the first, each once.
fn once(first: &ModelInfo, others: impl Iterator<Item = Arc<ModelInfo>>) -> Vec<Arc<ModelInfo>> {
    let mut all: Vec<Arc<ModelInfo>> = Vec::new();
    for other in others {
        let name = other.reference();
        if !first.is(&name) && all.iter().all(|known| !known.is(&name)) {
            all.push(other);
        }
    }
    all
}
