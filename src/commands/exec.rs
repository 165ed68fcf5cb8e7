//! `/exec`: how commands of the agent run in this session.

use serde_json::{Map, Value};

use super::refusal;
use crate::config::{ExecAsk, ExecSecurity};
use crate::registry::Ctx;
use crate::sessions::SessionKey;
use crate::support::json;

/// What the original says to who may not.
const REFUSED: &str =
    "⚙️ Exec defaults require operator.admin for internal gateway callers; skipped persistence.";

const EXEC_OPTIONS: &str = "Options: host=auto|sandbox|gateway|node, \
    security=deny|allowlist|full, ask=off|on-miss|always, node=<id>.";

/// Does it; what is said to that.
pub async fn run(words: &str, cx: &Ctx, key: &SessionKey) -> String {
    if words.is_empty() {
        let entry = match cx.services.sessions.entry(key).await {
            Ok(entry) => entry.unwrap_or_default(),
            Err(error) => return format!("⚠️ The session is not readable: {error}"),
        };
        let agent = key.agent(&cx.services.keys.now());
        let settings = cx.services.settings.now();
        let rules = settings.exec_policy.rules(settings.agents.ruling_id(agent.as_str()));
        let or = |value: &Option<String>, default: &str| {
            value.clone().unwrap_or_else(|| default.to_owned())
        };
        return format!(
            "Current exec defaults: host={}, effective=gateway, security={}, ask={}, node={}.\n\
             {EXEC_OPTIONS}",
            or(&entry.exec_host, "auto"),
            or(&entry.exec_security, rules.security.map_or("full", ExecSecurity::as_str)),
            or(&entry.exec_ask, rules.ask.map_or("off", ExecAsk::as_str)),
            or(&entry.exec_node, "(unset)"),
        );
    }
    let mut params = Map::from_iter([("key".to_owned(), json!(key.as_str()))]);
    let mut said = Vec::new();
    for word in words.split_whitespace() {
        let member = match word.split_once(['=', ':']) {
            Some(("host", value)) => ("execHost", value),
            Some(("security", value)) => ("execSecurity", value),
            Some(("ask", value)) => ("execAsk", value),
            Some(("node", value)) => ("execNode", value),
            _ => return format!("I do not understand `{word}`.\n{EXEC_OPTIONS}"),
        };
        params.insert(member.0.to_owned(), json!(member.1));
        said.push(word.replace(':', "="));
    }
    match cx.call("sessions.patch", &Value::Object(params)).await {
        Ok(_) => format!("⚙️ Exec defaults set ({}).", said.join(", ")),
        Err(error) if error.is_lack() => REFUSED.to_owned(),
        Err(error) => refusal(cx, "/exec", &error),
    }
}
