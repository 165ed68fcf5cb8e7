//! What a table of routes may say, in the words of the original.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::routing::{Route, RouteTarget, spoken};
use super::words::WORD_MAX;
use crate::sessions::AgentId;

/// Most routes, as in the original.
const ROUTES_MAX: usize = 32;
/// Longest id of an agent, as in the original.
const AGENT_ID_MAX: usize = 64;
/// Longest session key; every other one of the protocol is shorter.
const SESSION_KEY_MAX: usize = 512;

/// Reads the default target and the routes.
pub(super) fn read(table: &Value) -> Result<(RouteTarget, Vec<Route>), String> {
    let table = table.as_object().ok_or("config must be an object")?;
    let default = match table.get("defaultTarget") {
        Some(written) => target(Some(written), "config.defaultTarget")?,
        None => RouteTarget::Current,
    };
    let written = match table.get("routes") {
        Some(written) => written.as_array().ok_or("config.routes must be an array")?.as_slice(),
        None => &[],
    };
    if written.len() > ROUTES_MAX {
        return Err(format!("config.routes must contain at most {ROUTES_MAX} entries"));
    }
    let mut seen = HashMap::new();
    let mut routes = Vec::new();
    for (index, written) in written.iter().enumerate() {
        let at = format!("config.routes[{index}]");
        let written = written.as_object().ok_or_else(|| format!("{at} must be an object"))?;
        let raw = word(written, "trigger").unwrap_or_default();
        let trigger = spoken(raw);
        if trigger.is_empty() {
            return Err(format!("{at}.trigger must be a non-empty string"));
        }
        if raw.chars().count() > WORD_MAX {
            return Err(format!("{at}.trigger must be at most {WORD_MAX} characters"));
        }
        if let Some(first) = seen.insert(trigger.clone(), index) {
            return Err(format!(
                "{at}.trigger duplicates config.routes[{first}].trigger after normalization"
            ));
        }
        let target = target(written.get("target"), &format!("{at}.target"))?;
        routes.push(Route { trigger, target });
    }
    Ok((default, routes))
}

fn target(written: Option<&Value>, at: &str) -> Result<RouteTarget, String> {
    let written = written.and_then(Value::as_object);
    let written = written.ok_or_else(|| format!("{at} must be an object"))?;
    let agent = word(written, "agentId");
    let session = word(written, "sessionKey");
    match (word(written, "mode"), agent, session) {
        (Some("current"), None, None) => Ok(RouteTarget::Current),
        (Some("current"), ..) => Err(format!("{at} cannot mix mode with agentId or sessionKey")),
        (Some(_), ..) => Err(format!("{at}.mode must be \"current\" when provided")),
        (None, Some(_), Some(_)) => Err(format!("{at} cannot include both agentId and sessionKey")),
        (None, Some(agent), None) if is_agent_id(agent) => {
            Ok(RouteTarget::Agent(AgentId::normalize(agent).as_str().to_owned()))
        }
        (None, Some(_), None) => Err(format!("{at}.agentId must be a valid agent id")),
        (None, None, Some(key)) if is_session_key(key) => Ok(RouteTarget::Session(key.to_owned())),
        (None, None, Some(_)) => {
            Err(format!("{at}.sessionKey must be a canonical agent session key"))
        }
        (None, None, None) => Err(format!("{at} must include mode, agentId, or sessionKey")),
    }
}

fn word<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    object.get(name)?.as_str().map(str::trim).filter(|text| !text.is_empty())
}

fn is_agent_id(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.len() <= AGENT_ID_MAX
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(fits)
}

/// `agent:<id>:<rest>`, with nothing missing.
fn is_session_key(text: &str) -> bool {
    let parts: Vec<_> = text.split(':').collect();
    text.len() <= SESSION_KEY_MAX
        && parts.len() >= 3
        && parts.first() == Some(&"agent")
        && !parts.iter().any(|part| part.is_empty())
        && !text.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    #[test]
    fn what_is_wrong_is_named_with_its_path() {
        let to = |target: Value| json!({"routes": [{"trigger": "a", "target": target}]});
        let twice = json!({"routes": [{"trigger": "A!", "target": {"mode": "current"}},
            {"trigger": "a", "target": {"mode": "current"}}]});
        let many: Vec<_> = (0..33).map(|n| json!({"trigger": n, "target": {}})).collect();
        for (wrong, error) in [
            (json!([]), "config must be an object"),
            (json!({"defaultTarget": 1}), "config.defaultTarget must be an object"),
            (json!({"routes": {}}), "config.routes must be an array"),
            (json!({"routes": many}), "config.routes must contain at most 32 entries"),
            (json!({"routes": [1]}), "config.routes[0] must be an object"),
            (
                json!({"routes": [{"trigger": " ?"}]}),
                "config.routes[0].trigger must be a non-empty string",
            ),
            (
                json!({"routes": [{"trigger": "a".repeat(65)}]}),
                "config.routes[0].trigger must be at most 64 characters",
            ),
            (
                twice,
                "config.routes[1].trigger duplicates config.routes[0].trigger after normalization",
            ),
            (json!({"routes": [{"trigger": "a"}]}), "config.routes[0].target must be an object"),
            (
                to(json!({"mode": "x"})),
                "config.routes[0].target.mode must be \"current\" when provided",
            ),
            (
                to(json!({"mode": "current", "agentId": "a"})),
                "config.routes[0].target cannot mix mode with agentId or sessionKey",
            ),
            (
                to(json!({"agentId": "a", "sessionKey": "agent:a:b"})),
                "config.routes[0].target cannot include both agentId and sessionKey",
            ),
            (
                to(json!({"agentId": "../x"})),
                "config.routes[0].target.agentId must be a valid agent id",
            ),
            (
                to(json!({"sessionKey": "main"})),
                "config.routes[0].target.sessionKey must be a canonical agent session key",
            ),
            (to(json!({})), "config.routes[0].target must include mode, agentId, or sessionKey"),
        ] {
            assert_eq!(read(&wrong).unwrap_err(), error);
        }
    }
}
