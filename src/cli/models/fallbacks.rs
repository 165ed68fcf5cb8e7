//! `clawgate models fallbacks`: who answers when the default model fails.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::set::{Meant, meant};
use super::{Facts, change};
use crate::cli::output::say;
use crate::config::Env;
use crate::config::document::ConfigWrite;
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

#[derive(Debug, Clone, Copy, Args)]
struct JsonArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
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
    let facts = Facts::find(env)?;
    let catalog = facts.failover.catalog();
    // The file may name one by its alias; one that is no model any more has only what is
    // written.
    let name_of = |written: &str| {
        let usual = &catalog.default_choice().model.provider;
        match catalog.exactly(written, usual) {
            Ok(Some(model)) => model.reference().to_string(),
            _ => written.to_owned(),
        }
    };
    let before = written(&facts.settings.raw);
    let mut after = before.clone();
    let mut of_new = None;
    let as_json = match &args.command {
        FallbacksCommand::List(args) => {
            let text = if args.json {
                format!("{:#}\n", json!({"fallbacks": before}))
            } else if before.is_empty() {
                "No fallbacks.\n".to_owned()
            } else {
                before.join("\n") + "\n"
            };
            say(&text)?;
            return Ok(ExitCode::SUCCESS);
        }
        FallbacksCommand::Add(args) => {
            let found = meant(catalog, &args.model)?;
            let name = found.name.to_string();
            if after.iter().all(|known| name_of(known) != name) {
                after.push(name);
            }
            of_new = Some(found);
            args.json.json
        }
        FallbacksCommand::Remove(args) => {
            let named = meant(catalog, &args.model).ok().map(|found| found.name.to_string());
            after.retain(|known| *known != args.model && Some(name_of(known)) != named);
            if after.len() == before.len() {
                anyhow::bail!("{} is no fallback; `clawgate models fallbacks list`", args.model);
            }
            args.json.json
        }
        FallbacksCommand::Clear(args) => {
            after.clear();
            args.json
        }
    };
    let patch = patch(&facts.settings.raw, &after, of_new.as_ref())?;
    let shown = if after.is_empty() { "empty".to_owned() } else { after.join(", ") };
    change(&ConfigWrite::Merge(patch.to_string()), KEY, &json!(after), &shown, as_json, env)
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
