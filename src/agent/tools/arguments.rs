//! Arguments of a call, against the schema of its tool.
//!
//! Models write numbers as text and the like, so what can be read as the wanted
//! type is made so first, as the original does.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::Value;

use crate::providers::ToolSpec;
use crate::support::json;

use super::schema::{self, Complaint, Schema, cut, is_a};

/// Most characters of arguments that the model is shown again.
const MAX_SHOWN: usize = 20_000;
/// Longest text that is read as a number.
const MAX_NUMBER: usize = 400;

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
    coerce(&mut arguments, &spec.parameters);
    let mut problems = String::new();
    for Complaint { path, text } in schema.complaints(&arguments) {
        let path = if path.is_empty() { "root" } else { &path };
        // Writing to a String cannot fail.
        let _ = writeln!(problems, "  - {path}: {text}");
    }
    if problems.is_empty() { Ok(arguments) } else { refuse(&problems, &arguments) }
}

/// Makes of a value what its schema wants, where that is plain to see.
fn coerce(value: &mut Value, schema: &Value) {
    let types = types(schema);
    if !types.iter().any(|name| is_a(value, name))
        && let Some(coerced) = types.iter().find_map(|name| read_as(value, name))
    {
        *value = coerced;
    }
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
                    coerce(member, schema);
                    has_null |= member.is_null();
                }
            }
            if has_null {
                let required = schema.get("required").and_then(Value::as_array);
                let required = required.into_iter().flatten().filter_map(Value::as_str);
                let required: HashSet<_> = required.collect();
                // Models say so that they leave out what they may leave out.
                members.retain(|name, member| {
                    let may_be = |schema| required.contains(name.as_str()) || allows_null(schema);
                    !member.is_null() || wanted(name).is_none_or(may_be)
                });
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                for item in items {
                    coerce(item, schema);
                }
            }
        }
        _ => {}
    }
}

/// The types that a schema names; none when any may come.
fn types(schema: &Value) -> Vec<&str> {
    schema.get("type").map_or_else(Vec::new, schema::types)
}

fn allows_null(schema: &Value) -> bool {
    let types = types(schema);
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
