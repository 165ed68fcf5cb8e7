//! Whether the chosen model answers with the chosen key.

use std::collections::BTreeSet;
use std::time::Duration;

use super::access::Access;
use super::draft::Draft;
use crate::config::models::ModelsConfig;
use crate::config::secrets::{ResolvedSecrets, resolve};
use crate::providers::{
    Adapters, Catalog, CatalogSources, HttpLimits, ModelRef, RetryPolicy, ollama_address, probe,
};
use crate::telemetry;

/// Clients wait 30 seconds for an answer of ours.
const LIMIT: Duration = Duration::from_secs(20);
/// What a provider says may be a page; this much is read.
const SAID_MAX: usize = 400;

/// Asks the model one short question.
///
/// # Errors
/// What to tell the user: what went wrong, and what to do about it.
pub async fn check(draft: &Draft, name: &ModelRef, access: &Access) -> Result<(), String> {
    let models = &draft.settings.models;
    let references: BTreeSet<_> = models.references().map(|(_, it)| it.clone()).collect();
    let (secrets, _) = resolve(&references, &draft.settings.secrets, &draft.env).await;
    let full = name.to_string();
    let catalog = catalog(draft, models, &secrets, vec![&full])?;
    let Some(model) = catalog.find_or_guess(name) else {
        return Err(format!("there is no model {full}"));
    };
    let model = access.apply(draft, &model).await;
    let provider = catalog.provider_for(&model);
    let asked = probe(&*provider, &model, draft.clock.now_ms(), LIMIT).await;
    asked.map_err(|failure| {
        let what = match failure.status {
            "auth" | "auth_permanent" => "the provider does not accept the key",
            "billing" => "the account has no credit left",
            "rate_limit" => "the provider limits the requests of this account",
            "model_not_found" => "the provider does not know this model",
            "timeout" => "no answer came in time",
            _ => "the question was not answered",
        };
        let said: String = failure.message.unwrap_or_default().chars().take(SAID_MAX).collect();
        let said = telemetry::without_secrets(&said).into_owned();
        if said.is_empty() { format!("{full}: {what}") } else { format!("{full}: {what}: {said}") }
    })
}

/// Models of the Ollama at `url`; none when it does not answer.
pub async fn ollama_models(draft: &Draft, url: &str) -> Vec<String> {
    let nothing = ModelsConfig::default();
    let built = catalog(draft, &nothing, &ResolvedSecrets::default(), Vec::new());
    let Ok(catalog) = built else { return Vec::new() };
    let catalog = catalog.with_ollama(url).await;
    let found = catalog.models().iter().filter(|model| model.provider == super::model::OLLAMA);
    found.map(|model| model.id.clone()).collect()
}

/// Where Ollama listens unless somebody says otherwise.
pub fn usual_ollama(draft: &Draft) -> String {
    ollama_address(draft.env.get("OLLAMA_HOST").as_deref())
}

fn catalog(
    draft: &Draft,
    models: &ModelsConfig,
    secrets: &ResolvedSecrets,
    wanted: Vec<&str>,
) -> Result<Catalog, String> {
    // Who waits for the answer is better told at once.
    let patience = RetryPolicy { retries: 0, ..RetryPolicy::default() };
    let adapters = Adapters::with_limits(&draft.clock, HttpLimits::default(), patience);
    let lookup = |name: &str| draft.env.get(name);
    let plain = CatalogSources::plain(models, &lookup, secrets);
    let sources = CatalogSources { wanted, ..plain };
    Catalog::build(&adapters, &sources).map_err(|error| error.to_string())
}
