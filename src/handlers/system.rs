//! `status`, `system-presence`, `system-event`, `gateway.identity.get`.

use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::bus::Beacon;
use crate::protocol::methods::AnyParams;
use crate::protocol::methods::system::SystemEventParams;
use crate::protocol::{ErrorShape, Scope};
use crate::registry::{Ctx, Reply, Services};
use crate::sessions::{SessionError, SessionKey, SessionRow as Listed};
use crate::store::{SessionEntry, Teller};
use crate::support::{json, sort, without_nulls};

use super::health::publish_presence;

/// Sessions that `status` names.
const RECENT: u32 = 10;

/// `status`: what the gateway is and does, for people and dashboards. Paths
/// and sessions are for admins.
pub async fn status(cx: Ctx, _: AnyParams) -> Reply<Value> {
    let services = &cx.services;
    let is_admin = cx.caller.principal.allows(Scope::Admin);
    let failed = |error: SessionError| ErrorShape::unavailable(format!("Error: {error}"));
    let mut by_agent = Vec::new();
    let (mut total, mut all_recent, mut paths) = (0, Vec::new(), Vec::new());
    for agent in &services.settings.now().agents.list {
        let (count, recent) = services.sessions.summary(&agent.id, RECENT).await.map_err(failed)?;
        let recent: Vec<_> = if is_admin {
            recent
                .iter()
                .map(|listed| recent_session(services, &agent.id, listed, cx.now_ms()))
                .collect()
        } else {
            vec![]
        };
        let path = services.settings.now().paths.sessions_dir(&agent.id).join("sessions.json");
        let path = path.display().to_string();
        by_agent.push(json!({
            "agentId": agent.id,
            "path": is_admin.then_some(&path),
            "count": count,
            "recent": recent,
        }));
        total += count;
        all_recent.extend(recent);
        paths.push(path);
    }
    sort::by_key(&mut all_recent, |recent| {
        std::cmp::Reverse(recent.get("updatedAt").and_then(Value::as_u64).unwrap_or_default())
    });
    all_recent.truncate(usize::try_from(RECENT).unwrap_or(usize::MAX));
    let default = &services.models.default_choice().model;
    let mut status = json!({
        "runtimeVersion": super::SERVER_VERSION,
        "uptimeMs": services.uptime_ms(),
        "model": {"primary": default.reference().to_string(),
            "reason": services.models.default_choice().reason},
        "heartbeat": {
            "defaultAgentId": services.keys.now().default_agent.as_str(),
            "agents": services.settings.now().agents.list.iter()
                .map(|agent| super::health::heartbeat(services, &agent.id, false))
                .collect::<Vec<_>>(),
        },
        "channelSummary": super::channels::summary(services),
        "queuedSystemEvents": services.runs.parts().notices.of_all(),
        "tasks": services.runs.tasks(),
        "sessions": {
            "paths": if is_admin { paths } else { vec![] },
            "count": total,
            "defaults": {"model": default.id, "contextTokens": default.context_window},
            "recent": all_recent,
            "byAgent": by_agent,
        },
    });
    let ports = &services.settings.now().gateway.dialects.ports;
    if !ports.is_empty() {
        status["furtherPorts"] = json!(ports);
    }
    let mcp = services.runs.parts().tools.mcp();
    if !mcp.is_empty() {
        status["mcp"] = json!({"servers": mcp.status()});
    }
    Ok(status)
}

fn recent_session(services: &Services, agent: &str, listed: &Listed, now_ms: u64) -> Value {
    let entry = &listed.entry;
    let key = SessionKey::from_canonical(listed.key.as_str());
    let model = services.models.of_session(&key, Some(entry));
    let (used, window) = (entry.total_tokens, model.context_window());
    let recent = json!({
        "agentId": agent,
        "key": listed.key,
        "kind": key.kind(),
        "sessionId": entry.session_id,
        "updatedAt": entry.updated_at,
        "age": now_ms.saturating_sub(entry.updated_at),
        "systemSent": entry.system_sent,
        "abortedLastRun": entry.aborted_last_run,
        "inputTokens": entry.input_tokens,
        "outputTokens": entry.output_tokens,
        "cacheRead": entry.cache_read,
        "cacheWrite": entry.cache_write,
        "totalTokens": used,
        "totalTokensFresh": entry.total_tokens_fresh,
        "remainingTokens": used.zip(window).map(|(used, window)| window.saturating_sub(used)),
        "percentUsed": used.zip(window).map(|(used, window)| used * 100 / window.max(1)),
        "model": model.name.model,
        "runtime": "clawgate",
        "contextTokens": window,
        "flags": flags(entry),
    });
    without_nulls(recent)
}

/// What is set in a session, in the words of the original.
fn flags(entry: &SessionEntry) -> Vec<String> {
    let level =
        |name: &str, level: &Option<String>| level.as_ref().map(|level| format!("{name}:{level}"));
    let mark = |name: &str, is_set: Option<bool>| (is_set == Some(true)).then(|| name.to_owned());
    let flags = [
        level("think", &entry.thinking_level),
        level("verbose", &entry.verbose_level),
        level("reasoning", &entry.reasoning_level),
        mark("system", entry.system_sent),
        mark("aborted", entry.aborted_last_run),
        Some(format!("id:{}", entry.session_id)),
    ];
    flags.into_iter().flatten().collect()
}

/// `system-presence`: who is there.
pub async fn presence(cx: Ctx, _: AnyParams) -> Reply<Vec<Arc<RawValue>>> {
    Ok(cx.services.presence.list(cx.now_ms()))
}

/// `system-event`: a presence beacon, and news for the main session, of an admin.
pub async fn event(cx: Ctx, p: SystemEventParams) -> Reply<Value> {
    if p.text.is_empty() {
        return Err(ErrorShape::invalid("text required"));
    }
    let services = &cx.services;
    let (key, beacon) = Beacon::of_system_event(&p);
    let is_news = services.presence.announce(&key, beacon, cx.now_ms());
    publish_presence(services);
    let (keys, parts) = (&services.keys.now(), services.runs.parts());
    let main = SessionKey::main(&keys.default_agent, keys);
    // A beacon that says nothing new is no news for the model, and one that does is none for
    // long: it takes no room from what somebody wants to be heard.
    if p.text.starts_with("Node:") {
        if is_news {
            parts.notices.add_beacon(&main, &p.text, Teller::Owner);
        }
    } else {
        let noted = parts.notice(&main, &p.text, Teller::Owner).await;
        noted.map_err(super::cron::unwritten)?;
    }
    Ok(json!({"ok": true}))
}

/// `gateway.identity.get`: the gateway's own device id and public key.
pub async fn identity(cx: Ctx, _: AnyParams) -> Reply<Value> {
    let identity = &cx.services.identity;
    Ok(json!({"deviceId": identity.device_id(), "publicKey": identity.public_key()}))
}
