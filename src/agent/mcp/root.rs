//! The root of a tool's schema.
//!
//! Owns: making one list of properties where it is put together of several schemas. Promises:
//! it has nothing that providers refuse there, since for one such tool they refuse every call
//! of the model; what some alternative takes may be given, and what each needs must be. The
//! server checks what goes together. Must not: follow references without end.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::providers::schema::target;
use crate::support::json;

/// What providers refuse at the root, or pass over.
const REFUSED: [&str; 6] = ["$ref", "allOf", "anyOf", "enum", "not", "oneOf"];
/// Those of them that hold schemas to which others may refer.
const LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Schemas that are looked into for one root: references may lead to the same ones often.
const MAX_PARTS: usize = 200;
/// How deep these may lie in each other.
const MAX_DEPTH: usize = 16;
/// Values of an argument that become one list; of more there are two.
const MAX_VALUES: usize = 256;

/// Makes a root that is put together a plain one.
pub fn flatten(schema: &mut Value) {
    if !REFUSED.iter().any(|name| schema.get(name).is_some()) {
        return;
    }
    keep_referred(schema);
    let shape = {
        let root: &Value = schema;
        Parts { root, left: MAX_PARTS }.shape(root, 0)
    };
    let Some(members) = schema.as_object_mut() else { return };
    for name in REFUSED {
        members.shift_remove(name);
    }
    let mut properties = shape.properties;
    merge(&mut properties, shape.at_times, first);
    members.insert("properties".into(), Value::Object(properties));
    if !shape.required.is_empty() {
        members.insert("required".into(), json!(shape.required));
    }
}

/// Has references to one place lead to another; whether there are any.
pub fn redirect(schema: &mut Value, from: &str, to: &str) -> bool {
    match schema {
        Value::Object(members) => {
            let mut is_one = false;
            for (name, member) in members {
                let reference = member.as_str().filter(|_| name == "$ref");
                let rest = reference.and_then(|reference| reference.strip_prefix(from));
                let rest = rest.filter(|rest| rest.is_empty() || rest.starts_with('/'));
                if let Some(moved) = rest.map(|rest| format!("{to}{rest}")) {
                    *member = Value::String(moved);
                    is_one = true;
                } else {
                    is_one |= redirect(member, from, to);
                }
            }
            is_one
        }
        Value::Array(items) => {
            let mut is_one = false;
            for item in items {
                is_one |= redirect(item, from, to);
            }
            is_one
        }
        _ => false,
    }
}

/// Keeps a copy of what leaves the root where references find it, if there are any.
fn keep_referred(schema: &mut Value) {
    let mut is_referred = false;
    for name in LISTS {
        let to = format!("#/$defs/{name}/{name}");
        is_referred |= redirect(schema, &format!("#/{name}"), &to);
    }
    let Some(members) = schema.as_object_mut().filter(|_| is_referred) else { return };
    let copies: Vec<_> = LISTS
        .into_iter()
        .filter_map(|name| Some((name, one(name, members.get(name)?.clone()))))
        .collect();
    if let Some(defs) = members.entry("$defs").or_insert_with(|| json!({})).as_object_mut() {
        defs.extend(copies.into_iter().map(|(name, copy)| (name.to_owned(), copy)));
    }
}

/// A schema of one rule.
fn one(name: &str, rule: Value) -> Value {
    Value::Object(Map::from_iter([(name.to_owned(), rule)]))
}

/// What an object has by a schema.
#[derive(Default)]
struct Shape {
    properties: Map<String, Value>,
    /// What it may have by schemas that hold at times, which say nothing of what is there anyway.
    at_times: Map<String, Value>,
    /// Those that must be there.
    required: BTreeSet<String>,
}

impl Shape {
    /// With what it has by another schema that holds as well.
    fn and(&mut self, other: Self) {
        merge(&mut self.properties, other.properties, both);
        merge(&mut self.at_times, other.at_times, first);
        self.required.extend(other.required);
    }

    /// With what it may have by a schema that holds at times.
    fn and_at_times(&mut self, other: Self) {
        merge(&mut self.at_times, other.properties, first);
        merge(&mut self.at_times, other.at_times, first);
    }

    /// What it has by one of two schemas.
    fn or(mut self, other: Self) -> Self {
        merge(&mut self.properties, other.properties, either);
        merge(&mut self.at_times, other.at_times, first);
        self.required.retain(|name| other.required.contains(name));
        self
    }
}

/// The schemas of one document that its root is put together of.
struct Parts<'a> {
    root: &'a Value,
    left: usize,
}

impl Parts<'_> {
    fn shape(&mut self, schema: &Value, depth: usize) -> Shape {
        let mut shape = Shape::default();
        let is_read = self.left > 0 && depth < MAX_DEPTH;
        let Some(members) = schema.as_object().filter(|_| is_read) else { return shape };
        self.left -= 1;
        let (root, depth) = (self.root, depth + 1);
        if let Some(Value::Object(properties)) = members.get("properties") {
            shape.properties.clone_from(properties);
        }
        let required = list(members, "required").filter_map(Value::as_str);
        shape.required = required.map(str::to_owned).collect();
        let reference = members.get("$ref").and_then(Value::as_str);
        if let Some(meant) = reference.and_then(|reference| target(root, reference)) {
            shape.and(self.shape(meant, depth));
        }
        for part in list(members, "allOf") {
            shape.and(self.shape(part, depth));
        }
        for name in ["anyOf", "oneOf"] {
            let choices = list(members, name).map(|choice| self.shape(choice, depth));
            shape.and(choices.reduce(Shape::or).unwrap_or_default());
        }
        for part in ["then", "else"].into_iter().filter_map(|name| members.get(name)) {
            shape.and_at_times(self.shape(part, depth));
        }
        shape
    }
}

fn list<'a>(members: &'a Map<String, Value>, name: &str) -> std::slice::Iter<'a, Value> {
    members.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default().iter()
}

fn merge(
    into: &mut Map<String, Value>,
    from: Map<String, Value>,
    of_two: fn(Value, Value) -> Value,
) {
    for (name, property) in from {
        let place = into.entry(name).or_insert(Value::Null);
        *place = match place.take() {
            Value::Null => property,
            known => of_two(known, property),
        };
    }
}

/// A property of which the first schema that is known counts.
fn first(known: Value, _: Value) -> Value {
    known
}

/// A property that has two schemas. Where they say different things the first counts.
fn both(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Object(mut rules), Value::Object(more)) => {
            for (name, rule) in more {
                rules.entry(name).or_insert(rule);
            }
            Value::Object(rules)
        }
        (Value::Bool(true), other) => other,
        (one, _) => one,
    }
}

/// A property that has one of two schemas.
fn either(mut first: Value, other: Value) -> Value {
    if first == other {
        return first;
    }
    if let (Some(mut values), Some(more)) = (constants(&first), constants(&other))
        && values.len() + more.len() <= MAX_VALUES
        && let Some(rules) = first.as_object_mut()
    {
        for value in more {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        if rules.get("type") != other.get("type") {
            rules.shift_remove("type");
        }
        rules.shift_remove("const");
        rules.insert("enum".into(), Value::Array(values));
        return first;
    }
    if let Some(rules) = first.as_object_mut().filter(|rules| rules.len() == 1)
        && let Some(Value::Array(choices)) = rules.get_mut("anyOf")
    {
        if !choices.contains(&other) {
            choices.push(other);
        }
        return first;
    }
    one("anyOf", Value::Array(vec![first, other]))
}

/// The values of a property that can have these only.
fn constants(schema: &Value) -> Option<Vec<Value>> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(only), _) => Some(vec![only.clone()]),
        (None, Some(Value::Array(values))) => Some(values.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tools::schema::Schema;

    fn flat(mut schema: Value) -> Value {
        flatten(&mut schema);
        Schema::of(&schema).unwrap();
        schema
    }

    #[test]
    fn what_some_alternative_takes_may_be_given_and_what_each_needs_must_be() {
        let alternatives = json!([
            {"properties": {"kind": {"const": "text"}, "size": {"type": "string"}, "text": {}},
                "required": ["kind", "text"], "additionalProperties": false},
            {"properties": {"kind": {"const": "file"}, "size": {"type": "integer"}},
                "required": ["kind"]},
            {"properties": {"kind": {"const": "text"}, "size": {"type": "null"}},
                "required": ["size", "kind"]},
        ]);
        for name in ["anyOf", "oneOf"] {
            let mut schema = json!({"type": "object", "properties": {"id": {"type": "string"}},
                "required": ["id"]});
            schema[name] = alternatives.clone();
            let expected = json!({"type": "object", "required": ["id", "kind"], "properties": {
                "id": {"type": "string"}, "kind": {"enum": ["text", "file"]}, "text": {},
                "size": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}}});
            assert_eq!(flat(schema), expected, "{name}");
        }
    }

    #[test]
    fn what_holds_together_is_one_list_and_what_holds_at_times_need_not_be_given() {
        let schema = json!({"allOf": [
            {"$ref": "#/$defs/base"},
            {"properties": {"a": {"maxLength": 3}, "b": true}, "required": ["b"]},
            {"if": {"required": ["a"]}, "then": {"properties": {"c": {}}, "required": ["c"]},
                "else": {"properties": {"b": {"type": "null"}}}},
        ], "not": {"required": ["d"]}, "$defs": {
            "base": {"properties": {"a": {"type": "string"}}, "required": ["a"]}}});
        let expected = json!({"required": ["a", "b"], "properties": {
            "a": {"type": "string", "maxLength": 3}, "b": true, "c": {}}, "$defs": {
            "base": {"properties": {"a": {"type": "string"}}, "required": ["a"]}}});
        assert_eq!(flat(schema), expected);
    }

    #[test]
    fn references_find_what_has_left_the_root() {
        let schema = json!({"anyOf": [{"properties": {"a": {"type": "string"}}},
            {"properties": {"b": {"$ref": "#/anyOf/0/properties/a"}}}]});
        let flat = flat(schema);
        let reference = flat["properties"]["b"]["$ref"].as_str().unwrap();
        assert_eq!(target(&flat, reference), Some(&json!({"type": "string"})));
    }

    #[test]
    fn a_root_that_refers_to_itself_has_an_end_and_a_plain_one_stays() {
        let twice = json!({"properties": {"a": {}}, "allOf": [{"$ref": "#"}, {"$ref": "#"}]});
        assert_eq!(flat(twice), json!({"properties": {"a": {}}}));
        let plain = json!({"properties": {"anyOf": {"anyOf": [{}, {"type": "null"}]}},
            "required": ["b", "a"], "if": {}, "then": {"properties": {"c": {}}}});
        assert_eq!(flat(plain.clone()), plain);
    }
}
