//! `agents_list`: whose sub-agents a session may have.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::{Tool, ToolContext, ToolKind, ToolOutput};
use crate::agent::rows::agent_runtime;
use crate::providers::ToolSpec;
use crate::sessions::AgentId;
use crate::support::{BoxFuture, json, without_nulls};

/// The tool.
pub struct AgentsList;

impl Tool for AgentsList {
    fn name(&self) -> &'static str {
        "agents_list"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Reads
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name().into(),
            description: "List the agents that sessions_spawn may be called with as agentId."
                .into(),
            parameters: json!({"type": "object", "properties": {}, "additionalProperties": false}),
        }
    }

    fn call<'a>(&'a self, cx: &'a ToolContext, _: &'a Value) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move { list(cx) })
    }
}

fn list(cx: &ToolContext) -> ToolOutput {
    let parts = cx.parts();
    let agents = &parts.settings.now().agents;
    let own = cx.key.agent(&parts.keys.now());
    let allowed = agents.spawnable(own.as_str());
    let allows_any = allowed.iter().any(|id| id == "*");
    let mut ids: BTreeSet<&str> = agents
        .list
        .iter()
        .map(|agent| agent.id.as_str())
        .filter(|id| allows_any || allowed.iter().any(|allowed| allowed == id))
        .collect();
    ids.remove(own.as_str());
    let rows = std::iter::once(own.as_str()).chain(ids).map(|id| {
        let agent = agents.agent(id).filter(|agent| agents.is_written(&agent.id));
        let model = parts.models.of_agent(&AgentId::normalize(id));
        without_nulls(json!({
            "id": id,
            "name": agent.and_then(|agent| agent.name.as_deref()),
            "configured": agent.is_some(),
            "model": model.reference().to_string(),
            "agentRuntime": agent_runtime(),
        }))
    });
    ToolOutput::json(json!({
        "requester": own.as_str(),
        "allowAny": allows_any,
        "agents": rows.collect::<Vec<_>>(),
    }))
}
