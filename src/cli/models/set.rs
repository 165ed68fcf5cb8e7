//! `clawgate models set`.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::{Change, Facts, Told, change};
use crate::cli::args::JsonArgs;
use crate::config::Env;
use crate::config::document::ConfigWrite;
use crate::providers::{Catalog, ModelRef, NameError, known_provider};
use crate::support::json;

/// Arguments of `clawgate models set`.
#[derive(Debug, Clone, Args)]
pub struct SetArgs {
    /// The model: provider/model, an alias, or part of a name
    model: String,
    #[command(flatten)]
    json: JsonArgs,
}

/// Writes the default model into the config file, and nothing else.
pub fn run(args: &SetArgs, env: &Env) -> anyhow::Result<ExitCode> {
    change(|facts| plan(facts, &args.model), args.json.json, env)
}

fn plan(facts: &Facts, model: &str) -> anyhow::Result<Change> {
    let Meant { name, is_listed } = meant(facts.failover.catalog(), model)?;
    let (key, mut patch) = place(&facts.settings.raw, &name);
    if !is_listed {
        // A list of allowed models without the default would forbid it.
        patch["agents"]["defaults"]["models"][name.to_string()] = json!({});
    }
    let name = name.to_string();
    let told = Told { key: key.to_owned(), model: json!(name), shown: name };
    Ok(Change { write: ConfigWrite::Merge(patch.to_string()), told })
}

/// The model that somebody means.
pub(super) struct Meant {
    pub name: ModelRef,
    /// Whether it may be chosen as things are.
    pub is_listed: bool,
}

pub(super) fn meant(catalog: &Catalog, written: &str) -> anyhow::Result<Meant> {
    let usual = catalog.default_choice().model.provider.clone();
    let found = catalog.resolve(written, &usual);
    // A model that is newer than we are has to be named in full.
    let full = ModelRef::parse(written).filter(|name| known_provider(&name.provider).is_some());
    match (found, full) {
        (Ok(model), _) => Ok(Meant { name: model.reference(), is_listed: true }),
        (Err(NameError::NotAllowed(name)), _) => {
            let name = ModelRef::parse(&name)
                .unwrap_or_else(|| catalog.default_choice().model.reference());
            Ok(Meant { name, is_listed: false })
        }
        (Err(NameError::Unknown(_)), Some(name)) => {
            Ok(Meant { is_listed: !catalog.is_limited(), name })
        }
        (Err(error), _) => Err(error.into()),
    }
}

/// Where the default model is written, or is to be, and a patch that puts it there.
fn place(raw: &Value, name: &ModelRef) -> (&'static str, Value) {
    let name = name.to_string();
    let (key, model) = if raw.pointer("/agents/defaults/model").is_some_and(Value::is_string) {
        ("agents.defaults.model", json!(name))
    } else {
        ("agents.defaults.model.primary", json!({"primary": name}))
    };
    (key, json!({"agents": {"defaults": {"model": model}}}))
}
