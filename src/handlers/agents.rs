//! `agents.list`, `agent.identity.get`.

use std::sync::Arc;

use serde_json::Value;

use crate::agent::workspace::{Avatar, Face, FileIdentity};
use crate::config::AgentSettings;
use crate::protocol::ErrorShape;
use crate::protocol::methods::NoParams;
use crate::protocol::methods::agents::AgentIdentityParams;
use crate::registry::{Ctx, Reply};
use crate::sessions::AgentId;
use crate::support::{blocking, json, without_nulls};

/// `agents.list`: the configured agents.
pub async fn list(cx: Ctx, _: NoParams) -> Reply<Value> {
    let services = &cx.services;
    // Of one moment, however the configuration changes while files are read.
    let (settings, keys) = (services.settings.now(), services.keys.now());
    let files = in_files(&cx, settings.agents.list.clone()).await?;
    let agents: Vec<_> = settings
        .agents
        .list
        .iter()
        .zip(&files)
        .map(|(agent, file)| {
            let model = services.models.of_agent(&AgentId::normalize(&agent.id));
            summary(agent, file, &model.reference().to_string())
        })
        .collect();
    Ok(json!({
        "defaultId": keys.default_agent.as_str(),
        "mainKey": keys.main_key,
        "scope": settings.session.scope.as_str(),
        "agents": agents,
    }))
}

/// What `IDENTITY.md` of each agent says.
async fn in_files(cx: &Ctx, agents: Vec<AgentSettings>) -> Reply<Vec<FileIdentity>> {
    let workspaces = Arc::clone(&cx.services.runs.parts().workspaces);
    let read = move || {
        let of = |agent: &AgentSettings| {
            workspaces.identity(&agent.workspace, agent.identity.avatar.as_deref())
        };
        agents.iter().map(of).collect()
    };
    Ok(blocking(read).await?)
}

fn summary(agent: &AgentSettings, file: &FileIdentity, primary: &str) -> Value {
    let fallbacks = agent.model.as_ref().and_then(|model| model.fallbacks.as_ref());
    let model = match fallbacks.filter(|fallbacks| !fallbacks.is_empty()) {
        Some(fallbacks) => json!({"primary": primary, "fallbacks": fallbacks}),
        None => json!({"primary": primary}),
    };
    let summary = json!({
        "id": agent.id,
        "name": agent.name,
        "identity": identity_members(agent, file),
        "workspace": agent.workspace.display().to_string(),
        "agentRuntime": {"id": "pi", "source": "implicit"},
        "model": model,
    });
    without_nulls(summary)
}

/// `identity` of a summary, what is configured before what the file says;
/// `null` when neither says anything.
fn identity_members(agent: &AgentSettings, file: &FileIdentity) -> Value {
    let identity = &agent.identity;
    let picture = file.avatar.as_ref().map(|avatar| avatar.source().to_owned());
    let shown = identity.avatar.as_deref().and_then(Avatar::parse).or_else(|| file.avatar.clone());
    let members = json!({
        "name": identity.name.as_ref().or(file.name.as_ref()),
        "theme": identity.theme.as_ref().or(file.theme.as_ref()),
        "emoji": identity.emoji.as_ref().or(file.emoji.as_ref()),
        "avatar": identity.avatar.as_ref().or(picture.as_ref()),
        "avatarUrl": shown.as_ref().map(Avatar::source),
    });
    match without_nulls(members) {
        Value::Object(members) if members.is_empty() => Value::Null,
        members => members,
    }
}

/// `agent.identity.get`: name and avatar of an agent, also of one that is not
/// configured.
pub async fn identity(cx: Ctx, p: AgentIdentityParams) -> Reply<Value> {
    let services = &cx.services;
    let of_session = p
        .session_key
        .as_deref()
        .filter(|key| !key.trim().is_empty())
        .map(|key| cx.session_key(key).agent(&services.keys.now()));
    let named = p.agent_id.as_deref().map(AgentId::normalize);
    let id = match (named, of_session) {
        (Some(named), Some(of_session)) if named != of_session => {
            return Err(ErrorShape::invalid(format!(
                "invalid agent.identity.get params: agent \"{named}\" does not match session key agent \"{of_session}\""
            )));
        }
        (Some(id), _) | (None, Some(id)) => id,
        (None, None) => services.keys.now().default_agent.clone(),
    };
    let settings = services.settings.now();
    let known = settings.agents.agent(id.as_str());
    // Only of an agent that is configured it is known where its files are.
    let file = match known {
        Some(agent) => in_files(&cx, vec![agent.clone()]).await?.pop().unwrap_or_default(),
        None => FileIdentity::default(),
    };
    let face = Face::of(known, file);
    let picture = face.picture.as_ref();
    let answer = json!({
        "agentId": id.as_str(),
        "name": face.name,
        "avatar": face.shown(),
        "avatarSource": picture.filter(|it| it.is_remote()).map(Avatar::source),
        "avatarStatus": picture.map_or("none", Avatar::status),
        "avatarReason": picture.is_none().then_some("missing"),
        "emoji": face.emoji,
    });
    Ok(without_nulls(answer))
}
