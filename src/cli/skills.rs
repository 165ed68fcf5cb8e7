//! `clawgate skills`: the skills of the running gateway.
//!
//! Owns: what the commands show and ask for. Must not: look for skills or
//! change files itself; the gateway does, so that what is shown holds there.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::support::json;

use super::client::Client;
use super::{CliError, ConnectArgs, Screen, Surroundings, agents, format};

/// Arguments of `clawgate skills`.
#[derive(Debug, Args)]
pub struct SkillsArgs {
    #[command(subcommand)]
    command: SkillsCommand,
}

#[derive(Debug, Subcommand)]
enum SkillsCommand {
    /// List skills, and whether they can be used
    List {
        /// Which agent's; the default one's when absent
        #[arg(long)]
        agent: Option<String>,
        /// Only those that are ready
        #[arg(long)]
        eligible: bool,
        /// OpenClaw tells more with it; `skills info` does.
        #[arg(short, long, hide = true)]
        verbose: bool,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Show one skill, and what it lacks
    Info {
        /// Its name
        name: String,
        /// Which agent's; the default one's when absent
        #[arg(long)]
        agent: Option<String>,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Copy a skill from a folder of the gateway's machine, for all agents
    Install {
        /// The folder with its SKILL.md
        path: PathBuf,
        /// Replace a skill of the same name
        #[arg(long)]
        force: bool,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Let agents use a skill
    Enable {
        /// Its name
        name: String,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Keep agents from using a skill
    Disable {
        /// Its name
        name: String,
        /// How to reach the gateway.
        #[command(flatten)]
        connect: ConnectArgs,
    },
}

/// Runs one of them.
pub async fn run(
    args: SkillsArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<u8, CliError> {
    match args.command {
        SkillsCommand::List { agent, eligible, connect, .. } => {
            let mut client = connect.connect(around).await?;
            let mut status = status(&mut client, agent.as_deref()).await?;
            let skills = status.get_mut("skills").and_then(Value::as_array_mut);
            let is_none_ready = skills.filter(|_| eligible).is_some_and(|skills| {
                skills.retain(|skill| state(skill) == "ready");
                skills.is_empty()
            });
            if connect.json {
                screen.line(&format::compact(&status))?;
            } else if is_none_ready {
                screen.line("No skill is ready; `clawgate skills list` shows all")?;
            } else {
                screen.text(&list_text(&status))?;
            }
            client.close().await;
        }
        SkillsCommand::Info { name, agent, connect } => {
            let mut client = connect.connect(around).await?;
            let skill = find(&mut client, &name, agent.as_deref()).await?;
            if connect.json {
                screen.line(&format::compact(&skill))?;
            } else {
                screen.text(&info_text(&skill))?;
            }
            client.close().await;
        }
        SkillsCommand::Install { path, force, connect } => {
            // The gateway's working directory is another one.
            let path = std::path::absolute(path)?.into_os_string().into_string();
            let path = path.map_err(|path| {
                CliError::Usage(format!("{} is not UTF-8; rename it", path.display()))
            })?;
            let params = json!({"source": "local", "path": path, "force": force});
            let mut client = connect.connect(around).await?;
            let answer = client.request("skills.install", params).await?;
            if connect.json {
                screen.line(&format::compact(&answer))?;
            } else {
                let text = |name: &str| answer[name].as_str().unwrap_or_default();
                screen.line(&format!("{} in {}", text("message"), text("baseDir")))?;
            }
            client.close().await;
        }
        SkillsCommand::Enable { name, connect } => {
            switch(&name, true, &connect, around, screen).await?;
        }
        SkillsCommand::Disable { name, connect } => {
            switch(&name, false, &connect, around, screen).await?;
        }
    }
    Ok(0)
}

async fn switch(
    name: &str,
    enabled: bool,
    connect: &ConnectArgs,
    around: &Surroundings,
    screen: &mut Screen,
) -> Result<(), CliError> {
    let mut client = connect.connect(around).await?;
    let skill = find(&mut client, name, None).await?;
    let params = json!({"skillKey": skill["skillKey"], "enabled": enabled});
    let answer = client.request("skills.update", params).await?;
    if connect.json {
        screen.line(&format::compact(&answer))?;
    } else {
        let now = if enabled { "on" } else { "off" };
        screen.line(&format!("{name} is {now}"))?;
    }
    client.close().await;
    Ok(())
}

async fn status(client: &mut Client, agent: Option<&str>) -> Result<Value, CliError> {
    let params = agent.map_or_else(|| json!({}), |agent| json!({"agentId": agent}));
    let status = client.request("skills.status", params).await;
    status.map_err(|error| CliError::from(error).see("unknown agent id", agents::SEE))
}

async fn find(client: &mut Client, name: &str, agent: Option<&str>) -> Result<Value, CliError> {
    let status = status(client, agent).await?;
    let skills = status["skills"].as_array().into_iter().flatten();
    let mut named = skills.filter(|skill| skill["name"] == name || skill["skillKey"] == name);
    let found = named.next().cloned();
    found.ok_or_else(|| {
        CliError::Missing(format!("there is no skill {name}; `clawgate skills list` shows all"))
    })
}

/// In one word, whether a skill can be used.
fn state(skill: &Value) -> &'static str {
    let is = |name: &str| skill[name] == true;
    if is("disabled") {
        "off"
    } else if is("blockedByAllowlist") || is("blockedByAgentFilter") {
        "blocked"
    } else if is("eligible") {
        "ready"
    } else {
        "lacking"
    }
}

fn list_text(status: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let skills = status["skills"].as_array().into_iter().flatten();
    let rows: Vec<_> = skills
        .map(|skill| {
            let description: String = text(&skill["description"]).chars().take(70).collect();
            [text(&skill["name"]), state(skill).into(), text(&skill["source"]), description]
        })
        .collect();
    if rows.is_empty() {
        let (managed, workspace) = (&status["managedSkillsDir"], &status["workspaceDir"]);
        return format!("No skills in {} or {}/skills\n", text(managed), text(workspace));
    }
    format::table(&rows)
}

fn info_text(skill: &Value) -> String {
    let text = |name: &str| skill[name].as_str().unwrap_or_default().to_owned();
    let mut rows = vec![
        ["name".to_owned(), text("name")],
        ["state".into(), state(skill).into()],
        ["about".into(), text("description")],
        ["file".into(), text("filePath")],
        ["key".into(), text("skillKey")],
    ];
    for (kind, label) in [
        ("bins", "lacks programs"),
        ("anyBins", "lacks one of"),
        ("env", "lacks variables"),
        ("config", "lacks config"),
        ("os", "is for"),
    ] {
        let names = skill["missing"][kind].as_array().into_iter().flatten();
        let names: Vec<_> = names.filter_map(Value::as_str).collect();
        if !names.is_empty() {
            rows.push([label.into(), names.join(", ")]);
        }
    }
    format::table(&rows)
}
