//! JSON as a type of Rust.
//!
//! Promises: an error comes with the way to what is wrong. The way is noted beside the reading,
//! so that each type is compiled for it once and nothing is put around what it reads.

use std::cell::RefCell;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor,
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
        self.way.borrow_mut().push(step);
        let read = seed.deserialize(Self { value, ..self })?;
        self.way.borrow_mut().pop();
        Ok(read)
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
            Value::Array(items) => {
                let mut rest = Items { of: self, all: items, next: 0 };
                let read = visitor.visit_seq(&mut rest)?;
                if rest.next < items.len() {
                    return Err(Error::invalid_length(items.len(), &"fewer elements in array"));
                }
                Ok(read)
            }
            Value::Object(members) => visitor.visit_map(Members::of(self, members)),
        }
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
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct identifier
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
        self.of.way.borrow_mut().push(Step::Member(name));
        let key = seed.deserialize(BorrowedStrDeserializer::new(name))?;
        self.of.way.borrow_mut().pop();
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
