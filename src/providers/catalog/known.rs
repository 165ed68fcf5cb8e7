//! Providers and models that we know without configuration.
//!
//! Owns: `models.json`: their names, addresses, limits and prices. The first
//! model of each provider is its default, the first provider with a key is
//! chosen. To add a model, add a line there.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::config::models::is_same_provider;
use crate::support::unpacked;

use super::EnvLookup;
use super::model::{ModelPrice, PriceStep};

/// A provider that works as soon as there is a key for it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KnownProvider {
    /// Its id.
    pub id: &'static str,
    /// Name to show.
    pub name: &'static str,
    /// How to talk to it.
    pub api: &'static str,
    /// Where its API begins.
    pub base_url: &'static str,
    /// Variables that may hold its key; the first one that is set counts.
    pub key_variables: Vec<&'static str>,
    /// Variable that moves its address.
    #[serde(default)]
    pub url_variable: Option<&'static str>,
    /// Its models.
    pub models: Vec<KnownModel>,
}

/// One of its models.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KnownModel {
    /// The provider's name for it.
    pub id: &'static str,
    /// Name to show.
    pub name: &'static str,
    /// Whether it can think before it answers.
    pub reasoning: bool,
    /// What may be sent to it.
    pub input: Vec<&'static str>,
    /// How many tokens a conversation may have.
    pub context_window: u64,
    /// How many tokens an answer may have.
    pub max_tokens: u64,
    cost: KnownCost,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KnownCost {
    input: f64,
    output: f64,
    cache_read: f64,
    cache_write: f64,
    #[serde(default)]
    above: Option<KnownStep>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KnownStep {
    input_tokens: u64,
    input: f64,
    output: f64,
    cache_read: f64,
    cache_write: f64,
}

impl KnownModel {
    /// What it costs.
    pub fn price(&self) -> ModelPrice {
        let cost = &self.cost;
        ModelPrice {
            input: cost.input,
            output: cost.output,
            cache_read: cost.cache_read,
            cache_write: cost.cache_write,
            above: cost.above.as_ref().map(|step| PriceStep {
                input_tokens: step.input_tokens,
                input: step.input,
                output: step.output,
                cache_read: step.cache_read,
                cache_write: step.cache_write,
            }),
        }
    }
}

impl KnownProvider {
    /// The variable that holds its key, and the key.
    pub fn key(&self, env: EnvLookup<'_>) -> Option<(&'static str, String)> {
        self.key_variables.iter().find_map(|name| {
            let value = env(name)?;
            let value = value.trim();
            (!value.is_empty()).then(|| (*name, value.to_owned()))
        })
    }

    /// The variable that people set for its key.
    pub fn key_variable(&self) -> &'static str {
        self.key_variables.first().copied().unwrap_or_default()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
struct File {
    providers: Vec<KnownProvider>,
}

/// `models.json` as gzip (RFC 1952).
const PACKED: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/packed/src/providers/catalog/models.json"));

/// Read when first asked for: a gateway that replaces the models needs none. Its texts stay
/// where they are unpacked.
static KNOWN: LazyLock<Vec<KnownProvider>> = LazyLock::new(|| {
    let file: Result<File, _> = serde_json::from_str(String::leak(unpacked(PACKED)));
    // The file is part of the program; a test reads it.
    file.map(|file| file.providers).unwrap_or_default()
});

/// All of them, in the order in which they are chosen.
pub fn providers() -> &'static [KnownProvider] {
    &KNOWN
}

/// The provider with this id, however it is written.
pub fn provider(id: &str) -> Option<&'static KnownProvider> {
    KNOWN.iter().find(|known| is_same_provider(known.id, id))
}

/// Provider id of the embedded model.
pub const OFFLINE_PROVIDER: &str = "offline";
/// Its name.
pub const OFFLINE_MODEL: &str = "echo-guide";

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::Api;
    use super::*;

    #[test]
    fn the_data_file_is_whole_and_makes_sense() {
        serde_json::from_str::<File>(String::leak(unpacked(PACKED))).unwrap();
        let mut ids = HashSet::new();
        for provider in providers() {
            assert!(ids.insert(&provider.id), "{} is there twice", provider.id);
            assert!(Api::parse(provider.api).is_some(), "{}: {}", provider.id, provider.api);
            assert!(provider.base_url.starts_with("https://"), "{}", provider.base_url);
            assert!(!provider.base_url.ends_with('/'), "{}", provider.base_url);
            assert!(!provider.key_variables.is_empty() && !provider.models.is_empty());
            let mut models = HashSet::new();
            for model in &provider.models {
                let name = format!("{}/{}", provider.id, model.id);
                assert!(models.insert(&model.id), "{name} is there twice");
                assert!(!model.name.is_empty(), "{name}");
                assert!(model.context_window >= 4096 && model.max_tokens >= 1024, "{name}");
                assert!(model.max_tokens <= model.context_window, "{name}");
                assert_eq!(model.input.first(), Some(&"text"), "{name}");
                let price = model.price();
                assert!(price.input <= price.output || price.output == 0.0, "{name}");
                assert!(price.cache_read <= price.input.max(1.0), "{name}");
                let grows = price.above.is_none_or(|step| step.input >= price.input);
                assert!(grows, "{name}");
            }
        }
    }

    #[test]
    fn the_providers_that_people_use_are_known() {
        for id in [
            "anthropic",
            "openai",
            "google",
            "xai",
            "groq",
            "mistral",
            "deepseek",
            "openrouter",
            "zai",
            "cerebras",
        ] {
            assert!(provider(id).is_some(), "{id}");
        }
        let mut models = provider("openai").unwrap().models.iter();
        let pro = models.find(|model| model.id == "gpt-5-pro").unwrap();
        assert_eq!((pro.context_window, pro.max_tokens), (400_000, 272_000));
        let opus = &provider("anthropic").unwrap().models[0];
        assert_eq!((opus.id, opus.context_window), ("claude-opus-5-5", 1_000_000));
        let price =
            ModelPrice { input: 4.0, output: 20.0, cache_read: 0.2, cache_write: 5.0, above: None };
        assert_eq!(opus.price(), price);
    }
}
