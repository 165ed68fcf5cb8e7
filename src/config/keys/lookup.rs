//! One place of the schema, and what is directly below it.

use serde_json::Value;

use super::find::{Found, join};
use super::{Key, Kind, find, hints, schema_of};
use crate::config::edit::Step;

/// One place.
#[derive(Debug, Clone, PartialEq)]
pub struct Lookup {
    /// Its path; `*` for an item of a list.
    pub path: String,
    /// Its schema, without what is below it.
    pub schema: Value,
    /// What a form shows, with the path under which the hints have it.
    pub hint: Option<(String, Value)>,
    /// What is directly below it; `*` for any name, or any item.
    pub children: Vec<LookupChild>,
}

/// What is below a place.
#[derive(Debug, Clone, PartialEq)]
pub struct LookupChild {
    /// Its name.
    pub key: String,
    /// Its path.
    pub path: String,
    /// Its type, when it has only one or a list of them.
    pub kind: Option<Value>,
    /// Whether it must be there.
    pub is_required: bool,
    /// Whether there is something below it.
    pub has_children: bool,
    /// As in [`Lookup`].
    pub hint: Option<(String, Value)>,
}

/// What is at `path`: `gateway.port`, `agents.list[].model`, `agents.list.0`.
pub fn lookup(path: &str) -> Option<Lookup> {
    let names = names(path)?;
    let steps: Vec<Step> = names.iter().map(|name| Step::Key(name.clone())).collect();
    let found = find(&steps)?;
    let path = names.join(".");
    let all = hints();
    let hint_at = |pattern: &str| Some((pattern.to_owned(), all.get(pattern)?.clone()));
    let children = children(&found).into_iter().map(|(name, kind, key)| {
        let schema = schema_of(&kind);
        LookupChild {
            path: join(&path, &name),
            hint: hint_at(&join(&found.pattern, &name)),
            kind: schema.get("type").cloned(),
            is_required: key.is_some_and(|key| key.is_required),
            has_children: has_children(&kind),
            key: name,
        }
    });
    Some(Lookup {
        schema: shallow(&found),
        hint: hint_at(&found.pattern),
        children: children.collect(),
        path,
    })
}

/// The names of a path. An item of a list is `*`, however it is written.
fn names(path: &str) -> Option<Vec<String>> {
    let flat = path.replace("[]", ".*").replace('[', ".").replace(']', "");
    let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let name = |name: &str| {
        let name = if is_number(name) { "*" } else { name };
        name.to_owned()
    };
    let mut parts = flat.split('.');
    let has_gap = parts.clone().any(str::is_empty);
    (!has_gap).then(|| parts.by_ref().map(name).collect())
}

fn children(found: &Found) -> Vec<(String, Kind, Option<Key>)> {
    fn of(kind: &Kind) -> Vec<(String, Kind, Option<Key>)> {
        let named = |keys: &[Key]| -> Vec<_> {
            keys.iter().map(|key| (key.name.to_owned(), key.kind, Some(*key))).collect()
        };
        match kind {
            Kind::Object(keys) => named(keys),
            Kind::Open(keys, rest) => {
                let mut children = named(keys);
                children.push(("*".into(), **rest, None));
                children
            }
            Kind::Map(kind) | Kind::List(kind) => vec![("*".into(), **kind, None)],
            Kind::Either(kinds) => kinds.iter().flat_map(of).collect(),
            _ => Vec::new(),
        }
    }
    of(&found.kind)
}

fn has_children(kind: &Kind) -> bool {
    match kind {
        Kind::Object(_) | Kind::Open(..) | Kind::Map(_) | Kind::List(_) => true,
        Kind::Either(kinds) => kinds.iter().any(has_children),
        _ => false,
    }
}

fn shallow(found: &Found) -> Value {
    let mut schema =
        found.key.as_ref().map_or_else(|| schema_of(&found.kind), super::schema::described);
    if let Value::Object(members) = &mut schema {
        members.retain(|name, value| match name.as_str() {
            "properties" | "items" | "required" => false,
            "additionalProperties" => value.is_boolean(),
            _ => true,
        });
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_of_a_list_may_be_written_in_several_ways() {
        for path in ["agents.list[]", "agents.list.*", "agents.list[0]", "agents.list.12"] {
            let found = lookup(path).unwrap();
            assert_eq!(found.path, "agents.list.*");
            let id = found.children.iter().find(|child| child.key == "id").unwrap();
            assert_eq!((id.path.as_str(), id.is_required), ("agents.list.*.id", true));
            let model = found.children.iter().find(|child| child.key == "model").unwrap();
            assert!(model.has_children);
        }
        for path in ["", ".", "agents..list", "gateway.nope", "gateway.port.x", "[]"] {
            assert_eq!(lookup(path), None, "{path}");
        }
    }

    #[test]
    fn a_place_is_told_without_what_is_below_it() {
        let found = lookup("models.providers.mock").unwrap();
        assert_eq!(found.path, "models.providers.mock");
        assert_eq!(found.schema["type"], "object");
        assert_eq!(found.schema.get("properties"), None);
        let key = found.children.iter().find(|child| child.key == "apiKey").unwrap();
        assert_eq!(key.path, "models.providers.mock.apiKey");
        let (path, hint) = key.hint.as_ref().unwrap();
        assert_eq!(
            (path.as_str(), &hint["sensitive"]),
            ("models.providers.*.apiKey", &true.into())
        );
    }
}
