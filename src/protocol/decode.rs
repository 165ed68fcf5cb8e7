//! Params from JSON, with the original's error vocabulary.
//!
//! A params type reads its members from a [`Fields`]; that one list is both
//! the schema and the decoder. All errors are collected and reported in the
//! recorded order (`reference/behaviour.md` §1): missing members, unexpected
//! members, then the members' own errors in the order they are read.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::ErrorShape;

/// A type that can be read from the `params` of a request.
pub trait Params: Sized {
    /// Reads every member; errors go into `fields`.
    fn read(fields: &mut Fields) -> Self;
}

/// Whether members that nobody reads are errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// Refused, as the original does.
    Refuse,
    /// Passed over (simple profile).
    Ignore,
}

/// Decodes `params` for `method`; absent and `null` params count as `{}`.
///
/// # Errors
/// `INVALID_REQUEST` `invalid <method> params: <part>; <part>…`.
pub fn params<P: Params>(
    method: &str,
    raw: Option<&RawValue>,
    unknown: Unknown,
) -> Result<P, ErrorShape> {
    let value = match raw {
        None => Value::Null,
        Some(raw) => serde_json::from_str(raw.get())
            .map_err(|error| ErrorShape::invalid(format!("invalid {method} params: {error}")))?,
    };
    let value = if value.is_null() { Value::Object(Map::new()) } else { value };
    decode_value(value, unknown).map_err(|parts| {
        ErrorShape::invalid(format!("invalid {method} params: {}", parts.join("; ")))
    })
}

/// Decodes a whole value; the error is the list of parts.
pub(crate) fn decode_value<P: Params>(value: Value, unknown: Unknown) -> Result<P, Vec<String>> {
    let mut errors = Vec::new();
    let decoded = read_object(value, &Path::root(), unknown, &mut errors, P::read);
    let mut seen = std::collections::HashSet::new();
    errors.retain(|part| seen.insert(part.clone()));
    match decoded {
        Some(decoded) if errors.is_empty() => Ok(decoded),
        _ => Err(errors),
    }
}

fn read_object<P>(
    value: Value,
    path: &Path,
    unknown: Unknown,
    errors: &mut Vec<String>,
    read: impl FnOnce(&mut Fields) -> P,
) -> Option<P> {
    let Value::Object(members) = value else {
        errors.push(path.say("must be object"));
        return None;
    };
    let mut fields =
        Fields { members, path: path.clone(), unknown, missing: Vec::new(), nested: Vec::new() };
    let decoded = read(&mut fields);
    fields.finish(errors);
    Some(decoded)
}

/// A JSON pointer, empty at the root.
#[derive(Debug, Clone)]
pub struct Path(String);

impl Path {
    fn root() -> Self {
        Self(String::new())
    }

    fn child(&self, name: &str) -> Self {
        let escaped = name.replace('~', "~0").replace('/', "~1");
        Self(format!("{}/{escaped}", self.0))
    }

    fn say(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { format!("at {}: {text}", self.0) }
    }
}

/// The members of one object while they are being read.
pub struct Fields {
    members: Map<String, Value>,
    path: Path,
    unknown: Unknown,
    missing: Vec<String>,
    nested: Vec<String>,
}

// Rules are small and `Copy`; by value they read like a schema.
#[allow(clippy::needless_pass_by_value)]
impl Fields {
    /// A member that must be there. After an error the default stands in; the
    /// whole decoding fails anyway.
    pub fn required<R: Rule>(&mut self, name: &str, rule: R) -> R::Out
    where
        R::Out: Default,
    {
        let Some(value) = self.members.shift_remove(name) else {
            self.missing.push(self.path.say(&format!("must have required property '{name}'")));
            return R::Out::default();
        };
        rule.read(value, &self.path.child(name), self.unknown, &mut self.nested).unwrap_or_default()
    }

    /// A member that may be absent.
    pub fn optional<R: Rule>(&mut self, name: &str, rule: R) -> Option<R::Out> {
        let value = self.members.shift_remove(name)?;
        rule.read(value, &self.path.child(name), self.unknown, &mut self.nested)
    }

    /// Like [`Self::optional`], but under any of several names (aliases that
    /// other clients use); the first that is present counts.
    pub fn optional_any<R: Rule>(&mut self, names: &[&str], rule: R) -> Option<R::Out> {
        let name = names.iter().find(|name| self.members.contains_key(**name))?;
        self.optional(name, rule)
    }

    /// Whether the object has this member (and nobody has read it yet).
    pub fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// Accepts whatever else is there.
    pub fn ignore_rest(&mut self) {
        self.members.clear();
    }

    /// Adds an error of the caller's own about a member.
    pub fn reject(&mut self, name: &str, text: &str) {
        let part = self.path.child(name).say(text);
        self.nested.push(part);
    }

    fn finish(self, errors: &mut Vec<String>) {
        errors.extend(self.missing);
        if self.unknown == Unknown::Refuse {
            let place = if self.path.0.is_empty() { "root" } else { self.path.0.as_str() };
            errors.extend(
                self.members.keys().map(|name| format!("at {place}: unexpected property '{name}'")),
            );
        }
        errors.extend(self.nested);
    }
}

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
}

/// Any string.
pub const fn text() -> Text {
    Text { min: 0, max: None }
}

/// A string of at least one character.
pub const fn non_empty() -> Text {
    Text { min: 1, max: None }
}

impl Text {
    /// Sets the greatest length.
    #[must_use]
    pub const fn max(mut self, max: usize) -> Self {
        self.max = Some(max);
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
        let Value::Number(number) = &value else {
            errors.push(path.say("must be integer"));
            return None;
        };
        if let Some(whole) = number.as_u64() {
            if whole < self.min {
                errors.push(path.say(&format!("must be >= {}", self.min)));
                return None;
            }
            if whole > self.max {
                errors.push(path.say(&format!("must be <= {}", self.max)));
                return None;
            }
            return Some(whole);
        }
        match number.as_f64() {
            // 3.0 is an integer in JSON Schema.
            Some(float) if float.fract() == 0.0 && float.abs() <= MAX_SAFE_INTEGER => {
                if float < 0.0 {
                    errors.push(path.say(&format!("must be >= {}", self.min)));
                    return None;
                }
                let exact = serde_json::from_str::<Value>(&format!("{float:.0}")).ok()?;
                self.read(exact, path, Unknown::Refuse, errors)
            }
            _ => {
                errors.push(path.say("must be integer"));
                None
            }
        }
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

/// One of a list of strings (a JSON Schema `enum`).
#[derive(Debug, Clone, Copy)]
pub struct OneOf<'a>(&'a [&'a str]);

/// One of `allowed`, which the original declares as an `enum`.
pub const fn one_of<'a>(allowed: &'a [&'a str]) -> OneOf<'a> {
    OneOf(allowed)
}

impl Rule for OneOf<'_> {
    type Out = String;
    fn read(
        &self,
        value: Value,
        path: &Path,
        _: Unknown,
        errors: &mut Vec<String>,
    ) -> Option<String> {
        match value {
            Value::String(text) if self.0.contains(&text.as_str()) => Some(text),
            _ => {
                errors.push(path.say("must be equal to one of the allowed values"));
                None
            }
        }
    }
}

/// One of a list of constants (a union of literals).
#[derive(Debug, Clone, Copy)]
pub struct Literal<'a>(&'a [&'a str]);

/// One of `allowed`, which the original declares as a union of literals and
/// reports in two parts.
pub const fn literal<'a>(allowed: &'a [&'a str]) -> Literal<'a> {
    Literal(allowed)
}

impl Rule for Literal<'_> {
    type Out = String;
    fn read(
        &self,
        value: Value,
        path: &Path,
        _: Unknown,
        errors: &mut Vec<String>,
    ) -> Option<String> {
        match value {
            Value::String(text) if self.0.contains(&text.as_str()) => Some(text),
            _ => {
                errors.push(path.say("must be equal to constant"));
                if self.0.len() > 1 {
                    errors.push(path.say("must match a schema in anyOf"));
                }
                None
            }
        }
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

/// An array.
#[derive(Debug, Clone, Copy)]
pub struct List<R>(R);

/// An array whose items follow `item`.
pub const fn list<R: Rule>(item: R) -> List<R> {
    List(item)
}

impl<R: Rule> Rule for List<R> {
    type Out = Vec<R::Out>;
    fn read(
        &self,
        value: Value,
        path: &Path,
        unknown: Unknown,
        errors: &mut Vec<String>,
    ) -> Option<Vec<R::Out>> {
        let Value::Array(items) = value else {
            errors.push(path.say("must be array"));
            return None;
        };
        let before = errors.len();
        let read: Vec<_> = items
            .into_iter()
            .enumerate()
            .filter_map(|(index, item)| {
                self.0.read(item, &path.child(&index.to_string()), unknown, errors)
            })
            .collect();
        (errors.len() == before).then_some(read)
    }
}

/// An object whose members all follow one rule.
#[derive(Debug, Clone, Copy)]
pub struct Dictionary<R>(R);

/// An object with free member names, each following `value`.
pub const fn dictionary<R: Rule>(value: R) -> Dictionary<R> {
    Dictionary(value)
}

impl<R: Rule> Rule for Dictionary<R> {
    type Out = Vec<(String, R::Out)>;
    fn read(
        &self,
        value: Value,
        path: &Path,
        unknown: Unknown,
        errors: &mut Vec<String>,
    ) -> Option<Self::Out> {
        let Value::Object(members) = value else {
            errors.push(path.say("must be object"));
            return None;
        };
        let before = errors.len();
        let read: Vec<_> = members
            .into_iter()
            .filter_map(|(name, value)| {
                let read = self.0.read(value, &path.child(&name), unknown, errors)?;
                Some((name, read))
            })
            .collect();
        (errors.len() == before).then_some(read)
    }
}

/// A nested object.
pub struct Nested<P>(std::marker::PhantomData<fn() -> P>);

/// A nested object with members of its own.
pub const fn object<P: Params>() -> Nested<P> {
    Nested(std::marker::PhantomData)
}

impl<P: Params> Rule for Nested<P> {
    type Out = P;
    fn read(
        &self,
        value: Value,
        path: &Path,
        unknown: Unknown,
        errors: &mut Vec<String>,
    ) -> Option<P> {
        let before = errors.len();
        let read = read_object(value, path, unknown, errors, P::read)?;
        (errors.len() == before).then_some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, Default, PartialEq)]
    struct Inner {
        version: String,
    }

    impl Params for Inner {
        fn read(f: &mut Fields) -> Self {
            Self { version: f.required("version", non_empty()) }
        }
    }

    #[derive(Debug, PartialEq)]
    struct Outer {
        limit: Option<u64>,
        inner: Inner,
        view: Option<String>,
    }

    impl Params for Outer {
        fn read(f: &mut Fields) -> Self {
            Self {
                limit: f.optional("limit", integer_from(1).max(10)),
                inner: f.required("inner", object::<Inner>()),
                view: f.optional("view", literal(&["a", "b"])),
            }
        }
    }

    fn message(value: &Value, unknown: Unknown) -> String {
        let raw = serde_json::value::to_raw_value(value).unwrap();
        params::<Outer>("m", Some(&raw), unknown).unwrap_err().message
    }

    #[test]
    fn errors_come_as_missing_then_unexpected_then_members() {
        assert_eq!(
            message(&json!({"limit": 0, "x": 1, "view": "c"}), Unknown::Refuse),
            "invalid m params: must have required property 'inner'; at root: unexpected property 'x'; \
             at /limit: must be >= 1; at /view: must be equal to constant; at /view: must match a schema in anyOf"
        );
        assert_eq!(
            message(&json!({"inner": {"foo": 1}}), Unknown::Refuse),
            "invalid m params: at /inner: must have required property 'version'; \
             at /inner: unexpected property 'foo'"
        );
        assert_eq!(message(&json!([]), Unknown::Refuse), "invalid m params: must be object");
    }

    #[test]
    fn a_lenient_reader_passes_over_unknown_members_only() {
        let raw =
            serde_json::value::to_raw_value(&json!({"inner": {"version": "1", "y": 2}, "x": 1}))
                .unwrap();
        let read: Outer = params("m", Some(&raw), Unknown::Ignore).unwrap();
        assert_eq!(read, Outer { limit: None, inner: Inner { version: "1".into() }, view: None });
        assert_eq!(
            message(&json!({"inner": {"version": ""}, "x": 1}), Unknown::Ignore),
            "invalid m params: at /inner/version: must NOT have fewer than 1 characters"
        );
    }

    #[test]
    fn whole_floats_are_integers_and_others_are_not() {
        let limit = |value: Value| {
            let raw = serde_json::value::to_raw_value(
                &json!({"inner": {"version": "1"}, "limit": value}),
            )
            .unwrap();
            params::<Outer>("m", Some(&raw), Unknown::Refuse)
        };
        assert_eq!(limit(json!(3.0)).unwrap().limit, Some(3));
        for (bad, text) in [
            (json!(3.5), "at /limit: must be integer"),
            (json!(-2), "at /limit: must be >= 1"),
            (json!(11), "at /limit: must be <= 10"),
            (json!("3"), "at /limit: must be integer"),
            (json!(1e300), "at /limit: must be integer"),
        ] {
            assert_eq!(limit(bad).unwrap_err().message, format!("invalid m params: {text}"));
        }
    }

    proptest::proptest! {
        #[test]
        fn decoding_never_panics(text in "\\PC*") {
            if let Ok(raw) = RawValue::from_string(text) {
                let _ = params::<Outer>("m", Some(&raw), Unknown::Refuse);
            }
        }
    }
}
