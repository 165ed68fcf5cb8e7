//! `clawgate agents delete`.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use serde_json::Value;

use super::super::args::JsonArgs;
use super::super::client::Client;
use super::super::{CliError, ConnectArgs, Screen, Surroundings, block_on, one_thread};
use super::{SEE, roster, settings, show};
use crate::agent::approvals::forget_agent;
use crate::agent::roster::{RosterError, settle_removal};
use crate::config::{Env, Settings};
use crate::sessions::AgentId;
use crate::store::instance::{InstanceLock, running_at};
use crate::store::{SessionQuery, SourceStore, SqliteStore, Store};
use crate::support::json;

/// Arguments of `clawgate agents delete`.
#[derive(Debug, Clone, Args)]
pub struct DeleteArgs {
    /// Which agent
    id: String,
    /// Do not ask
    #[arg(long)]
    force: bool,
    /// Leave its folders where they are
    #[arg(long)]
    keep_files: bool,
    #[command(flatten)]
    json: JsonArgs,
}

/// Removes an agent: by the gateway, when it runs.
pub fn run(args: &DeleteArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let settings = settings(env)?;
    let id = AgentId::normalize(&args.id);
    if !args.force {
        if !settings.agents.has(id.as_str()) {
            return Err(RosterError::NotFound(id).into());
        }
        if !is_meant(&id, args.keep_files)? {
            bail!("not removed; --force does not ask");
        }
    }
    let workspace = settings.agents.agent_or_default(id.as_str()).workspace;
    let (bindings, kept) = if running_at(&settings.paths.instance_lock()).is_some() {
        by_gateway(args, &id, env)?
    } else {
        alone(args, &id, &settings, env)?
    };
    let told = json!({
        "agentId": id.as_str(),
        "workspace": workspace.to_string_lossy(),
        "agentDir": settings.paths.agent_dir(id.as_str()).join("agent").to_string_lossy(),
        "sessionsDir": settings.paths.sessions_dir(id.as_str()).to_string_lossy(),
        "removedBindings": bindings,
        "kept": kept,
    });
    let mut lines = vec![format!("{id} is removed, with {bindings} bindings")];
    let member = |folder: &Value, name: &str| folder[name].as_str().unwrap_or_default().to_owned();
    lines.extend(
        kept.iter().map(|it| format!("{} stays: {}", member(it, "path"), member(it, "reason"))),
    );
    show(args.json.json, &told, &lines)?;
    Ok(ExitCode::SUCCESS)
}

/// What becomes of the agent, as a question.
fn question(id: &AgentId, keeps_files: bool) -> String {
    if keeps_files {
        format!("Remove {id}? Its sessions leave the list, its folders stay. [y/N] ")
    } else {
        format!("Remove {id}, its sessions and its workspace? [y/N] ")
    }
}

fn is_meant(id: &AgentId, keeps_files: bool) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("nobody can be asked whether to remove {id}; say --force");
    }
    let mut err = io::stderr().lock();
    write!(err, "{}", question(id, keeps_files))?;
    err.flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// So many bindings went, and the files that stay.
type Outcome = (u64, Vec<Value>);

fn by_gateway(args: &DeleteArgs, id: &AgentId, env: &Env) -> anyhow::Result<Outcome> {
    let mut screen = Screen::stdio(true);
    let around = Surroundings::find(env.clone(), &mut screen);
    // What was asked and is told is about this machine's agent: no other gateway is meant.
    let target = around.own()?;
    let params = json!({"agentId": id.as_str(), "deleteFiles": !args.keep_files});
    let answer = block_on(&one_thread()?, async {
        let mut client = Client::connect(&target, ConnectArgs::default().limit()).await?;
        let answer = client.request("agents.delete", params).await;
        let no_agent = format!("agent \"{id}\" not found");
        let answer = answer.map_err(|error| CliError::from(error).see(&no_agent, SEE))?;
        client.close().await;
        anyhow::Ok(answer)
    })?;
    let kept = answer["kept"].as_array().cloned().unwrap_or_default();
    Ok((answer["removedBindings"].as_u64().unwrap_or_default(), kept))
}

/// Without a gateway, which cannot start meanwhile.
fn alone(
    args: &DeleteArgs,
    id: &AgentId,
    settings: &Settings,
    env: &Env,
) -> anyhow::Result<Outcome> {
    let _held = InstanceLock::acquire(&settings.paths.instance_lock())?;
    let roster = roster(env);
    let note = roster.removal(id)?.note(!args.keep_files);
    let runtime = one_thread()?;
    let database = settings.paths.database();
    let store = if database.exists() { Some(SqliteStore::open(&database)?) } else { None };
    if let Some(store) = &store {
        block_on(&runtime, store.note_sources(vec![note.clone()]))?;
    }
    let removed = roster.remove(id);
    if let (Some(store), Err(_)) = (&store, &removed) {
        block_on(&runtime, settle_removal(store, note.clone(), true));
    }
    let removed = removed?;
    if let Some(store) = &store {
        block_on(&runtime, async {
            let query = SessionQuery { agent: Some(id.to_string()), ..SessionQuery::default() };
            for row in store.list_sessions(query).await?.entries {
                store.delete_session(&row.key).await?;
            }
            anyhow::Ok(())
        })?;
    }
    let mut kept = if args.keep_files { Vec::new() } else { roster.discard(&removed).kept };
    let forgotten = block_on(&runtime, forget_agent(&settings.paths, id));
    if let Some(store) = &store {
        block_on(&runtime, settle_removal(store, note, forgotten.is_ok()));
    }
    if let Err(error) = forgotten {
        kept.push((settings.paths.exec_approvals(), error.to_string()));
    }
    let kept = kept.iter();
    let kept = kept.map(|(path, reason)| json!({"path": path.to_string_lossy(), "reason": reason}));
    Ok((u64::try_from(removed.bindings)?, kept.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_asked_for_a_workspace_that_stays() {
        let id = AgentId::normalize("work");
        assert!(question(&id, false).starts_with("Remove work, its sessions and its workspace?"));
        let kept = question(&id, true);
        assert!(kept.contains("its folders stay") && !kept.contains("workspace"), "{kept}");
    }
}
