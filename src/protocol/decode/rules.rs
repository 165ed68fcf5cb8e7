//! Rules for members: what a value must be, and the original's words when it
//! is not.

use serde_json::Value;

use super::{Path, Unknown};

mod containers;

pub use containers::{dictionary, list, nullable, object};

/// How one member is read and checked.
pub trait Rule {
    /// What comes out.
    type Out;
    /// Reads `value`; on failure adds to `errors` and gives `None`.
    fn read(
        &self,
        value: Value,
        path: &Path,
        unknown: Unknown,
        errors: &mut Vec<String>,
    ) -> Option<Self::Out>;
}

/// A string; lengths count characters.
#[derive(Debug, Clone, Copy, Default)]
pub struct Text {
    min: usize,
    max: Option<usize>,
    pattern: Option<Pattern>,
}

/// A form of strings.
#[derive(Debug, Clone, Copy)]
struct Pattern {
    shown: &'static str,
    accepts: fn(&str) -> bool,
}

/// Any string.
pub const fn text() -> Text {
    Text { min: 0, max: None, pattern: None }
}

/// A string of at least one character.
pub const fn non_empty() -> Text {
    Text { min: 1, max: None, pattern: None }
}

impl Text {
    /// Sets the greatest length.
    #[must_use]
    pub const fn max(mut self, max: usize) -> Self {
        self.max = Some(max);
        self
    }

    /// Sets a form: the original's expression for it, which is shown, and what
    /// it accepts.
    #[must_use]
    pub const fn pattern(mut self, shown: &'static str, accepts: fn(&str) -> bool) -> Self {
        self.pattern = Some(Pattern { shown, accepts });
        self
    }
}

impl Rule for Text {
    type Out = String;
    fn read(
        &self,
        value: Value,
        path: &Path,
        _: Unknown,
        errors: &mut Vec<String>,
    ) -> Option<String> {
        let Value::String(text) = value else {
            errors.push(path.say("must be string"));
            return None;
        };
        let before = errors.len();
        if self.min > 0 && text.chars().nth(self.min - 1).is_none() {
            errors.push(path.say(&format!("must NOT have fewer than {} characters", self.min)));
        }
        if let Some(max) = self.max
            && text.chars().nth(max).is_some()
        {
            errors.push(path.say(&format!("must NOT have more than {max} characters")));
        }
        if let Some(Pattern { shown, accepts }) = self.pattern
            && !accepts(&text)
        {
            errors.push(path.say(&format!("must match pattern \"{shown}\"")));
        }
        (errors.len() == before).then_some(text)
    }
}

/// A whole number in a range.
#[derive(Debug, Clone, Copy)]
pub struct Integer {
    min: u64,
    max: u64,
}

/// A whole number of at least `min`.
pub const fn integer_from(min: u64) -> Integer {
    Integer { min, max: u64::MAX }
}

impl Integer {
    /// Sets the greatest value.
    #[must_use]
    pub const fn max(mut self, max: u64) -> Self {
        self.max = max;
        self
    }
}

/// The greatest whole number below which JSON numbers are exact.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

impl Rule for Integer {
    type Out = u64;
    fn read(&self, value: Value, path: &Path, _: Unknown, errors: &mut Vec<String>) -> Option<u64> {
        let before = errors.len();
        let Some(float) = value.as_f64() else {
            errors.push(path.say("must be integer"));
            return None;
        };
        let whole = match value.as_u64() {
            Some(whole) => whole,
            None if float.abs() <= MAX_SAFE_INTEGER => {
                format!("{:.0}", float.max(0.0).floor().abs()).parse().ok()?
            }
            None => {
                errors.push(path.say("must be integer"));
                return None;
            }
        };
        // 3.0 is an integer in JSON Schema, and so is -0.0.
        let is_broken = value.as_u64().is_none() && float.fract() != 0.0;
        if is_broken {
            errors.push(path.say("must be integer"));
        }
        if float < 0.0 || whole < self.min {
            errors.push(path.say(&format!("must be >= {}", self.min)));
        }
        if whole > self.max || (is_broken && whole == self.max) {
            errors.push(path.say(&format!("must be <= {}", self.max)));
        }
        (errors.len() == before).then_some(whole)
    }
}

/// `true` or `false`.
#[derive(Debug, Clone, Copy)]
pub struct Boolean;

/// `true` or `false`.
pub const fn boolean() -> Boolean {
    Boolean
}

impl Rule for Boolean {
    type Out = bool;
    fn read(
        &self,
        value: Value,
        path: &Path,
        _: Unknown,
        errors: &mut Vec<String>,
    ) -> Option<bool> {
        if let Value::Bool(flag) = value {
            return Some(flag);
        }
        errors.push(path.say("must be boolean"));
        None
    }
}

/// One of a list of strings.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    allowed: &'a [&'a str],
    /// Whether the original says that it is a string, and so what it is not.
    is_typed: bool,
    complaints: &'static [&'static str],
}

/// One of `allowed`, which the original declares as an `enum`.
pub const fn one_of<'a>(allowed: &'a [&'a str]) -> Choice<'a> {
    Choice { allowed, is_typed: true, complaints: &["must be equal to one of the allowed values"] }
}

/// One of `allowed`, which the original declares as a union of literals; when
/// there is more than one, it reports that in two parts.
pub const fn literal<'a>(allowed: &'a [&'a str]) -> Choice<'a> {
    let complaints: &[&str] = if allowed.len() > 1 {
        &["must be equal to constant", NO_ALTERNATIVE]
    } else {
        &["must be equal to constant"]
    };
    Choice { allowed, is_typed: true, complaints }
}

impl Choice<'_> {
    /// The original names no type of it.
    #[must_use]
    pub const fn untyped(mut self) -> Self {
        self.is_typed = false;
        self
    }
}

/// What is said of a value that fits none of the allowed forms.
pub(super) const NO_ALTERNATIVE: &str = "must match a schema in anyOf";

impl Rule for Choice<'_> {
    type Out = String;
    fn read(
        &self,
        value: Value,
        path: &Path,
        _: Unknown,
        errors: &mut Vec<String>,
    ) -> Option<String> {
        match value {
            Value::String(text) if self.allowed.contains(&text.as_str()) => Some(text),
            value => {
                if self.is_typed && !value.is_string() {
                    errors.push(path.say("must be string"));
                }
                errors.extend(self.complaints.iter().map(|text| path.say(text)));
                None
            }
        }
    }
}

/// One number.
#[derive(Debug, Clone, Copy)]
pub struct Constant(u64);

/// This number and no other.
pub const fn constant(number: u64) -> Constant {
    Constant(number)
}

impl Rule for Constant {
    type Out = u64;
    fn read(&self, value: Value, path: &Path, _: Unknown, errors: &mut Vec<String>) -> Option<u64> {
        let is_it = value.as_u64() == Some(self.0);
        if !is_it {
            if !value.is_number() {
                errors.push(path.say("must be number"));
            }
            errors.push(path.say("must be equal to constant"));
        }
        is_it.then_some(self.0)
    }
}

/// A string or a number.
#[derive(Debug, Clone, Copy)]
pub struct TextOrNumber;

/// A string or a number, as it is.
pub const fn text_or_number() -> TextOrNumber {
    TextOrNumber
}

impl Rule for TextOrNumber {
    type Out = Value;
    fn read(
        &self,
        value: Value,
        path: &Path,
        _: Unknown,
        errors: &mut Vec<String>,
    ) -> Option<Value> {
        if value.is_string() || value.is_number() {
            return Some(value);
        }
        let complaints = ["must be string", "must be number", NO_ALTERNATIVE];
        errors.extend(complaints.iter().map(|text| path.say(text)));
        None
    }
}

/// Any JSON at all.
#[derive(Debug, Clone, Copy)]
pub struct Any;

/// Any JSON at all.
pub const fn any() -> Any {
    Any
}

impl Rule for Any {
    type Out = Value;
    fn read(&self, value: Value, _: &Path, _: Unknown, _: &mut Vec<String>) -> Option<Value> {
        Some(value)
    }
}

/// What a request says of one setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Setting<T> {
    /// Nothing.
    #[default]
    Keep,
    /// It is taken back (`null`).
    Clear,
    /// It is this now.
    Set(T),
}
