//! From configuration and environment to models and a choice.
//!
//! Owns: what is merged with what, and who comes first. Promises: errors name
//! the path in the configuration and what would be right. Must not: do I/O.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::builtin::{self, KnownModel, KnownProvider};
use super::model::{Api, InputKind, ModelInfo, ModelPrice, ModelRef};
use super::{Choice, EnvLookup, ollama};
use crate::config::model_options::{ModelOptions, RequestConfig, TlsConfig};
use crate::config::models::{MergeMode, ModelConfig, ModelsConfig, ProviderConfig};
use crate::support::Secret;

/// What the original assumes for a model that does not say.
const CONTEXT_WINDOW: u64 = 200_000;
const OLLAMA_CONTEXT_WINDOW: u64 = 65_536;
const MAX_TOKENS: u64 = 8192;

/// Why the embedded model was chosen when nobody named it.
pub const OFFLINE_REASON: &str =
    "no model is configured, no API key is set and no Ollama answers: the built-in offline model";

/// Why the configuration cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// `api` is none that we speak.
    #[error("{path}: unknown api {api:?}; known are {known}")]
    UnknownApi {
        /// Where it stands.
        path: String,
        /// What it says.
        api: String,
        /// What would be right.
        known: String,
    },
    /// A provider that we do not know ourselves has no address.
    #[error("{path}: set it to the address of the provider's API")]
    MissingBaseUrl {
        /// Where it should stand.
        path: String,
    },
    /// The default model is none of the catalogue.
    #[error(
        "{path}: there is no model {name:?}; known are {known}. \
         Add others under models.providers.<id>.models"
    )]
    UnknownModel {
        /// Where it stands.
        path: &'static str,
        /// What it says.
        name: String,
        /// What would be right.
        known: String,
    },
    /// Nothing is left to answer.
    #[error(
        "models.mode is \"replace\", but models.providers has no model: add one, or use \"merge\""
    )]
    NoModels,
}

/// All models, in their stable order.
pub fn models(
    config: &ModelsConfig,
    default: Option<&str>,
    env: EnvLookup<'_>,
) -> Result<Vec<Arc<ModelInfo>>, CatalogError> {
    let merge = config.mode == MergeMode::Merge;
    let mut all = Vec::new();
    for (id, provider) in config.providers.iter() {
        let source = Source::new(id, provider, env);
        for (index, model) in provider.models.iter().enumerate() {
            all.push(source.configured(index, model)?);
        }
    }
    if merge {
        for known in &builtin::PROVIDERS {
            all.extend(known_models(known, config.providers.get(known.id), &all, env)?);
        }
        all.extend(named_ollama_model(config, default, env));
        all.push(embedded());
    }
    Ok(all.into_iter().map(Arc::new).collect())
}

/// Where the configuration names the default model.
const DEFAULT_PATH: &str = "agents.defaults.model";

/// The model to use when nobody asks for another one.
pub fn choose(
    models: &[Arc<ModelInfo>],
    config: &ModelsConfig,
    default: Option<&str>,
    env: EnvLookup<'_>,
) -> Result<Choice, CatalogError> {
    let choice =
        |model: &Arc<ModelInfo>, reason: String| Choice { model: Arc::clone(model), reason };
    if let Some(name) = default {
        let model = by_name(models, name).ok_or_else(|| CatalogError::UnknownModel {
            path: DEFAULT_PATH,
            name: name.to_owned(),
            known: names(models),
        })?;
        return Ok(choice(model, format!("{DEFAULT_PATH} names it")));
    }
    let first = models.first().ok_or(CatalogError::NoModels)?;
    if config.providers.iter().any(|(_, provider)| !provider.models.is_empty()) {
        return Ok(choice(first, "it is the first model of models.providers".into()));
    }
    for known in &builtin::PROVIDERS {
        let model = models.iter().find(|model| model.provider == known.id);
        if let Some(model) = model {
            let reason = match variable(env, known.key_variable) {
                Some(_) => format!("{} is set", known.key_variable),
                None => format!("models.providers.{}.apiKey is set", known.id),
            };
            return Ok(choice(model, reason));
        }
    }
    Ok(choice(first, OFFLINE_REASON.into()))
}

/// What all models of a configured provider have in common.
struct Source<'a> {
    id: &'a str,
    config: &'a ProviderConfig,
    base_url: Option<String>,
    api_key: Option<Secret>,
    headers: BTreeMap<String, Secret>,
    api: Option<Api>,
    request: RequestConfig,
}

impl<'a> Source<'a> {
    fn new(id: &'a str, config: &'a ProviderConfig, env: EnvLookup<'_>) -> Self {
        let known = builtin::provider(id);
        let from_env = || variable(env, &key_variable(id, known)).map(Secret::new);
        let base_url = config.base_url.clone().or_else(|| known.map(|known| base_url(known, env)));
        let own_api = if id == ollama::PROVIDER { Some(Api::Ollama) } else { None };
        let api = known.map(|known| known.api).or(own_api);
        Self {
            id,
            config,
            api: api.map(|api| api.spoken_at(base_url.as_deref().unwrap_or_default())),
            base_url,
            request: RequestConfig {
                tls: TlsConfig {
                    extra_ca: variable(env, "NODE_EXTRA_CA_CERTS"),
                    ..config.request.tls.clone()
                },
                ..config.request.clone()
            },
            // An empty key stands for none, whatever the environment has.
            api_key: config.api_key.clone().or_else(from_env).filter(|key| !key.is_empty()),
            headers: {
                let mut headers = config.headers.clone();
                headers.retain(|_, value| !value.is_empty());
                headers
            },
        }
    }

    fn configured(&self, index: usize, model: &ModelConfig) -> Result<ModelInfo, CatalogError> {
        let at = format!("models.providers.{}", self.id);
        let api = match (&model.api, &self.config.api, self.api) {
            (Some(name), _, _) => parse_api(name, || format!("{at}.models[{index}].api"))?,
            (None, Some(name), _) => parse_api(name, || format!("{at}.api"))?,
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
            },
            context_window: model.context_window.unwrap_or(match api {
                // The server takes memory for all of it.
                Api::Ollama => OLLAMA_CONTEXT_WINDOW,
                _ => CONTEXT_WINDOW,
            }),
            max_tokens: model.max_tokens.unwrap_or(MAX_TOKENS),
            timeout: self.timeout(),
            options: ModelOptions {
                compat: model.compat.clone(),
                params: model.params.over(&self.config.params),
                request: self.request.clone(),
            },
        })
    }

    fn timeout(&self) -> Option<Duration> {
        let seconds = self.config.timeout_seconds.filter(|seconds| *seconds > 0)?;
        Some(Duration::from_secs(seconds.into()))
    }
}

/// The models that we know of this provider, when there is a key for it.
fn known_models(
    known: &KnownProvider,
    configured: Option<&ProviderConfig>,
    present: &[ModelInfo],
    env: EnvLookup<'_>,
) -> Result<Vec<ModelInfo>, CatalogError> {
    let nothing = ProviderConfig::default();
    let config = configured.unwrap_or(&nothing);
    let source = Source::new(known.id, config, env);
    // Who lists models without an environment key means just those.
    let wanted = config.models.is_empty() || variable(env, known.key_variable).is_some();
    if !wanted || source.api_key.is_none() {
        return Ok(Vec::new());
    }
    let new = known
        .models
        .iter()
        .filter(|model| !present.iter().any(|it| it.provider == known.id && it.id == model.id));
    new.map(|model| {
        let config = ModelConfig { id: model.id.to_owned(), ..ModelConfig::default() };
        Ok(with_known(source.configured(0, &config)?, model))
    })
    .collect()
}

fn with_known(model: ModelInfo, known: &KnownModel) -> ModelInfo {
    ModelInfo {
        name: known.name.to_owned(),
        reasoning: known.reasoning,
        input: builtin::INPUT.to_vec(),
        price: known.price,
        context_window: known.context_window,
        max_tokens: known.max_tokens,
        ..model
    }
}

/// Which models Ollama has is known only when it runs; who names one as the
/// default gets it without being asked to configure it.
fn named_ollama_model(
    config: &ModelsConfig,
    default: Option<&str>,
    env: EnvLookup<'_>,
) -> Option<ModelInfo> {
    let name = ModelRef::parse(default?)?;
    if name.provider != ollama::PROVIDER || config.providers.get(ollama::PROVIDER).is_some() {
        return None;
    }
    Some(ollama::model(&name.model, &ollama::address(env("OLLAMA_HOST").as_deref())))
}

fn embedded() -> ModelInfo {
    ModelInfo {
        provider: builtin::OFFLINE_PROVIDER.into(),
        id: builtin::OFFLINE_MODEL.into(),
        name: "Echo Guide (built in, offline)".into(),
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
        options: ModelOptions::default(),
    }
}

fn parse_api(name: &str, path: impl FnOnce() -> String) -> Result<Api, CatalogError> {
    Api::parse(name).ok_or_else(|| CatalogError::UnknownApi {
        path: path(),
        api: name.to_owned(),
        known: Api::names(),
    })
}

/// Kinds that we do not know are left out: they cannot be sent anyway.
fn input_kinds(names: Option<&[String]>) -> Vec<InputKind> {
    let has_image = names.is_some_and(|names| names.iter().any(|name| name == "image"));
    if has_image { vec![InputKind::Text, InputKind::Image] } else { vec![InputKind::Text] }
}

/// A bare model name counts when only one provider has such a model.
fn by_name<'a>(models: &'a [Arc<ModelInfo>], name: &str) -> Option<&'a Arc<ModelInfo>> {
    let full = ModelRef::parse(name);
    if let Some(model) = full.and_then(|full| models.iter().find(|model| model.is(&full))) {
        return Some(model);
    }
    let mut same = models.iter().filter(|model| model.id == name);
    let only = same.next()?;
    same.next().is_none().then_some(only)
}

fn names(models: &[Arc<ModelInfo>]) -> String {
    let names: Vec<_> = models.iter().map(|model| model.reference().to_string()).collect();
    names.join(", ")
}

fn base_url(known: &KnownProvider, env: EnvLookup<'_>) -> String {
    let moved = known.url_variable.and_then(|name| variable(env, name));
    moved.unwrap_or_else(|| known.base_url.to_owned())
}

/// `GROQ_API_KEY` for `groq`: the names that these providers document.
fn key_variable(id: &str, known: Option<&KnownProvider>) -> String {
    match known {
        Some(known) => known.key_variable.to_owned(),
        None => {
            format!("{}_API_KEY", id.to_uppercase().replace(|c: char| !c.is_alphanumeric(), "_"))
        }
    }
}

/// A variable that is set to something.
fn variable(env: EnvLookup<'_>, name: &str) -> Option<String> {
    env(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

fn trimmed(url: &str) -> String {
    url.trim().trim_end_matches('/').to_owned()
}
