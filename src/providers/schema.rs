//! JSON Schemas of tools.
//!
//! Owns: leaving out what a server refuses. Promises: the names of properties
//! are never taken for keywords; a schema that refers to itself ends.

use serde_json::{Map, Value};

use crate::support::json;

/// Keywords whose value is a schema; before 2020-12 that of `items` may be a list of them.
pub const ONE: [&str; 12] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose value is a list of schemas.
pub const LIST: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose value is an object of schemas by name.
pub const NAMED: [&str; 5] =
    ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// What Google refuses.
const NOT_FOR_GOOGLE: [&str; 20] = [
    "patternProperties",
    "additionalProperties",
    "$schema",
    "$id",
    "$ref",
    "$defs",
    "definitions",
    "examples",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "multipleOf",
    "pattern",
    "format",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
];

/// How many references are followed in one schema: each may hold others.
const MAX_REFERENCES: usize = 200;

/// Leaves these keywords out of `schema` and of all schemas inside it.
pub fn without(schema: &mut Value, keywords: &[impl AsRef<str>]) {
    let Some(members) = schema.as_object_mut() else { return };
    if keywords.is_empty() {
        return;
    }
    members.retain(|name, _| !keywords.iter().any(|keyword| keyword.as_ref() == name));
    each_inner(members, |inner| without(inner, keywords));
}

/// The schema as Google accepts it: references are followed, `null` is left
/// out of choices, a choice of constants is a list of values.
pub fn for_google(schema: &Value) -> Value {
    let mut schema = schema.clone();
    let root = schema.clone();
    References { root: &root, path: Vec::new(), left: MAX_REFERENCES }.simplify(&mut schema);
    without(&mut schema, &NOT_FOR_GOOGLE);
    schema
}

/// Visits the schemas that these keywords hold.
pub fn each_inner(members: &mut Map<String, Value>, mut visit: impl FnMut(&mut Value)) {
    for (name, value) in members {
        let holds_schemas = ONE.contains(&name.as_str()) || LIST.contains(&name.as_str());
        match value {
            Value::Object(named) if NAMED.contains(&name.as_str()) => {
                named.values_mut().for_each(&mut visit);
            }
            Value::Array(list) if holds_schemas => list.iter_mut().for_each(&mut visit),
            Value::Object(_) if holds_schemas => visit(value),
            _ => {}
        }
    }
}

/// What a local reference leads to: `#`, or `#` and a path (RFC 6901).
pub fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let path = percent_encoding::percent_decode_str(reference.strip_prefix('#')?);
    root.pointer(&path.decode_utf8().ok()?)
}

/// Follows references inside one document.
struct References<'a> {
    root: &'a Value,
    /// Those that are being followed.
    path: Vec<String>,
    left: usize,
}

impl References<'_> {
    fn simplify(&mut self, schema: &mut Value) {
        if let Some(Value::String(reference)) = schema.get("$ref") {
            let reference = reference.clone();
            self.follow(schema, reference);
            return;
        }
        let Some(members) = schema.as_object_mut() else { return };
        if let Some(value) = members.remove("const") {
            members.insert("enum".into(), json!([value]));
        }
        if let Some(Value::Array(types)) = members.get_mut("type") {
            types.retain(|name| name != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                members.insert("type".into(), only);
            }
        }
        // What nothing refers to any more need not be simplified.
        members.retain(|name, _| !matches!(name.as_str(), "$defs" | "definitions"));
        each_inner(members, |inner| self.simplify(inner));
        for choice in ["anyOf", "oneOf"] {
            simplify_choice(members, choice);
        }
        if let Some(Value::Object(properties)) = members.get("properties") {
            let known: Vec<Value> = properties.keys().map(|name| json!(name)).collect();
            if let Some(Value::Array(required)) = members.get_mut("required") {
                required.retain(|name| known.contains(name));
            }
        }
    }

    /// Puts what is referred to in the place of the reference.
    fn follow(&mut self, schema: &mut Value, reference: String) {
        let described = schema.get("description").cloned();
        *schema = match target(self.root, &reference) {
            Some(target) if self.left > 0 && !self.path.contains(&reference) => target.clone(),
            _ => json!({}),
        };
        self.left = self.left.saturating_sub(1);
        self.path.push(reference);
        self.simplify(schema);
        self.path.pop();
        if let (Some(description), Some(members)) = (described, schema.as_object_mut()) {
            members.insert("description".into(), description);
        }
    }
}

fn simplify_choice(members: &mut Map<String, Value>, name: &str) {
    let Some(Value::Array(choices)) = members.get_mut(name) else { return };
    choices.retain(|choice| choice.get("type") != Some(&json!("null")));
    let values = literals(choices);
    let replacement = match (choices.as_slice(), values) {
        ([Value::Object(only)], _) => only.clone(),
        (_, Some(values)) => values,
        _ => return,
    };
    members.remove(name);
    for (name, value) in replacement {
        // What the choice as a whole says of itself stays.
        members.entry(name).or_insert(value);
    }
}

/// `{type, enum}`, when all choices are values of one type.
fn literals(choices: &[Value]) -> Option<Map<String, Value>> {
    let kind = choices.first()?.get("type")?;
    let mut values = Vec::new();
    for choice in choices {
        let allowed = choice.get("enum")?.as_array()?;
        if choice.get("type")? != kind {
            return None;
        }
        values.extend(allowed.iter().cloned());
    }
    let mut members = Map::new();
    members.insert("type".into(), kind.clone());
    members.insert("enum".into(), Value::Array(values));
    Some(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_go_and_properties_of_the_same_name_stay() {
        let mut schema = json!({
            "type": "object", "format": "x",
            "properties": {
                "format": {"type": "string", "format": "date"},
                "list": {"type": "array", "items": {"type": "string", "pattern": "a"}},
                "any": {"anyOf": [{"type": "string", "format": "date"}, {"type": "number"}]},
            },
            "required": ["format"],
        });
        without(&mut schema, &["format", "pattern"]);
        assert_eq!(
            schema,
            json!({
                "type": "object",
                "properties": {
                    "format": {"type": "string"},
                    "list": {"type": "array", "items": {"type": "string"}},
                    "any": {"anyOf": [{"type": "string"}, {"type": "number"}]},
                },
                "required": ["format"],
            })
        );
    }

    #[test]
    fn google_gets_references_followed_and_choices_made_plain() {
        let schema = for_google(&json!({
            "$schema": "x", "type": "object", "additionalProperties": false,
            "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number", "minimum": 0}}}},
            "properties": {
                "at": {"$ref": "#/$defs/point", "description": "where"},
                "mode": {"description": "how", "anyOf": [
                    {"type": "string", "const": "a"}, {"type": "string", "enum": ["b", "c"]},
                ]},
                "maybe": {"anyOf": [{"type": "string", "format": "uri"}, {"type": "null"}]},
                "either": {"type": ["integer", "null"]},
                "mixed": {"anyOf": [{"type": "string"}, {"type": "number"}]},
            },
            "required": ["at", "gone"],
        }));
        assert_eq!(
            schema,
            json!({
                "type": "object",
                "properties": {
                    "at": {"type": "object", "properties": {"x": {"type": "number"}}, "description": "where"},
                    "mode": {"description": "how", "type": "string", "enum": ["a", "b", "c"]},
                    "maybe": {"type": "string"},
                    "either": {"type": "integer"},
                    "mixed": {"anyOf": [{"type": "string"}, {"type": "number"}]},
                },
                "required": ["at"],
            })
        );
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = for_google(&json!({
            "type": "object",
            "properties": {"next": {"$ref": "#"}, "lost": {"$ref": "#/$defs/none"}},
        }));
        let once = json!({"type": "object", "properties": {"next": {}, "lost": {}}});
        assert_eq!(schema["properties"]["next"], once);
        assert_eq!(schema["properties"]["lost"], json!({}));
        let mut defs = Map::new();
        for n in 0..30 {
            let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
            defs.insert(
                format!("d{n}"),
                json!({"type": "object", "properties": {"a": next, "b": next}}),
            );
        }
        let wide = for_google(&json!({"$ref": "#/$defs/d0", "$defs": defs}));
        assert!(wide.to_string().len() < 100_000);
    }
}
