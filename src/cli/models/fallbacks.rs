//! `clawgate models fallbacks`: who answers when the default model fails.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::set::{Meant, meant};
use super::{Change, Facts, Told, change};
use crate::cli::args::JsonArgs;
use crate::cli::format::table;
use crate::cli::output::say;
use crate::config::Env;
use crate::config::document::ConfigWrite;
use crate::providers::Catalog;
use crate::support::json;

const KEY: &str = "agents.defaults.model.fallbacks";

/// Arguments of `clawgate models fallbacks`.
#[derive(Debug, Clone, Args)]
pub struct FallbacksArgs {
    #[command(subcommand)]
    command: FallbacksCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum FallbacksCommand {
    /// Show them in their order
    List(JsonArgs),
    /// Add one at the end: a name, an alias, or part of a name
    Add(ModelArgs),
    /// Take one away
    Remove(ModelArgs),
    /// Take all away
    Clear(JsonArgs),
}

#[derive(Debug, Clone, Args)]
struct ModelArgs {
    /// The model: provider/model, an alias, or part of a name
    model: String,
    #[command(flatten)]
    json: JsonArgs,
}

/// Runs one of them.
pub fn run(args: &FallbacksArgs, env: &Env) -> anyhow::Result<ExitCode> {
    match &args.command {
        FallbacksCommand::List(args) => list(args.json, env),
        FallbacksCommand::Add(args) => change(|facts| add(facts, &args.model), args.json.json, env),
        FallbacksCommand::Remove(args) => {
            change(|facts| remove(facts, &args.model), args.json.json, env)
        }
        FallbacksCommand::Clear(args) => change(|facts| put(facts, &[], None), args.json, env),
    }
}

fn list(as_json: bool, env: &Env) -> anyhow::Result<ExitCode> {
    let fallbacks = written(&Facts::find(env)?.settings.raw);
    let text = if as_json {
        format!("{:#}\n", json!({"fallbacks": fallbacks}))
    } else if fallbacks.is_empty() {
        "No fallbacks.\n".to_owned()
    } else {
        table(&fallbacks.into_iter().map(|name| [name]).collect::<Vec<_>>())
    };
    say(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn add(facts: &Facts, model: &str) -> anyhow::Result<Change> {
    let catalog = facts.failover.catalog();
    let found = meant(catalog, model)?;
    let name = found.name.to_string();
    let mut fallbacks = written(&facts.settings.raw);
    if fallbacks.iter().all(|known| name_of(catalog, known) != name) {
        fallbacks.push(name);
    }
    put(facts, &fallbacks, Some(&found))
}

fn remove(facts: &Facts, model: &str) -> anyhow::Result<Change> {
    let catalog = facts.failover.catalog();
    let named = meant(catalog, model).ok().map(|found| found.name.to_string());
    let before = written(&facts.settings.raw);
    let is_meant = |known: &String| known == model || Some(name_of(catalog, known)) == named;
    let after: Vec<_> = before.iter().filter(|known| !is_meant(known)).cloned().collect();
    if after.len() == before.len() {
        anyhow::bail!("{model} is no fallback; `clawgate models fallbacks list`");
    }
    put(facts, &after, None)
}

fn put(facts: &Facts, fallbacks: &[String], new: Option<&Meant>) -> anyhow::Result<Change> {
    let patch = patch(&facts.settings.raw, fallbacks, new)?;
    let shown = if fallbacks.is_empty() { "empty".to_owned() } else { fallbacks.join(", ") };
    let told = Told { key: KEY.to_owned(), model: json!(fallbacks), shown };
    Ok(Change { write: ConfigWrite::Merge(patch.to_string()), told })
}

/// The name of a model that the file may name by its alias; one that is no model any more
/// has only what is written.
fn name_of(catalog: &Catalog, written: &str) -> String {
    let usual = &catalog.default_choice().model.provider;
    match catalog.exactly(written, usual) {
        Ok(Some(model)) => model.reference().to_string(),
        _ => written.to_owned(),
    }
}

/// Those that the file names.
fn written(raw: &Value) -> Vec<String> {
    let list = raw.pointer("/agents/defaults/model/fallbacks").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// What puts them into the file.
fn patch(raw: &Value, fallbacks: &[String], new: Option<&Meant>) -> anyhow::Result<Value> {
    let mut model = json!({"fallbacks": fallbacks});
    match raw.pointer("/agents/defaults/model") {
        // It has no room for more than one name.
        Some(Value::String(primary)) => model["primary"] = json!(primary),
        Some(Value::Object(model)) if model.contains_key("primary") => {}
        _ => anyhow::bail!("there is no default model yet; `clawgate models set` chooses one"),
    }
    let mut patch = json!({"agents": {"defaults": {"model": model}}});
    if let Some(new) = new.filter(|new| !new.is_listed) {
        // A list of allowed models without it would forbid it.
        patch["agents"]["defaults"]["models"][new.name.to_string()] = json!({});
    }
    Ok(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_is_only_a_name_gets_room_for_fallbacks() {
        let raw = json!({"agents": {"defaults": {"model": "a/b"}}});
        let of = |raw: &Value| patch(raw, &["c/d".to_owned()], None);
        let expected = json!({"agents": {"defaults": {"model":
            {"primary": "a/b", "fallbacks": ["c/d"]}}}});
        assert_eq!(of(&raw).unwrap(), expected);
        let raw = json!({"agents": {"defaults": {"model": {"primary": "a/b"}}}});
        let expected = json!({"agents": {"defaults": {"model": {"fallbacks": ["c/d"]}}}});
        assert_eq!(of(&raw).unwrap(), expected);
        assert!(of(&json!({})).unwrap_err().to_string().contains("models set"));
    }
}
