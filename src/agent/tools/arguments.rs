//! Arguments of a call, against the schema of its tool.
//!
//! Models write numbers as text and the like, so what can be read as the wanted
//! type is made so first, as the original does.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::Value;

use crate::providers::ToolSpec;
use crate::providers::schema::target;
use crate::support::json;

use super::schema::{self, Complaint, Schema, cut, is_a};

/// Most characters of arguments that the model is shown again.
const MAX_SHOWN: usize = 20_000;
/// Longest text that is read as a number.
const MAX_NUMBER: usize = 400;
/// Most schemas that are looked into for what one value may be; behind more anything may come.
const MAX_PARTS: usize = 16;

/// The arguments as the schema wants them.
///
/// # Errors
/// What does not fit, with its path, for the model to read.
pub fn check(spec: &ToolSpec, arguments: &Value) -> Result<Value, String> {
    let mut arguments = arguments.clone();
    let refuse = |problems: &str, arguments: &Value| {
        Err(format!(
            "Validation failed for tool \"{}\":\n{problems}\nReceived arguments:\n{}",
            spec.name,
            cut(format_args!("{arguments:#}"), MAX_SHOWN)
        ))
    };
    let schema = match Schema::of(&spec.parameters) {
        Ok(schema) => schema,
        Err(error) => {
            let problem = format!("  - root: the tool's own schema is wrong: {error}\n");
            return refuse(&problem, &arguments);
        }
    };
    coerce(&mut arguments, &spec.parameters, &spec.parameters);
    let mut problems = String::new();
    for Complaint { path, text } in schema.complaints(&arguments) {
        let path = if path.is_empty() { "root" } else { &path };
        // Writing to a String cannot fail.
        let _ = writeln!(problems, "  - {path}: {text}");
    }
    if problems.is_empty() { Ok(arguments) } else { refuse(&problems, &arguments) }
}

/// Makes of a value what its schema wants, where that is plain to see.
fn coerce(value: &mut Value, schema: &Value, root: &Value) {
    let types = types(schema, root);
    if !types.iter().any(|name| is_a(value, name))
        && let Some(coerced) = types.iter().find_map(|name| read_as(value, name))
    {
        *value = coerced;
    }
    let schema = plain(schema, root);
    match value {
        Value::Object(members) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            // Which of its members patterns mean, only the check knows.
            let has_patterns = schema.get("patternProperties").is_some();
            let others = schema.get("additionalProperties").filter(|_| !has_patterns);
            let wanted = |name: &str| properties.and_then(|them| them.get(name)).or(others);
            let mut has_null = false;
            for (name, member) in members.iter_mut() {
                if let Some(schema) = wanted(name) {
                    coerce(member, schema, root);
                    has_null |= member.is_null();
                }
            }
            if has_null {
                let required = schema.get("required").and_then(Value::as_array);
                let required = required.into_iter().flatten().filter_map(Value::as_str);
                let required: HashSet<_> = required.collect();
                // Models say so that they leave out what they may leave out.
                members.retain(|name, member| {
                    let is_needed = required.contains(name.as_str());
                    let may_be = |schema| is_needed || allows_null(schema, root);
                    !member.is_null() || wanted(name).is_none_or(may_be)
                });
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    coerce(item, schema, root);
                }
            }
        }
        _ => {}
    }
}

/// The types that a schema names, also by what it refers to or chooses from; none when any may
/// come.
fn types<'s>(schema: &'s Value, root: &'s Value) -> Vec<&'s str> {
    let mut left = MAX_PARTS;
    types_of(schema, root, &mut left)
}

fn types_of<'s>(schema: &'s Value, root: &'s Value, left: &mut usize) -> Vec<&'s str> {
    let Some(rest) = left.checked_sub(1) else { return Vec::new() };
    *left = rest;
    if let Some(rule) = schema.get("type") {
        return schema::types(rule);
    }
    if let Some(meant) = referred(schema, root) {
        return types_of(meant, root, left);
    }
    let mut all = Vec::new();
    for choice in choices(schema) {
        let some = types_of(choice, root, left);
        if some.is_empty() {
            return some;
        }
        all.extend(some);
    }
    all
}

/// The schema that says what is in a value: where another one is referred to that one, and of
/// a choice between it and null it (so servers write what may be left out).
fn plain<'s>(schema: &'s Value, root: &'s Value) -> &'s Value {
    let mut plain = schema;
    for _ in 0..MAX_PARTS {
        let says_so = |name: &str| plain.get(name).is_some();
        if ["type", "properties", "additionalProperties", "items"].into_iter().any(says_so) {
            break;
        }
        let is_some = |choice: &&Value| choice.get("type").and_then(Value::as_str) != Some("null");
        let mut others = choices(plain).iter().filter(is_some);
        let only = others.next().filter(|_| others.next().is_none());
        let Some(meant) = referred(plain, root).or(only) else { break };
        plain = meant;
    }
    plain
}

/// What stands in the place of a schema.
fn referred<'s>(schema: &'s Value, root: &'s Value) -> Option<&'s Value> {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        return target(root, reference);
    }
    match schema.get("allOf")?.as_array()?.as_slice() {
        [only] => Some(only),
        _ => None,
    }
}

/// The schemas of which one has to fit.
fn choices(schema: &Value) -> &[Value] {
    let choices = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array);
    choices.map(Vec::as_slice).unwrap_or_default()
}

fn allows_null(schema: &Value, root: &Value) -> bool {
    let types = types(schema, root);
    types.is_empty() || types.contains(&"null")
}

/// The value as the named type, if it reads as one.
fn read_as(value: &Value, name: &str) -> Option<Value> {
    match (name, value) {
        ("string", Value::Number(_) | Value::Bool(_)) => Some(json!(value.to_string())),
        ("number" | "integer", Value::String(text)) if text.len() <= MAX_NUMBER => {
            let number: Value = serde_json::from_str(text.trim()).ok()?;
            is_a(&number, name).then_some(number)
        }
        ("number" | "integer", Value::Bool(it)) => Some(json!(i32::from(*it))),
        ("boolean", Value::String(text)) => match text.as_str() {
            "true" => Some(json!(true)),
            "false" => Some(json!(false)),
            _ => None,
        },
        ("boolean", Value::Number(number)) => match number.as_i64()? {
            0 => Some(json!(false)),
            1 => Some(json!(true)),
            _ => None,
        },
        // Models that write a structure as text mean the structure.
        ("array" | "object", Value::String(text)) => {
            let read: Value = serde_json::from_str(text).ok()?;
            is_a(&read, name).then_some(read)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> ToolSpec {
        let parameters = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "limit": {"type": "number"},
                "count": {"type": "integer"},
                "all": {"type": "boolean"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "mode": {"type": "string", "enum": ["a", "b"]},
                "env": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "required": ["path"],
            "additionalProperties": false,
        });
        ToolSpec { name: "read".into(), description: String::new(), parameters }
    }

    #[test]
    fn what_reads_as_the_wanted_type_becomes_it() {
        let given = json!({"mode": null, "path": 5, "limit": "2.5", "count": "3", "all": "true", "tags": "[\"x\", 1]"});
        let wanted =
            json!({"path": "5", "limit": 2.5, "count": 3, "all": true, "tags": ["x", "1"]});
        assert_eq!(check(&spec(), &given), Ok(wanted));
        let given = json!({"path": "p", "env": {"PORT": 3000, "DEBUG": true, "NONE": null}});
        let wanted = json!({"path": "p", "env": {"PORT": "3000", "DEBUG": "true"}});
        assert_eq!(check(&spec(), &given), Ok(wanted));
    }

    #[test]
    fn what_is_referred_to_or_may_be_null_is_read_as_what_it_is() {
        let or_null = |schema: Value| json!({"anyOf": [schema, {"type": "null"}], "default": null});
        let page = json!({"type": "object", "properties": {
            "size": or_null(json!({"type": "integer"})), "next": or_null(json!({"$ref": "#/$defs/Page"}))}});
        let parameters = json!({
            "type": "object",
            "$defs": {"Page": page, "Circle": {"$ref": "#/$defs/Circle"}, "Count": {"type": "integer"}},
            "properties": {
                "limit": or_null(json!({"type": "integer"})),
                "tags": or_null(json!({"type": "array", "items": {"type": "string"}})),
                "page": or_null(json!({"$ref": "#/$defs/Page"})),
                "whole": {"allOf": [{"$ref": "#/$defs/Page"}], "description": "a page"},
                "count": {"$ref": "#/$defs/Count"},
                "left": {"$ref": "#/$defs/Count"},
                "either": {"oneOf": [{"type": "boolean"}, {"type": "number"}]},
                "text": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "any": {"anyOf": [{"type": "integer"}, {}]},
                "circle": {"$ref": "#/$defs/Circle"},
            },
            "required": ["limit"],
        });
        let spec = ToolSpec { name: "list".into(), description: String::new(), parameters };
        let given = json!({"limit": "5", "tags": "[\"x\", 1]", "page": {"size": "2", "next": {"size": "3"}},
            "whole": {"size": "4", "next": null}, "count": "6", "left": null, "either": "1.5",
            "text": "7", "any": "8", "circle": "9"});
        let wanted = json!({"limit": 5, "tags": ["x", "1"], "page": {"size": 2, "next": {"size": 3}},
            "whole": {"size": 4, "next": null}, "count": 6, "either": 1.5, "text": "7", "any": "8",
            "circle": "9"});
        assert_eq!(check(&spec, &given), Ok(wanted));
        let nothing = json!({"limit": null, "tags": null, "page": null});
        assert_eq!(check(&spec, &nothing), Ok(nothing.clone()));
        let refused = check(&spec, &json!({"limit": "five"})).unwrap_err();
        assert!(refused.contains("  - limit: must be integer\n"), "{refused}");
    }

    #[test]
    fn what_does_not_fit_is_told_with_its_path() {
        let refused = |arguments: Value| check(&spec(), &arguments).unwrap_err();
        assert_eq!(
            refused(json!({})),
            "Validation failed for tool \"read\":\n  - path: must have required properties path\n\nReceived arguments:\n{}"
        );
        for (arguments, line) in [
            (json!({"path": null}), "  - path: must be string"),
            (json!({"path": "p", "limit": "two"}), "  - limit: must be number"),
            (json!({"path": "p", "count": 1.5}), "  - count: must be integer"),
            (json!({"path": "p", "tags": [{}]}), "  - tags.0: must be string"),
            (json!({"path": "p", "env": {"A": []}}), "  - env.A: must be string"),
            (
                json!({"path": "p", "more": null}),
                "  - root: must not have additional properties more",
            ),
            (json!({"path": "p", "more": 1}), "  - root: must not have additional properties more"),
            (
                json!({"path": "p", "mode": "c"}),
                "  - mode: must be equal to one of the allowed values: \"a\", \"b\"",
            ),
            (json!([]), "  - root: must be object"),
            (json!("text"), "  - root: must be object"),
        ] {
            let text = refused(arguments);
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
