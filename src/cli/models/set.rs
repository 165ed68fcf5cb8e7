//! `clawgate models set`.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::super::output::say;
use super::Facts;
use crate::config::edit::{ValuePath, set};
use crate::config::{Env, edit_file};
use crate::providers::{Catalog, ModelRef, NameError, known_provider};

/// Arguments of `clawgate models set`.
#[derive(Debug, Clone, Args)]
pub struct SetArgs {
    /// The model: provider/model, an alias, or part of a name
    model: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Writes the default model into the config file, and nothing else.
pub fn run(args: &SetArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let facts = Facts::find(env)?;
    let Meant { name, is_listed } = meant(facts.failover.catalog(), &args.model)?;
    let path = facts.settings.file.path.clone();
    let key = place(&facts.settings.raw);
    let changed = edit_file(&path, |text| {
        let text = set(text, &key, &json!(name.to_string()))?;
        if is_listed {
            return Ok(text);
        }
        // A list of allowed models without the default would forbid it.
        let allowed = ["agents", "defaults", "models", &name.to_string()];
        set(&text, &ValuePath::of(&allowed), &json!({}))
    })?;
    let text = if args.json {
        let told = json!({"path": path, "key": key.to_string(), "model": name.to_string(),
            "changed": changed});
        format!("{told:#}\n")
    } else {
        let restart = if changed { "; restart the gateway to use it" } else { ", as before" };
        format!("{key} is {name} (in {}){restart}\n", path.display())
    };
    say(&text)?;
    Ok(ExitCode::SUCCESS)
}

struct Meant {
    name: ModelRef,
    /// Whether it may be chosen as things are.
    is_listed: bool,
}

fn meant(catalog: &Catalog, written: &str) -> anyhow::Result<Meant> {
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

/// Where the default model is written, or is to be.
fn place(raw: &Value) -> ValuePath {
    let written = raw.pointer("/agents/defaults/model");
    if written.is_some_and(Value::is_string) {
        ValuePath::of(&["agents", "defaults", "model"])
    } else {
        ValuePath::of(&["agents", "defaults", "model", "primary"])
    }
}
