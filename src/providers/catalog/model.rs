//! What a model is.
//!
//! Owns: names, APIs, prices. Must not: know where models come from.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::super::http::is_loopback;
use super::super::{ProviderError, ProviderErrorKind};
use crate::config::cli_backend::CLAUDE_CLI;
use crate::config::model_options::ModelOptions;
use crate::config::models::{is_same_provider, provider_id};
use crate::protocol::message::{Cost, Usage};
use crate::support::Secret;

/// More than an answer needs; a provider reserves what we ask for.
const MAX_ANSWER: u64 = 32_000;

/// The APIs that we speak. To add one: a line here and one in `Adapters`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Api {
    /// `POST {base}/chat/completions`.
    OpenAiCompletions,
    /// `POST {base}/responses`.
    OpenAiResponses,
    /// `POST {base}/v1/messages`.
    AnthropicMessages,
    /// `POST {base}/models/{id}:streamGenerateContent`.
    GoogleGenerativeAi,
    /// `POST {base}/api/chat`.
    Ollama,
    /// No API at all: the embedded model.
    Offline,
    /// A program that is installed here.
    ClaudeCli,
}

impl Api {
    /// Those that a provider of the configuration may have.
    pub const ALL: [Self; 6] = [
        Self::OpenAiCompletions,
        Self::OpenAiResponses,
        Self::AnthropicMessages,
        Self::GoogleGenerativeAi,
        Self::Ollama,
        Self::Offline,
    ];

    /// The one with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|api| api.as_str() == name)
    }

    /// The name in the configuration and in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAiCompletions => "openai-completions",
            Self::OpenAiResponses => "openai-responses",
            Self::AnthropicMessages => "anthropic-messages",
            Self::GoogleGenerativeAi => "google-generative-ai",
            Self::Ollama => "ollama",
            Self::Offline => "offline",
            Self::ClaudeCli => CLAUDE_CLI,
        }
    }

    /// What is spoken at this address of a provider that speaks this API at
    /// home: others stand in for it with the API that nearly everyone has.
    #[must_use]
    pub fn spoken_at(self, base_url: &str) -> Self {
        let base_url = base_url.trim_end_matches('/');
        let stands_in = match self {
            Self::OpenAiResponses => !base_url.contains("api.openai.com"),
            Self::GoogleGenerativeAi => base_url.ends_with("/openai"),
            Self::Ollama => base_url.ends_with("/v1"),
            _ => false,
        };
        if stands_in { Self::OpenAiCompletions } else { self }
    }

    /// All names, for messages.
    pub fn names() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }
}

/// What may be sent to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputKind {
    /// Text.
    Text,
    /// Pictures.
    Image,
}

impl InputKind {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Image => "image",
        }
    }
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ModelPrice {
    /// Prompt.
    pub input: f64,
    /// Answer.
    pub output: f64,
    /// Prompt, read from the provider's cache.
    pub cache_read: f64,
    /// Prompt, written to the provider's cache.
    pub cache_write: f64,
    /// What long prompts cost, when that is something else.
    pub above: Option<PriceStep>,
}

/// The price of a call whose prompt is longer than `input_tokens`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PriceStep {
    /// Where it begins, counting what is read from and written to the cache.
    pub input_tokens: u64,
    /// Prompt.
    pub input: f64,
    /// Answer.
    pub output: f64,
    /// Prompt, read from the provider's cache.
    pub cache_read: f64,
    /// Prompt, written to the provider's cache.
    pub cache_write: f64,
}

impl ModelPrice {
    /// The price of a call with a prompt of this length.
    fn of(self, input_tokens: u64) -> Self {
        match self.above {
            Some(step) if input_tokens > step.input_tokens => Self {
                input: step.input,
                output: step.output,
                cache_read: step.cache_read,
                cache_write: step.cache_write,
                above: None,
            },
            _ => self,
        }
    }
}

/// `provider/model`. The model's own name may contain slashes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelRef {
    /// Provider id.
    pub provider: String,
    /// The provider's name for the model.
    pub model: String,
}

impl ModelRef {
    /// Reads `provider/model`, whichever of its names the provider is called by; `None` when
    /// one of the two is missing.
    pub fn parse(text: &str) -> Option<Self> {
        let (provider, model) = text.trim().split_once('/')?;
        let (provider, model) = (provider_id(provider), model.trim());
        if provider.is_empty() || model.is_empty() {
            return None;
        }
        Some(Self { provider, model: model.into() })
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// A model, with everything needed to reach it.
#[derive(Debug, Clone)]
pub struct ModelInfo {
    /// Provider id of the configuration.
    pub provider: String,
    /// The provider's name for it.
    pub id: String,
    /// Name to show.
    pub name: String,
    /// How to talk to it.
    pub api: Api,
    /// Where its API begins, without slash at the end.
    pub base_url: String,
    /// Key of the provider.
    pub api_key: Option<Secret>,
    /// Headers to send with each request. Secrets, since people put keys there.
    pub headers: BTreeMap<String, Secret>,
    /// Whether it can think before it answers.
    pub reasoning: bool,
    /// What may be sent to it.
    pub input: Vec<InputKind>,
    /// What it costs.
    pub price: ModelPrice,
    /// How many tokens a conversation may have.
    pub context_window: u64,
    /// How many tokens an answer may have.
    pub max_tokens: u64,
    /// How long it may stay silent, when that is configured.
    pub timeout: Option<Duration>,
    /// What else the configuration says of it, which is the same for hundreds.
    pub options: Arc<ModelOptions>,
}

impl ModelInfo {
    /// Its full name.
    pub fn reference(&self) -> ModelRef {
        ModelRef { provider: self.provider.clone(), model: self.id.clone() }
    }

    /// The same model, reached with this credential.
    #[must_use]
    pub fn with_key(&self, key: Secret) -> Self {
        Self { api_key: Some(key), ..self.clone() }
    }

    /// The same model, reached with a token instead of a key.
    #[must_use]
    pub fn with_bearer(&self, token: &Secret) -> Self {
        let mut model = Self { api_key: None, ..self.clone() };
        let bearer = Secret::new(format!("Bearer {}", token.expose()));
        model.headers.insert("authorization".into(), bearer);
        model
    }

    /// Whether it can be asked without a stored credential.
    pub fn has_credential(&self) -> bool {
        self.credential().is_ok()
    }

    /// Whether this is its full name.
    pub fn is(&self, name: &ModelRef) -> bool {
        self.id == name.model && self.is_of(&name.provider)
    }

    /// Whether its provider has this id, however that is written.
    pub fn is_of(&self, provider: &str) -> bool {
        is_same_provider(&self.provider, provider)
    }

    /// Whether pictures may be sent to it.
    pub fn accepts_images(&self) -> bool {
        self.input.contains(&InputKind::Image)
    }

    /// How many tokens an answer may have, for the request.
    pub fn answer_limit(&self) -> u64 {
        self.options.params.max_tokens.unwrap_or_else(|| self.max_tokens.min(MAX_ANSWER))
    }

    /// `usage` with total and price.
    pub fn priced(&self, usage: Usage) -> Usage {
        let dollars = |tokens: u64, per_million: f64| {
            // Exact for every count that an answer can have.
            // In the original's order, so that the last digit is the same.
            per_million / 1e6 * f64::from(u32::try_from(tokens).unwrap_or(u32::MAX))
        };
        let prompt = usage.input.saturating_add(usage.cache_read);
        let price = self.price.of(prompt.saturating_add(usage.cache_write));
        let mut cost = Cost {
            input: dollars(usage.input, price.input),
            output: dollars(usage.output, price.output),
            cache_read: dollars(usage.cache_read, price.cache_read),
            cache_write: dollars(usage.cache_write, price.cache_write),
            ..Cost::default()
        };
        cost.total = cost.input + cost.output + cost.cache_read + cost.cache_write;
        let total_tokens = [usage.output, usage.cache_read, usage.cache_write]
            .into_iter()
            .fold(usage.input, u64::saturating_add);
        Usage { total_tokens, cost, ..usage }
    }

    /// The key to send. None is needed on this machine, by Ollama, or when the
    /// configured headers do the job.
    ///
    /// # Errors
    /// When there should be one, and when there is no such model.
    pub fn credential(&self) -> Result<Option<&Secret>, ProviderError> {
        if let Some(why) = &self.options.missing {
            return Err(not_there(why));
        }
        let by_header = |name: &String| {
            ["authorization", "x-api-key", "x-goog-api-key"]
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known))
        };
        match (&self.api_key, &self.options.unset) {
            _ if self.options.auth.is_some() => Ok(None),
            (Some(key), _) => Ok(Some(key)),
            _ if self.headers.keys().any(by_header) => Ok(None),
            (None, Some(why)) => Err(not_there(why)),
            _ if matches!(self.api, Api::Offline | Api::Ollama | Api::ClaudeCli)
                || self.is_local() =>
            {
                Ok(None)
            }
            _ => Err(ProviderError::no_api_key(&self.provider)),
        }
    }

    /// Whether the base address is on this machine, where keys are not usual.
    pub fn is_local(&self) -> bool {
        reqwest::Url::parse(&self.base_url).is_ok_and(|url| is_loopback(&url))
    }
}

/// The error of a model that cannot be asked as long as the config is as it is: nothing rests
/// for that, so that each who asks is told why.
fn not_there(why: &str) -> ProviderError {
    let error = ProviderError::new(ProviderErrorKind::BadRequest, why);
    ProviderError { status: Some(404), ..error }
}

/// A provider, as the catalogue sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderInfo {
    /// Its id.
    pub id: String,
    /// How to talk to it.
    pub api: Api,
    /// Where its API begins.
    pub base_url: String,
    /// Whether there is a key for it.
    pub has_key: bool,
    /// How many models it has.
    pub models: usize,
}

impl ProviderInfo {
    pub(super) fn of(model: &ModelInfo) -> Self {
        Self {
            id: model.provider.clone(),
            api: model.api,
            base_url: model.base_url.clone(),
            has_key: model.api_key.is_some(),
            models: 1,
        }
    }
}
