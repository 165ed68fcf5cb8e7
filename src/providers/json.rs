//! JSON as providers write it.
//!
//! Owns: reading what JavaScript accepts and we do not. Promises: half a
//! character, which some servers send when they cut text by UTF-16 units,
//! breaks nothing else; `halves` makes characters of what stands for it.

use std::borrow::Cow;

use serde::de::{DeserializeOwned, Error as _};
use serde_json::{Error, Map, Value};

use super::error::{ErrorStyle, ProviderError, ProviderErrorKind};
use super::halves::MARK;
use crate::support::reading;

/// Reads one document of a stream.
///
/// # Errors
/// When it is no JSON, or not of this shape.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text).or_else(|error| match marked(text) {
        Cow::Owned(text) => serde_json::from_str(&text),
        Cow::Borrowed(_) => Err(error),
    })
}

/// Reads one document of a stream, which is called `a chunk` or the like.
///
/// # Errors
/// The same, as an error of the provider.
pub fn piece<T: DeserializeOwned>(name: &str, text: &str) -> Result<T, ProviderError> {
    parse(text).map_err(|error| malformed(name, &error))
}

fn malformed(name: &str, error: &Error) -> ProviderError {
    let text = format!("the provider sent {name} that is no JSON of this API: {error}");
    ProviderError::new(ProviderErrorKind::Protocol, text)
}

/// Reads an event of a stream that has errors among its events. Servers that stand between may
/// write theirs in their own way.
///
/// # Errors
/// The same, or what such a server says.
pub fn event<T>(
    style: ErrorStyle,
    text: &str,
    read: fn(Members) -> Result<T, Error>,
) -> Result<T, ProviderError> {
    Members::parse(text).and_then(read).map_err(|error| {
        let data: Value = parse(text).unwrap_or_default();
        let is_error = data.get("error").is_some_and(|error| !error.is_null());
        if is_error {
            ProviderError::from_event(style, &data)
        } else {
            malformed("an event", &error)
        }
    })
}

/// The members of a document that is of one of several kinds. Who knows the kind takes what
/// belongs to it: a tagged `enum` would be compiled with all that it could be read from.
pub struct Members(Map<String, Value>);

impl Members {
    /// Reads a document.
    pub fn parse(text: &str) -> Result<Self, Error> {
        parse(text).map(Self)
    }

    /// Takes a member; null when it is absent.
    pub fn value(&mut self, name: &str) -> Value {
        self.0.remove(name).unwrap_or_default()
    }

    /// Takes a member that must be there.
    pub fn needed(&mut self, name: &'static str) -> Result<Value, Error> {
        self.0.remove(name).ok_or_else(|| Error::missing_field(name))
    }

    /// Takes a text that must be there.
    pub fn text(&mut self, name: &'static str) -> Result<String, Error> {
        match self.needed(name)? {
            Value::String(text) => Ok(text),
            other => Err(reading::other_kind(&other, &"a string")),
        }
    }

    /// Takes a text; an empty one when it is absent.
    pub fn text_or_empty(&mut self, name: &'static str) -> Result<String, Error> {
        if self.0.contains_key(name) { self.text(name) } else { Ok(String::new()) }
    }

    /// Takes the members of a member.
    pub fn inside(&mut self, name: &'static str) -> Result<Self, Error> {
        match self.needed(name)? {
            Value::Object(members) => Ok(Self(members)),
            other => Err(reading::other_kind(&other, &"an object")),
        }
    }

    /// Reads a member that must be there.
    pub fn read<T: DeserializeOwned>(&mut self, name: &'static str) -> Result<T, Error> {
        reading::of(&self.needed(name)?)
    }

    /// Reads a member; `None` when it is absent or null.
    pub fn maybe<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, Error> {
        reading::of(&self.value(name))
    }

    /// Those that nobody has taken.
    pub fn rest(self) -> Value {
        Value::Object(self.0)
    }
}

/// `text` with marks for the escapes of surrogates that have no partner in it.
fn marked(text: &str) -> Cow<'_, str> {
    let mut read = String::new();
    let mut rest = text;
    let mut changed = false;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        read.push_str(before);
        let (length, is_whole) = escape_at(escape);
        let (escape, tail) = escape.split_at_checked(length).unwrap_or((escape, ""));
        match escape.strip_prefix("\\u").filter(|_| !is_whole) {
            Some(digits) => {
                read.push(MARK);
                read.push_str(digits);
            }
            None => read.push_str(escape),
        }
        changed |= !is_whole;
        rest = tail;
    }
    if !changed {
        return Cow::Borrowed(text);
    }
    read.push_str(rest);
    Cow::Owned(read)
}

/// How long the escape at the start of `text` is, and whether it is more than half a character.
fn escape_at(text: &str) -> (usize, bool) {
    const ONE: usize = "\\u0000".len();
    match (unit(text, 0), unit(text, ONE)) {
        (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (2 * ONE, true),
        (Some(0xD800..=0xDFFF), _) => (ONE, false),
        (Some(_), _) => (ONE, true),
        // The character behind the backslash is no backslash of its own.
        (None, _) => (1 + text.chars().nth(1).map_or(0, char::len_utf8), true),
    }
}

/// The UTF-16 unit that is escaped at this place.
fn unit(text: &str, at: usize) -> Option<u32> {
    let digits = text.get(at..)?.strip_prefix("\\u")?.get(..4)?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::halves::whole;

    #[test]
    fn members_are_taken_as_what_they_are() {
        let mut all = Members::parse(r#"{"type": "x", "n": 1, "in": {"a": null}}"#).unwrap();
        assert_eq!(all.text("type").unwrap(), "x");
        assert_eq!(all.text("type").unwrap_err().to_string(), "missing field `type`");
        assert_eq!(all.text_or_empty("type").unwrap(), "");
        let other = all.text("n").unwrap_err().to_string();
        assert_eq!(other, "invalid type: integer `1`, expected a string");
        assert_eq!(all.inside("in").unwrap().maybe::<u64>("a").unwrap(), None);
        assert!(all.value("in").is_null());
    }

    #[test]
    fn half_a_character_is_left_out_and_a_whole_one_stays() {
        for (text, expected) in [
            (r#""a\ud83d""#, "a"),
            (r#""\ude00b""#, "b"),
            (r#""\ud83d\ude00\ud83d""#, "😀"),
            (r#""\ud83d\ud83d\ude00""#, "😀"),
            (r#""\\ud83d \ud83d\n""#, "\\ud83d \n"),
            (r#""\u00e9\ud83d""#, "é"),
        ] {
            assert_eq!(whole(parse(text).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_json_stays_an_error() {
        for text in ["", "{", r#""\ud83"#, r#""\"#, "\"\\\u{e9}\""] {
            assert!(parse::<String>(text).is_err(), "{text}");
        }
    }
}
