//! `clawgate agents list`, `clawgate agents bindings`.

use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use super::super::args::JsonArgs;
use super::super::format::table;
use super::{named, settings, show};
use crate::agent::roster::RosterError;
use crate::agent::workspace::identity_of;
use crate::config::channels::Binding;
use crate::config::{AgentSettings, Env, Settings};
use crate::sessions::AgentId;
use crate::support::{json, without_nulls};

/// Arguments of `clawgate agents list`.
#[derive(Debug, Clone, Args)]
pub struct ListArgs {
    /// Also show their bindings
    #[arg(long)]
    bindings: bool,
    #[command(flatten)]
    json: JsonArgs,
}

/// Arguments of `clawgate agents bindings`.
#[derive(Debug, Clone, Args)]
pub struct BindingsArgs {
    /// Only those of this agent
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    #[command(flatten)]
    json: JsonArgs,
}

/// Lists agents.
pub fn run(args: &ListArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let settings = settings(env)?;
    let rows: Vec<_> =
        settings.agents.list.iter().map(|agent| row(agent, &settings, args.bindings)).collect();
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let mut lines = Vec::new();
    for row in &rows {
        let is_default = if row["isDefault"] == true { " (default)" } else { "" };
        // What it calls itself; what it is called in the config is no identity.
        let own = Some(text(row, "identityName")).filter(|name| !name.is_empty());
        let name = own.unwrap_or_else(|| text(row, "name"));
        let face = [text(row, "identityEmoji"), name].join(" ").trim().to_owned();
        let model = text(row, "model");
        lines.push([
            format!("{}{is_default}", text(row, "id")),
            face,
            model,
            text(row, "workspace"),
        ]);
        let bindings = row["bindingDetails"].as_array().into_iter().flatten();
        for binding in bindings.filter_map(Value::as_str) {
            lines.push([String::new(), format!("answers {binding}"), String::new(), String::new()]);
        }
    }
    show(args.json.json, &Value::Array(rows), &laid_out(&lines))?;
    Ok(ExitCode::SUCCESS)
}

fn row(agent: &AgentSettings, settings: &Settings, has_bindings: bool) -> Value {
    let file = identity_of(&agent.workspace, settings);
    let own = &agent.identity;
    let source = if own.name.is_some() || own.emoji.is_some() {
        Some("config")
    } else {
        (file.name.is_some() || file.emoji.is_some()).then_some("identity")
    };
    let bindings: Vec<_> = of(settings, &AgentId::normalize(&agent.id)).map(described).collect();
    let model = agent.model.as_ref().or(settings.agents.defaults.model.as_ref());
    without_nulls(json!({
        "id": agent.id,
        "name": agent.name.as_ref().or(own.name.as_ref()).or(file.name.as_ref()),
        "identityName": own.name.as_ref().or(file.name.as_ref()),
        "identityEmoji": own.emoji.as_ref().or(file.emoji.as_ref()),
        "identitySource": source,
        "workspace": agent.workspace.to_string_lossy(),
        "agentDir": settings.paths.agent_dir(&agent.id).join("agent").to_string_lossy(),
        "model": model.map(|model| &model.primary),
        "bindings": bindings.len(),
        "bindingDetails": has_bindings.then_some(bindings),
        "isDefault": agent.id == settings.agents.default_id,
    }))
}

fn of<'a>(settings: &'a Settings, id: &AgentId) -> impl Iterator<Item = &'a Binding> {
    let id = id.clone();
    let all = settings.channels.bindings.iter();
    all.filter(move |binding| AgentId::normalize(&binding.agent_id) == id)
}

/// A binding in a few words.
fn described(binding: &Binding) -> String {
    let account = binding.account_id.as_ref().map(|account| format!("account={account}"));
    let peer = binding.peer.as_ref().map(|peer| format!("{}={}", peer.kind, peer.id.as_str()));
    let parts = [Some(binding.channel.clone()), account, peer];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Lists bindings.
pub fn bindings(args: &BindingsArgs, env: &Env) -> anyhow::Result<ExitCode> {
    let settings = settings(env)?;
    let only = args.agent.as_deref().map(|id| named(Some(id), &settings));
    if let Some(id) = only.as_ref().filter(|id| !settings.agents.has(id.as_str())) {
        return Err(RosterError::NotFound(id.clone()).into());
    }
    let all = settings.channels.bindings.iter().map(|binding| {
        let rule = without_nulls(json!({
            "channel": binding.channel,
            "accountId": binding.account_id,
            "peer": binding.peer.as_ref().map(|peer| json!({"kind": peer.kind, "id": peer.id.as_str()})),
        }));
        (AgentId::normalize(&binding.agent_id), rule, described(binding))
    });
    let all: Vec<_> = all.filter(|(id, ..)| only.as_ref().is_none_or(|only| only == id)).collect();
    let rows: Vec<_> = all
        .iter()
        .map(|(id, rule, text)| json!({"agentId": id.as_str(), "match": rule, "description": text}))
        .collect();
    let lines: Vec<_> = all.iter().map(|(id, _, text)| [text.clone(), id.to_string()]).collect();
    let text = if lines.is_empty() { vec!["No bindings".to_owned()] } else { laid_out(&lines) };
    show(args.json.json, &Value::Array(rows), &text)?;
    Ok(ExitCode::SUCCESS)
}

fn laid_out<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    table(rows).lines().map(str::to_owned).collect()
}
