//! `agents.list`, `agent.identity.get`.

use serde_json::{Value, json};

use crate::config::AgentSettings;
use crate::protocol::ErrorShape;
use crate::protocol::methods::NoParams;
use crate::protocol::methods::agents::AgentIdentityParams;
use crate::registry::{Ctx, Reply};
use crate::sessions::AgentId;
use crate::support::without_nulls;

/// `agents.list`: the configured agents.
pub async fn list(cx: Ctx, _: NoParams) -> Reply<Value> {
    let services = &cx.services;
    let agents: Vec<_> = services
        .settings
        .agents
        .list
        .iter()
        .map(|agent| {
            let model = services.models.of_agent(&AgentId::normalize(&agent.id));
            summary(agent, &model.reference().to_string())
        })
        .collect();
    Ok(json!({
        "defaultId": services.keys.default_agent.as_str(),
        "mainKey": services.keys.main_key,
        "scope": services.settings.session.scope.as_str(),
        "agents": agents,
    }))
}

fn summary(agent: &AgentSettings, primary: &str) -> Value {
    let fallbacks = agent.model.as_ref().and_then(|model| model.fallbacks.as_ref());
    let model = match fallbacks.filter(|fallbacks| !fallbacks.is_empty()) {
        Some(fallbacks) => json!({"primary": primary, "fallbacks": fallbacks}),
        None => json!({"primary": primary}),
    };
    let summary = json!({
        "id": agent.id,
        "name": agent.name,
        "identity": identity_members(agent),
        "workspace": agent.workspace.display().to_string(),
        "agentRuntime": {"id": "pi", "source": "implicit"},
        "model": model,
    });
    without_nulls(summary)
}

/// `identity` of a summary; `null` when nothing is configured.
fn identity_members(agent: &AgentSettings) -> Value {
    let identity = &agent.identity;
    let mut members = serde_json::Map::new();
    for (name, value) in [
        ("name", &identity.name),
        ("theme", &identity.theme),
        ("emoji", &identity.emoji),
        ("avatar", &identity.avatar),
    ] {
        if let Some(value) = value {
            members.insert(name.into(), json!(value));
        }
    }
    if members.is_empty() { Value::Null } else { Value::Object(members) }
}

/// `agent.identity.get`: name and avatar of an agent, also of one that is not
/// configured.
pub async fn identity(cx: Ctx, p: AgentIdentityParams) -> Reply<Value> {
    let services = &cx.services;
    let of_session = p
        .session_key
        .as_deref()
        .filter(|key| !key.trim().is_empty())
        .map(|key| cx.session_key(key).agent(&services.keys));
    let named = p.agent_id.as_deref().map(AgentId::normalize);
    let id = match (named, of_session) {
        (Some(named), Some(of_session)) if named != of_session => {
            return Err(ErrorShape::invalid(format!(
                "invalid agent.identity.get params: agent \"{named}\" does not match session key agent \"{of_session}\""
            )));
        }
        (Some(id), _) | (None, Some(id)) => id,
        (None, None) => services.keys.default_agent.clone(),
    };
    let agent = services.settings.agents.agent(id.as_str());
    let identity = agent.map(|agent| &agent.identity);
    let name = identity
        .and_then(|identity| identity.name.clone())
        .or_else(|| agent.and_then(|agent| agent.name.clone()))
        .unwrap_or_else(|| "Assistant".into());
    let emoji = identity.and_then(|identity| identity.emoji.clone());
    let initial = name.chars().next().map(|first| first.to_uppercase().to_string());
    let answer = json!({
        "agentId": id.as_str(),
        "name": name,
        "avatar": emoji.clone().or(initial).unwrap_or_else(|| "A".into()),
        "avatarStatus": "none",
        "avatarReason": "missing",
        "emoji": emoji,
    });
    Ok(without_nulls(answer))
}
