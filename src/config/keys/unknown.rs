//! What stands in a config and means nothing here.

use serde_json::Value;

use super::find::Found;
use super::{Kind, find};
use crate::config::edit::{Step, ValuePath};

/// More than these are not told one by one.
const MOST: usize = 100;

/// The topmost places that the gateway does not know, in the order of the file.
/// They are kept as they are and have no effect.
pub fn unknown(config: &Value) -> Vec<ValuePath> {
    let mut places = Vec::new();
    for (name, value) in config.as_object().into_iter().flatten() {
        let path = vec![Step::Key(name.clone())];
        match find(&path) {
            Some(found) => collect(&found, &mut path.clone(), value, &mut places),
            None => places.push(path.into()),
        }
    }
    places.truncate(MOST);
    places
}

fn collect(found: &Found, path: &mut Vec<Step>, value: &Value, places: &mut Vec<ValuePath>) {
    let is_secret = |kind: &Kind| *kind == Kind::Secret;
    match found.kind {
        Kind::Any | Kind::Secret => return,
        Kind::Either(kinds) if kinds.iter().any(is_secret) => return,
        _ => {}
    }
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                step(found, Step::Key(name.clone()), path, member, places);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                step(found, Step::Index(index), path, item, places);
            }
        }
        _ => {}
    }
}

fn step(
    found: &Found,
    step: Step,
    path: &mut Vec<Step>,
    value: &Value,
    places: &mut Vec<ValuePath>,
) {
    let child = found.child(&step);
    path.push(step);
    match child {
        // Free names of texts are not the place of anything else.
        Some(child) if child.kind == Kind::Text && (value.is_object() || value.is_array()) => {
            if matches!(found.kind, Kind::Open(..)) && child.key.is_none() {
                places.push(path.clone().into());
            }
        }
        Some(child) => collect(&child, path, value, places),
        None => places.push(path.clone().into()),
    }
    path.pop();
}

#[cfg(test)]
mod tests {
    use crate::support::json;

    use super::*;

    #[test]
    fn only_the_top_of_what_is_unknown_is_told() {
        let config = json!({
            "$schema": "x", "meta": {"lastTouchedAt": "now"},
            "gateway": {"port": 1, "prot": 2, "auth": {"token": {"source": "env", "id": "A"}}},
            "browser": {"enabled": true, "x": {"y": 1}},
            "agents": {"list": [{"id": "a"}, {"id": "b", "colour": "red"}],
                "defaults": {"model": {"primary": "a/b", "secondary": "c/d"}}},
            "models": {"providers": {"p": {"models": [{"id": "m", "compat": {"a": 1}}],
                "headers": {"X-Any": "x"}}}},
            "skills": {"entries": {"gh": {"config": {"deep": {"er": 1}}}}},
            "env": {"A": "b", "vars": {"C": "d"}, "shellEnv": {"enabled": true}},
            "channels": {"whatsapp": {}, "telegram": {"groups": {"-1": {"enabled": true}}}},
            "hooks": {"internal": {"enabled": true, "entries": {"session-memory": {"x": 1},
                "boot-md": {"enabled": true}, "command-logger": {"enabled": true}}}},
        });
        let told: Vec<_> = unknown(&config).iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "gateway.prot",
                "browser",
                "agents.list[1].colour",
                "agents.defaults.model.secondary",
                "models.providers.p.models[0].compat.a",
                "env.shellEnv",
                "channels.whatsapp",
                "hooks.internal.entries.boot-md",
                "hooks.internal.entries.command-logger",
            ]
        );
    }
}
