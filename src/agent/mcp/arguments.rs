//! What the arguments of a tool are called.
//!
//! Owns: names that a provider refuses, and what stands for them. Promises: no name makes a
//! provider refuse the call of the model, and the server gets each argument by its own name.
//! Must not: know what arguments mean.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value};

use super::root::redirect;
use crate::support::json;

/// Longest name that Anthropic's API takes.
const NAME_MAX: usize = 64;
/// Rules at the root of a schema that name arguments. The server keeps to them all the same.
const NAMING: [&str; 7] = [
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "if",
    "propertyNames",
    "then",
];

/// The server's names of arguments by what stands for them.
pub type Renamed = BTreeMap<String, String>;

/// Gives arguments other names whose own ones a provider refuses, such as `$filter`.
pub fn rename(schema: &mut Value) -> Renamed {
    let mut renamed = Renamed::new();
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return renamed };
    if properties.keys().all(|name| fits(name)) {
        return renamed;
    }
    let mut taken: HashSet<_> = properties.keys().filter(|name| fits(name)).cloned().collect();
    let mut named = Map::new();
    for (own, property) in std::mem::take(properties) {
        let name = if fits(&own) {
            own
        } else {
            let name = stand_in(&own, &taken);
            taken.insert(name.clone());
            renamed.insert(name.clone(), own);
            name
        };
        named.insert(name, property);
    }
    *properties = named;
    follow(schema, &renamed);
    renamed
}

/// The arguments as the server calls them.
pub fn own(renamed: &Renamed, arguments: &Map<String, Value>) -> Map<String, Value> {
    let own = |name: &String| renamed.get(name).unwrap_or(name).clone();
    arguments.iter().map(|(name, value)| (own(name), value.clone())).collect()
}

/// Has the rest of a schema say the new names.
fn follow(schema: &mut Value, renamed: &Renamed) {
    for (name, own) in renamed {
        let escaped = own.replace('~', "~0").replace('/', "~1");
        redirect(schema, &format!("#/properties/{escaped}"), &format!("#/properties/{name}"));
    }
    let Some(members) = schema.as_object_mut() else { return };
    for rule in NAMING {
        members.shift_remove(rule);
    }
    let Some(Value::Array(required)) = members.get_mut("required") else { return };
    for needed in required {
        let named = renamed.iter().find(|(_, own)| needed.as_str() == Some(own.as_str()));
        if let Some((name, _)) = named {
            *needed = json!(name);
        }
    }
}

/// Whether all providers take a name.
fn fits(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len()) && name.chars().all(is_plain)
}

const fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

/// A name that fits and is not taken.
fn stand_in(own: &str, taken: &HashSet<String>) -> String {
    let plain = own.chars().map(|c| if is_plain(c) { c } else { '_' });
    let plain: String = plain.take(NAME_MAX).collect();
    let numbered = (2_usize..).map(|number| {
        let end = number.to_string();
        plain.chars().take(NAME_MAX - end.len()).collect::<String>() + &end
    });
    let mut names = std::iter::once(plain.clone()).chain(numbered);
    names.find(|name| fits(name) && !taken.contains(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tools::schema::Schema;

    #[test]
    fn names_that_are_refused_have_others_and_the_server_gets_its_own() {
        let long = "n".repeat(65);
        let mut schema = json!({"type": "object", "properties": {
            "$top": {"type": "integer"}, "_top": {}, "a b": {"$ref": "#/properties/$top"},
            "": {}, "plain.one-1": {}}, "required": ["_top", "$top"],
            "dependentRequired": {"a b": ["$top"]}});
        schema["properties"][&long] = json!({});
        let renamed = rename(&mut schema);
        let short = "n".repeat(64);
        assert_eq!(
            schema,
            json!({"type": "object", "properties": {"_top2": {"type": "integer"}, "_top": {},
                "a_b": {"$ref": "#/properties/_top2"}, "2": {}, "plain.one-1": {}, (short.as_str()): {}},
                "required": ["_top", "_top2"]})
        );
        Schema::of(&schema).unwrap();
        let given =
            json!({"_top2": 1, "_top": 2, "a_b": 3, "2": 4, "other": 5, (short.as_str()): 6});
        let own = own(&renamed, given.as_object().unwrap());
        let expected =
            json!({"$top": 1, "_top": 2, "a b": 3, "": 4, "other": 5, (long.as_str()): 6});
        assert_eq!(Value::Object(own), expected);
    }

    #[test]
    fn names_that_fit_stay_and_so_does_the_rest() {
        let schema = json!({"properties": {"a": {}}, "required": ["a"], "if": {}});
        let mut renamed = schema.clone();
        assert!(rename(&mut renamed).is_empty());
        assert_eq!(renamed, schema);
    }
}
