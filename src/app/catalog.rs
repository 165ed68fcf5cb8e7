//! The models of a gateway, and what they cost.

use std::sync::Arc;

use super::AppError;
use crate::agent::Models;
use crate::config::secrets::{ResolvedSecrets, SecretRef, resolve, targets};
use crate::config::{Env, Settings};
use crate::protocol::message::Usage;
use crate::providers::credentials::Credentials;
use crate::providers::{Adapters, Catalog, CatalogSources, Failover, ModelRef};
use crate::sessions::Sessions;
use crate::sessions::usage::UsageReports;
use crate::store::Store;
use crate::support::Clock;

/// The models that there are, and what lets us use them.
///
/// # Errors
/// For an API or a secret that there is not.
pub async fn models(
    settings: &Settings,
    env: &Env,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<Failover>, AppError> {
    models_with(settings, env, clock, &ResolvedSecrets::default()).await
}

/// The same, where a secret that is not to be had is taken from `kept`.
///
/// # Errors
/// As there.
pub(super) async fn models_with(
    settings: &Settings,
    env: &Env,
    clock: &Arc<dyn Clock>,
    kept: &ResolvedSecrets,
) -> Result<Arc<Failover>, AppError> {
    let env = &settings.environment(env);
    let lookup = |name: &str| env.get(name);
    let references = settings.models.references().map(|(_, reference)| reference.clone());
    let (mut secrets, lost) = resolve(&references.collect(), &settings.secrets, env).await;
    let is_written = |reference: &SecretRef| {
        let all = targets(&settings.raw);
        all.iter().any(|target| target.is_needed("") && target.reference == *reference)
    };
    for (reference, source) in lost {
        // A text of which a variable is not set: its provider says so to whoever asks it.
        if !is_written(&reference) {
            continue;
        }
        let Some(secret) = kept.get(&reference) else {
            let mut places = settings.models.references();
            let place = places.find(|(_, known)| **known == reference).map(|(path, _)| path);
            return Err(AppError::Secret { path: place.unwrap_or_default(), source });
        };
        tracing::warn!(%reference, error = %source, "a secret cannot be had; the last one goes on");
        secrets.insert(reference, secret.clone());
    }
    let credentials = Arc::new(Credentials::new(settings, env, Arc::clone(clock)));
    let stored = credentials.profiles(&settings.agents.default_id).await;
    let has_profile = |provider: &str| stored.iter().any(|it| it.opens(provider));
    let defaults = &settings.agents.defaults;
    let mut wanted = settings.agents.model_names();
    wanted.extend(defaults.models.iter().map(|model| model.name.as_str()));
    let default = defaults.model.as_ref();
    let mut catalog = {
        let sources = CatalogSources {
            models: &settings.models,
            default: default.map(|model| model.primary.as_str()),
            fallbacks: default.and_then(|model| model.fallbacks.as_deref()).unwrap_or_default(),
            named: &defaults.models,
            wanted,
            cli: settings.claude_cli.as_ref(),
            env: &lookup,
            secrets: &secrets,
            has_profile: &has_profile,
        };
        Catalog::build(&Adapters::new(clock), &sources)?
    };
    if let Some(url) = catalog.ollama_url().map(str::to_owned) {
        catalog = catalog.with_ollama(&url).await;
    }
    Ok(Failover::new(Arc::new(catalog), credentials))
}

/// Reports on usage, at the prices of the catalogue.
pub(super) fn usage_reports(
    sessions: &Sessions,
    store: &Arc<dyn Store>,
    clock: &Arc<dyn Clock>,
    models: &Models,
) -> UsageReports {
    let models = models.clone();
    let price = move |provider: &str, model: &str, usage: &Usage| {
        let name = ModelRef { provider: provider.into(), model: model.into() };
        models.catalog().find(&name).map(|model| model.priced(usage.clone()).cost)
    };
    UsageReports::new(sessions.clone(), Arc::clone(store), Arc::clone(clock), Arc::new(price))
}
