//! The entries of `agents.list` in a parsed config.
//!
//! Must not: read or write files.

use serde_json::{Map, Value};

use super::error::RosterError;
use crate::config::AgentIdentity;
use crate::sessions::AgentId;
use crate::support::json;

/// The agent that is there when the file lists none.
pub const MAIN: &str = "main";

/// Member `name` of an object, made as `empty` when it is not there.
fn member<'a>(
    value: &'a mut Value,
    name: &str,
    path: &str,
    empty: Value,
) -> Result<&'a mut Value, RosterError> {
    let members =
        value.as_object_mut().ok_or_else(|| RosterError::shape(path, "must be an object"))?;
    let found = members.entry(name).or_insert(Value::Null);
    if found.is_null() {
        *found = empty;
    }
    Ok(found)
}

/// A list in the config; made when it is not there.
pub fn list<'a>(config: &'a mut Value, way: &[&str]) -> Result<&'a mut Vec<Value>, RosterError> {
    let path = way.join(".");
    let mut at = config;
    for (depth, name) in way.iter().enumerate() {
        let is_last = depth + 1 == way.len();
        let empty = if is_last { json!([]) } else { Value::Object(Map::new()) };
        at = member(at, name, &path, empty)?;
    }
    at.as_array_mut().ok_or_else(|| RosterError::shape(&path, "must be a list"))
}

fn entries(config: &Value) -> &[Value] {
    config.pointer("/agents/list").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn is(entry: &Value, id: &AgentId) -> bool {
    entry.get("id").and_then(Value::as_str).is_some_and(|it| AgentId::normalize(it) == *id)
}

/// Whether there is such an agent.
pub fn has(config: &Value, id: &AgentId) -> bool {
    let entries = entries(config);
    if entries.is_empty() { id.as_str() == MAIN } else { entries.iter().any(|it| is(it, id)) }
}

/// Adds an agent. The one that is there when none is listed is listed first,
/// so that it stays the default.
pub fn add(config: &mut Value, entry: Value) -> Result<(), RosterError> {
    let list = list(config, &["agents", "list"])?;
    if list.is_empty() {
        list.push(json!({"id": MAIN}));
    }
    list.push(entry);
    Ok(())
}

/// The entry of an agent that there is; made for the one that is not listed.
pub fn entry<'a>(
    config: &'a mut Value,
    id: &AgentId,
) -> Result<&'a mut Map<String, Value>, RosterError> {
    let list = list(config, &["agents", "list"])?;
    if list.is_empty() && id.as_str() == MAIN {
        list.push(json!({"id": MAIN}));
    }
    let found = list.iter_mut().find(|entry| is(entry, id)).and_then(Value::as_object_mut);
    found.ok_or_else(|| RosterError::NotFound(id.clone()))
}

/// Takes an agent out of the list, and out of what names it: its bindings and
/// its place among agents that reach each other. Answers how many of both.
pub fn remove(config: &mut Value, id: &AgentId) -> Result<(usize, usize), RosterError> {
    let list = list(config, &["agents", "list"])?;
    list.retain(|entry| !is(entry, id));
    if list.is_empty()
        && let Some(agents) = config.get_mut("agents").and_then(Value::as_object_mut)
    {
        agents.shift_remove("list");
    }
    let bindings = prune(config.get_mut("bindings"), |binding| names(binding, id));
    // An empty list lets nobody take part; a later agent of the same name must
    // not take this one's place.
    let allowed = config.pointer_mut("/tools/agentToAgent/allow");
    let allowed = prune(allowed, |name| name.as_str().is_some_and(|it| it.trim() == id.as_str()));
    Ok((bindings, allowed))
}

/// Whether a binding is one of this agent.
pub fn names(binding: &Value, id: &AgentId) -> bool {
    binding.get("agentId").and_then(Value::as_str).is_some_and(|it| AgentId::normalize(it) == *id)
}

fn prune(list: Option<&mut Value>, goes: impl Fn(&Value) -> bool) -> usize {
    let Some(list) = list.and_then(Value::as_array_mut) else { return 0 };
    let before = list.len();
    list.retain(|item| !goes(item));
    before - list.len()
}

/// Sets the model of an entry; what stands beside it, as its fallbacks, stays.
pub fn set_model(entry: &mut Map<String, Value>, model: &str) {
    match entry.get_mut("model").and_then(Value::as_object_mut) {
        Some(setting) => setting.insert("primary".into(), json!(model)),
        None => entry.insert("model".into(), json!(model)),
    };
}

/// Sets those members of `identity` that are given.
pub fn set_identity(entry: &mut Map<String, Value>, identity: &AgentIdentity) {
    let given = [
        ("name", &identity.name),
        ("theme", &identity.theme),
        ("emoji", &identity.emoji),
        ("avatar", &identity.avatar),
    ];
    let given: Vec<_> =
        given.into_iter().filter_map(|(name, it)| Some((name, it.as_ref()?))).collect();
    if given.is_empty() {
        return;
    }
    let members = entry.entry("identity").or_insert(Value::Null);
    if !members.is_object() {
        *members = Value::Object(Map::new());
    }
    if let Some(members) = members.as_object_mut() {
        for (name, text) in given {
            members.insert(name.to_owned(), json!(text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> AgentId {
        AgentId::normalize(text)
    }

    #[test]
    fn the_first_agent_that_is_added_does_not_become_the_default_one() {
        let mut config = json!({});
        assert!(has(&config, &id("main")) && !has(&config, &id("work")));
        add(&mut config, json!({"id": "work"})).unwrap();
        assert_eq!(config, json!({"agents": {"list": [{"id": "main"}, {"id": "work"}]}}));
        add(&mut config, json!({"id": "more"})).unwrap();
        assert_eq!(config["agents"]["list"].as_array().unwrap().len(), 3);
        assert!(!has(&json!({"agents": {"list": [{"id": "Work"}]}}), &id("main")));
    }

    #[test]
    fn what_names_a_removed_agent_goes_with_it() {
        let mut config = json!({
            "agents": {"list": [{"id": "Work"}], "defaults": {}},
            "bindings": [
                {"agentId": "work", "match": {"channel": "telegram"}},
                {"agentId": "main", "match": {"channel": "telegram"}},
            ],
            "tools": {"agentToAgent": {"allow": ["work"]}},
        });
        assert_eq!(remove(&mut config, &id("work")).unwrap(), (1, 1));
        let left = json!({
            "agents": {"defaults": {}},
            "bindings": [{"agentId": "main", "match": {"channel": "telegram"}}],
            "tools": {"agentToAgent": {"allow": []}},
        });
        assert_eq!(config, left);
    }

    #[test]
    fn a_new_model_leaves_the_fallbacks() {
        let mut config = json!({"agents": {"list": [{"id": "a", "model": {"primary": "x/y", "fallbacks": ["x/z"]}}]}});
        set_model(entry(&mut config, &id("a")).unwrap(), "m/n");
        let model = &config["agents"]["list"][0]["model"];
        assert_eq!(*model, json!({"primary": "m/n", "fallbacks": ["x/z"]}));
        assert!(matches!(entry(&mut config, &id("b")), Err(RosterError::NotFound(_))));
        let mut odd = json!({"agents": 5});
        assert!(matches!(entry(&mut odd, &id("a")), Err(RosterError::Config(_))));
    }

    #[test]
    fn an_identity_keeps_what_is_not_given() {
        let mut config = json!({});
        let members = entry(&mut config, &id("main")).unwrap();
        members.insert("identity".into(), json!({"name": "A", "theme": "calm"}));
        let new = AgentIdentity {
            emoji: Some("🦀".into()),
            name: Some("B".into()),
            ..AgentIdentity::default()
        };
        set_identity(members, &new);
        assert_eq!(members["identity"], json!({"name": "B", "theme": "calm", "emoji": "🦀"}));
    }
}
