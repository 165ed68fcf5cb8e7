//! Paths of our own HTTP side that messages of channels come to.

use super::account::DEFAULT_ACCOUNT;

/// Paths that the gateway has for itself. Those with a name in them are none: what is asked
/// for at a channel's goes to the channel.
pub const OWN_PATHS: [&str; 37] = [
    "/",
    "/__openclaw/control-ui-config.json",
    "/__openclaw__/assistant-media",
    "/api/auth/check",
    "/api/chat/models",
    "/api/chat/suggestions",
    "/api/chat/uploads",
    "/api/claude/auth-status",
    "/api/claude/sessions",
    "/api/claude/sessions/all",
    "/api/guardrails/config",
    "/api/guardrails/contexts",
    "/api/guardrails/inventory",
    "/api/guardrails/presets",
    "/api/guardrails/rules",
    "/api/guardrails/set-all",
    "/api/guardrails/tools",
    "/api/models",
    "/api/notifications/stream",
    "/api/profile",
    "/api/sessions",
    "/api/sessions/policy",
    "/api/sessions/stats",
    "/api/setup/status",
    "/api/skills",
    "/clawgate",
    "/health",
    "/healthz",
    "/metrics",
    "/openapi.json",
    "/ready",
    "/readyz",
    "/tools/invoke",
    "/v1/chat/completions",
    "/v1/embeddings",
    "/v1/models",
    "/v1/responses",
];
/// Beginnings of paths that it has.
pub const OWN_FOLDERS: [&str; 3] = ["/api/chat/media/outgoing/", "/avatar/", "/clawgate/"];

pub(super) fn default_path(place: &str, id: &str) -> String {
    match (place, id) {
        ("telegram-webhook", DEFAULT_ACCOUNT) => "/telegram-webhook".into(),
        _ => format!("/{place}/{id}"),
    }
}

pub(super) fn inbound_path(text: &str, key: &str) -> Result<String, String> {
    let text = text.trim();
    if !text.starts_with('/') || text.contains(['?', '#', ' ']) {
        return Err(format!("{key} must be a path that begins with /"));
    }
    if OWN_PATHS.contains(&text) || OWN_FOLDERS.iter().any(|folder| text.starts_with(folder)) {
        return Err(format!("{key} is a path that the gateway has for something else"));
    }
    Ok(text.to_owned())
}
