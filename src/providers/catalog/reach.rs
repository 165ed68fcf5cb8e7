//! How a provider is reached, whatever models it has.

use super::build::Source;
use super::known;
use super::model::ModelInfo;
use super::{CatalogError, CatalogSources};

/// The model `id` of a provider, of which nothing but the name is known, reached
/// as the configuration says; at `usual_url` where nobody says where.
///
/// # Errors
/// When nobody does and there is no usual address, or its API is not known.
pub fn reached(
    provider: &str,
    id: &str,
    usual_url: Option<&str>,
    sources: &CatalogSources<'_>,
) -> Result<ModelInfo, CatalogError> {
    let mut config = sources.models.providers.get(provider).cloned().unwrap_or_default();
    if config.base_url.is_none() && known::provider(provider).is_none() {
        config.base_url = usual_url.map(str::to_owned);
    }
    Source::new(provider, &config, sources).bare(id)
}
