//! JSON objects.

use serde_json::Value;

/// An object without its members that are null: on the wire those are absent.
/// What is inside of members stays as it is.
#[must_use]
pub fn without_nulls(mut value: Value) -> Value {
    if let Value::Object(members) = &mut value {
        members.retain(|_, value| !value.is_null());
    }
    value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn null_members_go_and_all_else_stays() {
        let value = json!({"a": null, "b": {"c": null}, "d": 0});
        assert_eq!(without_nulls(value), json!({"b": {"c": null}, "d": 0}));
        assert_eq!(without_nulls(json!([null])), json!([null]));
    }
}
