//! What older drafts say, in the words of 2020-12.

use serde_json::{Map, Value};

use crate::providers::schema::each_inner;

/// Says anew what providers refuse in a schema: lists of `items`, bounds that are open, rules
/// that are null. The schema must not be nested without end.
pub fn renew(schema: &mut Value) {
    let Value::Object(rules) = schema else { return };
    // Who writes empty options as null means that there is none.
    rules.retain(|name, rule| !rule.is_null() || matches!(name.as_str(), "const" | "default"));
    items(rules);
    for (open, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        let Some(Value::Bool(is_open)) = rules.get(open) else { continue };
        let is_open = *is_open;
        rules.shift_remove(open);
        if is_open && let Some(bound) = rules.shift_remove(bound) {
            rules.insert(open.to_owned(), bound);
        }
    }
    each_inner(rules, renew);
}

/// A list of them was what `prefixItems` is, and `additionalItems` the rest.
fn items(rules: &mut Map<String, Value>) {
    if !rules.get("items").is_some_and(Value::is_array) {
        return;
    }
    let first = rules.shift_remove("items");
    let first = first.filter(|first| first.as_array().is_some_and(|first| !first.is_empty()));
    if let Some(first) = first.filter(|_| !rules.contains_key("prefixItems")) {
        rules.insert("prefixItems".to_owned(), first);
    }
    if let Some(rest) = rules.shift_remove("additionalItems") {
        rules.insert("items".to_owned(), rest);
    }
}

#[cfg(test)]
mod tests {
    use super::renew;
    use crate::support::json;

    #[test]
    fn what_older_drafts_say_is_said_anew_where_a_schema_stands() {
        for (old, new) in [
            (
                json!({"items": [{"type": "string"}, {}], "additionalItems": false}),
                json!({"prefixItems": [{"type": "string"}, {}], "items": false}),
            ),
            (json!({"items": []}), json!({})),
            (
                json!({"minimum": 0, "exclusiveMinimum": true, "maximum": 9,
                    "exclusiveMaximum": false}),
                json!({"exclusiveMinimum": 0, "maximum": 9}),
            ),
            (
                json!({"description": null, "default": null, "const": null, "required": null}),
                json!({"default": null, "const": null}),
            ),
            (
                json!({"properties": {"a": {"anyOf": [{"not": {"items": [true]}}]}}}),
                json!({"properties": {"a": {"anyOf": [{"not": {"prefixItems": [true]}}]}}}),
            ),
        ] {
            let mut renewed = old.clone();
            renew(&mut renewed);
            assert_eq!(renewed, new, "{old}");
        }
        let kept = json!({
            "default": {"items": [1], "a": null}, "examples": [{"items": [1]}],
            "enum": [{"items": [1]}], "const": {"items": [1]},
            "properties": {"items": {"type": "array", "items": {}}, "exclusiveMinimum": true},
        });
        let mut renewed = kept.clone();
        renew(&mut renewed);
        assert_eq!(renewed, kept);
    }
}
