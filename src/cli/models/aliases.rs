//! `clawgate models aliases`: short names for models.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::set::meant;
use super::{Change, Facts, Told, change};
use crate::cli::args::JsonArgs;
use crate::cli::format::table;
use crate::cli::output::{note, say};
use crate::config::Env;
use crate::config::document::ConfigWrite;
use crate::config::edit::{Step, ValuePath};
use crate::providers::{ModelRef, known_provider};
use crate::support::json;

/// What names a model in a config, beside the list of those that may be chosen.
const NAMING: [&str; 4] = ["fallbacks", "model", "primary", "reviewModel"];

/// Arguments of `clawgate models aliases`.
#[derive(Debug, Clone, Args)]
pub struct AliasesArgs {
    #[command(subcommand)]
    command: AliasesCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum AliasesCommand {
    /// Show them
    List {
        #[command(flatten)]
        json: JsonArgs,
    },
    /// Give a model a short name
    Add {
        /// The short name
        alias: String,
        /// The model: provider/model, or part of a name
        model: String,
        #[command(flatten)]
        json: JsonArgs,
    },
    /// Take a short name away
    Remove {
        /// The short name
        alias: String,
        #[command(flatten)]
        json: JsonArgs,
    },
}

/// Runs one of them.
pub fn run(args: &AliasesArgs, env: &Env) -> anyhow::Result<ExitCode> {
    match &args.command {
        AliasesCommand::List { json } => list(&known(&Facts::find(env)?), json.json),
        AliasesCommand::Add { alias, model, json } => {
            check(alias)?;
            let mut is_new_list = false;
            let plan = |facts: &Facts| {
                is_new_list = !facts.failover.catalog().is_limited();
                add(facts, alias, model, is_new_list)
            };
            let done = change(plan, json.json, env)?;
            if is_new_list {
                note(
                    "from now on only the models in agents.defaults.models may be chosen, also by jobs",
                );
            }
            Ok(done)
        }
        AliasesCommand::Remove { alias, json } => {
            change(|facts| remove(facts, alias), json.json, env)
        }
    }
}

fn add(facts: &Facts, alias: &str, model: &str, is_new_list: bool) -> anyhow::Result<Change> {
    let found = meant(facts.failover.catalog(), model)?;
    let name = found.name.to_string();
    if let Some(other) = model_of(facts, alias).filter(|other| *other != name) {
        anyhow::bail!(
            "{alias} is {other}; take that away first: clawgate models aliases remove {alias}"
        );
    }
    let mut models = json!({});
    if is_new_list {
        // What has an alias is in the list of the models that may be chosen, which
        // would forbid those that answer now.
        for used in in_use(facts) {
            models[used.to_string()] = json!({});
        }
    }
    models[&name] = json!({"alias": alias});
    let patch = json!({"agents": {"defaults": {"models": models}}});
    let told = Told { key: alias.to_owned(), model: json!(name), shown: name };
    Ok(Change { write: ConfigWrite::Merge(patch.to_string()), told })
}

fn remove(facts: &Facts, alias: &str) -> anyhow::Result<Change> {
    let Some(model) = model_of(facts, alias) else {
        let is_it = |(own, _): &(String, String)| own.eq_ignore_ascii_case(alias);
        if let Some((_, model)) = known(facts).into_iter().find(is_it) {
            anyhow::bail!("OpenClaw gives it to {model}; an `alias` of \"\" there takes it away");
        }
        anyhow::bail!("there is no alias {alias}; `clawgate models aliases list`");
    };
    let steps = ["agents", "defaults", "models", &model, "alias"];
    let steps = steps.map(|step| Step::Key(step.to_owned())).to_vec();
    let shown = format!("no name of {model} any more");
    let told = Told { key: alias.to_owned(), model: Value::Null, shown };
    Ok(Change { write: ConfigWrite::Unset(ValuePath::from(steps)), told })
}

/// The model that the file gives this alias.
fn model_of(facts: &Facts, wanted: &str) -> Option<String> {
    let aliases = written(&facts.settings.raw).into_iter();
    let mut found = aliases.filter(|(alias, _)| alias.eq_ignore_ascii_case(wanted));
    found.next().map(|(_, model)| model)
}

fn list(aliases: &[(String, String)], as_json: bool) -> anyhow::Result<ExitCode> {
    let text = if as_json {
        let all: serde_json::Map<_, _> =
            aliases.iter().map(|(alias, model)| (alias.clone(), json!(model))).collect();
        format!("{:#}\n", json!({"aliases": all}))
    } else if aliases.is_empty() {
        "No aliases.\n".to_owned()
    } else {
        let rows: Vec<_> =
            aliases.iter().map(|(alias, model)| [alias.clone(), model.clone()]).collect();
        table(&rows)
    };
    say(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The models that the config names anywhere, and the default one.
fn in_use(facts: &Facts) -> Vec<ModelRef> {
    let catalog = facts.failover.catalog();
    let usual = catalog.default_choice().model.reference();
    let mut names = facts.settings.agents.model_names();
    names_in(&facts.settings.raw, "", &mut names);
    let known = |name: &str| match catalog.exactly(name, &usual.provider) {
        Ok(Some(model)) => Some(model.reference()),
        // One that is newer than we are.
        _ => ModelRef::parse(name).filter(|name| known_provider(&name.provider).is_some()),
    };
    let mut models: Vec<_> = names.into_iter().filter_map(known).collect();
    models.push(usual);
    models
}

fn names_in<'a>(value: &'a Value, key: &str, names: &mut Vec<&'a str>) {
    match value {
        Value::String(text) if NAMING.contains(&key) => names.push(text),
        Value::Array(items) => {
            for item in items {
                names_in(item, key, names);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                names_in(member, key, names);
            }
        }
        _ => {}
    }
}

/// Aliases of the file, and those that OpenClaw gives to models of its list, with their models.
fn known(facts: &Facts) -> Vec<(String, String)> {
    let models = facts.settings.agents.defaults.models.iter();
    models.filter_map(|model| Some((model.alias.clone()?, model.name.clone()))).collect()
}

/// Aliases of the file and their models.
fn written(raw: &Value) -> Vec<(String, String)> {
    let models = raw.pointer("/agents/defaults/models").and_then(Value::as_object);
    let entries = models.into_iter().flatten();
    let aliases = entries.filter_map(|(model, entry)| {
        Some((entry["alias"].as_str()?.trim().to_owned(), model.clone()))
    });
    aliases.filter(|(alias, _)| !alias.is_empty()).collect()
}

/// What is no name of a model, so that it can be told from one.
fn check(alias: &str) -> anyhow::Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    if alias.is_empty() || !alias.chars().all(fits) {
        anyhow::bail!("{alias:?} is no alias: use letters, digits and the characters _ . : -");
    }
    Ok(())
}
