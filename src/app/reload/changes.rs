//! What is different between two configurations.

use serde_json::Value;

use crate::config::{ReloadMode, Settings};

/// Paths that are told; a whole new file has no more to say than its first ones.
const MAX_PATHS: usize = 20;
/// How the file of variables is told.
const DOTENV: &str = ".env";

/// What is otherwise: keys, and the file `.env` as a whole.
pub fn of(before: &Settings, after: &Settings) -> Vec<String> {
    let mut changed = paths(&before.raw, &after.raw);
    changed.extend(after.has_other_dotenv(before).then(|| DOTENV.to_owned()));
    changed
}

/// The keys that are written otherwise, without their values.
fn paths(before: &Value, after: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(String::new(), before, after, &mut found);
    found
}

fn compare(path: String, before: &Value, after: &Value, found: &mut Vec<String>) {
    if before == after || found.len() >= MAX_PATHS {
        return;
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        found.push(path);
        return;
    };
    let added = new.keys().filter(|key| !old.contains_key(*key));
    for key in old.keys().chain(added) {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let value = |side: &serde_json::Map<String, Value>| side.get(key).cloned();
        let (old, new) = (value(old).unwrap_or_default(), value(new).unwrap_or_default());
        compare(path, &old, &new, found);
    }
}

/// Leaves as it is where the gateway listens, by which certificate, and which
/// folder it watches: the keys whose change waits for a restart. The files of the
/// certificate are read again by themselves.
pub fn hold_listening(before: &Settings, after: &mut Settings) -> Vec<String> {
    after.pending = listening(before, after);
    let (old, new) = (&before.gateway, &mut after.gateway);
    (new.port, new.bind, new.tls) = (old.port, old.bind, old.tls.clone());
    new.dialects.ports.clone_from(&old.dialects.ports);
    new.dialects.claude_projects.clone_from(&old.dialects.claude_projects);
    after.pending.clone()
}

/// Whether something is otherwise that is only in use once the gateway has begun again.
pub fn need_restart(before: &Settings, after: &Settings) -> bool {
    let restarts = after.gateway.reload.mode == ReloadMode::Restart;
    !listening(before, after).is_empty() || (restarts && !of(before, after).is_empty())
}

/// The keys of those that wait for a restart which are otherwise.
fn listening(before: &Settings, after: &Settings) -> Vec<String> {
    let (old, new) = (&before.gateway, &after.gateway);
    let keys = [
        ("gateway.port", old.port != new.port),
        ("gateway.bind", old.bind != new.bind),
        ("gateway.dialects.ports", old.dialects.ports != new.dialects.ports),
        ("gateway.tls", old.tls != new.tls),
        (
            "gateway.dialects.claude.projects",
            old.dialects.claude_projects != new.dialects.claude_projects,
        ),
    ];
    let waiting = keys.into_iter().filter(|(_, differs)| *differs);
    waiting.map(|(key, _)| key.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use crate::support::json;

    use super::*;

    #[test]
    fn each_key_that_differs_is_named_once_and_no_value() {
        let before = json!({"a": {"b": 1, "c": [1]}, "gone": 1, "same": {"x": {}}});
        let after = json!({"a": {"b": 2, "c": [2]}, "new": {"x": 1}, "same": {"x": {}}});
        assert_eq!(paths(&before, &after), ["a.b", "a.c", "gone", "new"]);
        assert!(paths(&before, &before).is_empty());
    }
}
