//! `clawgate models`: models and credentials of this machine's gateway.
//!
//! Owns: what the commands show and change. Promises: works without a running
//! gateway; no secret is printed, and none is taken from the command line,
//! where other users could read it.

mod aliases;
mod auth;
mod fallbacks;
mod list;
mod probe;
mod set;
mod status;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::checked::would_work;
use super::output::say;
use super::{block_on, one_thread};
use crate::app;
use crate::config::document::{self, ConfigWrite};
use crate::config::{self, Env, Overrides, Settings};
use crate::providers::Failover;
use crate::sessions::AgentId;
use crate::support::{Clock, SystemClock, json};

/// Arguments of `clawgate models`.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ModelsArgs {
    #[command(subcommand)]
    command: Option<ModelsCommand>,
    #[command(flatten)]
    status: status::StatusArgs,
}

#[derive(Debug, Clone, Subcommand)]
enum ModelsCommand {
    /// Show which models can be used
    List(list::ListArgs),
    /// Show the default model, its fallbacks and the credentials (the default)
    Status(status::StatusArgs),
    /// Make a model the default: a name, an alias, or part of a name
    Set(set::SetArgs),
    /// Show, add and remove who answers when the default model fails
    Fallbacks(fallbacks::FallbacksArgs),
    /// Show, add and remove short names of models
    Aliases(aliases::AliasesArgs),
    /// Show, add and remove credentials
    Auth(auth::AuthArgs),
}

/// Runs one of them.
pub fn run(args: &ModelsArgs, env: &Env) -> anyhow::Result<ExitCode> {
    match &args.command {
        None => status::run(&args.status, env),
        Some(ModelsCommand::Status(args)) => status::run(args, env),
        Some(ModelsCommand::List(args)) => list::run(args, env),
        Some(ModelsCommand::Set(args)) => set::run(args, env),
        Some(ModelsCommand::Fallbacks(args)) => fallbacks::run(args, env),
        Some(ModelsCommand::Aliases(args)) => aliases::run(args, env),
        Some(ModelsCommand::Auth(args)) => auth::run(args, env),
    }
}

/// What the gateway would work with.
struct Facts {
    settings: Settings,
    failover: Arc<Failover>,
    runtime: tokio::runtime::Runtime,
    clock: Arc<dyn Clock>,
}

impl Facts {
    fn find(env: &Env) -> anyhow::Result<Self> {
        Self::of(look(env)?, env)
    }

    fn of(settings: Settings, env: &Env) -> anyhow::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let runtime = one_thread()?;
        let failover = block_on(&runtime, app::models(&settings, env, &clock))?;
        Ok(Self { settings, failover, runtime, clock })
    }
}

fn look(env: &Env) -> anyhow::Result<Settings> {
    let looking = Overrides { read_only: true, ..Overrides::default() };
    Ok(config::load(env, &looking)?)
}

/// What a command does to the config file.
struct Change {
    write: ConfigWrite,
    told: Told,
}

/// What it says of that: that `key` is now `model`, or how `shown` says so.
#[derive(Default)]
struct Told {
    key: String,
    model: Value,
    shown: String,
}

/// Works out what a command does, from what the file says.
type Plan<'a> = Box<dyn FnOnce(&Facts) -> anyhow::Result<Change> + 'a>;

/// Writes into the config file what a gateway would start with, and tells of it. What that
/// is `plan` works out from what the file says, while nobody else writes it.
fn change(
    plan: impl FnOnce(&Facts) -> anyhow::Result<Change>,
    as_json: bool,
    env: &Env,
) -> anyhow::Result<ExitCode> {
    change_by(Box::new(plan), as_json, env)
}

/// The same, in the program once for all plans.
fn change_by(plan: Plan<'_>, as_json: bool, env: &Env) -> anyhow::Result<ExitCode> {
    let mut planned = Told::default();
    let work_out = |config: &Value| -> anyhow::Result<ConfigWrite> {
        let change = plan(&Facts::of(document::meaning(config, env)?, env)?)?;
        planned = change.told;
        Ok(change.write)
    };
    let written = document::write_by(env, work_out, would_work(env))?;
    let Told { key, model, shown } = planned;
    let text = if as_json {
        let told = json!({"path": written.path.to_string_lossy(), "key": key, "model": model,
            "changed": written.changed, "requiresRestart": written.needs_restart});
        format!("{told:#}\n")
    } else {
        let how = match (written.changed, written.needs_restart) {
            (false, _) => ", as before",
            (true, true) => "; restart the gateway to use it",
            (true, false) => "",
        };
        format!("{key} is {shown} (in {}){how}\n", written.path.display())
    };
    say(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The agent that is meant: the default one when none is named.
fn agent(settings: &Settings, named: Option<&str>) -> anyhow::Result<String> {
    let agents = &settings.agents;
    let Some(named) = named else { return Ok(agents.default_id.clone()) };
    let id = AgentId::normalize(named);
    if agents.has(id.as_str()) {
        return Ok(id.to_string());
    }
    let known: Vec<_> = agents.list.iter().map(|agent| agent.id.as_str()).collect();
    anyhow::bail!("there is no agent {named:?}; there are {}", known.join(", "))
}
