//! Which models there are, and which one answers by default.
//!
//! Owns: the catalogue and the choice. Promises: a stable order; building it
//! does no I/O; every wrong entry of the configuration is named by its path.
//! Must not: read the environment itself.

mod build;
mod builtin;
mod model;
mod ollama;

use std::sync::Arc;

use super::{Adapters, Provider};
use crate::config::models::ModelsConfig;
pub use build::CatalogError;
pub use model::{Api, InputKind, ModelInfo, ModelPrice, ModelRef, ProviderInfo};

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

/// All models that can be used.
#[derive(Clone)]
pub struct Catalog {
    adapters: Arc<Adapters>,
    models: Vec<Arc<ModelInfo>>,
    choice: Choice,
    /// Where to look for Ollama, while the choice may still fall on it.
    ollama_url: Option<String>,
}

impl Catalog {
    /// Builds the catalogue from the configuration and the environment.
    ///
    /// # Errors
    /// When the configuration names an API, a provider or a model that there
    /// is not.
    pub fn build(
        adapters: &Arc<Adapters>,
        config: &ModelsConfig,
        default: Option<&str>,
        env: EnvLookup<'_>,
    ) -> Result<Self, CatalogError> {
        let models = build::models(config, default, env)?;
        let choice = build::choose(&models, config, default, env)?;
        let offline = choice.model.api == Api::Offline && choice.reason == build::OFFLINE_REASON;
        let ollama_url = offline.then(|| ollama::address(env("OLLAMA_HOST").as_deref()));
        Ok(Self { adapters: Arc::clone(adapters), models, choice, ollama_url })
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
            let end = self.models.iter().position(|model| model.api == Api::Offline);
            let end = end.unwrap_or(self.models.len());
            self.models.splice(end..end, found);
            self.ollama_url = None;
        }
        self
    }

    /// All models: configured ones first, in the order of the file.
    pub fn models(&self) -> &[Arc<ModelInfo>] {
        &self.models
    }

    /// The model with this name.
    pub fn find(&self, name: &ModelRef) -> Option<Arc<ModelInfo>> {
        self.models.iter().find(|model| model.is(name)).map(Arc::clone)
    }

    /// The model with this name, also when the catalogue does not list it: a
    /// provider has newer models than anybody knows here. Such a model is taken
    /// to be like the first one of its provider, without a price.
    pub fn find_or_guess(&self, name: &ModelRef) -> Option<Arc<ModelInfo>> {
        self.find(name).or_else(|| {
            let is_like = |model: &&Arc<ModelInfo>| {
                model.provider == name.provider && model.api != Api::Offline
            };
            let like = self.models.iter().find(is_like)?;
            let mut guess = ModelInfo::clone(like);
            guess.id.clone_from(&name.model);
            guess.name.clone_from(&name.model);
            guess.price = ModelPrice::default();
            Some(Arc::new(guess))
        })
    }

    /// The model that answers when nobody asks for another one.
    pub const fn default_choice(&self) -> &Choice {
        &self.choice
    }

    /// What serves this model.
    pub fn provider_for(&self, model: &ModelInfo) -> Arc<dyn Provider> {
        self.adapters.get(model.api)
    }

    /// All providers, in the order of their models.
    pub fn providers(&self) -> Vec<ProviderInfo> {
        let mut providers: Vec<ProviderInfo> = Vec::new();
        for model in &self.models {
            match providers.iter_mut().find(|known| known.id == model.provider) {
                Some(known) => known.models += 1,
                None => providers.push(ProviderInfo::of(model)),
            }
        }
        providers
    }
}

#[cfg(test)]
mod tests;
