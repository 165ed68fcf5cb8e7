//! `clawgate agents`: the agents of this machine's gateway.
//!
//! Owns: what the commands show and ask for. Promises: works without a running
//! gateway; a running one is asked to remove an agent, since it may be at work.
//! Must not: change the config file but through `agent::roster`.

mod add;
mod bind;
mod delete;
mod identity;
mod list;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::checked::would_work;
use super::output::say;
use crate::agent::roster::{BindingPlace, Roster, RosterError};
use crate::config::channels::ChannelKind;
use crate::config::{self, Env, Overrides, Settings};
use crate::sessions::AgentId;
use crate::support::{SystemClock, json};

/// Arguments of `clawgate agents`.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct AgentsArgs {
    #[command(subcommand)]
    command: Option<AgentsCommand>,
    #[command(flatten)]
    list: list::ListArgs,
}

#[derive(Debug, Clone, Subcommand)]
enum AgentsCommand {
    /// List agents (the default)
    List(list::ListArgs),
    /// Add an agent with its workspace
    Add(add::AddArgs),
    /// Set what an agent calls itself and how it looks
    SetIdentity(identity::IdentityArgs),
    /// Remove an agent; its folders go to the trash
    Delete(delete::DeleteArgs),
    /// List which agent answers which account of a channel
    Bindings(list::BindingsArgs),
    /// Give accounts of channels to an agent
    Bind(bind::BindArgs),
    /// Take accounts of channels away from an agent
    Unbind(bind::UnbindArgs),
}

/// For who names an agent that there is not.
pub(super) const SEE: &str = "`clawgate agents list` shows all";

/// Runs one of them.
pub fn run(args: AgentsArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let done = match args.command {
        None => list::run(&args.list, env),
        Some(AgentsCommand::List(args)) => list::run(&args, env),
        Some(AgentsCommand::Add(args)) => add::run(args, env),
        Some(AgentsCommand::SetIdentity(args)) => identity::run(args, env),
        Some(AgentsCommand::Delete(args)) => delete::run(&args, env),
        Some(AgentsCommand::Bindings(args)) => list::bindings(&args, env),
        Some(AgentsCommand::Bind(args)) => bind::bind(&args, env),
        Some(AgentsCommand::Unbind(args)) => bind::unbind(&args, env),
    };
    done.map_err(|error| {
        let is_unknown =
            matches!(error.downcast_ref::<RosterError>(), Some(RosterError::NotFound(_)));
        if is_unknown { Unknown(error).into() } else { error }
    })
}

/// There is no such agent, and there is somewhere to look.
#[derive(Debug, thiserror::Error)]
#[error("{0}; {SEE}")]
struct Unknown(anyhow::Error);

fn settings(env: &Env) -> anyhow::Result<Settings> {
    Ok(config::load(env, &Overrides { read_only: true, ..Overrides::default() })?)
}

fn roster(env: &Env) -> Roster {
    Roster::new(env.clone(), Arc::new(SystemClock), Box::new(would_work(env)))
}

/// The agent that is named, or the default one.
fn named(given: Option<&str>, settings: &Settings) -> AgentId {
    AgentId::normalize(given.unwrap_or(&settings.agents.default_id))
}

/// JSON for programs, or lines for people.
fn show(json: bool, value: &Value, lines: &[String]) -> anyhow::Result<()> {
    if json { say(&format!("{value:#}\n")) } else { say(&(lines.join("\n") + "\n")) }
}

/// Accounts that another agent keeps.
fn stays(conflicts: &[(BindingPlace, AgentId)]) -> Vec<String> {
    conflicts.iter().map(|(place, owner)| format!("{place} stays with {owner}")).collect()
}

/// `channel` or `channel:account`.
fn place(text: &str) -> Result<BindingPlace, String> {
    let (channel, account) =
        text.split_once(':').map_or((text, None), |(a, b)| (a, Some(b.trim())));
    let known = || ChannelKind::ALL.map(ChannelKind::as_str).join(", ");
    let kind = ChannelKind::parse(channel)
        .ok_or_else(|| format!("there is no channel {channel}; there are: {}", known()))?;
    if account == Some("") {
        return Err(format!("name an account behind the colon, or write {channel}"));
    }
    Ok(BindingPlace { channel: kind.as_str().to_owned(), account: account.map(str::to_owned) })
}

fn shown(places: &[BindingPlace]) -> Vec<String> {
    places.iter().map(ToString::to_string).collect()
}

fn conflicts(conflicts: &[(BindingPlace, AgentId)]) -> Vec<Value> {
    let row = |(place, owner): &(BindingPlace, AgentId)| json!({"binding": place.to_string(), "existingAgentId": owner.as_str()});
    conflicts.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_is_a_channel_and_perhaps_an_account() {
        let read = |text| place(text).map(|place| place.to_string());
        assert_eq!(read("Telegram:ops"), Ok("telegram:ops".into()));
        assert_eq!(read("webhook"), Ok("webhook".into()));
        assert_eq!(read("webhook:*"), Ok("webhook:*".into()));
        assert!(read("fax").unwrap_err().contains("telegram, webhook"));
        assert!(read("telegram:").is_err());
    }
}
