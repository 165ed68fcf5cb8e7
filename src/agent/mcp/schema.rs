//! Schemas of tools, as servers write them.
//!
//! Owns: making of them what models and our own check take. Promises: nothing
//! outside of the schema is referred to, whose lookup would be a request.

use serde_json::{Map, Value};

use crate::agent::tools::schema::{Schema, renew};
use crate::support::json;

/// Largest schema; all of them go to the model with every call.
const MAX_BYTES: usize = 64 * 1024;
/// Deepest nesting.
const MAX_DEPTH: usize = 32;

/// The schema of a tool's arguments; `None` when it cannot be used.
pub fn cleaned(schema: &Map<String, Value>) -> Option<Value> {
    let mut schema = Value::Object(schema.clone());
    if schema.to_string().len() > MAX_BYTES || !clean(&mut schema, 0) {
        return None;
    }
    renew(&mut schema);
    let members = schema.as_object_mut()?;
    members.shift_remove("$schema");
    members.insert("type".into(), json!("object"));
    if !members.get("properties").is_some_and(Value::is_object) {
        members.insert("properties".into(), json!({}));
    }
    // What no check can be made of is no schema.
    Schema::of(&schema).ok()?;
    Some(schema)
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
        cleaned(schema.as_object().unwrap())
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
