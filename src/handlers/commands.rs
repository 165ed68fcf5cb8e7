//! `commands.list`.

use serde_json::Value;

use crate::commands;
use crate::protocol::ErrorShape;
use crate::protocol::methods::commands::CommandsListParams;
use crate::registry::{Ctx, Reply};
use crate::support::json;

/// `commands.list`: the slash commands of an agent. All are for texts and for
/// menus, so `scope` and `provider` leave none out.
pub async fn list(cx: Ctx, p: CommandsListParams) -> Reply<Value> {
    let agents = &cx.services.settings.now().agents;
    let agent = p.agent_id.as_deref().map(str::trim);
    if let Some(agent) = agent
        && !agents.has(agent)
    {
        return Err(ErrorShape::not_found(format!("unknown agent id \"{agent}\"")));
    }
    let agent =
        agents.agent_or_default(agent.unwrap_or(cx.services.keys.now().default_agent.as_str()));
    Ok(json!({"commands": commands::rows(&cx, agent, p.include_args).await}))
}
