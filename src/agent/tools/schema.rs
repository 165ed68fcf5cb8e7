//! Values against a JSON Schema (2020-12).
//!
//! Owns: what is said of a value that does not fit, in the words of the original (typebox's).
//! Promises: nothing outside of a schema is read for it; a pattern is checked in a time that
//! grows with the text, and one that cannot be so (it looks ahead, or back) is passed over.

use std::error::Error;

use boon::{Compiler, ErrorKind, SchemaIndex, Schemas, UrlLoader, ValidationError};
use regex::Regex;
use serde_json::Value;

/// Names a schema to the library; it is never looked up.
const PLACE: &str = "urn:schema";

/// A schema that values can be checked against.
pub struct Validator {
    schemas: Schemas,
    root: SchemaIndex,
}

/// What is wrong with a part of a value.
#[derive(Debug, PartialEq)]
pub struct Complaint {
    /// Where it is: names and indices with dots between them, empty for all of it.
    pub path: String,
    /// What is to be there.
    pub text: String,
}

struct Nowhere;

impl UrlLoader for Nowhere {
    fn load(&self, url: &str) -> Result<Value, Box<dyn Error>> {
        Err(format!("{url} is not part of the schema").into())
    }
}

impl Validator {
    /// Reads a schema.
    ///
    /// # Errors
    /// Why it is none.
    pub fn of(schema: &Value) -> Result<Self, String> {
        let mut schema = schema.clone();
        without_strange_patterns(&mut schema);
        let (mut compiler, mut schemas) = (Compiler::new(), Schemas::new());
        compiler.use_loader(Box::new(Nowhere));
        compiler.add_resource(PLACE, schema).map_err(|error| error.to_string())?;
        let root = compiler.compile(PLACE, &mut schemas).map_err(|error| error.to_string())?;
        Ok(Self { schemas, root })
    }

    /// What is wrong with a value, in the order of the schema.
    pub fn complaints(&self, value: &Value) -> Vec<Complaint> {
        let mut complaints = Vec::new();
        if let Err(error) = self.schemas.validate(value, self.root) {
            collect(&error, &mut complaints);
        }
        complaints
    }
}

/// Takes out the patterns that are none here.
fn without_strange_patterns(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let is_strange = |pattern: &str| Regex::new(pattern).is_err();
            if members.get("pattern").and_then(Value::as_str).is_some_and(is_strange) {
                members.shift_remove("pattern");
            }
            if let Some(Value::Object(patterns)) = members.get_mut("patternProperties") {
                patterns.retain(|pattern, _| !is_strange(pattern));
            }
            members.values_mut().for_each(without_strange_patterns);
        }
        Value::Array(items) => items.iter_mut().for_each(without_strange_patterns),
        _ => {}
    }
}

/// Adds what an error says, and what those say that it consists of, each once.
fn collect(error: &ValidationError<'_, '_>, complaints: &mut Vec<Complaint>) {
    // Of these it is enough to say that they do not fit: what would have to is not known.
    let is_whole = matches!(error.kind, ErrorKind::Not | ErrorKind::PropertyName { .. });
    if !is_whole {
        for cause in &error.causes {
            collect(cause, complaints);
        }
    }
    let pointer = error.instance_location.to_string();
    let path = pointer.trim_start_matches('/').replace('/', ".");
    for (name, text) in texts(&error.kind) {
        let path = match (path.is_empty(), name) {
            (_, None) => path.clone(),
            (true, Some(name)) => name.to_owned(),
            (false, Some(name)) => format!("{path}.{name}"),
        };
        let complaint = Complaint { path, text };
        if !complaints.contains(&complaint) {
            complaints.push(complaint);
        }
    }
}

/// What is said of an error, and of which member if of one.
fn texts<'a>(kind: &'a ErrorKind<'_, '_>) -> Vec<(Option<&'a str>, String)> {
    let text = match kind {
        ErrorKind::Required { want } => {
            let text = |name: &str| format!("must have required properties {name}");
            return want.iter().map(|name| (Some(*name), text(name))).collect();
        }
        // Nothing of their own; their causes say it.
        ErrorKind::Group
        | ErrorKind::Schema { .. }
        | ErrorKind::ContentSchema
        | ErrorKind::Reference { .. }
        | ErrorKind::AllOf => return Vec::new(),
        ErrorKind::AdditionalProperties { got } => {
            format!("must not have additional properties {}", got.join(", "))
        }
        ErrorKind::Type { want, .. } => {
            let want: Vec<_> = want.iter().map(|name| name.to_string()).collect();
            let either = if want.len() > 1 { "either " } else { "" };
            format!("must be {either}{}", want.join(" or "))
        }
        ErrorKind::Enum { want } => {
            let want: Vec<_> = want.iter().map(Value::to_string).collect();
            format!("must be equal to one of the allowed values: {}", want.join(", "))
        }
        ErrorKind::Const { want } => format!("must be equal to constant: {want}"),
        ErrorKind::FalseSchema => "schema is false".into(),
        ErrorKind::Not => "must not be valid".into(),
        ErrorKind::AnyOf => "must match a schema in anyOf".into(),
        ErrorKind::OneOf(_) => "must match exactly one schema in oneOf".into(),
        ErrorKind::PropertyName { prop } => format!("property names {prop} are invalid"),
        ErrorKind::Dependency { prop, missing }
        | ErrorKind::DependentRequired { prop, missing } => {
            format!("must have properties {} when property {prop} is present", missing.join(", "))
        }
        ErrorKind::Contains => "must contain at least 1 valid item".into(),
        ErrorKind::MinContains { want, .. } => format!("must contain at least {want} valid items"),
        ErrorKind::MaxContains { want, .. } => format!("must contain at most {want} valid items"),
        ErrorKind::UniqueItems { .. } => "must not have duplicate items".into(),
        ErrorKind::AdditionalItems { .. } => "must not have unevaluated items".into(),
        ErrorKind::MinProperties { want, .. } => few(*want, "properties"),
        ErrorKind::MaxProperties { want, .. } => many(*want, "properties"),
        ErrorKind::MinItems { want, .. } => few(*want, "items"),
        ErrorKind::MaxItems { want, .. } => many(*want, "items"),
        ErrorKind::MinLength { want, .. } => few(*want, "characters"),
        ErrorKind::MaxLength { want, .. } => many(*want, "characters"),
        ErrorKind::Pattern { want, .. } => format!("must match pattern \"{want}\""),
        ErrorKind::Format { want, .. } => format!("must match format \"{want}\""),
        ErrorKind::Minimum { want, .. } => format!("must be >= {want}"),
        ErrorKind::Maximum { want, .. } => format!("must be <= {want}"),
        ErrorKind::ExclusiveMinimum { want, .. } => format!("must be > {want}"),
        ErrorKind::ExclusiveMaximum { want, .. } => format!("must be < {want}"),
        ErrorKind::MultipleOf { want, .. } => format!("must be multiple of {want}"),
        ErrorKind::RefCycle { .. }
        | ErrorKind::ContentEncoding { .. }
        | ErrorKind::ContentMediaType { .. } => kind.to_string(),
    };
    vec![(None, text)]
}

fn few(want: usize, what: &str) -> String {
    format!("must not have fewer than {want} {what}")
}

fn many(want: usize, what: &str) -> String {
    format!("must not have more than {want} {what}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::json;

    fn said(schema: &Value, value: &Value) -> Vec<String> {
        let complaints = Validator::of(schema).unwrap().complaints(value);
        complaints.into_iter().map(|it| format!("{}: {}", it.path, it.text)).collect()
    }

    #[test]
    fn each_rule_has_the_words_of_the_original() {
        for (rule, value, text) in [
            (json!({"type": ["string", "null"]}), json!(1), "must be either null or string"),
            (
                json!({"enum": ["a", 1]}),
                json!("b"),
                "must be equal to one of the allowed values: \"a\", 1",
            ),
            (json!({"const": true}), json!("b"), "must be equal to constant: true"),
            (json!(false), json!(1), "schema is false"),
            (json!({"not": {"type": "string"}}), json!("x"), "must not be valid"),
            (json!({"oneOf": [{}, true]}), json!("x"), "must match exactly one schema in oneOf"),
            (
                json!({"propertyNames": {"maxLength": 1}}),
                json!({"ab": 1}),
                "property names ab are invalid",
            ),
            (
                json!({"dependentRequired": {"a": ["b", "c"]}}),
                json!({"a": 1}),
                "must have properties b, c when property a is present",
            ),
            (
                json!({"contains": {"type": "null"}}),
                json!([1]),
                "must contain at least 1 valid item",
            ),
            (json!({"uniqueItems": true}), json!([1, 1]), "must not have duplicate items"),
            (json!({"minProperties": 1}), json!({}), "must not have fewer than 1 properties"),
            (json!({"maxItems": 1}), json!([1, 2]), "must not have more than 1 items"),
            (json!({"minLength": 2}), json!("ä"), "must not have fewer than 2 characters"),
            (json!({"pattern": "^ab$"}), json!("b"), "must match pattern \"^ab$\""),
            (json!({"minimum": 0.5}), json!(0), "must be >= 0.5"),
            (json!({"exclusiveMaximum": 3}), json!(3), "must be < 3"),
            (json!({"multipleOf": 2}), json!(3), "must be multiple of 2"),
        ] {
            let schema = json!({"properties": {"a": rule}});
            let said = said(&schema, &json!({"a": value}));
            // Where an object has such a name is not told.
            let place = if text.starts_with("property names") { "" } else { "a" };
            assert!(said.contains(&format!("{place}: {text}")), "{said:?}: {text}");
            let fits = Validator::of(&schema).unwrap().complaints(&json!({}));
            assert_eq!(fits, []);
        }
    }

    #[test]
    fn where_something_is_wrong_is_told_and_each_thing_once() {
        let schema = json!({
            "$defs": {"at": {"required": ["x", "y"]}},
            "properties": {"list": {"items": {"$ref": "#/$defs/at"}}},
            "anyOf": [{"required": ["a"]}, {"required": ["a", "b"]}],
        });
        assert_eq!(
            said(&schema, &json!({"list": [{"x": 1}]})),
            [
                "list.0.y: must have required properties y",
                "a: must have required properties a",
                "b: must have required properties b",
                ": must match a schema in anyOf",
            ]
        );
    }

    #[test]
    fn a_pattern_that_looks_ahead_is_passed_over_and_the_rest_counts() {
        let schema = json!({
            "patternProperties": {"^(?=a)": {"type": "null"}},
            "additionalProperties": {"pattern": "^(?!x)", "maxLength": 2},
        });
        assert_eq!(said(&schema, &json!({"a": "xx"})), [""; 0]);
        assert_eq!(
            said(&schema, &json!({"a": "xxx"})),
            ["a: must not have more than 2 characters"]
        );
    }

    #[test]
    fn what_is_no_schema_or_refers_to_elsewhere_is_refused() {
        for schema in [
            json!({"type": "text"}),
            json!({"properties": 1}),
            json!({"$ref": "#/$defs/none"}),
            json!({"$ref": "file:///etc/hostname"}),
            json!({"$ref": "http://127.0.0.1/x"}),
            json!({"$schema": "http://127.0.0.1/x"}),
        ] {
            assert!(Validator::of(&schema).is_err(), "{schema}");
        }
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = json!({"properties": {"next": {"$ref": "#"}}, "required": ["name"]});
        assert_eq!(
            said(&schema, &json!({"name": 1, "next": {"next": {"name": 1}}})),
            ["next.name: must have required properties name"]
        );
        let circle = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}});
        if let Ok(validator) = Validator::of(&circle) {
            assert_ne!(validator.complaints(&json!(1)), []);
        }
    }
}
