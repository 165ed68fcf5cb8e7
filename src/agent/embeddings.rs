//! Vectors of texts, for an agent.
//!
//! Owns: what of the configuration says who makes them. Promises: secrets are
//! those of now; they go to the provider that the configuration names and to
//! nobody else. Must not: know who asks.

use crate::config::memory_search::MemorySearchConfig;
use crate::config::secrets::{ResolvedSecrets, resolve};
use crate::config::{Env, Settings, hide_variable};
use crate::providers::{
    CatalogSources, EmbeddingModel, EmbeddingSettings, Embeddings, EmbeddingsRefused, ProviderError,
};
use crate::sessions::AgentId;
use crate::telemetry;

use super::Models;

/// What vectors are wanted.
#[derive(Debug)]
pub struct EmbeddingWish<'a> {
    /// For which agent.
    pub agent: &'a AgentId,
    /// Of which texts.
    pub texts: &'a [String],
    /// The model, maybe with its provider, where it is not the agent's.
    pub model: Option<&'a str>,
    /// How many numbers each shall have.
    pub dimensions: Option<u32>,
}

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddingError {
    /// Nobody is asked.
    #[error(transparent)]
    Refused(#[from] EmbeddingsRefused),
    /// The provider makes other ones only.
    #[error("dimensions: the model {model} makes vectors of {has} numbers, not of {wanted}")]
    Dimensions {
        /// Which model.
        model: String,
        /// How many they have.
        has: usize,
        /// How many were wanted.
        wanted: u32,
    },
    /// The provider failed.
    #[error("{model}: {source}")]
    Failed {
        /// Which model.
        model: String,
        /// How.
        source: ProviderError,
    },
}

/// The vectors, by the provider of the agent's `memorySearch`.
///
/// # Errors
/// When nobody makes them.
pub async fn embed(
    models: &Models,
    settings: &Settings,
    env: &Env,
    wish: &EmbeddingWish<'_>,
) -> Result<Embeddings, EmbeddingError> {
    let agent = wish.agent.as_str();
    let model = choose(models, settings, env, wish).await?;
    let name = || model.info.reference().to_string();
    let configured = settings.agents.memory_search(agent).output_dimensionality;
    let dimensions = wish.dimensions.or(configured);
    let made = models.failover().embed(agent, &model, wish.texts, dimensions).await;
    let made = made.map_err(|source| EmbeddingError::Failed { model: name(), source })?;
    // Vectors of another length than who asks keeps are of no use to him.
    let has = made.vectors.first().map_or(0, Vec::len);
    match wish.dimensions {
        Some(wanted) if has > 0 && u32::try_from(has) != Ok(wanted) => {
            Err(EmbeddingError::Dimensions { model: name(), has, wanted })
        }
        _ => Ok(made),
    }
}

/// The model that is asked.
async fn choose(
    models: &Models,
    settings: &Settings,
    env: &Env,
    wish: &EmbeddingWish<'_>,
) -> Result<EmbeddingModel, EmbeddingsRefused> {
    let agent = wish.agent.as_str();
    let config = settings.agents.memory_search(agent);
    let env = settings.environment(env);
    let of_providers = settings.models.references().map(|(_, reference)| reference);
    let references = of_providers.chain(config.references()).cloned().collect();
    let (secrets, lost) = resolve(&references, &settings.secrets, &env).await;
    for (reference, error) in lost {
        tracing::warn!(%reference, %error, "a secret of memorySearch or models cannot be had");
    }
    hide(&config, &secrets);
    let mut candidates = {
        let lookup = |name: &str| env.get(name);
        let sources = CatalogSources::plain(&settings.models, &lookup, &secrets);
        EmbeddingSettings { config: &config, wanted: wish.model, sources: &sources }.candidates()?
    };
    let failover = models.failover();
    // Who is named is asked in any case: its error says what is missing.
    if candidates.len() == 1 {
        return candidates.pop().ok_or_else(nobody);
    }
    for candidate in candidates {
        if failover.has_credential(agent, &candidate).await {
            return Ok(candidate);
        }
    }
    Err(nobody())
}

/// The log does not show what is in the section.
fn hide(config: &MemorySearchConfig, secrets: &ResolvedSecrets) {
    let key = config.remote.api_key.as_ref().and_then(|input| input.resolve(secrets));
    key.iter().for_each(telemetry::hide);
    for (name, input) in config.remote.headers.iter().flatten() {
        input.resolve(secrets).iter().for_each(|value| hide_variable(name, value));
    }
}

fn nobody() -> EmbeddingsRefused {
    EmbeddingsRefused::NotConfigured(
        "set agents.defaults.memorySearch.provider, or a key of openai, google, voyage, mistral \
         or deepinfra"
            .into(),
    )
}
