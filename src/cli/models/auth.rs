//! `clawgate models auth`.

use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;

use super::super::args::JsonArgs;
use super::super::block_on;
use super::super::format::table;
use super::super::onboard::INTERRUPTED;
use super::super::onboard::keys::{Key, Keys};
use super::super::output::{note, say};
use super::{Facts, agent, look};
use crate::config::Env;
use crate::config::profiles::ProfileMode;
use crate::providers::credentials::{ProfileFile, path_below, status};
use crate::providers::known_providers;
use crate::support::{Secret, json};

/// Longer than any key; a token of an OAuth login is some kilobytes.
const MAX_KEY: u64 = 64 * 1024;

/// Arguments of `clawgate models auth`.
#[derive(Debug, Clone, Args)]
pub struct AuthArgs {
    #[command(subcommand)]
    command: AuthCommand,
    /// Whose credentials [default: those of the default agent]
    #[arg(long, global = true, value_name = "ID")]
    agent: Option<String>,
}

#[derive(Debug, Clone, Subcommand)]
enum AuthCommand {
    /// Store a key, read from stdin or asked for
    Add(AddArgs),
    /// Show the stored credentials, without the secrets
    List {
        #[command(flatten)]
        json: JsonArgs,
    },
    /// Remove a stored credential
    Remove {
        /// Its id, such as anthropic:default
        id: String,
        #[command(flatten)]
        json: JsonArgs,
    },
}

#[derive(Debug, Clone, Args)]
struct AddArgs {
    /// Whose key it is, such as anthropic
    #[arg(long, value_name = "NAME")]
    provider: String,
    /// Name of the credential [default: <provider>:default]
    #[arg(long, value_name = "ID")]
    profile_id: Option<String>,
    /// What kind it is
    #[arg(long = "type", value_name = "KIND", default_value = "api_key")]
    kind: Kind,
    #[command(flatten)]
    json: JsonArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Kind {
    ApiKey,
    Token,
}

/// Runs one of them.
pub fn run(args: &AuthArgs, env: &Env) -> anyhow::Result<ExitCode> {
    match &args.command {
        AuthCommand::Add(add) => {
            let path = file(args, env)?;
            return add_credential(add, &path);
        }
        AuthCommand::Remove { id, json } => {
            let path = file(args, env)?;
            if !ProfileFile::remove(&path, id)? {
                bail!(
                    "there is no credential {id:?} in {}; `clawgate models auth list` shows all",
                    path.display()
                );
            }
            tell(id, &path, "is removed from", json.json)?;
        }
        AuthCommand::List { json } => list(args, json.json, env)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn file(args: &AuthArgs, env: &Env) -> anyhow::Result<PathBuf> {
    let settings = look(env)?;
    let agent = agent(&settings, args.agent.as_deref())?;
    Ok(path_below(&settings.paths.agent_dir(&agent)))
}

fn add_credential(args: &AddArgs, path: &Path) -> anyhow::Result<ExitCode> {
    let provider = args.provider.trim().to_lowercase();
    if provider.is_empty() || provider.contains(['/', ' ']) {
        bail!("{:?} is no provider; known are {}", args.provider, list_of_providers());
    }
    let id = args.profile_id.clone().unwrap_or_else(|| format!("{provider}:default"));
    let Some(secret) = read_secret(&provider)? else {
        note("cancelled; nothing was stored");
        return Ok(ExitCode::from(INTERRUPTED));
    };
    let mode = match args.kind {
        Kind::ApiKey => ProfileMode::ApiKey,
        Kind::Token => ProfileMode::Token,
    };
    ProfileFile::add(path, &id, &provider, mode, &secret)?;
    tell(&id, path, "is stored in", args.json.json)?;
    Ok(ExitCode::SUCCESS)
}

/// What was done with a credential.
fn tell(id: &str, path: &Path, done: &str, as_json: bool) -> anyhow::Result<()> {
    say(&if as_json {
        format!("{:#}\n", json!({"profileId": id, "path": path.to_string_lossy()}))
    } else {
        format!("{id} {done} {}\n", path.display())
    })
}

fn list_of_providers() -> String {
    known_providers().collect::<Vec<_>>().join(", ")
}

/// From stdin; a terminal is asked and shows nothing of the answer. None: Ctrl-C.
fn read_secret(provider: &str) -> anyhow::Result<Option<Secret>> {
    let stdin = io::stdin();
    let mut text = String::new();
    if stdin.is_terminal() {
        let Some(typed) = typed(&format!("Key for {provider} (not shown): "))? else {
            return Ok(None);
        };
        text = typed;
    } else {
        stdin.lock().take(MAX_KEY).read_to_string(&mut text).context("stdin is no text")?;
    }
    let secret = Secret::new(text);
    let fits = |c: char| c.is_ascii_graphic();
    if secret.is_empty() {
        bail!(
            "no key: give it on stdin, for example with `clawgate models auth add --provider {provider} < file`"
        );
    }
    if !secret.expose().chars().all(fits) {
        bail!("this is no key: it must be one line of ASCII characters without spaces");
    }
    Ok(Some(secret))
}

/// What somebody types, without showing it. Ctrl-C is a key then, so the terminal is as
/// before in any case.
fn typed(question: &str) -> io::Result<Option<String>> {
    let mut keys = Keys::new()?;
    let mut err = io::stderr();
    write!(err, "{question}")?;
    err.flush()?;
    let mut typed = String::new();
    let is_whole = loop {
        match keys.next()? {
            Key::Char(letter) => typed.push(letter),
            Key::Backspace => {
                typed.pop();
            }
            Key::Clear => typed.clear(),
            Key::Enter => break true,
            Key::Stop => break false,
            Key::Up | Key::Down | Key::Other => {}
        }
    };
    drop(keys);
    writeln!(err)?;
    Ok(is_whole.then_some(typed))
}

fn list(args: &AuthArgs, as_json: bool, env: &Env) -> anyhow::Result<()> {
    let facts = Facts::find(env)?;
    let agent = agent(&facts.settings, args.agent.as_deref())?;
    let credentials = facts.failover.credentials();
    let now_ms = facts.clock.now_ms();
    let providers = block_on(&facts.runtime, status::of_profiles(credentials, &agent, now_ms));
    if as_json {
        let path = credentials.path(&agent).to_string_lossy().into_owned();
        return say(&format!(
            "{:#}\n",
            json!({"agentId": agent, "path": path, "providers": providers})
        ));
    }
    let cell = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let rows = providers.iter().filter_map(|provider| provider["profiles"].as_array()).flatten();
    let lines: Vec<[String; 5]> = rows
        .map(|row| {
            let left = row["expiry"]["label"].as_str().map(|label| format!("for {label}"));
            [
                cell(row, "profileId"),
                cell(row, "type"),
                cell(row, "status"),
                left.unwrap_or_default(),
                row["reasonCode"].as_str().filter(|code| *code != "ok").unwrap_or_default().into(),
            ]
        })
        .collect();
    if lines.is_empty() {
        return say(&format!("no stored credentials in {}\n", credentials.path(&agent).display()));
    }
    say(&table(&lines))
}
