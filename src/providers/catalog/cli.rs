//! The models of a Claude Code CLI.
//!
//! Owns: which ones it has: Anthropic's, and those that the configuration
//! names. Promises: none unless the CLI is configured; all take pictures, as those of
//! Anthropic do.

use std::sync::Arc;

use super::CatalogSources;
use super::build::{bare, timeout, with_known};
use super::known;
use super::model::{Api, InputKind, ModelInfo, ModelRef};
use crate::config::cli_backend::CLAUDE_CLI;

/// Whose models they are.
const MAKER: &str = "anthropic";

/// Its models.
pub fn models(sources: &CatalogSources<'_>) -> Vec<ModelInfo> {
    let Some(backend) = sources.cli else { return Vec::new() };
    let backend = Arc::new(backend.in_environment(sources.env));
    let timeout = sources.models.providers.get(CLAUDE_CLI).and_then(timeout);
    let plain = |id: &str| {
        let mut model = ModelInfo { id: id.into(), name: id.into(), ..bare(CLAUDE_CLI) };
        model.api = Api::ClaudeCli;
        model.reasoning = true;
        model.input = vec![InputKind::Text, InputKind::Image];
        model.timeout = timeout;
        Arc::make_mut(&mut model.options).cli = Some(Arc::clone(&backend));
        model
    };
    let known = known::provider(MAKER).into_iter().flat_map(|maker| &maker.models);
    let mut models: Vec<_> = known.map(|model| with_known(plain(model.id), model)).collect();
    for name in sources.wanted.iter().chain(&sources.default) {
        let named = ModelRef::parse(name).filter(|name| name.provider == CLAUDE_CLI);
        let new = named.filter(|name| models.iter().all(|model| !model.is(name)));
        models.extend(new.map(|name| plain(&name.model)));
    }
    models
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::config::cli_backend::CliBackend;
    use crate::config::models::ModelsConfig;
    use crate::config::secrets::ResolvedSecrets;
    use crate::support::json;

    #[test]
    fn a_model_that_only_the_cli_knows_takes_pictures_and_as_long_as_is_configured() {
        let backend = CliBackend {
            command: "claude".into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            clear_env: Vec::new(),
            directory: "/".into(),
            prompts: "/".into(),
            model_aliases: BTreeMap::new(),
        };
        let config = json!({"providers": {"claude-cli": {"timeoutSeconds": 900}}});
        let config: ModelsConfig = serde_json::from_value(config).unwrap();
        let (env, secrets) = (|_: &str| None::<String>, ResolvedSecrets::default());
        let sources = CatalogSources {
            cli: Some(&backend),
            default: Some("claude-cli/opus"),
            ..CatalogSources::plain(&config, &env, &secrets)
        };
        let models = models(&sources);
        assert!(models.iter().all(|it| it.timeout == Some(Duration::from_mins(15))));
        assert!(models.iter().any(|it| it.id == "opus" && it.accepts_images()));
    }
}
