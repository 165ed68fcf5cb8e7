//! What the pages of the dialect ask for when they load: whether the gateway is set
//! up, and who its agent is.

use serde_json::Value;

use crate::config::AuthMode;
use crate::registry::{Ctx, Reply};
use crate::sessions::SessionKey;
use crate::support::json;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What it is.
    pub name: &'static str,
    /// Whether it is as it should be.
    pub is_ok: bool,
    /// How it is.
    pub detail: String,
}

/// Looks at all that a conversation needs.
///
/// # Errors
/// When the caller may not see how the gateway is.
pub async fn checks(cx: &Ctx) -> Reply<Vec<Check>> {
    cx.check("status")?;
    let (services, settings) = (&cx.services, cx.services.settings.now());
    let trouble = services.reload.state.now().said();
    let config = Check {
        name: "config",
        is_ok: trouble.is_none(),
        detail: trouble.unwrap_or_else(|| "valid".into()),
    };
    let model = services.models.of_agent(&services.keys.now().default_agent);
    let is_ready = model.has_credential() || model.is_local();
    let model = Check {
        name: "model",
        is_ok: is_ready,
        detail: format!(
            "{}{}",
            model.reference(),
            if is_ready { "" } else { " has no credential" }
        ),
    };
    let mode = settings.gateway.auth.mode;
    let auth = Check {
        name: "auth",
        is_ok: true,
        detail: match mode {
            AuthMode::None => "none (this machine only)".into(),
            mode => mode.to_string(),
        },
    };
    let keys = services.keys.now();
    let main = SessionKey::main(&keys.default_agent, &keys);
    let sessions = match services.sessions.entry(&main).await {
        Ok(_) => Check { name: "sessions", is_ok: true, detail: "readable".into() },
        Err(error) => Check { name: "sessions", is_ok: false, detail: error.to_string() },
    };
    let mut checks = vec![config, model, auth, sessions];
    let status = cx.call("channels.status", &json!({})).await?;
    let accounts = status["channelAccounts"].as_object().into_iter().flatten();
    let accounts: Vec<_> = accounts
        .flat_map(|(_, accounts)| accounts.as_array().into_iter().flatten())
        .filter(|account| account["enabled"] == true)
        .collect();
    let failed = accounts.iter().filter(|account| account["lastError"].is_string()).count();
    checks.push(Check {
        name: "channels",
        is_ok: failed == 0,
        detail: format!("{} enabled, {failed} failed", accounts.len()),
    });
    let servers = services.runs.parts().tools.mcp().status();
    let servers = servers.as_array().map(Vec::as_slice).unwrap_or_default();
    let failed = servers.iter().filter(|server| server["state"] == "failed").count();
    checks.push(Check {
        name: "mcp",
        is_ok: failed == 0,
        detail: format!("{} servers, {failed} failed", servers.len()),
    });
    Ok(checks)
}

/// `GET /api/setup/status`. The upstream's own cloud does not exist here: what stands
/// for it is whether a model can answer.
///
/// # Errors
/// When the caller may not see how the gateway is.
pub async fn status(cx: &Ctx) -> Reply<Value> {
    let checks = checks(cx).await?;
    let is_ok = |name: &str| checks.iter().any(|check| check.name == name && check.is_ok);
    let rows: Vec<_> = checks
        .iter()
        .map(|check| json!({"check": check.name, "ok": check.is_ok, "detail": check.detail}))
        .collect();
    let model = cx.services.models.of_agent(&cx.services.keys.now().default_agent).reference();
    Ok(json!({
        "prerequisites_configured": is_ok("config") && is_ok("sessions"),
        "foundry": {"deployed": is_ok("model"), "model": model.to_string()},
        "checks": rows,
        "lockdown_mode": super::lockdown::is_on(&cx.services.settings.now()),
    }))
}

/// `GET /api/profile`: the agent as people see it. What nobody has set is empty.
///
/// # Errors
/// Those of `agent.identity.get`.
pub async fn profile(cx: &Ctx) -> Reply<Value> {
    let identity = cx.call("agent.identity.get", &json!({})).await?;
    let text = |name: &str| identity[name].as_str().unwrap_or_default();
    let mut preferences = serde_json::Map::new();
    let defaults = &cx.services.settings.now().agents.defaults;
    if let Some(level) = &defaults.thinking_default {
        preferences.insert("thinking".into(), json!(level));
    }
    Ok(json!({
        "agent_id": text("agentId"),
        "name": text("name"),
        "emoji": text("emoji"),
        "avatar": identity["avatar"],
        "location": "",
        "emotional_state": "",
        "preferences": preferences,
        "skill_usage": {},
    }))
}
