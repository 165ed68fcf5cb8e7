//! What lets us in, after secrets were looked up again.
//!
//! Owns: keys, headers and certificates of providers that have references to
//! secrets, as they are now. Must not: change anything else of a model.

use std::collections::HashMap;
use std::sync::Arc;

use super::CatalogSources;
use super::build::Source;
use super::model::ModelInfo;

/// What was looked up again, by provider.
#[derive(Default)]
pub(super) struct Renewed(HashMap<String, ModelInfo>);

impl Renewed {
    /// From the providers that refer to secrets.
    pub fn of(sources: &CatalogSources<'_>) -> Self {
        let referring = sources.models.providers.iter().filter(|(_, it)| it.refers());
        let models = referring.filter_map(|(id, config)| {
            let source = Source::new(id, config, sources);
            // Where the API of the provider is not built in, that of one of its models may be.
            let mut own = config.models.iter().enumerate();
            let of_model = || own.find_map(|(index, model)| source.configured(index, model).ok());
            Some((id.to_owned(), source.bare("any").ok().or_else(of_model)?))
        });
        Self(models.collect())
    }

    /// The same model, reached with what lets us in now.
    pub fn apply(&self, model: Arc<ModelInfo>) -> Arc<ModelInfo> {
        let Some(now) = self.0.get(&model.provider) else { return model };
        let mut model = ModelInfo::clone(&model);
        model.api_key.clone_from(&now.api_key);
        model.headers.clone_from(&now.headers);
        let options = Arc::make_mut(&mut model.options);
        options.transport.clone_from(&now.options.transport);
        options.auth.clone_from(&now.options.auth);
        Arc::new(model)
    }
}
