//! `/skills`, `/addskill`, `/removeskill`, `/plugins`, `/plugin`, `/mcp`: what an
//! agent has beside its tools.
//!
//! The catalogue of skills is what the agent finds on this machine: to install one is
//! to switch it on, and a folder is taken over; to remove one is to switch it off.

use serde_json::Value;

use crate::protocol::ErrorShape;
use crate::registry::{Ctx, Reply as Answer};
use crate::support::json;

use super::super::settings;
use super::{Reply, refusal};

/// `/plugins`.
pub const PLUGINS: &str = "No plugins found.\n\nThis gateway loads no plugins; skills (/skills) \
                           and MCP servers (/mcp) extend its agents.";

/// A skill, as `skills.status` tells of it.
struct Skill {
    name: String,
    key: String,
    description: String,
    source: String,
    is_on: bool,
}

async fn all(cx: &Ctx) -> Answer<Vec<Skill>> {
    let status = cx.call("skills.status", &json!({})).await?;
    let skill = |row: &Value| {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        Skill {
            name: text("name"),
            key: text("skillKey"),
            description: text("description"),
            source: text("source"),
            is_on: row["disabled"] != true,
        }
    };
    Ok(status["skills"].as_array().into_iter().flatten().map(skill).collect())
}

/// `/skills`.
pub async fn skills(cx: &Ctx) -> Answer<String> {
    let skills = all(cx).await?;
    let names: Vec<_> =
        skills.iter().filter(|skill| skill.is_on).map(|skill| &skill.name).collect();
    let mut lines = vec![format!("Skills ({}):", names.len())];
    lines.extend(names.iter().map(|name| format!("  - {name}")));
    if names.is_empty() {
        lines.push("  (none)".into());
    }
    Ok(lines.join("\n"))
}

/// `/addskill [name or folder]`.
pub async fn add_skill(cx: &Ctx, name: &str) -> Vec<Reply> {
    if name.is_empty() {
        let said = available(cx).await.unwrap_or_else(|error| refusal(&error));
        return vec![said.into()];
    }
    let begun = format!("Installing skill '{name}'...");
    let done = match install(cx, name).await {
        Ok(()) => format!("Skill '{name}' installed."),
        Err(error) => format!("Failed to install skill '{name}'. {}", error.message),
    };
    vec![begun.into(), done.into()]
}

async fn available(cx: &Ctx) -> Answer<String> {
    let skills = all(cx).await?;
    let rest: Vec<_> = skills.iter().filter(|skill| !skill.is_on).collect();
    if rest.is_empty() {
        return Ok(
            "All catalog skills already installed.\nUsage: /addskill <name or folder>".into()
        );
    }
    let mut lines = vec![format!("Available skills ({}):", rest.len())];
    for Skill { name, description, source, .. } in rest {
        let dash = if description.is_empty() { "" } else { " - " };
        lines.push(format!("  {name}{dash}{description}  [{source}]"));
    }
    lines.push("\nUsage: /addskill <name or folder>".into());
    Ok(lines.join("\n"))
}

async fn install(cx: &Ctx, name: &str) -> Answer<()> {
    if name.starts_with(['/', '~']) {
        let params = json!({"source": "local", "path": name});
        return cx.call("skills.install", &params).await.map(|_| ());
    }
    let known = all(cx).await?;
    match known.iter().find(|skill| skill.name == name || skill.key == name) {
        Some(skill) => switch(cx, &skill.key, true).await,
        // No catalogue on the net is asked; the error says what can be done.
        None => {
            cx.call("skills.install", &json!({"source": "clawhub", "slug": name})).await.map(|_| ())
        }
    }
}

async fn switch(cx: &Ctx, key: &str, on: bool) -> Answer<()> {
    cx.call("skills.update", &json!({"skillKey": key, "enabled": on})).await.map(|_| ())
}

/// `/removeskill [name]`.
pub async fn remove_skill(cx: &Ctx, name: &str) -> Answer<String> {
    let skills = all(cx).await?;
    let mut on = skills.iter().filter(|skill| skill.is_on);
    if !name.is_empty() {
        let found = on.find(|skill| skill.name == name || skill.key == name);
        let Some(skill) = found else { return Ok(format!("Skill '{name}' not found.")) };
        switch(cx, &skill.key, false).await?;
        return Ok(format!("Skill '{name}' removed."));
    }
    let names: Vec<_> = on.map(|skill| format!("  {}", skill.name)).collect();
    Ok(if names.is_empty() {
        "No skills installed.\nUsage: /removeskill <name>".into()
    } else {
        format!(
            "Installed skills ({}):\n{}\n\nUsage: /removeskill <name>",
            names.len(),
            names.join("\n")
        )
    })
}

/// `/plugin enable|disable ID`. There are none.
pub fn plugin(args: &str) -> String {
    let mut words = args.split_whitespace();
    match (words.next().map(str::to_lowercase).as_deref(), words.next()) {
        (Some("enable" | "disable"), Some(id)) => format!("Plugin '{id}' not found."),
        (Some(action), Some(_)) => format!("Unknown action '{action}'."),
        _ => "Usage: /plugin enable <id> or /plugin disable <id>".into(),
    }
}

/// `/mcp [add N URL | remove N | enable N | disable N]`.
pub async fn mcp(cx: &Ctx, args: &str) -> Answer<String> {
    let words: Vec<_> = args.split_whitespace().collect();
    let Some((action, words)) = words.split_first() else { return servers(cx).await };
    let action = action.to_lowercase();
    match (action.as_str(), words) {
        ("add", [_, url, ..]) if !is_http(url) => {
            Err(ErrorShape::invalid("the URL of an MCP server begins with http:// or https://"))
        }
        ("add", [name, url, ..]) => {
            let (name, url) = ((*name).to_owned(), (*url).to_owned());
            let said = format!("MCP server '{name}' added. Start a /new session to activate.");
            let server = json!({"url": url, "transport": "streamable-http"});
            settings::change(cx, move |config| {
                let servers = settings::at(config, &["mcp", "servers"]);
                if servers.get(&name).is_some() {
                    let text = format!("there is an MCP server '{name}' already");
                    return Err(ErrorShape::invalid(text));
                }
                *settings::at(servers, &[&name]) = server.clone();
                Ok(())
            })
            .await?;
            Ok(said)
        }
        ("add", _) => Ok("Usage: /mcp add <name> <url>".into()),
        ("remove" | "enable" | "disable", [name, ..]) => alter(cx, &action, name).await,
        ("remove" | "enable" | "disable", []) => Ok(format!("Usage: /mcp {action} <name>")),
        _ => Ok(format!("Unknown MCP action '{action}'.")),
    }
}

fn is_http(url: &str) -> bool {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

async fn alter(cx: &Ctx, action: &str, name: &str) -> Answer<String> {
    let (doing, named) = (action.to_owned(), name.to_owned());
    let is_found = settings::change(cx, move |config| {
        let path = ["mcp", "servers", &named];
        if config["mcp"]["servers"].get(&named).is_none() {
            return Ok(false);
        }
        if doing == "remove" {
            settings::remove(config, &path);
        } else {
            *settings::at(config, &["mcp", "servers", &named, "enabled"]) =
                json!(doing == "enable");
        }
        Ok(true)
    })
    .await?;
    Ok(match action {
        _ if !is_found => format!("MCP server '{name}' not found."),
        "remove" => format!("MCP server '{name}' removed."),
        _ => format!("MCP server '{name}' {action}d."),
    })
}

async fn servers(cx: &Ctx) -> Answer<String> {
    // Addresses of servers can hold secrets, so they are not shown.
    let seen = cx.call("config.get", &json!({})).await?;
    let servers = seen["sourceConfig"]["mcp"]["servers"].as_object();
    let Some(servers) = servers.filter(|servers| !servers.is_empty()) else {
        return Ok("No MCP servers configured.".into());
    };
    let states = cx.services.runs.parts().tools.mcp().status();
    let mut lines = vec![format!("MCP Servers ({}):", servers.len())];
    for (name, server) in servers {
        let mark = if server["enabled"] == false { '-' } else { '+' };
        let kind = if server.get("url").is_some() { "http" } else { "stdio" };
        lines.push(format!("  [{mark}] {name} ({kind})"));
        let state = states.as_array().into_iter().flatten().find(|it| it["name"] == name.as_str());
        if let Some(error) = state.and_then(|state| state["error"].as_str()) {
            lines.push(format!("        {error}"));
        }
    }
    Ok(lines.join("\n"))
}
