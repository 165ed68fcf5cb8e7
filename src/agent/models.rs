//! Which model answers where.

use std::collections::HashMap;
use std::sync::Arc;

use crate::config::AgentsSettings;
use crate::providers::{
    Catalog, Choice, Failover, MissingModel, ModelInfo, ModelRef, NameError, ThinkingLevel,
};
use crate::sessions::{AgentId, KeyRules, SessionEntry, SessionKey};
use crate::support::Live;

use super::route::{Fallbacks, MissingFallback};
use super::thinking::Thinking;

/// The models of sessions: a session's own choice, else its agent's, else the
/// default.
#[derive(Clone)]
pub struct Models {
    keys: Live<KeyRules>,
    known: Live<Known>,
}

/// What is known of models under one configuration.
pub(super) struct Known {
    by_agent: HashMap<AgentId, Arc<ModelInfo>>,
    thinking: Thinking,
    missing: Vec<MissingModel>,
    pub failover: Arc<Failover>,
    pub fallbacks: Fallbacks,
}

impl Models {
    /// Looks up the model of each agent. Where there is none of its name, a fallback stands
    /// in for it, or what fails by saying so.
    pub fn new(failover: Arc<Failover>, keys: Live<KeyRules>, agents: &AgentsSettings) -> Self {
        Self { keys, known: Live::new(Known::new(failover, agents)) }
    }

    /// Takes over what another one knows.
    pub fn take_over(&self, other: &Self) {
        self.known.replace(other.known.now());
    }

    /// Models that the configuration names and that there are not.
    pub fn missing(&self) -> Vec<MissingModel> {
        self.known.now().missing.clone()
    }

    /// The one among them that an agent has, or inherits.
    pub fn missing_of(&self, agent: &AgentId) -> Option<MissingModel> {
        let known = self.known.now();
        let has_own = known.by_agent.contains_key(agent);
        let owner = has_own.then_some(agent.as_str());
        known.missing.iter().find(|it| it.agent.as_deref() == owner).cloned()
    }

    /// Tells the log of them, as they come into use, and of fallbacks that there are not.
    pub fn tell_missing(&self) {
        let known = self.known.now();
        for MissingModel { path, message, .. } in &known.missing {
            tracing::warn!("{path}: {message}");
        }
        for MissingFallback { path, name } in &known.fallbacks.missing {
            tracing::warn!("{path}: there is no model \"{name}\"");
        }
    }

    /// How session keys are read.
    pub fn keys(&self) -> Arc<KeyRules> {
        self.keys.now()
    }

    /// All models there are.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(self.known.now().failover.catalog())
    }

    pub(super) fn known(&self) -> Arc<Known> {
        self.known.now()
    }

    /// The model that answers when nobody asks for another one, and why.
    pub fn default_choice(&self) -> Choice {
        self.catalog().default_choice().clone()
    }

    /// How hard this model thinks where nobody says so, and no agent in particular does.
    pub fn thinking_default(&self, model: &ModelInfo) -> ThinkingLevel {
        let known = self.known.now();
        known.thinking.of(None, Some(model), known.failover.catalog())
    }

    /// How hard it thinks in a session that does not say so.
    pub fn usual_thinking(&self, key: &SessionKey, model: Option<&ModelInfo>) -> ThinkingLevel {
        let (known, agent) = (self.known.now(), key.agent(&self.keys.now()));
        known.thinking.of(Some(&agent), model, known.failover.catalog())
    }

    /// How hard it thinks in this session, unless a message says so.
    pub fn thinking_of(
        &self,
        key: &SessionKey,
        entry: &SessionEntry,
        model: Option<&ModelInfo>,
    ) -> ThinkingLevel {
        let said = entry.thinking_level.as_deref().and_then(ThinkingLevel::meant_by);
        said.unwrap_or_else(|| self.usual_thinking(key, model))
    }

    /// How hard the session's own model does.
    pub fn thinking(&self, key: &SessionKey, entry: &SessionEntry) -> ThinkingLevel {
        let model = self.of_session(key, Some(entry)).info;
        self.thinking_of(key, entry, model.as_deref())
    }

    /// The model of an agent.
    pub fn of_agent(&self, agent: &AgentId) -> Arc<ModelInfo> {
        let known = self.known.now();
        let catalog = known.failover.catalog();
        catalog.known(known.by_agent.get(agent).unwrap_or(&catalog.default_choice().model))
    }

    /// The model that answers in a session. One that somebody chose and that
    /// there is not stays chosen: nobody is answered by another model unasked.
    pub fn of_session(&self, key: &SessionKey, entry: Option<&SessionEntry>) -> SessionModel {
        let chosen = entry.and_then(|entry| Some((self.chosen(entry)?, entry)));
        if let Some((name, entry)) = chosen {
            let info = self.catalog().find_or_guess(&name);
            let is_wish = entry.model_override_source.as_deref() != Some(CHOSEN_BY_GATEWAY);
            if info.is_some() || is_wish {
                return SessionModel { name, info };
            }
        }
        let info = self.of_agent(&key.agent(&self.keys.now()));
        SessionModel { name: info.reference(), info: Some(info) }
    }

    /// The model that one run in a session wants, by its name.
    pub fn wanted(&self, written: &str, key: &SessionKey) -> SessionModel {
        if let Ok(name) = self.named(written, &key.agent(&self.keys.now())) {
            return SessionModel { info: self.catalog().find_or_guess(&name), name };
        }
        // What may not be chosen is as if it were not there.
        let own = || self.of_agent(&key.agent(&self.keys.now())).provider.clone();
        let other = || ModelRef { provider: own(), model: written.to_owned() };
        SessionModel { name: ModelRef::parse(written).unwrap_or_else(other), info: None }
    }

    /// The model that a session's row shows: the one that answered last, which
    /// may be a fallback, until another one is chosen.
    pub fn shown(&self, key: &SessionKey, entry: &SessionEntry) -> SessionModel {
        let usual = self.of_session(key, Some(entry));
        let answered = entry.model_provider.as_ref().zip(entry.model.as_ref());
        let is_other = |(provider, model): &(&String, &String)| {
            **provider != usual.name.provider || **model != usual.name.model
        };
        let Some((provider, model)) = answered.filter(is_other) else { return usual };
        let name = ModelRef { provider: provider.clone(), model: model.clone() };
        let info = self.catalog().find_or_guess(&name);
        SessionModel { name, info }
    }

    /// The model that was chosen for a session, if any was.
    pub fn chosen(&self, entry: &SessionEntry) -> Option<ModelRef> {
        let model = entry.model_override.clone()?;
        match entry.provider_override.clone() {
            Some(provider) => Some(ModelRef { provider, model }),
            None => match self.named(&model, &self.keys.now().default_agent) {
                Ok(name) => Some(name),
                // What was chosen once stays, also when it is no longer on the list.
                Err(NameError::NotAllowed(name)) => ModelRef::parse(&name),
                Err(_) => None,
            },
        }
    }

    /// The model that a client means: an alias, `provider/model`, or a bare
    /// name, which is looked for with the agent's own provider first. There need
    /// not be one.
    ///
    /// # Errors
    /// When there is a list of models that may be chosen, and it is not on it.
    pub fn named(&self, written: &str, agent: &AgentId) -> Result<ModelRef, NameError> {
        let usual = &self.of_agent(agent).provider;
        let exactly = |name: &str| self.catalog().exactly(name, usual);
        let elsewhere = || {
            let catalog = self.catalog();
            let model = catalog.models().iter().find(|model| model.id == written)?;
            Some(model.reference().to_string())
        };
        let found = match exactly(written)? {
            None => elsewhere().map_or(Ok(None), |name| exactly(&name))?,
            found => found,
        };
        let own = || ModelRef { provider: usual.clone(), model: written.to_owned() };
        if let Some(model) = found {
            return Ok(model.reference());
        }
        let name = ModelRef::parse(written).unwrap_or_else(own);
        if self.catalog().is_limited() {
            return Err(NameError::NotAllowed(name.to_string()));
        }
        Ok(name)
    }
}

impl Known {
    fn new(failover: Arc<Failover>, agents: &AgentsSettings) -> Self {
        let catalog = failover.catalog();
        let fallbacks = Fallbacks::new(catalog, agents);
        let mut missing: Vec<_> = catalog.missing_default().cloned().into_iter().collect();
        let mut by_agent = HashMap::new();
        for (index, agent) in agents.list.iter().enumerate() {
            let Some(wanted) = &agent.model else { continue };
            let path = format!("agents.list[{index}].model");
            let id = AgentId::normalize(&agent.id);
            let fallback = fallbacks.of(&id).first();
            let (model, not_there) = catalog.named_at(&path, &wanted.primary, fallback);
            missing.extend(not_there.map(|it| MissingModel { agent: Some(id.to_string()), ..it }));
            by_agent.insert(id, model);
        }
        let thinking = Thinking::new(agents);
        Self { by_agent, thinking, missing, failover, fallbacks }
    }
}

/// The models that a configuration names and that there are not, before it is in use.
pub fn missing_models(failover: Arc<Failover>, agents: &AgentsSettings) -> Vec<MissingModel> {
    Known::new(failover, agents).missing
}

/// `modelOverrideSource` of a choice that no person made.
const CHOSEN_BY_GATEWAY: &str = "auto";

/// The model that answers in a session.
#[derive(Debug, Clone)]
pub struct SessionModel {
    /// What it is called.
    pub name: ModelRef,
    /// It; `None` when there is no such model.
    pub info: Option<Arc<ModelInfo>>,
}

impl SessionModel {
    /// Size of its context window, in tokens.
    pub fn context_window(&self) -> Option<u64> {
        self.info.as_ref().map(|info| info.context_window)
    }
}
