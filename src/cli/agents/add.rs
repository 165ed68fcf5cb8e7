//! `clawgate agents add`.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use clap::Args;

use super::{conflicts, place, roster, settings, show, shown};
use crate::agent::roster::{BindingPlace, NewAgent};
use crate::app;
use crate::cli::args::JsonArgs;
use crate::cli::{block_on, one_thread};
use crate::config::Env;
use crate::support::{Clock, SystemClock, json, without_nulls};

/// Arguments of `clawgate agents add`.
#[derive(Debug, Clone, Args)]
pub struct AddArgs {
    /// What it is called; its id is made of it
    name: String,
    /// Where it works [default: a folder beside those of the others]
    #[arg(long, value_name = "DIR")]
    workspace: Option<String>,
    /// Its model: provider/model [default: the default model]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// An account of a channel that it answers; can be repeated
    #[arg(long, value_name = "CHANNEL[:ACCOUNT]", value_parser = place)]
    bind: Vec<BindingPlace>,
    /// Ask nothing; nothing ever is asked
    #[arg(long)]
    non_interactive: bool,
    #[command(flatten)]
    json: JsonArgs,
}

/// Adds an agent.
pub fn run(args: AddArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let workspace = match args.workspace {
        // A person means the folder that he is in.
        Some(given) if !given.starts_with('~') => {
            Some(std::path::absolute(given)?.display().to_string())
        }
        given => given,
    };
    if let Some(model) = &args.model {
        check_model(model, env)?;
    }
    let new = NewAgent { name: args.name, workspace, model: args.model, ..NewAgent::default() };
    let (created, bound) = roster(env).create_bound(new, &args.bind)?;
    let agent_dir = settings(env)?.paths.agent_dir(created.id.as_str()).join("agent");
    let told = without_nulls(json!({
        "agentId": created.id.as_str(),
        "name": created.name,
        "workspace": created.workspace.to_string_lossy(),
        "agentDir": agent_dir.to_string_lossy(),
        "model": created.model,
        "bindings": {
            "added": shown(&bound.added),
            "updated": shown(&bound.updated),
            "skipped": shown(&bound.skipped),
            "conflicts": conflicts(&bound.conflicts),
        },
    }));
    let mut lines = vec![format!("{} works in {}", created.id, created.workspace.display())];
    lines.extend(bound.added.iter().map(|place| format!("It answers {place}")));
    show(args.json.json, &told, &lines)?;
    Ok(ExitCode::SUCCESS)
}

/// An agent whose model there is not is answered by another one, or not at all.
fn check_model(model: &str, env: &Env) -> anyhow::Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let failover = block_on(&one_thread()?, app::models(&settings(env)?, env, &clock))?;
    if failover.catalog().named(model.trim()).is_none() {
        bail!("there is no model {model}; `clawgate models list` shows all");
    }
    Ok(())
}
