//! Whether something is a schema at all.
//!
//! Owns: the form of keywords (JSON Schema 2020-12, and what is other in drafts 4 to 7). A
//! provider refuses the whole request for one tool whose schema is none.

use serde_json::Value;

use crate::providers::schema::{LIST, NAMED, ONE, target};

use super::place::Place;
use super::shown;

/// Deepest nesting.
const MAX_DEPTH: usize = 64;
/// Most schemas in it.
const MAX_SCHEMAS: usize = 10_000;

/// Those that hold a count.
const COUNTS: [&str; 8] = [
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
];
/// Those of values.
pub(super) const TYPES: [&str; 7] =
    ["array", "boolean", "integer", "null", "number", "object", "string"];
/// Longest reference.
const MAX_REFERENCE: usize = 1_024;

/// Looks at a schema and those in it.
///
/// # Errors
/// What is wrong, with its place.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    Form { root: schema, left: MAX_SCHEMAS }.schema(schema, &Place::Root, 0)
}

struct Form<'a> {
    root: &'a Value,
    left: usize,
}

impl<'a> Form<'a> {
    fn schema(&mut self, schema: &'a Value, at: &Place<'_>, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("it is nested deeper than {MAX_DEPTH} levels"));
        }
        self.left = self.left.checked_sub(1).ok_or("it consists of too many schemas")?;
        match schema {
            Value::Bool(_) => Ok(()),
            Value::Object(rules) => rules.iter().try_for_each(|(name, rule)| {
                self.rule(name, rule, &Place::Member(at, name), depth + 1)
            }),
            _ => Err(wrong(at, "an object or a boolean")),
        }
    }

    fn rule(
        &mut self,
        name: &str,
        rule: &'a Value,
        at: &Place<'_>,
        depth: usize,
    ) -> Result<(), String> {
        match name {
            // Before 2020-12 a list was what `prefixItems` is.
            "items" if rule.is_array() => self.list(rule, at, depth),
            name if ONE.contains(&name) => self.schema(rule, at, depth),
            name if LIST.contains(&name) => {
                is(rule.as_array().is_some_and(|list| !list.is_empty()), at, "a list, not empty")?;
                self.list(rule, at, depth)
            }
            name if NAMED.contains(&name) => self.named(rule, at, depth),
            "dependencies" => {
                let rules = rule.as_object().ok_or_else(|| wrong(at, "an object"))?;
                let mut schemas = rules.iter().filter(|(_, rule)| !is_names(rule));
                schemas
                    .try_for_each(|(name, rule)| self.schema(rule, &Place::Member(at, name), depth))
            }
            "dependentRequired" => {
                let is_it = rule.as_object().is_some_and(|lists| lists.values().all(is_names));
                is(is_it, at, "an object of lists of texts")
            }
            "required" => is(is_names(rule), at, "a list of texts"),
            "enum" => is(rule.is_array(), at, "a list"),
            "type" if is_type(rule) => Ok(()),
            "type" => Err(wrong(at, &format!("one or some of {}", TYPES.join(", ")))),
            "pattern" | "$anchor" | "$id" | "$schema" | "title" | "description" | "format"
            | "$comment" => is(rule.is_string(), at, "a text"),
            "$ref" => {
                let reference = rule.as_str().ok_or_else(|| wrong(at, "a text"))?;
                // Others are passed over: names of schemas, and what is elsewhere.
                let is_path = reference == "#" || reference.starts_with("#/");
                let leads =
                    reference.len() <= MAX_REFERENCE && target(self.root, reference).is_some();
                is(!is_path || leads, at, "a way to a schema")
            }
            name if COUNTS.contains(&name) => {
                let count = rule.as_f64().is_some_and(|it| it >= 0.0 && it.fract() == 0.0);
                is(count, at, "a whole number of at least 0")
            }
            "maximum" | "minimum" => is(rule.is_number(), at, "a number"),
            "exclusiveMaximum" | "exclusiveMinimum" => {
                is(rule.is_number() || rule.is_boolean(), at, "a number")
            }
            "multipleOf" => is(rule.as_f64().is_some_and(|it| it > 0.0), at, "a number above 0"),
            "uniqueItems" => is(rule.is_boolean(), at, "a boolean"),
            _ => Ok(()),
        }
    }

    fn list(&mut self, rule: &'a Value, at: &Place<'_>, depth: usize) -> Result<(), String> {
        let mut items = rule.as_array().into_iter().flatten().enumerate();
        items.try_for_each(|(n, schema)| self.schema(schema, &Place::Item(at, n), depth))
    }

    fn named(&mut self, rule: &'a Value, at: &Place<'_>, depth: usize) -> Result<(), String> {
        let schemas = rule.as_object().ok_or_else(|| wrong(at, "an object"))?;
        let mut schemas = schemas.iter();
        schemas.try_for_each(|(name, schema)| self.schema(schema, &Place::Member(at, name), depth))
    }
}

fn is(is_it: bool, at: &Place<'_>, what: &str) -> Result<(), String> {
    if is_it { Ok(()) } else { Err(wrong(at, what)) }
}

fn wrong(at: &Place<'_>, what: &str) -> String {
    if at.is_root() { format!("must be {what}") } else { format!("{}: must be {what}", shown(at)) }
}

fn is_names(rule: &Value) -> bool {
    rule.as_array().is_some_and(|names| names.iter().all(Value::is_string))
}

/// A type, or some, each once.
fn is_type(rule: &Value) -> bool {
    let is_one = |rule: &Value| rule.as_str().is_some_and(|name| TYPES.contains(&name));
    is_one(rule)
        || rule.as_array().is_some_and(|names| {
            let is_twice = |n: usize, name| names.iter().take(n).any(|other| other == name);
            (1..=TYPES.len()).contains(&names.len())
                && names.iter().enumerate().all(|(n, name)| is_one(name) && !is_twice(n, name))
        })
}
