//! Values against a JSON Schema.
//!
//! Owns: what is said of a value that does not fit, in the words of the original (typebox's),
//! with the values and names that those leave out. Promises: nothing outside of a schema is
//! read for it; whatever the schema and the value, a check ends soon and needs little memory,
//! since schemas come from servers that nobody has looked at. Must not: refuse what it cannot
//! tell.
//!
//! Not told: formats, `unevaluated…`, references that are no path in the schema, patterns that
//! `pattern` does not read, and what is left when a check has taken its share of steps.

mod check;
mod drafts;
mod form;
mod pattern;
mod place;
mod rules;

use std::fmt::{self, Write as _};

use serde_json::Value;

pub use drafts::renew;
pub(super) use rules::{is_a, types};

/// Most characters of a text that a message shows.
const MAX_SHOWN: usize = 200;

/// A schema that values can be checked against.
pub struct Schema<'a>(&'a Value);

/// What is wrong with a part of a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Complaint {
    /// Where it is: names and indices with dots between them, empty for all of it.
    pub path: String,
    /// What is to be there.
    pub text: String,
}

impl<'a> Schema<'a> {
    /// Takes a schema.
    ///
    /// # Errors
    /// Why it is none, and where.
    pub fn of(schema: &'a Value) -> Result<Self, String> {
        form::check(schema).map(|()| Self(schema))
    }

    /// What is wrong with a value; of very much the first.
    pub fn complaints(&self, value: &Value) -> Vec<Complaint> {
        check::complaints(self.0, value).0
    }
}

/// Something of a schema or a value as a message shows it.
fn shown(what: impl fmt::Display) -> String {
    cut(what, MAX_SHOWN)
}

/// Some with commas between them, as a message shows them.
fn listed<T: fmt::Display>(all: impl IntoIterator<Item = T>) -> String {
    let mut cut = Cut { text: String::new(), left: MAX_SHOWN };
    for (n, one) in all.into_iter().enumerate() {
        let comma = if n == 0 { "" } else { ", " };
        if write!(cut, "{comma}{one}").is_err() {
            break;
        }
    }
    cut.text
}

/// The first so many characters of what something is as text; the rest is not made.
pub(super) fn cut(what: impl fmt::Display, most: usize) -> String {
    let mut cut = Cut { text: String::new(), left: most };
    // It ends with an error where it is cut.
    let _ = write!(cut, "{what}");
    cut.text
}

struct Cut {
    text: String,
    left: usize,
}

impl fmt::Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut signs = text.chars();
        self.text.extend(signs.by_ref().take(self.left).inspect(|_| self.left -= 1));
        if signs.as_str().is_empty() {
            return Ok(());
        }
        self.text.push('…');
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::json;

    fn said(schema: &Value, value: &Value) -> Vec<String> {
        let complaints = Schema::of(schema).unwrap().complaints(value);
        complaints.into_iter().map(|it| format!("{}: {}", it.path, it.text)).collect()
    }

    #[test]
    fn each_rule_takes_what_fits_and_says_of_the_rest_what_the_original_does() {
        for (rule, fits, wrong, text) in [
            (json!({"type": "integer"}), json!(3.0), json!(3.5), "must be integer"),
            (
                json!({"type": ["string", "null"]}),
                json!(null),
                json!(1),
                "must be either string or null",
            ),
            (
                json!({"enum": [[1e18]]}),
                json!([1_000_000_000_000_000_000_u64]),
                json!([1_000_000_000_000_000_001_u64]),
                "must be equal to one of the allowed values: [1e+18]",
            ),
            (
                json!({"enum": ["a", 1]}),
                json!(1.0),
                json!("b"),
                "must be equal to one of the allowed values: \"a\", 1",
            ),
            (
                json!({"const": [{"n": 1, "m": "x"}]}),
                json!([{"m": "x", "n": 1.0}]),
                json!([{"m": "x", "n": 2}]),
                "must be equal to constant: [{\"n\":1,\"m\":\"x\"}]",
            ),
            (json!({"not": {"type": "string"}}), json!(1), json!("x"), "must not be valid"),
            (json!({"allOf": [{}, {"minLength": 1}]}), json!("x"), json!(""), FEW_LETTERS),
            (
                json!({"oneOf": [{"type": "string"}, {"minLength": 2}, {"maximum": 3}]}),
                json!(4),
                json!("xx"),
                "must match exactly one schema in oneOf",
            ),
            (
                json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
                json!(null),
                json!(1),
                "must match a schema in anyOf",
            ),
            (
                json!({"if": {"type": "string"}, "then": {"minLength": 1}, "else": {"minimum": 0}}),
                json!("x"),
                json!(-1),
                "must match \"else\" schema",
            ),
            (
                json!({"propertyNames": {"maxLength": 1}}),
                json!({"a": 1}),
                json!({"ab": 1, "b": 1, "bc": 1}),
                "property names ab, bc are invalid",
            ),
            (
                json!({"dependentRequired": {"a": ["b", "c"]}}),
                json!({"b": 1}),
                json!({"a": 1, "c": 1}),
                "must have properties b, c when property a is present",
            ),
            (
                json!({"dependencies": {"a": {"minProperties": 2}, "x": ["y"]}}),
                json!({"a": 1, "b": 1}),
                json!({"a": 1}),
                "must not have fewer than 2 properties",
            ),
            (
                json!({"additionalProperties": false, "properties": {"a": {}},
                    "patternProperties": {"^x": {}}}),
                json!({"a": 1, "xy": 1}),
                json!({"b": 1, "c": 1}),
                "must not have additional properties b, c",
            ),
            (
                json!({"contains": {"type": "null"}}),
                json!([1, null]),
                json!([1]),
                "must contain at least 1 valid item",
            ),
            (
                json!({"contains": {}, "minContains": 2, "maxContains": 3}),
                json!([1, 2]),
                json!([1, 2, 3, 4]),
                "must contain at most 3 valid items",
            ),
            (
                json!({"uniqueItems": true}),
                json!([1, "1", {"a": 1}]),
                json!([{"a": 1, "b": 2}, {"b": 2, "a": 1}]),
                "must not have duplicate items",
            ),
            (json!({"prefixItems": [{}], "items": false}), json!([1]), json!([1, 2]), FALSE),
            (json!({"items": [{}], "additionalItems": false}), json!([1]), json!([1, 2]), FALSE),
            (
                json!({"maxProperties": 1}),
                json!({"a": 1}),
                json!({"a": 1, "b": 1}),
                "must not have more than 1 properties",
            ),
            (json!({"maxItems": 1}), json!([1]), json!([1, 2]), "must not have more than 1 items"),
            (json!({"minLength": 1}), json!("ä"), json!(""), FEW_LETTERS),
            (json!({"pattern": "^a\\d"}), json!("a1b"), json!("b"), "must match pattern \"^a\\d\""),
            (json!({"minimum": 0.5}), json!(0.5), json!(0), "must be >= 0.5"),
            (json!({"exclusiveMaximum": 3}), json!(2), json!(3), "must be < 3"),
            (json!({"maximum": 3, "exclusiveMaximum": true}), json!(2), json!(3), "must be < 3"),
            (json!({"multipleOf": 0.01}), json!(0.07), json!(0.005), "must be multiple of 0.01"),
        ] {
            let schema = json!({"properties": {"at": rule}});
            assert_eq!(said(&schema, &json!({"at": fits})), [""; 0], "{rule}");
            let said = said(&schema, &json!({"at": wrong}));
            let last = said.last().map(String::as_str).unwrap_or_default();
            let (path, rest) = last.split_once(": ").unwrap();
            assert_eq!((path.split('.').next().unwrap(), rest), ("at", text), "{rule}");
        }
    }

    const FEW_LETTERS: &str = "must not have fewer than 1 characters";
    const FALSE: &str = "schema is false";

    #[test]
    fn where_something_is_wrong_is_told_and_each_thing_once() {
        let schema = json!({
            "$defs": {"a b": {"required": ["x", "y"]}},
            "properties": {"list": {"items": {"$ref": "#/$defs/a%20b"}}},
            "anyOf": [{"required": ["a"]}, {"required": ["a", "b"]}],
        });
        assert_eq!(
            said(&schema, &json!({"list": [{"x": 1}]})),
            [
                "list.0.y: must have required properties y",
                "a: must have required properties a",
                "a: must have required properties a, b",
                ": must match a schema in anyOf",
            ]
        );
        let many = Value::Array(vec![json!(1); 1_000]);
        assert_eq!(said(&json!({"items": {"type": "string"}}), &many).len(), check::MOST);
    }

    #[test]
    fn what_cannot_be_told_is_not_refused() {
        for (schema, value) in [
            (json!({"pattern": "^(?!x)"}), json!("x")),
            (json!({"not": {"pattern": "^(?!x)"}}), json!("y")),
            (json!({"oneOf": [{"pattern": "(?=a)"}, {"pattern": "(?=b)"}]}), json!("a")),
            (json!({"if": {"pattern": "(?=a)"}, "then": false, "else": false}), json!("a")),
            (
                json!({"patternProperties": {"^(?!_)": {}}, "additionalProperties": false}),
                json!({"a": 1}),
            ),
            (json!({"unevaluatedProperties": false}), json!({"a": 1})),
            (json!({"not": {"$ref": "other.json"}}), json!(1)),
            (json!({"not": {"$dynamicRef": "#meta"}}), json!(1)),
            (json!({"oneOf": [{"format": "ipv4"}, {"format": "ipv6"}]}), json!("127.0.0.1")),
            (json!({"not": {"type": "string", "format": "email"}}), json!("none")),
            (json!({"multipleOf": 1e-10}), json!(1e300)),
        ] {
            assert_eq!(said(&schema, &value), [""; 0], "{schema}");
        }
    }

    #[test]
    fn no_schema_makes_a_check_long_or_deep() {
        // Each level doubles the work, or the way leads in a circle, or is very long.
        let doubled = |last: Value| {
            let mut defs = serde_json::Map::from_iter([("d20".to_owned(), last)]);
            for n in 0..20 {
                let next = json!({"$ref": (format!("#/$defs/d{}", n + 1))});
                defs.insert(format!("d{n}"), json!({"allOf": [next, next]}));
            }
            json!({"$ref": "#/$defs/d0", "$defs": defs})
        };
        let mut chain = serde_json::Map::new();
        for n in 0..2_000 {
            chain.insert(format!("d{n}"), json!({"$ref": (format!("#/$defs/d{}", n + 1))}));
        }
        chain.insert("d2000".into(), json!({"type": "null"}));
        let deep = (0..120).fold(json!(1), |inner, _| json!({"a": inner}));
        let names: Vec<_> = (0..9_000).map(|n| format!("n{n}")).collect();
        let numbers = json!((0..20_000).collect::<Vec<_>>());
        let patterns = (0..4_000).map(|n| (format!("\\w{{20}}{n}"), json!({})));
        let patterns: serde_json::Map<_, _> = patterns.collect();
        let long = json!("x".repeat(1_000_000));
        for (schema, value) in [
            (doubled(json!({"type": "null"})), json!(1)),
            (doubled(json!({"required": names})), json!({})),
            (doubled(json!({"enum": numbers})), json!("x")),
            (doubled(json!({"const": numbers})), numbers.clone()),
            (doubled(json!({"items": false})), numbers.clone()),
            (doubled(json!({"maxLength": 1, "pattern": "(x?){500}y"})), long.clone()),
            (doubled(json!({"pattern": "(x?){500}y"})), json!("x".repeat(4_000))),
            (doubled(json!({"pattern": ("()".repeat(500))})), json!("x")),
            (doubled(json!({"allOf": vec![json!({}); 400]})), numbers.clone()),
            (json!({"const": []}), Value::Array(vec![json!(1e308); 20_000])),
            (json!({"$ref": "#/$defs/d0", "$defs": chain}), json!(1)),
            (json!({"$ref": "#"}), json!(1)),
            (json!({"not": {"$ref": "#"}}), json!(1)),
            (json!({"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}), deep.clone()),
            (json!({"patternProperties": patterns}), json!({"x": 1, "y": 2})),
            (json!({"items": {"type": "string"}}), json!({"items": numbers})),
            (json!({"uniqueItems": true}), json!([numbers, numbers, long])),
        ] {
            let form = Schema::of(&schema).unwrap();
            let (complaints, steps) = check::complaints(form.0, &value);
            // What is looked at in one go is paid afterwards.
            assert!(steps < 2 * check::MAX_STEPS, "{steps}");
            let said: usize = complaints.iter().map(|it| it.path.len() + it.text.len()).sum();
            assert!(said < 64 * 1_024, "{said}");
        }
        let tree = json!({"properties": {"a": {"$ref": "#"}}, "required": ["b"]});
        assert_eq!(said(&tree, &json!({"b": 1, "a": {"b": 1, "a": {}}})).len(), 1);
    }

    #[test]
    fn a_check_that_runs_out_refuses_nothing() {
        // What is tried first takes all steps, and the rest would fit.
        let spent = json!({"items": {"enum": ["x"]}, "minItems": 100_000});
        let value = Value::Array(vec![json!("x"); 60_000]);
        for schema in [
            json!({"not": {"anyOf": [spent, {"type": "array"}]}}),
            json!({"not": {"contains": {"const": "y"}}}),
            json!({"oneOf": [{"items": {"const": "x"}}, {"items": {"const": "y"}}]}),
        ] {
            assert_eq!(said(&schema, &value), [""; 0], "{schema}");
        }
    }

    #[test]
    fn what_is_no_schema_is_refused_with_its_place() {
        let deep = (0..100).fold(json!({}), |inner, _| json!({"not": inner}));
        for (schema, text) in [
            (json!(1), "must be an object or a boolean"),
            (json!({"type": "text"}), "type: must be one or some of"),
            (json!({"properties": 1}), "properties: must be an object"),
            (json!({"properties": {"a/b": 1}}), "properties.a/b: must be an object or"),
            (json!({"required": true}), "required: must be a list of texts"),
            (json!({"anyOf": {}}), "anyOf: must be a list, not empty"),
            (json!({"enum": 1}), "enum: must be a list"),
            (json!({"allOf": []}), "allOf: must be a list, not empty"),
            (json!({"type": []}), "type: must be one or some of"),
            (json!({"type": ["null", "null"]}), "type: must be one or some of"),
            (json!({"title": 1}), "title: must be a text"),
            (json!({"$ref": (format!("#{}", "/if".repeat(1_000)))}), "$ref: must be a way"),
            (json!({"minLength": -1}), "minLength: must be a whole number"),
            (json!({"multipleOf": 0}), "multipleOf: must be a number above 0"),
            (json!({"pattern": 1}), "pattern: must be a text"),
            (json!({"items": [1]}), "items.0: must be an object or"),
            (json!({"not": {"$ref": "#/$defs/none"}}), "not.$ref: must be a way to a schema"),
            (deep, "is nested deeper than"),
        ] {
            let error = Schema::of(&schema).err().unwrap_or_default();
            assert!(error.contains(text), "{schema}: {error}");
        }
        let wide = json!({"enum": [{"type": 1}], "default": {"items": 1}, "x-own": {"not": 1}});
        assert!(Schema::of(&wide).is_ok(), "what is no schema there is not read as one");
    }
}
