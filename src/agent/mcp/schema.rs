//! Schemas of tools, as servers write them.
//!
//! Owns: making of them what providers and our own check take. Promises: nothing
//! outside of the schema is referred to, whose lookup would be a request.

use serde_json::{Map, Value};

use super::arguments::{self, Renamed};
use super::{patterns, root};
use crate::agent::tools::schema::{Schema, renew};
use crate::providers::schema::each_inner;
use crate::support::json;

/// Largest schema; all of them go to the model with every call.
const MAX_BYTES: usize = 64 * 1024;
/// What becomes of it may be larger: what its root is put together of stands there twice then.
const MAX_MADE: usize = 2 * MAX_BYTES;
/// Deepest nesting.
const MAX_DEPTH: usize = 32;

/// The schema of a tool's arguments, and what stands in it for names of theirs; `None` when it
/// cannot be used.
pub fn cleaned(schema: &Map<String, Value>) -> Option<(Value, Renamed)> {
    let mut schema = Value::Object(schema.clone());
    if is_larger(&schema, MAX_BYTES) || !clean(&mut schema, 0) {
        return None;
    }
    renew(&mut schema);
    patterns::leave_out(&mut schema);
    root::flatten(&mut schema);
    let members = schema.as_object_mut()?;
    members.shift_remove("$schema");
    members.insert("type".into(), json!("object"));
    if !members.get("properties").is_some_and(Value::is_object) {
        members.insert("properties".into(), json!({}));
    }
    let renamed = arguments::rename(&mut schema);
    complete(&mut schema);
    // What no check can be made of is no schema; none is made of one that is too large.
    let is_usable = !is_larger(&schema, MAX_MADE) && Schema::of(&schema).is_ok();
    is_usable.then_some((schema, renamed))
}

/// Says of each list what may be in it: OpenAI's API refuses one that does not.
fn complete(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    let is_list = match members.get("type") {
        Some(Value::Array(types)) => types.iter().any(|name| name == "array"),
        name => name.is_some_and(|name| name == "array"),
    };
    if is_list && !members.contains_key("items") {
        members.insert("items".into(), json!({}));
    }
    each_inner(members, complete);
}

fn is_larger(schema: &Value, most: usize) -> bool {
    schema.to_string().len() > most
}

/// Takes references to elsewhere out. Whether it is not too deep.
fn clean(value: &mut Value, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        return false;
    }
    match value {
        Value::Object(members) => {
            for name in ["$ref", "$dynamicRef"] {
                let target = members.get(name).and_then(Value::as_str);
                if target.is_some_and(|target| !target.starts_with('#')) {
                    members.shift_remove(name);
                }
            }
            if members.get("$id").is_some_and(Value::is_string) {
                members.shift_remove("$id");
            }
            members.values_mut().all(|member| clean(member, depth + 1))
        }
        Value::Array(items) => items.iter_mut().all(|item| clean(item, depth + 1)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(schema: &Value) -> Option<Value> {
        cleaned(schema.as_object().unwrap()).map(|(schema, _)| schema)
    }

    #[test]
    fn a_schema_becomes_an_object_that_refers_to_nothing_else() {
        assert_eq!(clean(&json!({})), Some(json!({"type": "object", "properties": {}})));
        let schema = json!({"$schema": "http://json-schema.org/draft-07/schema#", "$id": "x",
            "type": "object", "properties": {"a": {"$ref": "http://127.0.0.1/x"},
            "b": {"$ref": "#/$defs/b"}, "c": {"items": {"$ref": "file:///etc/passwd"}}},
            "$defs": {"b": {"type": "string"}}});
        assert_eq!(
            clean(&schema),
            Some(json!({"type": "object", "properties": {"a": {}, "b": {"$ref": "#/$defs/b"},
                "c": {"items": {}}}, "$defs": {"b": {"type": "string"}}}))
        );
    }

    #[test]
    fn a_pattern_that_providers_refuse_is_left_out() {
        let named = |rules: Value| json!({"type": "object", "properties": {"a": rules}});
        let schema = named(json!({"type": "string", "pattern": "^\\p{L}+$"}));
        assert_eq!(clean(&schema), Some(named(json!({"type": "string"}))));
    }

    #[test]
    fn a_list_says_what_may_be_in_it() {
        let lists = |rest: Value| {
            let mut lists = json!({"type": "object", "properties": {
                "type": {"type": "array", "items": {"type": "array", "minItems": 1}},
                "may": {"anyOf": [{"type": ["array", "null"]}, {"const": {"type": "array"}}]}}});
            let inner = lists.pointer_mut("/properties/type/items").unwrap();
            inner["items"] = rest.clone();
            let choice = lists.pointer_mut("/properties/may/anyOf/0").unwrap();
            choice["items"] = rest;
            lists
        };
        assert_eq!(clean(&lists(Value::Null)), Some(lists(json!({}))));
    }

    #[test]
    fn a_choice_of_large_schemas_may_be_as_large_as_another_one() {
        let text = "x".repeat(MAX_BYTES / 3);
        let schema = json!({"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}], "$defs": {
            "a": {"properties": {"a": {"description": text}}},
            "b": {"properties": {"b": {"description": text}}}}});
        let properties = clean(&schema).unwrap()["properties"].take();
        assert_eq!(properties, json!({"a": {"description": text}, "b": {"description": text}}));
    }

    #[test]
    fn a_schema_that_is_none_is_not_used() {
        let mut deep = json!({});
        for _ in 0..50 {
            deep = json!({"items": deep});
        }
        let large = "x".repeat(MAX_BYTES);
        for bad in [
            deep,
            json!({"description": large}),
            json!({"properties": {"a": {"type": 1}}}),
            json!({"properties": {"a": {"$ref": "#/$defs/nowhere"}}}),
        ] {
            assert_eq!(clean(&bad), None);
        }
    }
}
