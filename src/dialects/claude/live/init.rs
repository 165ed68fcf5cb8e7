//! What a turn works with, told when it begins.

use std::sync::Arc;

use serde_json::Value;

use crate::agent::ActiveRun;
use crate::commands::offered;
use crate::dialects::claude::format::{CLAUDE_CODE_VERSION, tool_name};
use crate::registry::Services;
use crate::sessions::{SessionEntry, SessionKey};
use crate::support::json;

/// The mode of a session that has been given none.
const DEFAULT_MODE: &str = "default";

/// The mode that a session is in.
pub fn mode_of(entry: &SessionEntry) -> &str {
    entry.permission_mode.as_deref().unwrap_or(DEFAULT_MODE)
}

/// `system` of subtype `init`: what is there for this run.
pub async fn init(
    services: &Arc<Services>,
    key: &SessionKey,
    entry: &SessionEntry,
    run: &Arc<ActiveRun>,
) -> Value {
    let parts = services.runs.parts();
    let tools = services.runs.toolbox(key, entry, Some(run)).await;
    let tools: Vec<_> = tools
        .iter()
        .flat_map(|tools| tools.iter().map(|tool| tool_name(tool.name()).into_owned()))
        .collect();
    let settings = services.settings.now();
    let skills = parts.skills.commands(parts.agent_of(key), &[]).await;
    let skills: Vec<_> = skills.into_iter().map(|skill| skill.name).collect();
    let commands: Vec<_> = offered(settings.commands.config)
        .map(|command| command.name.to_owned())
        .chain(skills.iter().cloned())
        .collect();
    let agents: Vec<_> = settings.agents.list.iter().map(|agent| agent.id.clone()).collect();
    json!({
        "type": "system",
        "subtype": "init",
        "cwd": parts.agent_of(key).workspace.display().to_string(),
        "session_id": entry.session_id,
        "tools": tools,
        "mcp_servers": servers(&parts.tools.mcp().status()),
        "model": services.models.of_session(key, Some(entry)).name.model,
        "permissionMode": mode_of(entry),
        "slash_commands": commands,
        "apiKeySource": "none",
        "claude_code_version": CLAUDE_CODE_VERSION,
        "output_style": "default",
        "agents": agents,
        "skills": skills,
        "plugins": [],
        "uuid": services.ids.uuid(),
    })
}

/// `{name, status}` of each MCP server.
fn servers(status: &Value) -> Vec<Value> {
    let word = |server: &Value| match server["state"].as_str() {
        Some("ready") => "connected",
        Some("failed" | "stopped") => "failed",
        _ => "pending",
    };
    let all = status.as_array().into_iter().flatten();
    all.map(|server| json!({"name": server["name"], "status": word(server)})).collect()
}
