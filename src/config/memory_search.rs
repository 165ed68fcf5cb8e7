//! `memorySearch`: who makes vectors of texts.
//!
//! Owns: the part of that section that says whom to ask and how, for all agents
//! and for one. Promises: a key never shows up in `Debug`. Must not: know which
//! providers there are, or look a secret up.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::ConfigError;
use super::schema::Node;
use super::secrets::{SecretInput, SecretRef};

/// Largest wish for the length of a vector; no model makes longer ones.
pub const DIMENSIONS_MAX: u32 = 65_536;

/// `agents.defaults.memorySearch`, and that of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemorySearchConfig {
    /// Whether anybody is asked at all.
    pub enabled: Option<bool>,
    /// Whom: a name that we know, or one of `models.providers`; `auto` is whoever
    /// there is a key for.
    pub provider: Option<String>,
    /// The provider's name of the model.
    pub model: Option<String>,
    /// Numbers that a vector shall have, where a request does not say.
    #[serde(skip)]
    pub output_dimensionality: Option<u32>,
    /// How the provider is reached, where it is not as usual.
    pub remote: RemoteConfig,
}

/// `memorySearch.remote`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RemoteConfig {
    /// Where its API begins.
    pub base_url: Option<SecretInput>,
    /// Its key.
    pub api_key: Option<SecretInput>,
    /// Headers beside those of the provider; they win.
    pub headers: Option<BTreeMap<String, SecretInput>>,
}

impl MemorySearchConfig {
    /// These, and for what they leave open those of `base`.
    #[must_use]
    pub fn over(&self, base: &Self) -> Self {
        let (own, others) = (&self.remote, &base.remote);
        Self {
            enabled: self.enabled.or(base.enabled),
            provider: self.provider.as_ref().or(base.provider.as_ref()).cloned(),
            model: self.model.as_ref().or(base.model.as_ref()).cloned(),
            output_dimensionality: self.output_dimensionality.or(base.output_dimensionality),
            remote: RemoteConfig {
                base_url: own.base_url.as_ref().or(others.base_url.as_ref()).cloned(),
                api_key: own.api_key.as_ref().or(others.api_key.as_ref()).cloned(),
                headers: own.headers.as_ref().or(others.headers.as_ref()).cloned(),
            },
        }
    }

    /// Every reference to a secret.
    pub fn references(&self) -> impl Iterator<Item = &SecretRef> {
        let headers = self.remote.headers.iter().flat_map(BTreeMap::values);
        let inputs = self.remote.base_url.iter().chain(&self.remote.api_key).chain(headers);
        inputs.filter_map(SecretInput::reference)
    }
}

/// Reads the section; an error names the key inside it.
pub(super) fn read(node: &Node<'_>) -> Result<MemorySearchConfig, ConfigError> {
    let dimensions = node.member("outputDimensionality")?.bounded(1, DIMENSIONS_MAX.into())?;
    Ok(MemorySearchConfig { output_dimensionality: dimensions, ..node.deserialize()? })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use super::*;
    use crate::support::json;

    fn read(value: &Value) -> MemorySearchConfig {
        super::read(&Node::root(value, Path::new("openclaw.json"))).unwrap()
    }

    #[test]
    fn an_agent_leaves_open_what_holds_for_all() {
        let all = read(&json!({"provider": "openai", "model": "m", "outputDimensionality": 256,
            "remote": {"apiKey": "key-1", "headers": {"X": "1"}}, "query": {"maxResults": 3}}));
        let own = read(&json!({"model": "n", "remote": {"headers": {"Y": "2"}}}));
        let expected = read(&json!({"provider": "openai", "model": "n",
            "outputDimensionality": 256,
            "remote": {"apiKey": "key-1", "headers": {"Y": "2"}}}));
        assert_eq!(own.over(&all), expected);
        assert!(!format!("{all:?}").contains("key-1"));
    }
}
