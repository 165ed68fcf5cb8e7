//! From configuration and environment to models and a choice.
//!
//! Owns: what is merged with what, and who comes first. Promises: errors name
//! the path in the configuration and what would be right; what speaks an API
//! that only OpenClaw has is left out. Must not: do I/O.

mod error;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::CatalogSources;
use super::known::{self, KnownModel, KnownProvider};
use super::missing::{self, MissingModel};
use super::model::{Api, InputKind, ModelInfo, ModelPrice, ModelRef};
use super::names::Names;
use super::{Choice, EnvLookup, cli, ollama};
use crate::config::foreign::APIS;
use crate::config::model_options::ModelOptions;
use crate::config::models::{
    MergeMode, ModelConfig, ModelsConfig, ProviderConfig, is_same_provider,
};
use crate::config::provider_request::{AuthHeader, Transport};
use crate::config::secrets::{SecretInput, SecretRef, SecretSource};
use crate::support::{Secret, sort};
use crate::telemetry;
pub use error::CatalogError;

/// What the original assumes for a model that does not say.
const CONTEXT_WINDOW: u64 = 200_000;
const OLLAMA_CONTEXT_WINDOW: u64 = 65_536;
const MAX_TOKENS: u64 = 8192;

/// Why the embedded model was chosen when nobody named it.
pub const OFFLINE_REASON: &str =
    "no model is configured, no API key is set and no Ollama answers: the built-in offline model";

/// The models of a catalogue.
pub struct Models {
    /// Those that can be used, in their stable order.
    pub usable: Vec<Arc<ModelInfo>>,
    /// Those that lack a credential.
    pub locked: Vec<Arc<ModelInfo>>,
    /// Those that are listed and turned off, as their API is not built in.
    pub off: Vec<ModelRef>,
}

impl Models {
    /// The model with this full name.
    pub fn find(&self, name: &ModelRef) -> Option<&Arc<ModelInfo>> {
        self.usable.iter().chain(&self.locked).find(|model| model.is(name))
    }
}

/// All models there are.
pub fn models(sources: &CatalogSources<'_>) -> Result<Models, CatalogError> {
    let config = sources.models;
    let merge = config.mode == MergeMode::Merge;
    let (mut all, mut off) = (Vec::new(), Vec::new());
    for (id, provider) in config.providers.iter() {
        provider.request.check(sources.secrets).map_err(|(place, reason)| {
            let path = format!("models.providers.{id}.request.{place}");
            CatalogError::Request { path, reason }
        })?;
        let source = Source::new(id, provider, sources);
        for (index, model) in provider.models.iter().enumerate() {
            match CatalogError::pass_over(source.configured(index, model))? {
                Some(model) => all.push(model),
                None => off.push(ModelRef { provider: id.to_owned(), model: model.id.clone() }),
            }
        }
    }
    let mut locked = Vec::new();
    if merge {
        for known in known::providers() {
            let (models, is_usable) = known_models(known, sources)?;
            if is_usable { all.extend(models) } else { locked.extend(models) }
        }
        for name in &sources.wanted {
            let Some(model) = named_model(name, config, sources)? else { continue };
            let is_new = |it: &ModelInfo| it.provider != model.provider || it.id != model.id;
            if all.iter().chain(&locked).all(is_new) {
                let list = if is_usable(&model, sources) { &mut all } else { &mut locked };
                list.push(model);
            }
        }
    }
    all.extend(cli::models(sources));
    if merge {
        all.push(embedded());
    }
    let shared = |models: Vec<ModelInfo>| models.into_iter().map(Arc::new).collect();
    Ok(Models { usable: shared(all), locked: shared(locked), off })
}

fn is_usable(model: &ModelInfo, sources: &CatalogSources<'_>) -> bool {
    model.has_credential() || (sources.has_profile)(&model.provider)
}

/// Where the configuration names the default model.
const DEFAULT_PATH: &str = "agents.defaults.model";

/// The model to use when nobody asks for another one; and the one that the configuration
/// names in vain.
pub fn choose(
    models: &Models,
    names: &Names,
    sources: &CatalogSources<'_>,
) -> Result<(Choice, Option<MissingModel>), CatalogError> {
    let Some(name) = sources.default else { return Ok((usual(models, sources)?, None)) };
    if let Some(model) = by_name(models, names, name) {
        let reason = format!("{DEFAULT_PATH} names it");
        return Ok((Choice { model: Arc::clone(model), reason }, None));
    }
    let fallback = sources.fallbacks.iter().find_map(|name| by_name(models, names, name));
    let why = no_default(name, models, names, sources.models);
    let (model, missing) = missing::instead(DEFAULT_PATH, name, &why, fallback);
    Ok((Choice { model, reason: missing.message.clone() }, Some(missing)))
}

/// The model to use where the configuration names none.
fn usual(models: &Models, sources: &CatalogSources<'_>) -> Result<Choice, CatalogError> {
    let choice =
        |model: &Arc<ModelInfo>, reason: String| Choice { model: Arc::clone(model), reason };
    let first = models.usable.first().ok_or_else(|| no_models(sources))?;
    let own = sources.models.providers.get(&first.provider);
    if own.is_some_and(|provider| provider.models.iter().any(|model| model.id == first.id)) {
        return Ok(choice(first, "it is the first model of models.providers".into()));
    }
    for known in known::providers() {
        let model = models.usable.iter().find(|model| model.provider == known.id);
        if let Some(model) = model {
            let configured = sources.models.providers.get(known.id);
            let reason = match known.key(sources.env) {
                Some((variable, _)) => format!("{variable} is set"),
                None if configured.is_some_and(|provider| provider.api_key.is_some()) => {
                    format!("models.providers.{}.apiKey is set", known.id)
                }
                None => format!("there is a credential for {}", known.id),
            };
            return Ok(choice(model, reason));
        }
    }
    let reason = match first.api {
        Api::ClaudeCli => "agents.defaults.cliBackends.claude-cli is configured",
        _ => OFFLINE_REASON,
    };
    Ok(choice(first, reason.into()))
}

/// Why there is no model that can be used: what is passed over speaks nothing of ours.
fn no_models(sources: &CatalogSources<'_>) -> CatalogError {
    let passed_over = sources.models.providers.iter().find_map(|(id, provider)| {
        let source = Source::new(id, provider, sources);
        let mut models = provider.models.iter().enumerate();
        models.find_map(|(index, model)| source.configured(index, model).err())
    });
    passed_over.unwrap_or(CatalogError::NoModels)
}

/// Why the model that is to answer by default is none of the catalogue.
fn no_default(name: &str, models: &Models, names: &Names, config: &ModelsConfig) -> String {
    let full = names.of_alias(name).cloned().or_else(|| ModelRef::parse(name));
    let not_spoken = full.and_then(|full| {
        let provider = config.providers.get(&full.provider)?;
        let model = provider.models.iter().find(|model| model.id == full.model);
        let api = model.and_then(|model| model.api.as_ref()).or(provider.api.as_ref())?;
        let (provider, known) = (&full.provider, Api::names());
        let why = || {
            format!(
                "provider {provider} speaks api {api}, which is not built in; built in are {known}"
            )
        };
        APIS.is_foreign(api).then(why)
    });
    not_spoken.unwrap_or_else(|| missing::unknown(name, &models.usable))
}

/// What all models of a configured provider have in common.
pub(super) struct Source<'a> {
    id: &'a str,
    config: &'a ProviderConfig,
    base_url: Option<String>,
    api_key: Option<Secret>,
    headers: BTreeMap<String, Secret>,
    api: Option<Api>,
    transport: Transport,
    auth: Option<AuthHeader>,
    /// Why it cannot be reached, and why it has no key.
    lacks: [Option<Arc<str>>; 2],
}

impl<'a> Source<'a> {
    pub fn new(id: &'a str, config: &'a ProviderConfig, sources: &CatalogSources<'_>) -> Self {
        let (env, known) = (sources.env, known::provider(id));
        let resolve = |input: &SecretInput| input.resolve(sources.secrets);
        let api_key = match (&config.api_key, known) {
            // An empty key stands for none, whatever the environment has.
            (Some(input), _) => resolve(input),
            (None, Some(known)) => known.key(env).map(|(_, key)| Secret::new(key)),
            (None, None) => variable(env, &key_variable(id)).map(Secret::new),
        };
        // That of a variable is written nowhere that the config knows of.
        api_key.iter().for_each(telemetry::hide);
        let headers = config.headers.iter().chain(&config.request.headers);
        let extra_ca = variable(env, "NODE_EXTRA_CA_CERTS");
        let base_url = config.base_url.clone().or_else(|| known.map(|known| base_url(known, env)));
        let lacking = |is_key: bool| -> Option<Arc<str>> {
            let mut all = config.references().filter(|(path, _)| (path == "apiKey") == is_key);
            let lost = |(path, at): (String, &SecretRef)| {
                let is_lost = at.source == SecretSource::Env && sources.secrets.get(at).is_none();
                let (at, place) = (&at.id, format!("models.providers.{id}.{path}"));
                is_lost.then(|| format!("{place}: the environment variable {at} is not set").into())
            };
            all.find_map(lost)
        };
        let own_api = is_same_provider(id, ollama::PROVIDER).then_some(Api::Ollama);
        let api = known.and_then(|known| Api::parse(known.api)).or(own_api);
        Self {
            id,
            config,
            api: api.map(|api| api.spoken_at(base_url.as_deref().unwrap_or_default())),
            base_url,
            api_key,
            headers: sort::map(
                headers.filter_map(|(name, value)| Some((name.clone(), resolve(value)?))),
            ),
            transport: config.request.transport(sources.secrets, extra_ca.as_deref()),
            auth: config.request.auth_header(sources.secrets),
            lacks: [false, true].map(lacking),
        }
    }

    /// One of its models.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn configured(&self, index: usize, model: &ModelConfig) -> Result<ModelInfo, CatalogError> {
        let at = format!("models.providers.{}", self.id);
        let parse = |name: &str, path: String| {
            Api::parse(name).ok_or_else(|| CatalogError::of_api(path, self.id, name))
        };
        let api = match (&model.api, &self.config.api, self.api) {
            (Some(name), _, _) => parse(name, format!("{at}.models[{index}].api"))?,
            (None, Some(name), _) => parse(name, format!("{at}.api"))?,
            (None, None, Some(api)) => api,
            // What nearly every server of models speaks.
            (None, None, None) => Api::OpenAiCompletions,
        };
        let base_url = match (&self.base_url, api) {
            (Some(url), _) => trimmed(url),
            (None, Api::Offline) => String::new(),
            (None, _) => {
                return Err(CatalogError::MissingBaseUrl { path: format!("{at}.baseUrl") });
            }
        };
        let [missing, unset] = self.lacks.clone();
        Ok(ModelInfo {
            provider: self.id.to_owned(),
            id: model.id.clone(),
            name: model.name.clone().unwrap_or_else(|| model.id.clone()),
            api,
            base_url,
            api_key: self.api_key.clone(),
            headers: self.headers.clone(),
            reasoning: model.reasoning,
            input: input_kinds(model.input.as_deref()),
            price: ModelPrice {
                input: model.cost.input,
                output: model.cost.output,
                cache_read: model.cost.cache_read,
                cache_write: model.cost.cache_write,
                above: None,
            },
            context_window: model.context_window.unwrap_or(match api {
                // The server takes memory for all of it.
                Api::Ollama => OLLAMA_CONTEXT_WINDOW,
                _ => CONTEXT_WINDOW,
            }),
            max_tokens: model.max_tokens.unwrap_or(MAX_TOKENS),
            timeout: timeout(self.config),
            options: Arc::new(ModelOptions {
                compat: model.compat.clone(),
                params: model.params.over(&self.config.params),
                transport: self.transport.clone(),
                auth: self.auth.clone(),
                is_assumed: false,
                cli: None,
                missing,
                unset,
            }),
        })
    }

    /// A model of which nothing but the name is known.
    pub fn bare(&self, id: &str) -> Result<ModelInfo, CatalogError> {
        self.configured(0, &ModelConfig { id: id.to_owned(), ..ModelConfig::default() })
    }
}

/// How long the models of a provider may stay silent, when that is configured.
pub(super) fn timeout(config: &ProviderConfig) -> Option<Duration> {
    let seconds = config.timeout_seconds.filter(|seconds| *seconds > 0)?;
    Some(Duration::from_secs(seconds.into()))
}

/// The models that we know of this provider, and whether they can be used.
fn known_models(
    known: &KnownProvider,
    sources: &CatalogSources<'_>,
) -> Result<(Vec<ModelInfo>, bool), CatalogError> {
    let nothing = ProviderConfig::default();
    let config = sources.models.providers.get(known.id).unwrap_or(&nothing);
    // Who lists models without an environment key means just those.
    if !config.models.is_empty() && known.key(sources.env).is_none() {
        return Ok((Vec::new(), false));
    }
    let source = Source::new(known.id, config, sources);
    let is_written = |model: &&KnownModel| config.models.iter().any(|it| it.id == model.id);
    let new = known.models.iter().filter(|model| !is_written(model));
    // All of them are reached alike.
    let Some(common) = CatalogError::pass_over(source.bare(""))? else {
        return Ok((Vec::new(), false));
    };
    let own = |model: &KnownModel| ModelInfo { id: model.id.to_owned(), ..common.clone() };
    let models: Vec<_> = new.map(|model| with_known(own(model), model)).collect();
    let is_usable = models.first().is_some_and(|model| is_usable(model, sources));
    Ok((models, is_usable))
}

pub(super) fn with_known(model: ModelInfo, known: &KnownModel) -> ModelInfo {
    ModelInfo {
        name: known.name.to_owned(),
        reasoning: known.reasoning,
        input: input_kinds(Some(&known.input)),
        price: known.price(),
        context_window: known.context_window,
        max_tokens: known.max_tokens,
        ..model
    }
}

/// A model that the configuration names without describing it: a new one of a
/// provider that we know, or one of Ollama, whose models are known only when
/// it runs.
fn named_model(
    name: &str,
    config: &ModelsConfig,
    sources: &CatalogSources<'_>,
) -> Result<Option<ModelInfo>, CatalogError> {
    let Some(name) = ModelRef::parse(name) else { return Ok(None) };
    let configured = config.providers.get(&name.provider);
    if name.provider == ollama::PROVIDER && configured.is_none() {
        let address = ollama::address((sources.env)("OLLAMA_HOST").as_deref());
        return Ok(Some(ollama::model(&name.model, &address)));
    }
    let lists_its_own = configured.is_some_and(|provider| !provider.models.is_empty());
    if known::provider(&name.provider).is_none() || lists_its_own {
        return Ok(None);
    }
    let nothing = ProviderConfig::default();
    let source = Source::new(&name.provider, configured.unwrap_or(&nothing), sources);
    CatalogError::pass_over(source.bare(&name.model))
}

fn embedded() -> ModelInfo {
    ModelInfo {
        id: known::OFFLINE_MODEL.into(),
        name: "Echo Guide (built in, offline)".into(),
        ..bare(known::OFFLINE_PROVIDER)
    }
}

/// A model that is reached without an address.
pub(super) fn bare(provider: &str) -> ModelInfo {
    ModelInfo {
        provider: provider.into(),
        id: String::new(),
        name: String::new(),
        api: Api::Offline,
        base_url: String::new(),
        api_key: None,
        headers: BTreeMap::new(),
        reasoning: false,
        input: vec![InputKind::Text],
        price: ModelPrice::default(),
        context_window: CONTEXT_WINDOW,
        max_tokens: MAX_TOKENS,
        timeout: None,
        options: Arc::default(),
    }
}

/// Kinds that we do not know are left out: they cannot be sent anyway.
fn input_kinds(names: Option<&[impl AsRef<str>]>) -> Vec<InputKind> {
    let is_image = |name: &_| AsRef::<str>::as_ref(name) == "image";
    let has_image = names.is_some_and(|names| names.iter().any(is_image));
    if has_image { vec![InputKind::Text, InputKind::Image] } else { vec![InputKind::Text] }
}

/// By alias, full name, or a bare name that only one provider has.
fn by_name<'a>(models: &'a Models, names: &Names, name: &str) -> Option<&'a Arc<ModelInfo>> {
    let full = names.of_alias(name).cloned().or_else(|| ModelRef::parse(name));
    if let Some(model) = full.and_then(|full| models.find(&full)) {
        return Some(model);
    }
    let mut same = models.usable.iter().filter(|model| model.id == name);
    let only = same.next()?;
    same.next().is_none().then_some(only)
}

fn base_url(known: &KnownProvider, env: EnvLookup<'_>) -> String {
    let moved = known.url_variable.and_then(|name| variable(env, name));
    moved.unwrap_or_else(|| known.base_url.to_owned())
}

/// `X_AI_API_KEY` for `x-ai`: what providers that we do not know document.
fn key_variable(id: &str) -> String {
    format!("{}_API_KEY", id.to_uppercase().replace(|c: char| !c.is_alphanumeric(), "_"))
}

/// A variable that is set to something.
fn variable(env: EnvLookup<'_>, name: &str) -> Option<String> {
    env(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

fn trimmed(url: &str) -> String {
    url.trim().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests;
