//! The `models` section of `openclaw.json`.
//!
//! Owns: the shape of that section, as OpenClaw writes it. Promises: unknown
//! keys are ignored, providers keep the order of the file, a key never shows up
//! in `Debug`. Must not: fill in variables, which was done before, or judge an
//! API name, which the model catalogue does.
//!
//! ```
//! # use clawgate::config::models::ModelsConfig;
//! let models: ModelsConfig = serde_json::from_str(r#"{
//!   "mode": "merge",
//!   "providers": { "local": {
//!     "baseUrl": "http://127.0.0.1:4010/v1",
//!     "apiKey": "k",
//!     "api": "openai-completions",
//!     "models": [ { "id": "one", "name": "One", "input": ["text", "image"],
//!       "cost": { "input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 0.2 },
//!       "contextWindow": 200000, "maxTokens": 8192 } ] } }
//! }"#)?;
//! let (id, provider) = models.providers.iter().next().expect("one provider");
//! assert_eq!(id, "local");
//! assert!(provider.api_key.is_some());
//! # Ok::<(), serde_json::Error>(())
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::model_options::{CompatConfig, ParamsConfig};
use super::provider_request::ProviderRequest;
use super::schema::Node;
use super::secrets::{SecretInput, SecretRef};
use super::{ConfigError, NamedModel};

/// `models`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelsConfig {
    /// What becomes of the models that we know ourselves.
    pub mode: MergeMode,
    /// Providers in the order of the file.
    pub providers: ProviderConfigs,
}

impl ModelsConfig {
    /// Every reference to a secret, with the path where it stands.
    pub fn references(&self) -> impl Iterator<Item = (String, &SecretRef)> {
        self.providers.iter().flat_map(|(id, provider)| {
            let at = move |(path, reference)| (format!("models.providers.{id}.{path}"), reference);
            provider.references().map(at)
        })
    }
}

/// Reads the section; an error names the key inside it.
pub(super) fn read(node: &Node<'_>) -> Result<ModelsConfig, ConfigError> {
    node.deserialize()
}

/// `models.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MergeMode {
    /// They stay beside the configured ones.
    #[default]
    Merge,
    /// Only the configured ones are there.
    Replace,
}

/// What OpenClaw calls some providers as well.
const OTHER_IDS: [(&str, &str); 12] = [
    ("z.ai", "zai"),
    ("z-ai", "zai"),
    ("modelstudio", "qwen"),
    ("qwencloud", "qwen"),
    ("opencode-zen", "opencode"),
    ("opencode-go-auth", "opencode-go"),
    ("kimi-code", "kimi"),
    ("kimi-coding", "kimi"),
    ("bedrock", "amazon-bedrock"),
    ("aws-bedrock", "amazon-bedrock"),
    ("bytedance", "volcengine"),
    ("doubao", "volcengine"),
];

/// What OpenClaw calls models of `agents.defaults.models` that have no alias there.
const USUAL_ALIASES: [(&str, &str); 8] = [
    ("opus", "anthropic/claude-opus-4-7"),
    ("sonnet", "anthropic/claude-sonnet-4-6"),
    ("gpt", "openai/gpt-5.4"),
    ("gpt-mini", "openai/gpt-5.4-mini"),
    ("gpt-nano", "openai/gpt-5.4-nano"),
    ("gemini", "google/gemini-3.1-pro-preview"),
    ("gemini-flash", "google/gemini-3-flash-preview"),
    ("gemini-flash-lite", "google/gemini-3.1-flash-lite-preview"),
];

/// Gives models those aliases, unless another one has it by the file. An empty one is none, and
/// says that the model is to have none.
pub(super) fn fill_aliases(models: &mut [NamedModel]) {
    for (alias, name) in USUAL_ALIASES {
        let is_it = |own: &str| own.eq_ignore_ascii_case(alias);
        if models.iter().any(|model| model.alias.as_deref().is_some_and(is_it)) {
            continue;
        }
        if let Some(model) = models.iter_mut().find(|it| it.name == name && it.alias.is_none()) {
            model.alias = Some(alias.to_owned());
        }
    }
    for model in models {
        model.alias = model.alias.take().filter(|alias| !alias.is_empty());
    }
}

/// Whether two ids mean one provider: in any case, and by any of its names.
pub fn is_same_provider(one: &str, other: &str) -> bool {
    usual_id(one).eq_ignore_ascii_case(usual_id(other))
}

/// The id of a provider as it is written usually.
pub fn provider_id(written: &str) -> String {
    usual_id(written).to_ascii_lowercase()
}

fn usual_id(written: &str) -> &str {
    let id = written.trim();
    let other = OTHER_IDS.iter().find(|(other, _)| other.eq_ignore_ascii_case(id));
    other.map_or(id, |(_, usual)| *usual)
}

/// `models.providers`, in the order of the file: the first one counts when no
/// default model is named.
#[derive(Debug, Clone, Default)]
pub struct ProviderConfigs(Vec<(String, ProviderConfig)>);

impl ProviderConfigs {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ProviderConfig)> {
        self.0.iter().map(|(id, provider)| (id.as_str(), provider))
    }

    /// The one with this id, however it is written; rather the one where it is written so.
    pub fn get(&self, id: &str) -> Option<&ProviderConfig> {
        let exact = self.iter().find(|(known, _)| *known == id);
        let found = exact.or_else(|| self.iter().find(|(known, _)| is_same_provider(known, id)));
        found.map(|(_, provider)| provider)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de> Deserialize<'de> for ProviderConfigs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ProvidersVisitor)
    }
}

struct ProvidersVisitor;

impl<'de> Visitor<'de> for ProvidersVisitor {
    type Value = ProviderConfigs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of providers by id")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ProviderConfigs, A::Error> {
        let mut providers: Vec<(String, ProviderConfig)> = Vec::new();
        while let Some((id, provider)) = map.next_entry::<String, ProviderConfig>()? {
            // A key given twice: the last one counts, as in every JSON reader.
            providers.retain(|(known, _)| *known != id);
            providers.push((id, provider));
        }
        Ok(ProviderConfigs(providers))
    }
}

/// `models.providers.<id>`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderConfig {
    /// Where its API begins, such as `https://api.openai.com/v1`.
    pub base_url: Option<String>,
    /// Its key.
    pub api_key: Option<SecretInput>,
    /// Which API it speaks.
    pub api: Option<String>,
    /// Headers to send with each request; they win over our own.
    pub headers: BTreeMap<String, SecretInput>,
    /// Its models.
    pub models: Vec<ModelConfig>,
    /// How many seconds it may stay silent before the call is given up.
    pub timeout_seconds: Option<u32>,
    /// What is sent with each call.
    pub params: ParamsConfig,
    /// How it is reached.
    pub request: ProviderRequest,
}

impl ProviderConfig {
    /// Every reference to a secret, with its path below the provider.
    pub fn references(&self) -> impl Iterator<Item = (String, &SecretRef)> {
        let key = self.api_key.as_ref().and_then(SecretInput::reference);
        let key = key.map(|reference| ("apiKey".to_owned(), reference));
        let headers = self
            .headers
            .iter()
            .filter_map(|(name, value)| Some((format!("headers.{name}"), value.reference()?)));
        let request = self.request.references();
        let request = request.map(|(path, reference)| (format!("request.{path}"), reference));
        key.into_iter().chain(headers).chain(request)
    }

    /// Whether there is such a reference.
    pub fn refers(&self) -> bool {
        self.references().next().is_some()
    }
}

/// `models.providers.<id>.models[]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelConfig {
    /// The provider's name for it.
    pub id: String,
    /// Name to show; the id when there is none.
    pub name: Option<String>,
    /// An API of its own, when it differs from the provider's.
    pub api: Option<String>,
    /// Whether it can think before it answers.
    #[serde(default)]
    pub reasoning: bool,
    /// What may be sent to it: `text`, `image`.
    pub input: Option<Vec<String>>,
    /// Price in US dollars per million tokens.
    #[serde(default)]
    pub cost: CostConfig,
    /// How many tokens a conversation may have.
    #[serde(default, deserialize_with = "tokens")]
    pub context_window: Option<u64>,
    /// How many tokens an answer may have.
    #[serde(default, deserialize_with = "tokens")]
    pub max_tokens: Option<u64>,
    /// What is sent with each call; wins over the provider's.
    #[serde(default)]
    pub params: ParamsConfig,
    /// What its server understands.
    #[serde(default)]
    pub compat: CompatConfig,
}

/// A number of tokens, of which the original takes parts as well.
fn tokens<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let Some(number) = Option::<f64>::deserialize(deserializer)? else { return Ok(None) };
    let whole = Duration::try_from_secs_f64(number);
    whole.map(|whole| Some(whole.as_secs())).map_err(|_| D::Error::custom("must not be below 0"))
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CostConfig {
    /// Prompt.
    pub input: f64,
    /// Answer.
    pub output: f64,
    /// Prompt, read from the provider's cache.
    pub cache_read: f64,
    /// Prompt, written to the provider's cache.
    pub cache_write: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    fn read(value: serde_json::Value) -> ModelsConfig {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_recorded_section_is_read_whole() {
        let models = read(json!({
            "mode": "replace", "providers": { "mock": {
                "baseUrl": "http://127.0.0.1:4010/v1", "apiKey": "k", "api": "openai-completions",
                "timeoutSeconds": 90, "auth": "api-key", "headers": {"X-Team": "blue"},
                "models": [{
                    "id": "mock-1", "name": "Mock One", "reasoning": true, "input": ["text", "image"],
                    "cost": {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 0.2},
                    "contextWindow": 200_000, "maxTokens": 8192, "compat": {},
                }],
            }},
        }));
        assert_eq!(models.mode, MergeMode::Replace);
        let mock = models.providers.get("mock").unwrap();
        assert_eq!(mock.base_url.as_deref(), Some("http://127.0.0.1:4010/v1"));
        assert_eq!((mock.timeout_seconds, mock.headers.len()), (Some(90), 1));
        let model = &mock.models[0];
        assert_eq!((model.id.as_str(), model.name.as_deref()), ("mock-1", Some("Mock One")));
        assert!(model.reasoning);
        assert_eq!((model.context_window, model.max_tokens), (Some(200_000), Some(8192)));
        let cost = CostConfig { input: 1.0, output: 2.0, cache_read: 0.1, cache_write: 0.2 };
        assert_eq!(model.cost, cost);
    }

    #[test]
    fn a_part_of_a_token_counts_for_nothing() {
        let model = json!({"id": "a", "contextWindow": 128_000.5, "maxTokens": 8192});
        let models = read(json!({"providers": {"p": {"models": [model, {"id": "b"}]}}}));
        let models = &models.providers.get("p").unwrap().models;
        assert_eq!((models[0].context_window, models[0].max_tokens), (Some(128_000), Some(8192)));
        assert_eq!((models[1].context_window, models[1].max_tokens), (None, None));
        let below: Result<ModelConfig, _> =
            serde_json::from_value(json!({"id": "a", "maxTokens": -1}));
        assert!(below.is_err());
    }

    #[test]
    fn providers_keep_the_order_of_the_file() {
        let models = read(json!({"providers": {"zed": {}, "alpha": {}, "mid": {}}}));
        let ids: Vec<_> = models.providers.iter().map(|(id, _)| id).collect();
        assert_eq!(ids, ["zed", "alpha", "mid"]);
    }

    #[test]
    fn a_provider_is_found_however_its_id_is_written() {
        let models = read(json!({"providers": {"Mock": {}, "z-ai": {"baseUrl": "u"}}}));
        for id in ["mock", " MOCK ", "Mock"] {
            assert!(models.providers.get(id).is_some(), "{id}");
        }
        for id in ["zai", "Z.AI"] {
            assert_eq!(models.providers.get(id).unwrap().base_url.as_deref(), Some("u"), "{id}");
        }
        assert!(models.providers.get("mock2").is_none());
        let models = read(json!({"providers": {"OpenAI": {"baseUrl": "u"}, "openai": {}}}));
        assert!(models.providers.get("openai").unwrap().base_url.is_none());
    }

    #[test]
    fn debug_output_hides_keys() {
        let provider = json!({"apiKey": "sk-1", "headers": {"X-Key": "sk-2"}});
        let models = read(json!({"providers": {"p": provider}}));
        assert!(!format!("{models:?}").contains("sk-"));
    }

    #[test]
    fn references_are_told_with_their_paths() {
        let env = |id: &str| json!({"source": "env", "id": id});
        let models = read(json!({"providers": {
            "a": {"apiKey": env("A"), "headers": {"x": env("X"), "y": "literal"}},
            "b": {"apiKey": "literal", "request": {"tls": {"key": env("K")}}},
        }}));
        let told: Vec<_> =
            models.references().map(|(path, reference)| (path, reference.id.as_str())).collect();
        assert_eq!(
            told,
            [
                ("models.providers.a.apiKey".to_owned(), "A"),
                ("models.providers.a.headers.x".to_owned(), "X"),
                ("models.providers.b.request.tls.key".to_owned(), "K"),
            ]
        );
    }
}
