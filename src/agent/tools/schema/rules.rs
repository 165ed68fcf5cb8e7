//! The rules for values of each kind.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

use super::check::{Branch, Check};
use super::form::TYPES;
use super::place::Place;
use super::{listed, shown};
use crate::support::sort;

type Rules = Map<String, Value>;

/// 2^64: no whole number that is none below it is read but as a float.
const MAX_EXACT: f64 = 18_446_744_073_709_551_616.0;

pub(super) fn of_any<'a>(check: &mut Check<'a>, rules: &'a Rules, value: &Value, at: &Place<'_>) {
    if let Some(rule) = rules.get("type") {
        let names = types(rule);
        if !names.iter().any(|name| is_a(value, name)) {
            let either = if rule.is_array() { "either " } else { "" };
            check.complain(at, || format!("must be {either}{}", names.join(" or ")));
        }
    }
    if let Some(Value::Array(allowed)) = rules.get("enum") {
        // What cannot be told counts as one of them.
        let is_it = |allowed| check.is_same(allowed, value) != Some(false);
        if !allowed.iter().any(is_it) {
            let text =
                || format!("must be equal to one of the allowed values: {}", listed(allowed));
            check.complain(at, text);
        }
    }
    if let Some(constant) = rules.get("const")
        && check.is_same(constant, value) == Some(false)
    {
        let text = || format!("must be equal to constant: {}", shown(constant));
        check.complain(at, text);
    }
}

pub(super) fn of_object<'a>(
    check: &mut Check<'a>,
    rules: &'a Rules,
    (value, members): (&Value, &Map<String, Value>),
    at: &Place<'_>,
) {
    if let Some(required) = rules.get("required").and_then(Value::as_array)
        && names(required).all(|name| check.pay_for(name))
    {
        let missing: Vec<_> = names(required).filter(|name| !members.contains_key(*name)).collect();
        if let Some(first) = missing.first() {
            let text = || format!("must have required properties {}", listed(&missing));
            check.complain(&Place::Member(at, first), text);
        }
    }
    counted(check, rules, members.len(), ["minProperties", "maxProperties"], "properties", at);
    named(check, rules, members, at);
    if let Some(schema) = rules.get("propertyNames") {
        let mut wrong = Vec::new();
        for name in members.keys() {
            if !check.pay_for(name) {
                break;
            }
            if let Branch::Fails(_) = check.branch(schema, &Value::String(name.clone()), at) {
                wrong.push(name.as_str());
            }
        }
        if !wrong.is_empty() {
            check.complain(at, || format!("property names {} are invalid", listed(wrong)));
        }
    }
    for kind in ["dependentRequired", "dependentSchemas", "dependencies"] {
        let all = rules.get(kind).and_then(Value::as_object).into_iter().flatten();
        for (name, rule) in all {
            if !check.pay_for(name) {
                return;
            }
            if !members.contains_key(name) {
                continue;
            }
            let Value::Array(others) = rule else {
                check.value(rule, value, at);
                continue;
            };
            let is_paid = names(others).all(|name| check.pay_for(name));
            if is_paid && !names(others).all(|name| members.contains_key(name)) {
                check.complain(at, || {
                    let others = listed(names(others));
                    format!(
                        "must have properties {others} when property {} is present",
                        shown(name)
                    )
                });
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
    if own.is_none() && patterns.is_none() && other.is_none() {
        return;
    }
    let mut unexpected = Vec::new();
    for (name, value) in members {
        if !check.pay_for(name) {
            return;
        }
        let place = Place::Member(at, name);
        let schema = own.and_then(|own| own.get(name));
        let mut is_known = schema.is_some();
        if let Some(schema) = schema {
            check.value(schema, value, &place);
        }
        for (pattern, schema) in patterns.into_iter().flatten() {
            match check.has_pattern(pattern, name) {
                _ if check.is_spent() => return,
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
        let text = || format!("must not have additional properties {}", listed(unexpected));
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
    let some = first.map_or(0, Vec::len);
    let held = if rest.is_some() { items } else { items.get(..some).unwrap_or(items) };
    for (index, item) in held.iter().enumerate() {
        if check.is_spent() {
            break;
        }
        if let Some(schema) = first.and_then(|first| first.get(index)).or(rest) {
            check.value(schema, item, &Place::Item(at, index));
        }
    }
    if let Some(schema) = rules.get("contains") {
        let (mut least, mut most) = (0, 0);
        for item in items {
            match check.branch(schema, item, at) {
                _ if check.is_spent() => return,
                Branch::Fits => (least, most) = (least + 1, most + 1),
                Branch::Unsure => most += 1,
                Branch::Fails(_) => {}
            }
        }
        let (min, max) = (count(rules, "minContains").unwrap_or(1), count(rules, "maxContains"));
        if most < min {
            let items = if min == 1 { "item" } else { "items" };
            check.complain(at, || format!("must contain at least {min} valid {items}"));
        }
        if let Some(max) = max.filter(|max| least > *max) {
            check.complain(at, || format!("must contain at most {max} valid items"));
        }
    }
    if rules.get("uniqueItems") == Some(&Value::Bool(true)) {
        let mut seen = HashSet::new();
        // Where one cannot be told, the others are not either.
        let mut texts = items.iter().map_while(|item| check.canonical(item));
        if !texts.all(|text| seen.insert(text)) {
            check.complain(at, || "must not have duplicate items".into());
        }
    }
}

pub(super) fn of_text<'a>(check: &mut Check<'a>, rules: &'a Rules, text: &str, at: &Place<'_>) {
    let is_counted = rules.contains_key("minLength") || rules.contains_key("maxLength");
    if is_counted && check.pay_for(text) {
        let length = text.chars().count();
        counted(check, rules, length, ["minLength", "maxLength"], "characters", at);
    }
    if let Some(Value::String(pattern)) = rules.get("pattern")
        && check.has_pattern(pattern, text) == Some(false)
    {
        check.complain(at, || format!("must match pattern \"{}\"", shown(pattern)));
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
                check.complain(at, || format!("must be {} {bound}", signs[usize::from(is_open)]));
            }
        }
    }
    if let Some(Value::Number(step)) = rules.get("multipleOf")
        && !is_multiple(number, step)
    {
        check.complain(at, || format!("must be multiple of {step}"));
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
        check.complain(at, || format!("must not have fewer than {min} {what}"));
    }
    if let Some(max) = count(rules, max).filter(|max| there > *max) {
        check.complain(at, || format!("must not have more than {max} {what}"));
    }
}

fn count(rules: &Rules, name: &str) -> Option<usize> {
    let count = rules.get(name)?;
    // 3.0 is a whole number in JSON Schema, too; what is beyond all counts is the largest.
    let exact = || count.as_f64().filter(|count| *count < MAX_EXACT);
    let whole = count.as_u64().or_else(|| format!("{:.0}", exact()?).parse().ok());
    Some(whole.and_then(|whole| usize::try_from(whole).ok()).unwrap_or(usize::MAX))
}

fn names(list: &[Value]) -> impl Iterator<Item = &str> {
    list.iter().filter_map(Value::as_str)
}

/// The types that a rule names.
pub(in crate::agent::tools) fn types(rule: &Value) -> Vec<&str> {
    match rule {
        Value::Array(list) => names(list).take(TYPES.len()).collect(),
        name => name.as_str().into_iter().collect(),
    }
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

/// Writes a value so that what is the same has the same text: 1 and 1.0, members in any order.
/// No more than `most` bytes of it are wanted.
pub(super) fn write_canonical(value: &Value, text: &mut String, most: usize) {
    if text.len() > most {
        return;
    }
    match value {
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_canonical(item, text, most);
                text.push(',');
            }
            text.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            sort::by_key(&mut members, |(name, _)| *name);
            text.push('{');
            for (name, member) in members {
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                write_canonical(member, text, most);
                text.push(',');
            }
            text.push('}');
        }
        Value::Number(number) => match (number.as_i128(), number.as_f64()) {
            // Writing to a String cannot fail; with nought added, -0.0 is 0.
            (None, Some(float)) if float.fract() == 0.0 && float.abs() < MAX_EXACT => {
                let _ = write!(text, "{:.0}", float + 0.0);
            }
            _ => text.push_str(&number.to_string()),
        },
        scalar => text.push_str(&scalar.to_string()),
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
    // 0.07 is seven times 0.01, though not as a float; beyond 2^53 there are only whole ones.
    !times.is_finite() || (times - times.round()).abs() < 1e-7
}
