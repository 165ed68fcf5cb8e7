//! The models of a Claude Code CLI.
//!
//! Owns: which ones it has: Anthropic's, and those that the configuration
//! names. Promises: none unless the CLI is configured.

use std::sync::Arc;

use super::CatalogSources;
use super::build::{bare, with_known};
use super::known;
use super::model::{Api, ModelInfo, ModelRef};
use crate::config::cli_backend::CLAUDE_CLI;

/// Whose models they are.
const MAKER: &str = "anthropic";

/// Its models.
pub fn models(sources: &CatalogSources<'_>) -> Vec<ModelInfo> {
    let Some(backend) = sources.cli else { return Vec::new() };
    let backend = Arc::new(backend.in_environment(sources.env));
    let plain = |id: &str| {
        let mut model = ModelInfo { id: id.into(), name: id.into(), ..bare(CLAUDE_CLI) };
        model.api = Api::ClaudeCli;
        model.reasoning = true;
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
