//! `commands.list`.

use serde_json::{Value, json};

use crate::commands;
use crate::protocol::ErrorShape;
use crate::protocol::methods::commands::CommandsListParams;
use crate::registry::{Ctx, Reply};

/// `commands.list`: the slash commands of an agent. All are for texts and for
/// menus, so `scope` and `provider` leave none out.
pub async fn list(cx: Ctx, p: CommandsListParams) -> Reply<Value> {
    if let Some(agent) = p.agent_id.as_deref()
        && !cx.services.settings.agents.has(agent.trim())
    {
        return Err(ErrorShape::invalid(format!("unknown agent id \"{}\"", agent.trim())));
    }
    Ok(json!({"commands": commands::rows(&cx, p.include_args)}))
}
