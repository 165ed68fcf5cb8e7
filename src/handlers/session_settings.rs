//! The methods of `sessions.*` that make sessions and change their settings.

use serde_json::Value;

use super::session_changes::{Saying, change, refuse_webchat, say};
use super::sessions::{shown, told, unavailable};
use crate::agent::{PatchContext, SessionRow, agent_runtime};
use crate::protocol::decode::Setting;
use crate::protocol::methods::session_settings::{
    SessionSettings, SessionsCreateParams, SessionsPatchParams, SessionsPluginPatchParams,
    SessionsSpawnParams,
};
use crate::protocol::methods::sessions::SessionsSendParams;
use crate::protocol::{ErrorKind, ErrorShape, Scope};
use crate::registry::{Ctx, Reply};
use crate::sessions::{AgentId, SessionEntry, SessionError, SessionId, SessionKey};
use crate::support::json;

/// `sessions.create`: begins a session, or sets label and model of one that
/// there is, and says something in it if the caller wishes.
pub async fn create(cx: Ctx, p: SessionsCreateParams) -> Reply<Value> {
    let agent = p.agent_id.as_deref().map(AgentId::normalize);
    let key = key_of(&cx, "sessions.create", p.key.as_deref(), agent.as_ref())?;
    cx.enter_lane(&key).await;
    let parent = match p.parent_session_key {
        Some(written) => Some(existing_parent(&cx, &written).await?),
        None => None,
    };
    let replaced = parent.clone().filter(|_| p.emits_command_hooks);
    let settings = SessionSettings {
        label: p.label.map_or(Setting::Keep, Setting::Set),
        model: p.model.map_or(Setting::Keep, Setting::Set),
        ..SessionSettings::default()
    };
    let also = move |entry: &mut SessionEntry| {
        if let Some(parent) = parent {
            entry.parent_session_key = Some(parent.to_string());
        }
        Ok(())
    };
    let entry = edit(&cx, &key, settings, also).await?;
    if let Some(replaced) = replaced {
        cx.services.runs.parts().remember_session(&replaced).await;
    }
    let mut answer = json!({"ok": true, "key": key.as_str(), "sessionId": entry.session_id,
        "entry": entry, "runStarted": false});
    if let Some(message) = p.message {
        begin(&cx, &key, message, &mut answer).await;
    }
    // The recorded order: the session, then what is said in it.
    cx.first_after_answer(change(&cx, key, Some(entry), "create"));
    Ok(told(&cx, answer))
}

/// Says the first message. The session is there whatever becomes of it.
async fn begin(cx: &Ctx, key: &SessionKey, message: String, answer: &mut Value) {
    let request = SessionsSendParams {
        key: key.to_string(),
        message,
        thinking: None,
        attachments: Vec::new(),
        timeout_ms: None,
        idempotency_key: None,
    };
    match say(cx.clone(), key.clone(), request, Saying::Send).await {
        Ok(said) => {
            answer["runStarted"] = json!(said["status"] == "started");
            if let (Value::Object(members), Value::Object(said)) = (answer, said) {
                members.extend(said);
            }
        }
        Err(error) => {
            answer["runError"] = json!({"code": error.code.as_str(), "message": error.message});
        }
    }
}

/// `sessions.spawn`: begins a session of an agent, with a system prompt of its
/// own. The original has no such method; dashboards call it.
pub async fn spawn(cx: Ctx, p: SessionsSpawnParams) -> Reply<Value> {
    let agent = AgentId::normalize(&p.agent_id);
    if !cx.services.settings.now().agents.has(agent.as_str()) {
        return Err(ErrorShape::not_found(format!("unknown agent id \"{}\"", p.agent_id)));
    }
    let key = key_of(&cx, "sessions.spawn", p.session_key.as_deref(), Some(&agent))?;
    cx.enter_lane(&key).await;
    let settings = SessionSettings {
        model: p.model.map_or(Setting::Keep, Setting::Set),
        ..SessionSettings::default()
    };
    let prompt = p.system_prompt.map(|prompt| prompt.trim().to_owned());
    let is_admin = cx.caller.principal.allows(Scope::Admin);
    let also = move |entry: &mut SessionEntry| {
        let Some(prompt) = prompt else { return Ok(()) };
        let prompt = Some(prompt).filter(|prompt| !prompt.is_empty());
        // Messages that came before the index are not counted before somebody reads them.
        let facts = &entry.transcript;
        let is_new = facts.message_count == 0
            && facts.derived_title.is_none()
            && facts.last_message.is_none();
        if entry.extra_system_prompt != prompt && !is_new && !is_admin {
            return Err("systemPrompt of a session under way requires admin scope".to_owned());
        }
        entry.extra_system_prompt = prompt;
        Ok(())
    };
    let entry = edit(&cx, &key, settings, also).await?;
    let answer = json!({"ok": true, "key": key.as_str(), "agentId": agent.as_str(),
        "sessionId": entry.session_id});
    cx.after_answer(change(&cx, key, Some(entry), "create"));
    Ok(told(&cx, answer))
}

/// `sessions.patch`: changes what is set of a session; begins it if need be.
pub async fn patch(cx: Ctx, p: SessionsPatchParams) -> Reply<Value> {
    refuse_webchat(&cx, "patch")?;
    let key = cx.enter_session(&p.key).await;
    refuse_malformed(&key, &p.key)?;
    let entry = edit(&cx, &key, p.settings, |_| Ok(())).await?;
    let services = &cx.services;
    let model = services.models.of_session(&key, Some(&entry)).name;
    let agent = key.agent(&services.keys.now());
    let path = services.settings.now().paths.sessions_dir(agent.as_str()).join("sessions.json");
    let mut answer = json!({
        "ok": true,
        "path": path.display().to_string(),
        "key": key.as_str(),
        "entry": entry,
        "resolved": {"modelProvider": model.provider, "model": model.model,
            "agentRuntime": agent_runtime()},
    });
    if cx.caller.is_dashboard
        && let Value::Object(row) =
            shown(&cx, SessionRow::new(&key, &entry, &services.models), &key, &entry)
        && let Value::Object(members) = &mut answer
    {
        members.extend(row);
    }
    cx.after_answer(change(&cx, key, Some(entry), "patch"));
    Ok(told(&cx, answer))
}

/// `sessions.pluginPatch`: sets what a plugin keeps with a session. There are
/// no plugins that do.
pub async fn plugin_patch(cx: Ctx, p: SessionsPluginPatchParams) -> Reply<Value> {
    refuse_webchat(&cx, "patch")?;
    if p.unset && p.value.is_some() {
        let text = "sessions.pluginPatch cannot specify both unset and value";
        return Err(ErrorShape::invalid(text));
    }
    Err(ErrorShape::invalid(format!(
        "unknown plugin session extension: {}/{}",
        p.plugin_id, p.namespace
    )))
}

/// The session that is meant, of the agent that is meant; a new one without a
/// key.
fn key_of(
    cx: &Ctx,
    method: &str,
    written: Option<&str>,
    agent: Option<&AgentId>,
) -> Reply<SessionKey> {
    let keys = &cx.services.keys.now();
    let Some(written) = written else {
        let agent = agent.unwrap_or(&keys.default_agent);
        return Ok(SessionKey::dashboard(agent, &cx.services.ids.uuid()));
    };
    let key = cx.session_key_for(written, agent.unwrap_or(&keys.default_agent));
    refuse_malformed(&key, written)?;
    let of_key = key.agent(keys);
    match agent {
        Some(agent) if *agent != of_key => Err(ErrorShape::invalid(format!(
            "{method} key agent ({of_key}) does not match agentId ({agent})"
        ))),
        _ => Ok(key),
    }
}

/// Nobody would answer in a session whose key names no agent or no session.
pub(super) fn refuse_malformed(key: &SessionKey, written: &str) -> Reply<()> {
    if key.is_malformed() {
        return Err(ErrorShape::invalid(format!("malformed session key \"{written}\"")));
    }
    Ok(())
}

async fn existing_parent(cx: &Ctx, written: &str) -> Reply<SessionKey> {
    let key = cx.session_key(written);
    let entry = cx.services.sessions.entry(&key).await.map_err(unavailable)?;
    entry
        .map(|_| key)
        .ok_or_else(|| ErrorShape::not_found(format!("unknown parent session: {written}")))
}

async fn edit(
    cx: &Ctx,
    key: &SessionKey,
    settings: SessionSettings,
    also: impl FnOnce(&mut SessionEntry) -> Result<(), String> + Send + 'static,
) -> Reply<SessionEntry> {
    edit_as(cx, key, None, settings, also).await.map_err(unedited)
}

/// Changes the settings of a session. One that there is not yet is begun, with this `id` if
/// there is one.
pub(super) async fn edit_as(
    cx: &Ctx,
    key: &SessionKey,
    id: Option<&SessionId>,
    settings: SessionSettings,
    also: impl FnOnce(&mut SessionEntry) -> Result<(), String> + Send + 'static,
) -> Result<SessionEntry, SessionError> {
    let services = &cx.services;
    let workspace = services.runs.parts().agent_of(key).workspace;
    let patch = PatchContext { key: key.clone(), models: services.models.clone() };
    let change = move |entry: &mut SessionEntry| {
        patch.apply(settings, entry)?;
        also(entry)
    };
    services.sessions.edit(key, id, &workspace, change).await
}

/// Why the settings of a session are not changed.
pub(super) fn unedited(error: SessionError) -> ErrorShape {
    match error {
        SessionError::LabelTaken(_) => {
            ErrorShape::invalid(error.to_string()).kind(ErrorKind::Taken)
        }
        SessionError::Refused(_) => ErrorShape::invalid(error.to_string()),
        error => unavailable(error),
    }
}
