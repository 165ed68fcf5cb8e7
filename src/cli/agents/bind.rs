//! `clawgate agents bind`, `clawgate agents unbind`.

use std::process::ExitCode;

use clap::Args;

use super::super::args::JsonArgs;
use super::{conflicts, named, place, roster, settings, show, shown, stays};
use crate::agent::roster::BindingPlace;
use crate::config::Env;
use crate::support::json;

/// Arguments of `clawgate agents bind`.
#[derive(Debug, Clone, Args)]
pub struct BindArgs {
    /// Which agent [default: the default one]
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// An account of a channel, `*` for all of its accounts; can be repeated
    #[arg(long, required = true, value_name = "CHANNEL[:ACCOUNT]", value_parser = place)]
    bind: Vec<BindingPlace>,
    #[command(flatten)]
    json: JsonArgs,
}

/// Arguments of `clawgate agents unbind`.
#[derive(Debug, Clone, Args)]
pub struct UnbindArgs {
    /// Which agent [default: the default one]
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// An account of a channel; can be repeated
    #[arg(long, required_unless_present = "all", conflicts_with = "all",
        value_name = "CHANNEL[:ACCOUNT]", value_parser = place)]
    bind: Vec<BindingPlace>,
    /// All of its accounts, but for people and groups that it is bound to
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    json: JsonArgs,
}

/// Gives accounts to an agent. Fails when another agent has one of them.
pub fn bind(args: &BindArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let id = named(args.agent.as_deref(), &settings(env)?);
    let bound = roster(env).bind(&id, &args.bind)?;
    let told = json!({
        "agentId": id.as_str(),
        "added": shown(&bound.added),
        "updated": shown(&bound.updated),
        "skipped": shown(&bound.skipped),
        "conflicts": conflicts(&bound.conflicts),
    });
    let mut text = lines(&bound.added, &format!("is answered by {id}"));
    text.extend(lines(
        &bound.updated,
        &format!("is answered by {id}, instead of the default account"),
    ));
    text.extend(lines(&bound.skipped, &format!("was answered by {id} before")));
    text.extend(stays(&bound.conflicts));
    show(args.json.json, &told, &text)?;
    Ok(code(bound.conflicts.is_empty()))
}

/// Takes accounts away. Fails when another agent has one of them.
pub fn unbind(args: &UnbindArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let id = named(args.agent.as_deref(), &settings(env)?);
    let places = (!args.all).then_some(args.bind.as_slice());
    let unbound = roster(env).unbind(&id, places)?;
    let told = json!({
        "agentId": id.as_str(),
        "removed": shown(&unbound.removed),
        "missing": shown(&unbound.missing),
        "conflicts": conflicts(&unbound.conflicts),
    });
    let mut text = lines(&unbound.removed, &format!("is no longer answered by {id}"));
    text.extend(lines(&unbound.missing, &format!("was not bound to {id}")));
    text.extend(stays(&unbound.conflicts));
    if text.is_empty() {
        text.push(format!("{id} has no bindings"));
    }
    show(args.json.json, &told, &text)?;
    Ok(code(unbound.conflicts.is_empty()))
}

fn lines(places: &[BindingPlace], what: &str) -> Vec<String> {
    places.iter().map(|place| format!("{place} {what}")).collect()
}

fn code(is_well: bool) -> ExitCode {
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
