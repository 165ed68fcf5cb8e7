//! Which models there are, and which one answers by default.
//!
//! Owns: the catalogue and the choice. Promises: a stable order; building it
//! does no I/O; every wrong entry of the configuration is named by its path.
//! Must not: read the environment itself.

mod build;
mod cli;
mod known;
mod missing;
mod model;
mod names;
mod ollama;
mod reach;
mod renew;

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::{Adapters, Provider};
use crate::config::NamedModel;
use crate::config::cli_backend::CliBackend;
use crate::config::models::{ModelsConfig, is_same_provider};
use crate::config::secrets::ResolvedSecrets;
pub use build::CatalogError;
pub use known::{OFFLINE_MODEL, OFFLINE_PROVIDER};
pub use missing::MissingModel;
pub use model::{Api, InputKind, ModelInfo, ModelPrice, ModelRef, PriceStep, ProviderInfo};
pub use names::NameError;
pub use ollama::address as ollama_address;
pub(super) use reach::reached;

/// Passes any name of a model on, whether we know it or not.
const OPEN_PROVIDER: &str = "openrouter";

/// What a catalogue is made from.
pub struct CatalogSources<'a> {
    /// The `models` section.
    pub models: &'a ModelsConfig,
    /// `agents.defaults.model`.
    pub default: Option<&'a str>,
    /// What else may answer when there is no such model.
    pub fallbacks: &'a [String],
    /// `agents.defaults.models`.
    pub named: &'a [NamedModel],
    /// Every name of a model in the `agents` section.
    pub wanted: Vec<&'a str>,
    /// `agents.defaults.cliBackends.claude-cli`.
    pub cli: Option<&'a CliBackend>,
    /// The environment.
    pub env: EnvLookup<'a>,
    /// What the references in the `models` section lead to.
    pub secrets: &'a ResolvedSecrets,
    /// Whether there is a stored credential of a provider.
    pub has_profile: &'a dyn Fn(&str) -> bool,
}

impl<'a> CatalogSources<'a> {
    /// From a `models` section and an environment, and nothing else.
    pub fn plain(
        models: &'a ModelsConfig,
        env: EnvLookup<'a>,
        secrets: &'a ResolvedSecrets,
    ) -> Self {
        Self {
            models,
            default: None,
            fallbacks: &[],
            named: &[],
            wanted: Vec::new(),
            cli: None,
            env,
            secrets,
            has_profile: &|_| false,
        }
    }
}

/// How to look up an environment variable.
pub type EnvLookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The model that answers when nobody asks for another one.
#[derive(Debug, Clone)]
pub struct Choice {
    /// It.
    pub model: Arc<ModelInfo>,
    /// Why it, in one line for people.
    pub reason: String,
}

/// Which models a list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum View {
    /// Those that may be chosen and can be used.
    #[default]
    Default,
    /// Those that the configuration names.
    Configured,
    /// All that we know.
    All,
}

impl View {
    /// The one with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "default" => Self::Default,
            "configured" => Self::Configured,
            "all" => Self::All,
            _ => return None,
        })
    }
}

/// All models, and what they are called.
#[derive(Clone)]
pub struct Catalog {
    adapters: Arc<Adapters>,
    models: Arc<build::Models>,
    names: Arc<names::Names>,
    /// Full names that the configuration has.
    configured: Arc<Vec<ModelRef>>,
    choice: Choice,
    /// The default model, when there is none of that name.
    missing: Option<MissingModel>,
    /// Where to look for Ollama, while the choice may still fall on it.
    ollama_url: Option<String>,
    /// Models whose server was asked about them when they were first used; as
    /// many as people choose.
    learned: Arc<Mutex<HashMap<ModelRef, Arc<ModelInfo>>>>,
    /// What lets us in, where it was looked up again.
    renewed: Arc<ArcSwap<renew::Renewed>>,
}

/// Nobody uses more models of one's own machine; beyond it each use asks.
const MAX_LEARNED: usize = 1000;

impl Catalog {
    /// Builds the catalogue from the configuration and the environment.
    ///
    /// # Errors
    /// When the configuration names an API that there is not, or leaves no model.
    pub fn build(
        adapters: &Arc<Adapters>,
        sources: &CatalogSources<'_>,
    ) -> Result<Self, CatalogError> {
        let models = build::models(sources)?;
        let names = names::Names::new(sources.named, &sources.wanted);
        let (choice, missing) = build::choose(&models, &names, sources)?;
        let offline = choice.model.api == Api::Offline && choice.reason == build::OFFLINE_REASON;
        let ollama_url = offline.then(|| ollama::address((sources.env)("OLLAMA_HOST").as_deref()));
        Ok(Self {
            adapters: Arc::clone(adapters),
            models: Arc::new(models),
            names: Arc::new(names),
            configured: Arc::new(configured(sources)),
            choice,
            missing,
            ollama_url,
            learned: Arc::default(),
            renewed: Arc::default(),
        })
    }

    /// Where [`Self::with_ollama`] should look; `None` when something better
    /// is there already.
    pub fn ollama_url(&self) -> Option<&str> {
        self.ollama_url.as_deref()
    }

    /// Asks the Ollama at `url` for its models. When it has any, they join the
    /// catalogue and the first one becomes the default.
    #[must_use]
    pub async fn with_ollama(mut self, url: &str) -> Self {
        let found = ollama::models(self.adapters.http(), url).await;
        if let Some(first) = found.first() {
            let reason = format!("Ollama answers at {url}");
            self.choice = Choice { model: Arc::clone(first), reason };
            // The embedded model stays the last one of the list.
            let mut usable = self.models.usable.clone();
            let end = usable.iter().position(|model| model.api == Api::Offline);
            let end = end.unwrap_or(usable.len());
            usable.splice(end..end, found);
            let (locked, off) = (self.models.locked.clone(), self.models.off.clone());
            self.models = Arc::new(build::Models { usable, locked, off });
            self.ollama_url = None;
        }
        self
    }

    /// The models that can be used: configured ones first, in the order of the
    /// file.
    pub fn models(&self) -> &[Arc<ModelInfo>] {
        &self.models.usable
    }

    /// The models of a list. `has_profile` tells whether there is a stored
    /// credential of a provider by now.
    pub fn view(&self, view: View, has_profile: &dyn Fn(&str) -> bool) -> Vec<&Arc<ModelInfo>> {
        let is_named = |model: &&Arc<ModelInfo>| self.configured.iter().any(|name| model.is(name));
        let is_open = |model: &&Arc<ModelInfo>| has_profile(&model.provider);
        let (usable, locked) = (self.models.usable.iter(), self.models.locked.iter());
        match view {
            View::All => usable.chain(locked).collect(),
            View::Configured => usable.chain(locked).filter(is_named).collect(),
            View::Default if self.names.is_limited() => {
                usable.chain(locked).filter(|model| self.names.allows(model)).collect()
            }
            View::Default => usable.chain(locked.filter(is_open)).collect(),
        }
    }

    /// The model with this full name.
    pub fn find(&self, name: &ModelRef) -> Option<Arc<ModelInfo>> {
        self.models.find(name).map(|model| self.known(model))
    }

    /// What is known of this model by now.
    pub fn known(&self, model: &Arc<ModelInfo>) -> Arc<ModelInfo> {
        if !model.options.is_assumed {
            return Arc::clone(model);
        }
        let learned = self.learned.lock().get(&model.reference()).cloned();
        learned.unwrap_or_else(|| Arc::clone(model))
    }

    /// The same, after its server was asked if nobody has asked before. What a
    /// server does not tell stays assumed, and is asked for again.
    pub async fn learn(&self, model: &Arc<ModelInfo>) -> Arc<ModelInfo> {
        let known = self.renewed.load().apply(self.known(model));
        if !known.options.is_assumed {
            return known;
        }
        let mut model = ModelInfo::clone(&known);
        let url = model.base_url.clone();
        if !ollama::ask(self.adapters.http(), &url, &mut model).await {
            return known;
        }
        let model = Arc::new(model);
        let mut learned = self.learned.lock();
        if learned.len() < MAX_LEARNED {
            learned.insert(model.reference(), Arc::clone(&model));
        }
        model
    }

    /// From now on models are reached with what the references in `sources` lead
    /// to. Everything else stays.
    pub fn renew(&self, sources: &CatalogSources<'_>) {
        self.renewed.store(Arc::new(renew::Renewed::of(sources)));
    }

    /// The model that the configuration means: by alias or full name.
    pub fn named(&self, written: &str) -> Option<Arc<ModelInfo>> {
        let full = self.names.of_alias(written).cloned().or_else(|| ModelRef::parse(written));
        full.and_then(|name| self.find(&name))
    }

    /// The same of a name that stands at `path`. One that there is not is told; the
    /// `fallback` stands in for it, else what only says so to whoever asks.
    pub fn named_at(
        &self,
        path: &str,
        written: &str,
        fallback: Option<&Arc<ModelInfo>>,
    ) -> (Arc<ModelInfo>, Option<MissingModel>) {
        if let Some(model) = self.named(written) {
            return (model, None);
        }
        let why = missing::unknown(written, self.models());
        let (model, missing) = missing::instead(path, written, &why, fallback);
        (model, Some(missing))
    }

    /// The default model, when the configuration names one that there is not.
    pub const fn missing_default(&self) -> Option<&MissingModel> {
        self.missing.as_ref()
    }

    /// The alias of a model.
    pub fn alias(&self, model: &ModelInfo) -> Option<&str> {
        self.names.alias(model)
    }

    /// Whether there is a list of models that may be chosen.
    pub fn is_limited(&self) -> bool {
        self.names.is_limited()
    }

    /// The model that somebody means: an alias, a full name, a model of the
    /// usual provider, or what is most like it.
    ///
    /// # Errors
    /// When there is none, several, or one that may not be chosen.
    pub fn resolve(
        &self,
        written: &str,
        usual_provider: &str,
    ) -> Result<Arc<ModelInfo>, NameError> {
        if let Some(model) = self.exactly(written, usual_provider)? {
            return Ok(model);
        }
        let written = written.trim();
        let usable = self.models.usable.iter().chain(
            // Without a credential, a model is meant only when it is listed.
            self.models.locked.iter().filter(|_| self.names.is_limited()),
        );
        let allowed = usable.filter(|model| self.names.allows(model));
        names::nearest(allowed, written, usual_provider).map(Arc::clone)
    }

    /// The model that is called exactly this: by an alias, its full name, or
    /// its own name at the usual provider. `None` when none is.
    ///
    /// # Errors
    /// When it may not be chosen.
    pub fn exactly(
        &self,
        written: &str,
        usual_provider: &str,
    ) -> Result<Option<Arc<ModelInfo>>, NameError> {
        let written = written.trim();
        let full = self.names.of_alias(written).cloned().or_else(|| ModelRef::parse(written));
        let own = ModelRef { provider: usual_provider.to_owned(), model: written.to_owned() };
        // A provider that takes any name is asked whether there is the model.
        let look_up = |name: ModelRef| match name.provider.as_str() {
            OPEN_PROVIDER if name.model.contains('/') => self.find_or_guess(&name),
            _ => self.find(&name),
        };
        match full.and_then(look_up).or_else(|| self.find(&own)) {
            Some(model) if !self.names.allows(&model) => {
                Err(NameError::NotAllowed(model.reference().to_string()))
            }
            model => Ok(model),
        }
    }

    /// The model with this name, also when the catalogue does not list it: a
    /// provider has newer models than anybody knows here. Such a model is taken
    /// to be like the first one of its provider, without a price; but one that is turned
    /// off is none.
    pub fn find_or_guess(&self, name: &ModelRef) -> Option<Arc<ModelInfo>> {
        let is_meant = |off: &ModelRef| {
            off.model == name.model && is_same_provider(&off.provider, &name.provider)
        };
        if self.models.off.iter().any(is_meant) {
            return None;
        }
        self.find(name).or_else(|| {
            let is_like =
                |model: &&Arc<ModelInfo>| model.api != Api::Offline && model.is_of(&name.provider);
            let mut all = self.models.usable.iter().chain(&self.models.locked);
            let like = all.find(is_like)?;
            let mut guess = ModelInfo::clone(like);
            guess.id.clone_from(&name.model);
            guess.name.clone_from(&name.model);
            guess.price = ModelPrice::default();
            if guess.is_of(ollama::PROVIDER) && guess.api == Api::Ollama {
                Arc::make_mut(&mut guess.options).is_assumed = true;
            }
            Some(self.known(&Arc::new(guess)))
        })
    }

    /// The model that answers when nobody asks for another one.
    pub const fn default_choice(&self) -> &Choice {
        &self.choice
    }

    /// The ways out.
    pub(super) fn adapters(&self) -> &Adapters {
        &self.adapters
    }

    /// What serves this model.
    pub fn provider_for(&self, model: &ModelInfo) -> Arc<dyn Provider> {
        self.adapters.get(model.api)
    }

    /// All providers that can be used, in the order of their models.
    pub fn providers(&self) -> Vec<ProviderInfo> {
        let mut providers: Vec<ProviderInfo> = Vec::new();
        for model in &self.models.usable {
            match providers.iter_mut().find(|known| known.id == model.provider) {
                Some(known) => known.models += 1,
                None => providers.push(ProviderInfo::of(model)),
            }
        }
        providers
    }
}

/// Name for people, and the variable that may hold the key, of a provider that
/// we know.
pub fn known_provider(id: &str) -> Option<(&'static str, &'static str)> {
    known::provider(id).map(|known| (known.name, known.key_variable()))
}

/// The variable that holds the key of a provider that we know, if one does.
pub fn key_in_environment(id: &str, env: EnvLookup<'_>) -> Option<&'static str> {
    known::provider(id)?.key(env).map(|(name, _)| name)
}

/// Ids of the providers that we know, in their order.
pub fn known_providers() -> impl Iterator<Item = &'static str> {
    known::providers().iter().map(|known| known.id)
}

fn configured(sources: &CatalogSources<'_>) -> Vec<ModelRef> {
    let listed = sources.models.providers.iter().flat_map(|(id, provider)| {
        let models = provider.models.iter();
        models.map(move |model| ModelRef { provider: id.to_owned(), model: model.id.clone() })
    });
    let named = sources.named.iter().map(|model| model.name.as_str());
    let written = named.chain(sources.wanted.iter().copied()).chain(sources.default);
    listed.chain(written.filter_map(ModelRef::parse)).collect()
}

#[cfg(test)]
mod tests;
