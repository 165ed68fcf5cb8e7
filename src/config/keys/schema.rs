//! The list as JSON schema, in the words that the original's form understands.

use serde_json::{Map, Value};

use crate::support::json;

use super::describe::bounds;
use super::{FOREIGN, Key, Kind, SECTIONS};

/// The schema of the whole file, draft 7.
pub fn schema() -> Value {
    let sections = SECTIONS.iter().map(|section| &section.key);
    let keys: Vec<Key> = FOREIGN.iter().chain(sections).copied().collect();
    let mut schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "OpenClawConfig",
    });
    extend(&mut schema, object(&keys, None));
    schema
}

/// The schema of one place.
pub fn schema_of(kind: &Kind) -> Value {
    match kind {
        Kind::Boolean => json!({"type": "boolean"}),
        Kind::Text => json!({"type": "string"}),
        Kind::Secret => json!({"anyOf": [{"type": "string"}, reference()]}),
        Kind::Integer(least, most) => {
            json!({"type": "integer", "minimum": least, "maximum": most})
        }
        Kind::Number(least, most) => {
            let mut schema = json!({"type": "number"});
            if *least > f64::MIN {
                schema["minimum"] = json!(least);
            }
            if *most < f64::MAX {
                schema["maximum"] = json!(most);
            }
            schema
        }
        // A form must not refuse what the gateway takes.
        Kind::Within(kind, ..) => schema_of(kind),
        Kind::Word(words) => {
            let words: Vec<_> =
                words.iter().map(|word| json!({"type": "string", "const": word})).collect();
            json!({"anyOf": words})
        }
        Kind::Quantity => json!({"anyOf": [{"type": "string"}, {"type": "number"}]}),
        Kind::TextOrFalse => json!({"anyOf": [{"type": "string"}, {"const": false}]}),
        Kind::QuantityOrFalse => json!({"anyOf": [
            {"type": "string"}, {"type": "number"},
            {"type": "boolean", "not": {"const": true}},
        ]}),
        Kind::Either(kinds) => either(kinds),
        Kind::List(kind) => json!({"type": "array", "items": schema_of(kind)}),
        Kind::Map(kind) => json!({"type": "object", "additionalProperties": schema_of(kind)}),
        Kind::Object(keys) => object(keys, None),
        Kind::Open(keys, rest) => object(keys, Some(rest)),
        Kind::Any => json!({}),
    }
}

/// What is not in the schema of an object is kept, and has no effect.
fn object(keys: &[Key], rest: Option<&Kind>) -> Value {
    let mut properties = Map::new();
    for key in keys {
        properties.insert(key.name.into(), described(key));
    }
    let mut schema = json!({"type": "object", "properties": properties});
    let required: Vec<_> = keys.iter().filter(|key| key.is_required).map(|it| it.name).collect();
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema["additionalProperties"] = rest.map_or(Value::Bool(false), schema_of);
    schema
}

pub(super) fn described(key: &Key) -> Value {
    let mut schema = schema_of(&key.kind);
    schema["title"] = key.label().into();
    let bounds = bounds(&key.kind).map_or_else(String::new, |bounds| format!(" ({bounds})"));
    schema["description"] = format!("{}{bounds}", key.help).into();
    if let Ok(default) = serde_json::from_str::<Value>(key.default) {
        schema["default"] = default;
    }
    schema
}

/// The form gives up on a place with shapes that are too different, so that
/// those become one schema with several types; it shows the first.
fn either(kinds: &[Kind]) -> Value {
    let is_deep = |kind: &Kind| matches!(kind, Kind::Object(_) | Kind::Map(_) | Kind::Secret);
    if !kinds.iter().any(is_deep) {
        let parts = kinds.iter().map(schema_of).flat_map(|schema| match schema {
            Value::Object(mut members) => match members.remove("anyOf") {
                Some(Value::Array(parts)) => parts,
                _ => vec![Value::Object(members)],
            },
            other => vec![other],
        });
        return json!({"anyOf": parts.collect::<Vec<_>>()});
    }
    let mut schema = json!({});
    let mut types = Vec::new();
    for kind in kinds {
        match kind {
            Kind::Secret => types.extend(["string", "object"]),
            Kind::Boolean => types.push("boolean"),
            Kind::Number(..) => types.push("number"),
            Kind::Object(_) | Kind::Map(_) => {
                types.push("object");
                extend(&mut schema, schema_of(kind));
            }
            _ => types.push("string"),
        }
    }
    schema["type"] = json!(types);
    schema
}

/// OpenClaw's reference to a secret, in each of its three forms.
fn reference() -> Value {
    let of = |source: &str, help: &str| {
        json!({
            "type": "object",
            "properties": {
                "source": {"type": "string", "const": source},
                "provider": {"type": "string"},
                "id": {"type": "string", "description": help},
            },
            "required": ["source", "id"],
            "additionalProperties": false,
        })
    };
    json!({"oneOf": [
        of("env", "Name of the variable."),
        of("file", "Where it stands in the file, as /a/b, or value."),
        of("exec", "What the program is asked for."),
    ]})
}

fn extend(schema: &mut Value, more: Value) {
    if let (Value::Object(members), Value::Object(more)) = (schema, more) {
        members.extend(more);
    }
}
