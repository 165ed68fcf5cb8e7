//! `commands.list`.

use serde_json::Value;

use crate::commands;
use crate::protocol::methods::commands::CommandsListParams;
use crate::registry::{Ctx, Reply};
use crate::support::json;

use super::tools::configured;

/// `commands.list`: the slash commands of an agent. All are for texts and for
/// menus, so `scope` and `provider` leave none out.
pub async fn list(cx: Ctx, p: CommandsListParams) -> Reply<Value> {
    let id = configured(&cx, p.agent_id.as_deref())?;
    let agent = cx.services.settings.now().agents.agent_or_default(id.as_str());
    Ok(json!({"commands": commands::rows(&cx, agent, p.include_args).await}))
}
