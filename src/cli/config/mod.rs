//! `clawgate config`: looks at the configuration, and changes the file.
//!
//! Promises: works with and without a running gateway, which sees the file; no
//! secret is shown; what a gateway would not start with is not written.

mod change;

use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::Value;

use change::{GetArgs, SchemaArgs, SetArgs, UnsetArgs};

use super::args::JsonArgs;
use super::format::table;
use super::output::{note, say};
use super::{OverrideArgs, block_on, one_thread};
use crate::agent::roster::misplaced;
use crate::agent::tools::misnamed;
use crate::app;
use crate::config::document::{self, ConfigIssue};
use crate::config::edit::ValuePath;
use crate::config::keys::{self, Found};
use crate::config::redact::redacted_at;
use crate::config::{self, ConfigError, Env, Explained, Origin, Overrides, Paths, Settings};
use crate::support::json;

/// Arguments of `clawgate config`.
#[derive(Debug, Clone, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum ConfigCommand {
    /// Print a value of the config file, with what it includes
    Get(GetArgs),
    /// Write a value into the config file; comments stay
    Set(SetArgs),
    /// Take a value out of the config file
    Unset(UnsetArgs),
    /// Print what may stand in the config file, as JSON schema
    Schema(SchemaArgs),
    /// Show the effective values, but for models, and where they come from
    Explain {
        /// Only this key, or the keys below it, such as gateway.auth
        key: Option<String>,
        #[command(flatten)]
        json: JsonArgs,
        /// Explain what the gateway would do with these flags.
        #[command(flatten)]
        overrides: Box<OverrideArgs>,
    },
    /// Print the path of the config file
    #[command(alias = "path")]
    File,
    /// Check the config file
    Validate {
        #[command(flatten)]
        json: JsonArgs,
    },
}

/// Runs one of them.
pub fn run(args: &ConfigArgs, env: &Env) -> anyhow::Result<ExitCode> {
    match &args.command {
        ConfigCommand::Explain { key, json, overrides } => {
            let settings = look(env, overrides.to_overrides())?;
            explain(&settings, key.as_deref(), json.json)
        }
        ConfigCommand::Get(args) => change::get(args, env),
        ConfigCommand::Set(args) => change::set(args, env),
        ConfigCommand::Unset(args) => change::unset(args, env),
        ConfigCommand::Schema(args) => change::schema(args),
        ConfigCommand::File => {
            say(&format!("{}\n", Paths::resolve(env)?.config_path.display()))?;
            Ok(ExitCode::SUCCESS)
        }
        ConfigCommand::Validate { json } => validate(env, json.json),
    }
}

fn explain(settings: &Settings, key: Option<&str>, json: bool) -> anyhow::Result<ExitCode> {
    let mut lines = below(settings.explain(), key);
    let path = key.and_then(|key| key.parse::<ValuePath>().ok());
    let known = path.as_ref().and_then(|path| Some((path, keys::find(path.steps())?)));
    if lines.is_empty() {
        let Some((path, found)) = &known else {
            bail!(
                "there is no key {}; `clawgate config explain` lists all",
                key.unwrap_or_default()
            );
        };
        lines.push(written(settings, path, found));
    }
    if json {
        say(&to_json(&lines))?;
    } else {
        let about =
            known.map_or_else(String::new, |(_, found)| format!("\n{}\n", keys::describe(&found)));
        say(&format!("{}{about}", to_table(&lines)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What the file says of a key that is not among the effective values.
fn written(settings: &Settings, path: &ValuePath, found: &Found) -> Explained {
    let file = Origin::File(settings.file.path.clone());
    let default = found.key.map_or("", |key| key.default);
    let (value, origin) = match path.find(&settings.raw) {
        Some(value) => (redacted_at(path.steps(), value).to_string(), file),
        None if default.is_empty() => ("not set".to_owned(), Origin::Default),
        None => (default.to_owned(), Origin::Default),
    };
    Explained { key: path.to_string(), value, origin }
}

fn look(env: &Env, overrides: Overrides) -> Result<Settings, ConfigError> {
    config::load(env, &Overrides { read_only: true, ..overrides })
}

/// The settings, and what is to be told of them.
fn check(env: &Env) -> anyhow::Result<(Settings, Vec<ConfigIssue>)> {
    let settings = look(env, Overrides::default())?;
    let missing = block_on(&one_thread()?, app::check(&settings, env))?;
    let warnings = document::warnings(&settings.raw).into_iter();
    let warnings = warnings.chain(settings.unset.iter().map(ConfigIssue::from));
    let missing = missing.into_iter().map(ConfigIssue::from);
    let misnamed = misnamed(&settings.raw).into_iter();
    let misplaced = misplaced(&settings, env).into_iter();
    let unusable = settings.channels.unusable().into_iter();
    let warnings = warnings.chain(misnamed).chain(misplaced);
    let warnings = warnings.chain(unusable).chain(missing).collect();
    Ok((settings, warnings))
}

fn validate(env: &Env, as_json: bool) -> anyhow::Result<ExitCode> {
    let path = Paths::resolve(env)?.config_path;
    let checked = check(env);
    if !as_json {
        let (settings, warnings) = checked?;
        let state = if settings.file.exists { "is valid" } else { "is not there; defaults apply" };
        say(&format!("{} {state}\n", path.display()))?;
        for ConfigIssue { path, message } in warnings {
            note(&format!("warning: {path} {message}"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let shown = path.to_string_lossy();
    let (answer, code) = match checked {
        Ok((settings, warnings)) => {
            let exists = settings.file.exists;
            let warnings = warnings.into_iter();
            let warnings: Vec<_> =
                warnings.map(|it| json!({"path": it.path, "message": it.message})).collect();
            let answer =
                json!({"valid": true, "path": shown, "exists": exists, "warnings": warnings});
            (answer, ExitCode::SUCCESS)
        }
        Err(error) => (
            json!({"valid": false, "path": shown, "error": format!("{:#}", error)}),
            ExitCode::FAILURE,
        ),
    };
    say(&format!("{answer:#}\n"))?;
    Ok(code)
}

/// The line of `key` and those below it; all without a key.
fn below(lines: Vec<Explained>, key: Option<&str>) -> Vec<Explained> {
    let Some(key) = key else { return lines };
    let is_below = |line: &Explained| {
        line.key.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    lines.into_iter().filter(is_below).collect()
}

fn to_table(lines: &[Explained]) -> String {
    let row = |line: &Explained| [line.key.clone(), line.value.clone(), line.origin.to_string()];
    table(&lines.iter().map(row).collect::<Vec<_>>())
}

fn to_json(lines: &[Explained]) -> String {
    let lines: Vec<Value> = lines
        .iter()
        .map(
            |line| json!({"key": line.key, "value": line.value, "origin": line.origin.to_string()}),
        )
        .collect();
    format!("{:#}\n", Value::Array(lines))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Origin;

    fn lines() -> Vec<Explained> {
        let line = |key: &str, value: &str, origin| Explained {
            key: key.into(),
            value: value.into(),
            origin,
        };
        vec![
            line("gateway.bind", "loopback", Origin::Default),
            line("gateway.port", "7", Origin::Env("OPENCLAW_GATEWAY_PORT")),
            line("session.mainKey", "main", Origin::File("/c".into())),
        ]
    }

    #[test]
    fn the_table_is_aligned() {
        assert_eq!(
            to_table(&lines()),
            "gateway.bind     loopback  default\n\
             gateway.port     7         environment OPENCLAW_GATEWAY_PORT\n\
             session.mainKey  main      file /c\n"
        );
        let mut wide = lines();
        wide.truncate(2);
        wide[0].value = "漢字\u{202e}".into();
        assert_eq!(
            to_table(&wide),
            "gateway.bind  漢字\\u{202e}  default\n\
             gateway.port  7             environment OPENCLAW_GATEWAY_PORT\n"
        );
    }

    #[test]
    fn a_key_selects_itself_and_what_is_below_it() {
        assert_eq!(below(lines(), Some("gateway")).len(), 2);
        assert_eq!(below(lines(), Some("gateway.port")).len(), 1);
        assert_eq!(below(lines(), Some("gate")), []);
        assert_eq!(below(lines(), None).len(), 3);
    }
}
