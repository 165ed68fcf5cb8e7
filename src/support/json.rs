//! JSON objects.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::escapes::whole_escapes;

/// An object without its members that are null: on the wire those are absent.
/// What is inside of members stays as it is.
#[must_use]
pub fn without_nulls(mut value: Value) -> Value {
    if let Value::Object(members) = &mut value {
        members.retain(|_, value| !value.is_null());
    }
    value
}

/// Reads a value in which no object has a member twice. Of two, readers take one or
/// the other, so what one has checked another would not see. Halves of surrogate
/// pairs read as with [`super::json_of_javascript`].
///
/// # Errors
/// For what is no JSON, is nested deeper than 128 levels, or has a member twice.
pub fn strict(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let read = serde_json::from_slice(bytes).or_else(|error| {
        match str::from_utf8(bytes).ok().and_then(whole_escapes) {
            Some(whole) => serde_json::from_str(&whole),
            None => Err(error),
        }
    });
    read.map(|Strict(value)| value)
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader).map(Strict)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, it: bool) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_i64<E>(self, it: i64) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_u64<E>(self, it: u64) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_f64<E>(self, it: f64) -> Result<Value, E> {
        Ok(Number::from_f64(it).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, it: &str) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_string<E>(self, it: String) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = from.next_element()? {
            items.push(item);
        }
        Ok(items.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some((name, Strict(value))) = from.next_entry::<String, _>()? {
            if members.insert(name, value).is_some() {
                return Err(A::Error::custom("an object has a member twice"));
            }
        }
        Ok(members.into())
    }
}

#[cfg(test)]
mod tests {
    use crate::support::json;

    use super::*;

    #[test]
    fn a_strict_reader_reads_what_others_do_and_no_member_twice() {
        for text in [
            r#"{"b": [1, -2, 1.5e3, true, null, "\u00e4"], "a": {"b": {}}, "": 18446744073709551615}"#,
            "0.1",
            "[]",
        ] {
            let plain: Value = serde_json::from_str(text).unwrap();
            assert_eq!(strict(text.as_bytes()).unwrap(), plain);
        }
        let half = strict(br#"{"a": "\ud83d!"}"#).unwrap();
        assert_eq!(half, json!({"a": "\u{fffd}!"}));
        for twice in [r#"{"a": 1, "a": 1}"#, r#"[{"x": {"a": 1, "b": 2, "\u0061": 3}}]"#] {
            let error = strict(twice.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("an object has a member twice at line 1"), "{error}");
        }
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert!(strict(deep.as_bytes()).unwrap_err().to_string().contains("recursion limit"));
        assert!(strict(b"\"\xff\"").is_err() && strict(b"{} x").is_err() && strict(b"").is_err());
    }

    #[test]
    fn null_members_go_and_all_else_stays() {
        let value = json!({"a": null, "b": {"c": null}, "d": 0});
        assert_eq!(without_nulls(value), json!({"b": {"c": null}, "d": 0}));
        assert_eq!(without_nulls(json!([null])), json!([null]));
    }
}
