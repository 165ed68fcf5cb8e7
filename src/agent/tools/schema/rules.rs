//! The rules for values of each kind.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use super::check::{Branch, Check, Place};

type Rules = Map<String, Value>;

/// Most values or names that a complaint shows.
const SHOWN: usize = 32;

pub(super) fn of_any<'a>(check: &mut Check<'a>, rules: &'a Rules, value: &Value, at: &Place<'_>) {
    if let Some(rule) = rules.get("type") {
        let names: Vec<&str> = match rule {
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            name => name.as_str().into_iter().collect(),
        };
        if !names.iter().any(|name| is_a(value, name)) {
            let either = if names.len() > 1 { "either " } else { "" };
            check.complain(at, format!("must be {either}{}", names.join(" or ")));
        }
    }
    if let Some(Value::Array(allowed)) = rules.get("enum")
        && !allowed.iter().any(|allowed| is_same(allowed, value))
    {
        let shown: Vec<_> = allowed.iter().take(SHOWN).map(Value::to_string).collect();
        let text = format!("must be equal to one of the allowed values: {}", shown.join(", "));
        check.complain(at, text);
    }
    if let Some(constant) = rules.get("const")
        && !is_same(constant, value)
    {
        check.complain(at, format!("must be equal to constant: {constant}"));
    }
}

pub(super) fn of_object<'a>(
    check: &mut Check<'a>,
    rules: &'a Rules,
    (value, members): (&Value, &Map<String, Value>),
    at: &Place<'_>,
) {
    let has = |name: &&str| members.contains_key(*name);
    for name in names(rules.get("required")).filter(|name| !has(name)) {
        let text = format!("must have required properties {name}");
        check.complain(&Place::Member(at, name), text);
    }
    counted(check, rules, members.len(), ["minProperties", "maxProperties"], "properties", at);
    named(check, rules, members, at);
    if let Some(schema) = rules.get("propertyNames") {
        for name in members.keys() {
            if let Branch::Fails(_) = check.branch(schema, &Value::String(name.clone()), at) {
                check.complain(at, format!("property names {name} are invalid"));
            }
        }
    }
    for kind in ["dependentRequired", "dependentSchemas", "dependencies"] {
        let all = rules.get(kind).and_then(Value::as_object).into_iter().flatten();
        for (name, rule) in all.filter(|(name, _)| members.contains_key(*name)) {
            if !rule.is_array() {
                check.value(rule, value, at);
                continue;
            }
            let missing: Vec<_> = names(Some(rule)).filter(|name| !has(name)).collect();
            if !missing.is_empty() {
                let missing = missing.join(", ");
                let text =
                    format!("must have properties {missing} when property {name} is present");
                check.complain(at, text);
            }
        }
    }
}

/// Members by their names.
fn named<'a>(
    check: &mut Check<'a>,
    rules: &'a Rules,
    members: &Map<String, Value>,
    at: &Place<'_>,
) {
    let object = |name: &str| rules.get(name).and_then(Value::as_object);
    let (own, patterns) = (object("properties"), object("patternProperties"));
    let other = rules.get("additionalProperties");
    let mut unexpected = Vec::new();
    for (name, value) in members {
        let place = Place::Member(at, name);
        let schema = own.and_then(|own| own.get(name));
        let mut is_known = schema.is_some();
        if let Some(schema) = schema {
            check.value(schema, value, &place);
        }
        for (pattern, schema) in patterns.into_iter().flatten() {
            match check.has_pattern(pattern, name) {
                Some(true) => {
                    is_known = true;
                    check.value(schema, value, &place);
                }
                Some(false) => {}
                // It may be its.
                None => is_known = true,
            }
        }
        match other {
            Some(Value::Bool(false)) if !is_known => unexpected.push(name.as_str()),
            Some(schema) if !is_known => check.value(schema, value, &place),
            _ => {}
        }
    }
    if !unexpected.is_empty() {
        unexpected.truncate(SHOWN);
        let text = format!("must not have additional properties {}", unexpected.join(", "));
        check.complain(at, text);
    }
}

pub(super) fn of_list<'a>(
    check: &mut Check<'a>,
    rules: &'a Rules,
    items: &[Value],
    at: &Place<'_>,
) {
    counted(check, rules, items.len(), ["minItems", "maxItems"], "items", at);
    // Before 2020-12 a list in `items` was what `prefixItems` is, and `additionalItems` the rest.
    let (first, rest) = match rules.get("items") {
        Some(Value::Array(first)) => (Some(first), rules.get("additionalItems")),
        rest => (rules.get("prefixItems").and_then(Value::as_array), rest),
    };
    for (index, item) in items.iter().enumerate() {
        if let Some(schema) = first.and_then(|first| first.get(index)).or(rest) {
            check.value(schema, item, &Place::Item(at, index));
        }
    }
    if let Some(schema) = rules.get("contains") {
        let (mut least, mut most) = (0, 0);
        for item in items {
            match check.branch(schema, item, at) {
                Branch::Fits => (least, most) = (least + 1, most + 1),
                Branch::Unsure => most += 1,
                Branch::Fails(_) => {}
            }
        }
        let (min, max) = (count(rules, "minContains").unwrap_or(1), count(rules, "maxContains"));
        if most < min {
            check.complain(at, format!("must contain at least {min} valid item"));
        }
        if let Some(max) = max.filter(|max| least > *max) {
            check.complain(at, format!("must contain at most {max} valid items"));
        }
    }
    if rules.get("uniqueItems") == Some(&Value::Bool(true)) {
        let mut earlier = items.iter().enumerate();
        let is_twice = earlier.any(|(n, item)| {
            let others = items.get(..n).unwrap_or_default();
            check.pay(n / 64) && others.iter().any(|other| is_same(other, item))
        });
        if is_twice {
            check.complain(at, "must not have duplicate items");
        }
    }
}

pub(super) fn of_text<'a>(check: &mut Check<'a>, rules: &'a Rules, text: &str, at: &Place<'_>) {
    if rules.contains_key("minLength") || rules.contains_key("maxLength") {
        let length = text.chars().count();
        counted(check, rules, length, ["minLength", "maxLength"], "characters", at);
    }
    if let Some(Value::String(pattern)) = rules.get("pattern")
        && check.has_pattern(pattern, text) == Some(false)
    {
        check.complain(at, format!("must match pattern \"{pattern}\""));
    }
}

pub(super) fn of_number<'a>(
    check: &mut Check<'a>,
    rules: &'a Rules,
    number: &Number,
    at: &Place<'_>,
) {
    let bounds = [
        ("minimum", "exclusiveMinimum", Ordering::Less, [">=", ">"]),
        ("maximum", "exclusiveMaximum", Ordering::Greater, ["<=", "<"]),
    ];
    for (name, exclusive, beyond, signs) in bounds {
        // In draft 4 it says how the other one is meant.
        let is_open = rules.get(exclusive) == Some(&Value::Bool(true));
        for (name, is_open) in [(name, is_open), (exclusive, true)] {
            let Some(Value::Number(bound)) = rules.get(name) else { continue };
            let order = compare(number, bound);
            if order == Some(beyond) || (is_open && order == Some(Ordering::Equal)) {
                check.complain(at, format!("must be {} {bound}", signs[usize::from(is_open)]));
            }
        }
    }
    if let Some(Value::Number(step)) = rules.get("multipleOf")
        && !is_multiple(number, step)
    {
        check.complain(at, format!("must be multiple of {step}"));
    }
}

/// How many there are.
fn counted(
    check: &mut Check<'_>,
    rules: &Rules,
    there: usize,
    [min, max]: [&str; 2],
    what: &str,
    at: &Place<'_>,
) {
    if let Some(min) = count(rules, min).filter(|min| there < *min) {
        check.complain(at, format!("must not have fewer than {min} {what}"));
    }
    if let Some(max) = count(rules, max).filter(|max| there > *max) {
        check.complain(at, format!("must not have more than {max} {what}"));
    }
}

fn count(rules: &Rules, name: &str) -> Option<usize> {
    let count = rules.get(name)?;
    // 3.0 is a whole number in JSON Schema, too.
    let whole = count.as_u64().or_else(|| format!("{:.0}", count.as_f64()?).parse().ok())?;
    usize::try_from(whole).ok()
}

fn names(rule: Option<&Value>) -> impl Iterator<Item = &str> {
    rule.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Whether a value is of a type.
pub(in crate::agent::tools) fn is_a(value: &Value, name: &str) -> bool {
    match name {
        "string" => value.is_string(),
        "integer" => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0)
        }
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        _ => true,
    }
}

/// Whether two values are the same; 1 and 1.0 are.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => compare(one, other) == Some(Ordering::Equal),
        _ => one == other,
    }
}

fn compare(one: &Number, other: &Number) -> Option<Ordering> {
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

fn is_multiple(number: &Number, step: &Number) -> bool {
    if let (Some(number), Some(step)) = (number.as_i128(), step.as_i128()) {
        return step != 0 && number % step == 0;
    }
    let (Some(number), Some(step)) = (number.as_f64(), step.as_f64()) else { return true };
    let times = number / step;
    // 0.07 is seven times 0.01, though not as a float.
    (times - times.round()).abs() <= 1e-9 * times.abs().max(1.0)
}
