//! JSON as a type of Rust.
//!
//! Promises: an error comes with the way to what is wrong. The way is noted beside the reading,
//! so that each type is compiled for it once and nothing is put around what it reads. A type
//! with names for its members is read from an object only: in a list nobody sees what is what.
//! Must not: read what is more than a value, such as a `RawValue`, or keys that are no texts.

use std::cell::RefCell;
use std::convert::Infallible;
use std::fmt;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, Expected, MapAccess, SeqAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Map, Value};

/// The value as a `T`.
///
/// # Errors
/// What is wrong, and where: `.name` for each member on the way, `[index]` for each item, and
/// nothing where the value itself is meant.
pub fn read<T: DeserializeOwned>(value: &Value) -> Result<T, (String, Error)> {
    let way = RefCell::default();
    T::deserialize(Place { value, way: &way })
        .map_err(|error| (way.take().iter().map(Step::told).collect(), error))
}

/// The value as a `T`, where nobody asks for the way to what is wrong.
///
/// # Errors
/// What is wrong.
pub fn of<T: DeserializeOwned>(value: &Value) -> Result<T, Error> {
    read(value).map_err(|(_, error)| error)
}

/// The JSON in this text as a `T`: for what is read now and then. It takes longer than
/// [`serde_json::from_str`], and is compiled to less.
///
/// # Errors
/// What is wrong.
pub fn text<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    of(&serde_json::from_str(text)?)
}

/// The value as a `T` that is read elsewhere from texts: so it is compiled for those alone.
///
/// # Errors
/// What is wrong, without its place in a text that nobody sees.
pub fn by_text<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_json::from_str(&value.to_string()).map_err(|error| {
        let mut error = error.to_string();
        error.truncate(error.rfind(" at line ").unwrap_or(error.len()));
        error
    })
}

enum Step<'a> {
    Member(&'a str),
    Item(usize),
}

impl Step<'_> {
    fn told(&self) -> String {
        match self {
            Self::Member(name) => format!(".{name}"),
            Self::Item(index) => format!("[{index}]"),
        }
    }
}

/// A value, and the way to it.
#[derive(Clone, Copy)]
struct Place<'a, 'w> {
    value: &'a Value,
    way: &'w RefCell<Vec<Step<'a>>>,
}

impl<'a> Place<'a, '_> {
    /// Reads what is inside, by `step`. Who fails leaves its way behind.
    fn inside<S: DeserializeSeed<'a>>(
        self,
        step: Step<'a>,
        value: &'a Value,
        seed: S,
    ) -> Result<S::Value, Error> {
        self.enter(step);
        let read = seed.deserialize(Self { value, ..self })?;
        self.leave();
        Ok(read)
    }

    fn members<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        let Value::Object(members) = self.value else {
            return Err(other_kind(self.value, &visitor));
        };
        visitor.visit_map(Members::of(self, members))
    }

    // Not inlined: each type that is read would have its copy.
    #[inline(never)]
    fn enter(self, step: Step<'a>) {
        self.way.borrow_mut().push(step);
    }

    #[inline(never)]
    fn leave(self) {
        self.way.borrow_mut().pop();
    }
}

/// The error that `value` is of another kind than is wanted.
#[must_use]
pub fn other_kind(value: &Value, wanted: &dyn Expected) -> Error {
    let Err(error) = value.deserialize_any(Nothing(wanted));
    error
}

/// Takes no value of any kind.
struct Nothing<'a>(&'a dyn Expected);

impl Visitor<'_> for Nothing<'_> {
    type Value = Infallible;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Expected::fmt(self.0, f)
    }
}

impl<'a> Deserializer<'a> for Place<'a, '_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => number.deserialize_any(visitor),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(_) => self.deserialize_seq(visitor),
            Value::Object(_) => self.members(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        let Value::Bool(value) = self.value else { return Err(other_kind(self.value, &visitor)) };
        visitor.visit_bool(*value)
    }

    fn deserialize_str<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        let Value::String(text) = self.value else { return Err(other_kind(self.value, &visitor)) };
        visitor.visit_borrowed_str(text)
    }

    fn deserialize_string<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_seq<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        let Value::Array(items) = self.value else { return Err(other_kind(self.value, &visitor)) };
        let mut rest = Items { of: self, all: items, next: 0 };
        let read = visitor.visit_seq(&mut rest)?;
        if rest.next < items.len() {
            return Err(Error::invalid_length(items.len(), &"fewer elements in array"));
        }
        Ok(read)
    }

    fn deserialize_tuple<V: Visitor<'a>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        // A map of anything takes nothing as an empty one.
        if self.value.is_null() { visitor.visit_unit() } else { self.members(visitor) }
    }

    fn deserialize_struct<V: Visitor<'a>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.members(visitor)
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'a>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.value.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        <V: Visitor<'a>>
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf
        unit unit_struct tuple_struct identifier
    }
}

struct Items<'a, 'w> {
    of: Place<'a, 'w>,
    all: &'a [Value],
    next: usize,
}

impl<'a> SeqAccess<'a> for &mut Items<'a, '_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'a>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        let Some(value) = self.all.get(self.next) else { return Ok(None) };
        let step = Step::Item(self.next);
        self.next += 1;
        self.of.inside(step, value, seed).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.all.len() - self.next)
    }
}

struct Members<'a, 'w> {
    of: Place<'a, 'w>,
    rest: serde_json::map::Iter<'a>,
    read: Option<(&'a str, &'a Value)>,
}

impl<'a, 'w> Members<'a, 'w> {
    fn of(of: Place<'a, 'w>, members: &'a Map<String, Value>) -> Self {
        Self { of, rest: members.iter(), read: None }
    }
}

impl<'a> MapAccess<'a> for Members<'a, '_> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'a>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        let Some((name, value)) = self.rest.next() else { return Ok(None) };
        self.read = Some((name, value));
        self.of.enter(Step::Member(name));
        let key = seed.deserialize(BorrowedStrDeserializer::new(name))?;
        self.of.leave();
        Ok(Some(key))
    }

    fn next_value_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let Some((name, value)) = self.read.take() else {
            return Err(Error::custom("a value comes before its key"));
        };
        self.of.inside(Step::Member(name), value, seed)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use crate::support::json;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Shelf {
        name: Option<String>,
        high: u8,
        rows: Vec<(u8, bool)>,
        inner: BTreeMap<String, Shelf>,
        mode: Mode,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Mode {
        #[default]
        Open,
        Shut,
    }

    #[test]
    fn what_is_read_is_what_serde_json_reads() {
        for value in [
            json!({}),
            json!({"name": null, "high": 255, "rows": [[1, true]], "mode": "shut"}),
            json!({"inner": {"a": {"inner": {"b": {"name": "x"}}}}}),
        ] {
            assert_eq!(read::<Shelf>(&value).unwrap(), Shelf::deserialize(&value).unwrap());
        }
    }

    #[test]
    fn without_a_way_the_words_are_the_same() {
        let value = json!({"inner": {"a": {"name": ["x"]}}});
        let (_, error) = read::<Shelf>(&value).unwrap_err();
        assert_eq!(of::<Shelf>(&value).unwrap_err().to_string(), error.to_string());
        assert_eq!(by_text::<Shelf>(&value).unwrap_err(), error.to_string());
        assert_eq!(text::<Shelf>(&value.to_string()).unwrap_err().to_string(), error.to_string());
        assert!(text::<Shelf>("{").unwrap_err().is_eof());
        assert_eq!(by_text(&json!({"high": 1})), Ok(Shelf { high: 1, ..Shelf::default() }));
    }

    #[test]
    fn a_list_is_no_object_and_nothing_is_an_empty_map() {
        let (told, error) = read::<Shelf>(&json!({"inner": {"a": ["x", 1]}})).unwrap_err();
        let said = "invalid type: sequence, expected struct Shelf";
        assert_eq!((told.as_str(), error.to_string().as_str()), (".inner.a", said));
        assert_eq!(read::<Map<String, Value>>(&Value::Null).unwrap(), Map::new());
    }

    #[test]
    fn an_error_says_where_it_is_in_the_words_of_serde_json() {
        for (value, place) in [
            (json!(1), ""),
            (json!({"high": 256}), ".high"),
            (json!({"high": 1.5}), ".high"),
            (json!({"high": null}), ".high"),
            (json!({"name": ["x"]}), ".name"),
            (json!({"strange": 1}), ".strange"),
            (json!({"mode": "ajar"}), ".mode"),
            (json!({"rows": [[1, true], [2, "no"]]}), ".rows[1][1]"),
            (json!({"rows": [[1, true, 3]]}), ".rows[0]"),
            (json!({"rows": [[1]]}), ".rows[0]"),
            (json!({"inner": {"a": {"inner": {"b": {"high": -1}}}}}), ".inner.a.inner.b.high"),
        ] {
            let (told, error) = read::<Shelf>(&value).unwrap_err();
            let plain = Shelf::deserialize(&value).unwrap_err();
            assert_eq!((told.as_str(), error.to_string()), (place, plain.to_string()), "{value}");
        }
    }
}
