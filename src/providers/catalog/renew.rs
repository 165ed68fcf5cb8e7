//! What lets us in, after secrets were looked up again.
//!
//! Owns: keys, headers and certificates of providers that have references to
//! secrets, as they are now. Must not: change anything else of a model.

use std::sync::Arc;

use super::CatalogSources;
use super::build::Source;
use super::model::ModelInfo;

/// What was looked up again: a model of each provider.
#[derive(Default)]
pub(super) struct Renewed(Vec<ModelInfo>);

impl Renewed {
    /// From the providers that refer to secrets.
    pub fn of(sources: &CatalogSources<'_>) -> Self {
        let referring = sources.models.providers.iter().filter(|(_, it)| it.refers());
        let models = referring.filter_map(|(id, config)| {
            let source = Source::new(id, config, sources);
            // Where the API of the provider is not built in, that of one of its models may be.
            let mut own = config.models.iter().enumerate();
            let of_model = || own.find_map(|(index, model)| source.configured(index, model).ok());
            source.bare("any").ok().or_else(of_model)
        });
        Self(models.collect())
    }

    /// The same model, reached with what lets us in now.
    pub fn apply(&self, model: Arc<ModelInfo>) -> Arc<ModelInfo> {
        // Two may have one id that is written differently. What lets us in goes to its own server.
        let is_meant = |it: &&ModelInfo| it.is_of(&model.provider) && it.base_url == model.base_url;
        let Some(now) = self.0.iter().find(is_meant) else { return model };
        let mut model = ModelInfo::clone(&model);
        model.api_key.clone_from(&now.api_key);
        model.headers.clone_from(&now.headers);
        let options = Arc::make_mut(&mut model.options);
        options.transport.clone_from(&now.options.transport);
        options.auth.clone_from(&now.options.auth);
        Arc::new(model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::testing::model;
    use crate::support::Secret;

    #[test]
    fn a_new_key_goes_to_the_server_of_its_provider_alone() {
        let old = model("openai-completions");
        let now = ModelInfo {
            provider: "Mock".into(),
            api_key: Some(Secret::new("new-key")),
            ..old.clone()
        };
        let renewed = Renewed(vec![now]);
        let key = |model: ModelInfo| renewed.apply(Arc::new(model)).api_key.clone().unwrap();
        let elsewhere = ModelInfo { base_url: "http://elsewhere".into(), ..old.clone() };
        assert_eq!(key(elsewhere).expose(), "mock-key");
        assert_eq!(key(old).expose(), "new-key");
    }
}
