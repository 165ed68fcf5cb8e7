//! Variables that are not set, where a feature can do without its credential.
//!
//! Owns: at which places such a value counts as absent. Promises: whoever writes one is told
//! the place and the variable; what needs it is unavailable, since a reference that leads
//! nowhere stands there. Must not: forgive where the lack lets somebody in, or changes what
//! is allowed or where something goes.

use std::fmt;

use serde_json::Value;

use super::document::ConfigIssue;
use super::edit::{Step, ValuePath};
use super::keys::{self, Kind};
use super::redact::{SlotKind, credentials, slot_at};
use super::secrets::SecretRef;
use super::{Env, substitute};
use crate::support::{json, reading};

/// Below these a variable that is not set stays an error.
const STRICT: [&[&str]; 4] =
    [&["gateway"], &["hooks"], &["tools", "exec"], &["agents", "defaults", "cliBackends"]];
/// How the names of variables begin that are settings of the gateway.
const SETTING: &str = "OPENCLAW_";
/// How the names of variables end that say where something goes: a key would go elsewhere.
const ADDRESSES: [&str; 6] = ["_URL", "_ADDR", "_HOST", "_ENDPOINT", "_PROXY", "_CERTS"];

/// A value that counts as absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unset {
    /// Where it stands.
    pub path: ValuePath,
    /// The variable that it needs.
    pub variable: String,
}

/// What is said of the place.
impl fmt::Display for Unset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variable = &self.variable;
        write!(f, "needs the environment variable {variable}, which is not set: ")?;
        f.write_str("it counts as absent, and what needs it is unavailable")
    }
}

impl From<&Unset> for ConfigIssue {
    fn from(unset: &Unset) -> Self {
        Self { path: unset.path.to_string(), message: unset.to_string() }
    }
}

/// The config without such values, and which those are.
pub(super) fn without(raw: &Value, env: &Env) -> (Value, Vec<Unset>) {
    let (mut left, mut all) = (raw.clone(), Vec::new());
    for (path, value) in credentials(raw) {
        let names = value.as_str().map(substitute::names).unwrap_or_default();
        let Some(&name) = names.iter().find(|name| env.get(name).is_none()) else { continue };
        let Some(instead) = stand_in(&path, name) else { continue };
        let path = ValuePath::from(path);
        let is_done = match instead {
            Value::Null => path.remove_from(&mut left),
            reference => path.put(&mut left, reference),
        };
        if is_done {
            all.push(Unset { path, variable: name.to_owned() });
        }
    }
    (left, all)
}

/// What stands at a place instead: a reference to the variable, or nothing (`null`) where none
/// is read; `None` where the value has to be there.
fn stand_in(path: &[Step], variable: &str) -> Option<Value> {
    if is_strict(path) {
        return None;
    }
    match slot_at(path).map(|slot| slot.kind) {
        Some(SlotKind::Input) => {
            let reference = json!({"source": "env", "provider": null, "id": variable});
            reading::of::<SecretRef>(&reference).is_ok().then_some(reference)
        }
        Some(SlotKind::Text) => (!is_address(path)).then_some(Value::Null),
        // Credentials of features that are not here; what is in a list keeps its place.
        None if matches!(path.last(), Some(Step::Key(_))) => {
            let is_read = keys::find(path).is_some_and(|found| found.kind != Kind::Any);
            (!is_read).then_some(Value::Null)
        }
        _ => None,
    }
}

fn is(step: &Step, name: &str) -> bool {
    matches!(step, Step::Key(key) if key == name)
}

fn is_address(path: &[Step]) -> bool {
    let Some(Step::Key(name)) = path.last() else { return false };
    let name = name.to_ascii_uppercase();
    ADDRESSES.iter().any(|end| name.ends_with(end))
}

fn is_strict(path: &[Step]) -> bool {
    let is_below = |above: &&[&str]| {
        path.len() > above.len() && above.iter().zip(path).all(|(name, step)| is(step, name))
    };
    let is_setting = matches!(path, [first, .., Step::Key(name)]
        if is(first, "env") && name.starts_with(SETTING));
    STRICT.iter().any(is_below) || is_setting || path.iter().any(|step| is(step, "tls"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_features_count_as_absent_and_what_decides_rights_does_not() {
        let whole = json!({
            "models": {"providers": {"p": {"apiKey": "${NO}", "baseUrl": "http://${NO}",
                "headers": {"X-Key": "Bearer ${SET}${NO}"}, "request": {"tls": {"key": "${NO}"}}}}},
            "gateway": {"auth": {"token": "${NO}"}, "remote": {"token": "${NO}"}},
            "hooks": {"token": "${NO}"},
            "channels": {"telegram": {"botToken": "${NO}", "allowFrom": ["${NO}"]}},
            "mcp": {"servers": {"m": {"env": {"A": "${NO}", "B": "${SET}"}, "args": ["${NO}"]}}},
            "skills": {"entries": {"s": {"apiKey": "${NO}", "env": {"A": "${NO}", "B": "b"}}}},
            "tools": {"exec": {"env": {"A": "${NO}"}},
                "web": {"search": {"perplexity": {"apiKey": "${NO}"}}}},
            "secrets": {"providers": {"v": {"env":
                {"VAULT_ADDR": "${NO}", "VAULT_TOKEN": "${NO}"}}}},
            "env": {"A": "${NO}", "https_proxy": "${NO}",
                "vars": {"OPENCLAW_GATEWAY_TOKEN": "${NO}", "OPENAI_BASE_URL": "${NO}"}},
        });
        let (left, told) = without(&whole, &Env::fixed([("SET", "s")], "/h"));
        let told: Vec<_> = told.iter().map(|it| it.path.to_string()).collect();
        let expected = [
            "models.providers.p.apiKey",
            "models.providers.p.headers.X-Key",
            "channels.telegram.botToken",
            "mcp.servers.m.env.A",
            "skills.entries.s.apiKey",
            "skills.entries.s.env.A",
            "tools.web.search.perplexity.apiKey",
            "secrets.providers.v.env.VAULT_TOKEN",
            "env.A",
        ];
        assert_eq!(told, expected);
        let no = json!({"source": "env", "provider": null, "id": "NO"});
        let mut wanted = whole;
        wanted["models"]["providers"]["p"]["apiKey"] = no.clone();
        wanted["models"]["providers"]["p"]["headers"]["X-Key"] = no.clone();
        wanted["channels"]["telegram"]["botToken"] = no.clone();
        wanted["mcp"]["servers"]["m"]["env"]["A"] = no.clone();
        wanted["skills"]["entries"]["s"] = json!({"apiKey": no, "env": {"B": "b"}});
        wanted["tools"]["web"]["search"]["perplexity"] = json!({});
        wanted["secrets"]["providers"]["v"]["env"] = json!({"VAULT_ADDR": "${NO}"});
        wanted["env"] = json!({"https_proxy": "${NO}",
            "vars": {"OPENCLAW_GATEWAY_TOKEN": "${NO}", "OPENAI_BASE_URL": "${NO}"}});
        assert_eq!(left, wanted);
    }
}
