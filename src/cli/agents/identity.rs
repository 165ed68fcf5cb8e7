//! `clawgate agents set-identity`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;

use super::super::args::JsonArgs;
use super::{named, roster, settings, show};
use crate::agent::roster::AgentChange;
use crate::agent::workspace::{Avatar, FileIdentity, identity_of};
use crate::config::{Env, Settings};
use crate::sessions::AgentId;
use crate::support::{json, without_nulls};

/// Arguments of `clawgate agents set-identity`.
#[derive(Debug, Clone, Args)]
pub struct IdentityArgs {
    /// Which agent
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// The agent that works there; with --agent, only where its IDENTITY.md is
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Take what the IDENTITY.md of its workspace says, as without any value
    #[arg(long)]
    from_identity: bool,
    /// What it calls itself
    #[arg(long)]
    name: Option<String>,
    /// A few words on its manner
    #[arg(long)]
    theme: Option<String>,
    /// Its emoji
    #[arg(long)]
    emoji: Option<String>,
    /// Its picture: a web address, a data URI, or a path in its workspace
    #[arg(long)]
    avatar: Option<String>,
    #[command(flatten)]
    json: JsonArgs,
}

/// Sets an identity.
pub fn run(args: IdentityArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let settings = settings(env)?;
    let id = which(&args, &settings)?;
    let workspace = settings.agents.agent_or_default(id.as_str()).workspace;
    let is_given =
        [&args.name, &args.theme, &args.emoji, &args.avatar].iter().any(|it| it.is_some());
    let place = match &args.workspace {
        Some(place) => std::path::absolute(place)?,
        None => workspace,
    };
    let file = if args.from_identity || !is_given {
        identity_of(&place, &settings)
    } else {
        FileIdentity::default()
    };
    let picture = file.avatar.as_ref().map(Avatar::source).map(str::to_owned);
    let change = AgentChange {
        name: args.name.or(file.name),
        theme: args.theme.or(file.theme),
        emoji: args.emoji.or(file.emoji),
        avatar: args.avatar.or(picture),
        is_name_of_identity: true,
        ..AgentChange::default()
    };
    if [&change.name, &change.theme, &change.emoji, &change.avatar].iter().all(|it| it.is_none()) {
        bail!(
            "nothing to set: give --name, --theme, --emoji or --avatar, or fill in {}",
            place.join("IDENTITY.md").display()
        );
    }
    let agent = roster(env).update(&id, change)?;
    let (workspace, identity) = (agent.workspace, agent.identity);
    let told = json!({
        "agentId": id.as_str(),
        "identity": without_nulls(json!({
            "name": identity.name,
            "theme": identity.theme,
            "emoji": identity.emoji,
            "avatar": identity.avatar,
        })),
        "workspace": workspace.to_string_lossy(),
        "identityFile": workspace.join("IDENTITY.md").to_string_lossy(),
    });
    let parts = [&identity.emoji, &identity.name, &identity.theme].into_iter().flatten();
    let text = parts.map(String::as_str).collect::<Vec<_>>().join(" ");
    show(args.json.json, &told, &[format!("{id} is {text}")])?;
    Ok(ExitCode::SUCCESS)
}

/// The agent that is meant.
fn which(args: &IdentityArgs, settings: &Settings) -> anyhow::Result<AgentId> {
    let Some(dir) = args.workspace.as_deref().filter(|_| args.agent.is_none()) else {
        return Ok(named(args.agent.as_deref(), settings));
    };
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let dir = real(&std::path::absolute(dir)?);
    let agents = settings.agents.list.iter().filter(|agent| real(&agent.workspace) == dir);
    match agents.collect::<Vec<_>>().as_slice() {
        [one] => Ok(AgentId::normalize(&one.id)),
        [] => bail!("no agent works in {}; name one with --agent", dir.display()),
        _ => bail!("several agents work in {}; name one with --agent", dir.display()),
    }
}
