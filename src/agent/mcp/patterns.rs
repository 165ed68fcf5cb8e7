//! Patterns that some providers refuse, and with them every call of the model.
//!
//! Owns: leaving them out of a schema. Promises: it takes all that it took with them; the
//! server holds arguments against them all the same.

use serde_json::{Map, Value};

use crate::providers::schema::each_inner;

/// Rules that take less, or something else, when what is below them takes more.
const EXACT: [&str; 4] = ["contains", "if", "not", "oneOf"];

/// Leaves them out. The schema must not be nested without end.
pub fn leave_out(schema: &mut Value) {
    if has_rare(schema, false) {
        leave_out_below(schema);
    }
}

fn leave_out_below(schema: &mut Value) {
    let Some(rules) = schema.as_object_mut() else { return };
    for name in EXACT {
        // What is defined elsewhere may have one.
        if rules.get(name).is_some_and(|rule| has_rare(rule, true)) {
            let rule = rules.shift_remove(name);
            let choice = rule.filter(|_| name == "oneOf" && !rules.contains_key("anyOf"));
            if let Some(choice) = choice {
                rules.insert("anyOf".to_owned(), choice);
            }
        }
    }
    if rules.get("pattern").is_some_and(is_rare) {
        rules.shift_remove("pattern");
    }
    leave_out_names(rules);
    each_inner(rules, leave_out_below);
}

/// The same of patterns for names. What only they allow would be refused by what is said of
/// all other names.
fn leave_out_names(rules: &mut Map<String, Value>) {
    let Some(Value::Object(named)) = rules.get_mut("patternProperties") else { return };
    let before = named.len();
    named.retain(|pattern, _| is_common(pattern));
    if named.len() < before {
        rules.shift_remove("additionalProperties");
        rules.shift_remove("unevaluatedProperties");
    }
}

/// Whether there is one in a schema; or may be, where a reference counts as one.
fn has_rare(schema: &Value, counts_references: bool) -> bool {
    match schema {
        Value::Object(rules) => rules.iter().any(|(name, rule)| match name.as_str() {
            "pattern" if rule.is_string() => is_rare(rule),
            "$ref" if rule.is_string() => counts_references,
            "patternProperties" if has_rare_names(rule) => true,
            _ => has_rare(rule, counts_references),
        }),
        Value::Array(list) => list.iter().any(|rule| has_rare(rule, counts_references)),
        _ => false,
    }
}

fn has_rare_names(named: &Value) -> bool {
    named.as_object().is_some_and(|named| named.keys().any(|pattern| !is_common(pattern)))
}

fn is_rare(pattern: &Value) -> bool {
    pattern.as_str().is_some_and(|pattern| !is_common(pattern))
}

/// Whether all that read patterns can read it: JavaScript, Python, and what matches in one
/// pass. Those have no names in common, neither of groups nor of kinds of characters; nothing
/// that looks ahead or back; and a `[` in a class means something in some of them.
fn is_common(pattern: &str) -> bool {
    let mut rest = pattern.chars().peekable();
    let mut is_in_class = false;
    while let Some(sign) = rest.next() {
        let is_known = match sign {
            '\\' => match rest.next() {
                Some('u') => rest.peek() != Some(&'{'),
                escaped => !matches!(escaped, Some('1'..='9' | 'P' | 'k' | 'p')),
            },
            '[' => {
                rest.next_if_eq(&'^');
                // An empty class is none in Python.
                !std::mem::replace(&mut is_in_class, true) && rest.peek() != Some(&']')
            }
            ']' => {
                is_in_class = false;
                true
            }
            '(' if !is_in_class && rest.next_if_eq(&'?').is_some() => rest.peek() == Some(&':'),
            _ => true,
        };
        if !is_known {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::json;

    #[test]
    fn what_all_can_read_is_common() {
        for pattern in [
            r"^\w+$",
            r"^(?:a|b)(c)\(?\[?$",
            r"^[(?!)\]^-]+$",
            r"^\d{4}-\d{2}$",
            r"^[^\\/]*\.js$",
            r"^[\u0041-z]$",
            r"\\p",
        ] {
            assert!(is_common(pattern), "{pattern}");
        }
        for pattern in [
            r"^(?!\.)a",
            r"(?<=a)b",
            r"(?<year>\d+)",
            r"(?P<year>\d+)",
            r"^[\p{L}\p{N} ._\-]+$",
            r"\P{L}",
            r"(a)\1",
            r"\u{1F600}",
            r"^[a-z@[\]{}]*$",
            r"[^]",
            r"[]",
        ] {
            assert!(!is_common(pattern), "{pattern}");
        }
    }

    #[test]
    fn a_schema_without_them_takes_what_it_took() {
        let (rare, plain) = (json!({"pattern": "^(?!x)"}), json!({"pattern": "^x"}));
        for (with, without) in [
            (
                json!({"properties": {"pattern": {"type": "string", "pattern": "\\p{L}"}}}),
                json!({"properties": {"pattern": {"type": "string"}}}),
            ),
            (json!({"items": {"anyOf": [rare, plain]}}), json!({"items": {"anyOf": [{}, plain]}})),
            (json!({"oneOf": [rare, plain]}), json!({"anyOf": [{}, plain]})),
            (json!({"oneOf": [rare], "anyOf": [plain]}), json!({"anyOf": [plain]})),
            (
                json!({"not": {"items": rare}, "contains": rare, "type": "array"}),
                json!({"type": "array"}),
            ),
            (json!({"if": rare, "then": plain}), json!({"then": plain})),
            (
                json!({"not": {"$ref": "#/$defs/a"}, "$defs": {"a": rare}}),
                json!({"$defs": {"a": {}}}),
            ),
            (
                json!({"patternProperties": {"^(?!_)": {}, "^a": rare},
                    "additionalProperties": false}),
                json!({"patternProperties": {"^a": {}}}),
            ),
        ] {
            let mut schema = with.clone();
            leave_out(&mut schema);
            assert_eq!(schema, without, "{with}");
        }
    }

    #[test]
    fn what_all_can_read_stays() {
        let kept = json!({
            "oneOf": [{"pattern": "^a"}, {"pattern": "^b"}], "not": {"pattern": "^c"},
            "patternProperties": {"^d": {}}, "additionalProperties": false,
            "properties": {"pattern": {"const": "(?!x)"}}, "default": {"pattern": "(?!x)"},
        });
        let mut schema = kept.clone();
        leave_out(&mut schema);
        assert_eq!(schema, kept);
    }
}
