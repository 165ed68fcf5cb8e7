//! Params from JSON, with the original's error vocabulary.
//!
//! A params type reads its members from a [`Fields`]; that one list is both
//! the schema and the decoder. All errors are collected and reported in the
//! recorded order: missing members, unexpected members, then the members' own
//! errors in the order they are read. Where there are many, the first are told.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

mod number;
mod rules;

use super::ErrorShape;
use crate::support::json_of_javascript;

pub use number::number;
pub use rules::{
    Rule, Setting, Text, any, boolean, constant, dictionary, integer_from, list, literal,
    non_empty, nullable, object, one_of, text, text_or_number,
};

/// Most parts of an error that are told: a frame may hold millions of mistakes, and nobody
/// reads so many.
const MAX_PARTS: usize = 32;
/// The last part, where there are more.
const AND_MORE: &str = "and more";

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
    /// Refused as well, but for those of which it is known that clients of a later protocol
    /// say them, and that nothing is lost without them ([`Fields::newer`]).
    RefuseButNewer,
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
    read(method, members(method, raw, unknown)?)
}

/// What is the same for all params, compiled once.
#[inline(never)]
fn members(method: &str, raw: Option<&RawValue>, unknown: Unknown) -> Result<Fields, ErrorShape> {
    Ok(Fields::of(parse(method, raw)?, Path::root(), unknown))
}

/// Parses `params` for `method`; absent and `null` params count as `{}`.
///
/// # Errors
/// `INVALID_REQUEST` `invalid <method> params: …`.
pub fn parse(method: &str, raw: Option<&RawValue>) -> Result<Value, ErrorShape> {
    let value = match raw {
        None => Value::Null,
        Some(raw) => {
            json_of_javascript(raw.get()).map_err(|error| invalid(method, &[error.to_string()]))?
        }
    };
    Ok(if value.is_null() { Value::Object(Map::new()) } else { value })
}

/// Decodes `params` for `method` that have been parsed.
///
/// # Errors
/// `INVALID_REQUEST` `invalid <method> params: <part>; <part>…`.
pub fn decode<P: Params>(method: &str, value: Value, unknown: Unknown) -> Result<P, ErrorShape> {
    read(method, Fields::of(value, Path::root(), unknown))
}

fn read<P: Params>(method: &str, mut fields: Fields) -> Result<P, ErrorShape> {
    let decoded = P::read(&mut fields);
    fields.end_of(method).map(|()| decoded)
}

fn invalid(method: &str, parts: &[String]) -> ErrorShape {
    ErrorShape::invalid(format!("invalid {method} params: {}", parts.join("; ")))
}

/// Decodes a whole value; the error is the list of parts.
pub(crate) fn decode_value<P: Params>(value: Value, unknown: Unknown) -> Result<P, Vec<String>> {
    let mut fields = Fields::of(value, Path::root(), unknown);
    let decoded = P::read(&mut fields);
    fields.end().map(|()| decoded)
}

/// Each part once; of many the first.
fn told(mut parts: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    parts.retain(|part| seen.insert(part.clone()));
    let before = parts.len();
    // Where a list was read no further, which is not where it is told.
    parts.retain(|part| part != AND_MORE);
    let is_all = parts.len() == before && parts.len() <= MAX_PARTS;
    parts.truncate(MAX_PARTS);
    if !is_all {
        parts.push(AND_MORE.into());
    }
    parts
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

    pub(crate) fn say(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { format!("at {}: {text}", self.0) }
    }
}

/// The members of one object while they are being read.
pub struct Fields {
    members: Map<String, Value>,
    /// Whether there is one; else it is read like an empty one, which tells of its forms.
    is_object: bool,
    path: Path,
    unknown: Unknown,
    missing: Vec<String>,
    nested: Vec<String>,
}

// Rules are small and `Copy`; by value they read like a schema.
//
// What is compiled for each type of params, and for each rule, only calls what is here once:
// there are hundreds of them.
#[allow(clippy::needless_pass_by_value)]
impl Fields {
    /// Those of `value`, which is at `path`.
    fn of(value: Value, path: Path, unknown: Unknown) -> Self {
        let (members, is_object) = match value {
            Value::Object(members) => (members, true),
            _ => (Map::new(), false),
        };
        Self { members, is_object, path, unknown, missing: Vec::new(), nested: Vec::new() }
    }

    /// A member that is there, and where it is.
    #[inline(never)]
    fn take(&mut self, name: &str) -> Option<(Value, Path)> {
        self.members.shift_remove(name).map(|value| (value, self.path.child(name)))
    }

    /// The same of one that must be there.
    #[inline(never)]
    fn demand(&mut self, name: &str) -> Option<(Value, Path)> {
        let found = self.take(name);
        if found.is_none() {
            self.missing.push(self.path.say(&format!("must have required property '{name}'")));
        }
        found
    }

    fn read<R: Rule>(&mut self, (value, path): (Value, Path), rule: &R) -> Option<R::Out> {
        rule.read(value, &path, self.unknown, &mut self.nested)
    }

    /// A member that must be there. After an error the default stands in; the
    /// whole decoding fails anyway.
    pub fn required<R: Rule>(&mut self, name: &str, rule: R) -> R::Out
    where
        R::Out: Default,
    {
        self.demand(name).and_then(|found| self.read(found, &rule)).unwrap_or_default()
    }

    /// A member that may be absent.
    pub fn optional<R: Rule>(&mut self, name: &str, rule: R) -> Option<R::Out> {
        self.take(name).and_then(|found| self.read(found, &rule))
    }

    /// A member that may be absent, or `null` to take back what was set.
    pub fn setting<R: Rule>(&mut self, name: &str, rule: R) -> Setting<R::Out> {
        self.optional(name, nullable(rule)).unwrap_or_default()
    }

    /// A member that may be absent, where `null` is the same as that.
    pub fn maybe<R: Rule>(&mut self, name: &str, rule: R) -> Option<R::Out> {
        if self.members.get(name).is_some_and(Value::is_null) {
            self.members.shift_remove(name);
        }
        self.optional(name, rule)
    }

    /// Puts members right before they are read: other spellings, other places.
    pub fn amend(&mut self, change: fn(&mut Map<String, Value>)) {
        change(&mut self.members);
    }

    /// Another name of `name`; answers whether it was used.
    pub fn alias(&mut self, name: &str, alias: &str) -> bool {
        if self.members.contains_key(name) {
            return false;
        }
        let Some(value) = self.members.shift_remove(alias) else { return false };
        self.members.insert(name.to_owned(), value);
        true
    }

    /// Another name of `name`, for callers of the simple profile.
    pub fn simple_alias(&mut self, name: &str, alias: &str) {
        if self.unknown == Unknown::Ignore {
            self.alias(name, alias);
        }
    }

    /// Whether the object has this member (and nobody has read it yet).
    pub fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// The whole object in the first of several forms that fits. When none
    /// does, the errors of all of them are reported.
    pub fn one_of_forms<T>(&mut self, forms: &[fn(&mut Self) -> T]) -> Option<T> {
        let members = std::mem::take(&mut self.members);
        let mut errors = Vec::new();
        for form in forms {
            let before = errors.len();
            let mut fields = Self {
                members: members.clone(),
                is_object: true,
                path: self.path.clone(),
                unknown: self.unknown,
                missing: Vec::new(),
                nested: Vec::new(),
            };
            let read = form(&mut fields);
            fields.finish(&mut errors);
            if errors.len() == before {
                return Some(read);
            }
        }
        errors.push(self.path.say(rules::NO_ALTERNATIVE));
        self.nested.extend(errors);
        None
    }

    /// Whether this member is this text (and nobody has read it yet).
    pub fn is_literal(&self, name: &str, text: &str) -> bool {
        self.members.get(name).is_some_and(|value| value == text)
    }

    /// Passes over members that clients of a later protocol say, and that change nothing of
    /// what they get. A member that chooses something else does not belong here: by its
    /// refusal a client knows that this gateway is an older one.
    pub fn newer(&mut self, names: &[&str]) {
        if self.unknown == Unknown::RefuseButNewer {
            for name in names {
                self.members.shift_remove(*name);
            }
        }
    }

    /// Which of these members are `null`, by which a client of a later protocol takes back
    /// what was set.
    pub fn cleared(&mut self, names: &[&'static str]) -> Vec<&'static str> {
        if self.unknown == Unknown::Refuse {
            return Vec::new();
        }
        let are_null = |name: &&'static str| self.members.get(*name).is_some_and(Value::is_null);
        let cleared: Vec<_> = names.iter().copied().filter(are_null).collect();
        for name in &cleared {
            self.members.shift_remove(*name);
        }
        cleared
    }

    /// Passes over whatever else a client of a later protocol says.
    pub fn ignore_rest_of_newer(&mut self) {
        if self.unknown == Unknown::RefuseButNewer {
            self.ignore_rest();
        }
    }

    /// Accepts whatever else is there.
    pub fn ignore_rest(&mut self) {
        self.members.clear();
    }

    /// Whether there is nothing (that nobody has read yet).
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whatever nobody has read yet.
    pub fn rest(&mut self) -> Map<String, Value> {
        std::mem::take(&mut self.members)
    }

    /// Whether all is well; else each part of what is wrong once, of many the first.
    fn end(self) -> Result<(), Vec<String>> {
        let mut errors = Vec::new();
        self.finish(&mut errors);
        if errors.is_empty() { Ok(()) } else { Err(told(errors)) }
    }

    /// The same, as whoever called `method` is told.
    #[inline(never)]
    fn end_of(self, method: &str) -> Result<(), ErrorShape> {
        self.end().map_err(|parts| invalid(method, &parts))
    }

    fn finish(self, errors: &mut Vec<String>) {
        if !self.is_object {
            // And that none of its forms fits, where it may have several.
            let last = self.path.say(rules::NO_ALTERNATIVE);
            errors.push(self.path.say("must be object"));
            errors.extend(self.nested.into_iter().filter(|text| *text == last));
            return;
        }
        // As nearly always: what follows would take longer than all the rest of an empty object.
        if self.missing.is_empty() && self.nested.is_empty() && self.members.is_empty() {
            return;
        }
        errors.extend(self.missing);
        if self.unknown != Unknown::Ignore {
            let place = if self.path.0.is_empty() { "root" } else { self.path.0.as_str() };
            errors.extend(
                // One more than are told, so that it is known that there are more.
                self.members
                    .keys()
                    .take(MAX_PARTS + 1)
                    .map(|name| format!("at {place}: unexpected property '{name}'")),
            );
        }
        errors.extend(self.nested);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::{Just, Strategy, prop_assert, prop_oneof, proptest};
    use proptest::sample::select;

    use crate::support::json;

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
            (json!(0.5), "at /limit: must be integer; at /limit: must be >= 1"),
            (json!(-0.5), "at /limit: must be integer; at /limit: must be >= 1"),
            (json!(10.5), "at /limit: must be integer; at /limit: must be <= 10"),
            (json!(-20), "at /limit: must be >= 1"),
            (json!(-2), "at /limit: must be >= 1"),
            (json!(-0.0), "at /limit: must be >= 1"),
            (json!(11), "at /limit: must be <= 10"),
            (json!("3"), "at /limit: must be integer"),
            (json!(1e300), "at /limit: must be integer"),
        ] {
            assert_eq!(limit(bad).unwrap_err().message, format!("invalid m params: {text}"));
        }
    }

    #[test]
    fn a_setting_is_kept_cleared_or_set_and_its_errors_name_null() {
        #[derive(Debug, Clone, PartialEq)]
        struct P(Setting<bool>, Setting<String>);
        impl Params for P {
            fn read(f: &mut Fields) -> Self {
                Self(f.setting("fast", boolean()), f.setting("mode", literal(&["a", "b"])))
            }
        }
        let read = |value| decode_value::<P>(value, Unknown::Refuse);
        assert_eq!(read(json!({})).unwrap(), P(Setting::Keep, Setting::Keep));
        assert_eq!(
            read(json!({"fast": null, "mode": "a"})).unwrap(),
            P(Setting::Clear, Setting::Set("a".into()))
        );
        assert_eq!(
            read(json!({"fast": 1, "mode": "c"})).unwrap_err(),
            [
                "at /fast: must be boolean",
                "at /fast: must be null",
                "at /fast: must match a schema in anyOf",
                "at /mode: must be equal to constant",
                "at /mode: must be null",
                "at /mode: must match a schema in anyOf",
            ]
        );
    }

    #[test]
    fn a_value_of_another_type_is_told_so_before_what_else_is_wrong_with_it() {
        #[derive(Debug)]
        struct P;
        impl Params for P {
            fn read(f: &mut Fields) -> Self {
                f.optional("one", literal(&["a"]));
                f.optional("some", literal(&["a", "b"]));
                f.optional("listed", one_of(&["a", "b"]));
                f.optional("untyped", one_of(&["a", "b"]).untyped());
                f.optional("number", constant(1));
                Self
            }
        }
        let params = json!({"one": 1, "some": null, "listed": {}, "untyped": 1, "number": null});
        assert_eq!(
            decode_value::<P>(params, Unknown::Refuse).unwrap_err(),
            [
                "at /one: must be string",
                "at /one: must be equal to constant",
                "at /some: must be string",
                "at /some: must be equal to constant",
                "at /some: must match a schema in anyOf",
                "at /listed: must be string",
                "at /listed: must be equal to one of the allowed values",
                "at /untyped: must be equal to one of the allowed values",
                "at /number: must be number",
                "at /number: must be equal to constant",
            ]
        );
    }

    #[test]
    fn of_what_is_no_object_it_is_told_that_none_of_several_forms_fits() {
        #[derive(Debug, Default)]
        struct Forms;
        impl Params for Forms {
            fn read(f: &mut Fields) -> Self {
                let forms: [fn(&mut Fields) -> Self; 2] = [
                    |f| {
                        f.required("id", non_empty());
                        Self
                    },
                    |f| {
                        f.required("jobId", non_empty());
                        Self
                    },
                ];
                f.one_of_forms(&forms).unwrap_or_default()
            }
        }
        #[derive(Debug)]
        struct P;
        impl Params for P {
            fn read(f: &mut Fields) -> Self {
                f.required("forms", object::<Forms>());
                f.required("inner", object::<Inner>());
                Self
            }
        }
        let whole = decode_value::<Forms>(json!([]), Unknown::Refuse).unwrap_err();
        assert_eq!(whole, ["must be object", "must match a schema in anyOf"]);
        let parts = json!({"forms": 5, "inner": "x"});
        assert_eq!(
            decode_value::<P>(parts, Unknown::Refuse).unwrap_err(),
            [
                "at /forms: must be object",
                "at /forms: must match a schema in anyOf",
                "at /inner: must be object",
            ]
        );
    }

    #[test]
    fn of_many_errors_the_first_are_told() {
        #[derive(Debug)]
        struct P;
        impl Params for P {
            fn read(f: &mut Fields) -> Self {
                f.optional("all", list(list(boolean())).max(9));
                f.optional("named", dictionary(boolean()));
                Self
            }
        }
        let count = 100_000;
        let read = |value| decode_value::<P>(value, Unknown::Refuse).unwrap_err();
        let named = |name: usize| (name.to_string(), json!(1));
        let members: Map<String, Value> = (0..count).map(named).collect();
        let items = json!({"all": [vec![1; count]], "named": members});
        let parts = read(items);
        assert_eq!(parts.len(), MAX_PARTS + 1);
        assert_eq!(parts[0], "at /all/0/0: must be boolean");
        assert_eq!(parts[MAX_PARTS - 1], "at /all/0/31: must be boolean");
        assert_eq!(parts[MAX_PARTS], "and more");
        let parts = read(json!({"all": vec![1; count]}));
        assert_eq!(parts[0], "at /all: must NOT have more than 9 items");
        assert!(parts.concat().len() < 2000);
        for value in [json!({"named": members}), Value::Object(members)] {
            let parts = read(value);
            assert_eq!((parts.len(), &*parts[MAX_PARTS]), (MAX_PARTS + 1, "and more"));
        }
        let all = read(json!({"all": [vec![1; MAX_PARTS]]}));
        assert_eq!(all.len(), MAX_PARTS);
        assert!(all.iter().all(|part| part.ends_with("must be boolean")));
    }

    fn some_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            proptest::bool::ANY.prop_map(Value::from),
            (-5..20_i64).prop_map(Value::from),
            proptest::num::f64::ANY.prop_map(Value::from),
            "[ab]|\\PC{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            let name = prop_oneof![
                select(vec!["limit", "inner", "view", "version"]).prop_map(str::to_owned),
                "[~/x]{0,4}",
            ];
            prop_oneof![
                vec(inner.clone(), 0..4).prop_map(Value::from),
                vec((name, inner), 0..6).prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    /// Anything, or something close to an `Outer`.
    fn some_params() -> impl Strategy<Value = Value> {
        let close = (some_json(), some_json())
            .prop_map(|(version, limit)| json!({"inner": {"version": version}, "limit": limit}));
        prop_oneof![some_json(), close]
    }

    proptest! {
        #[test]
        fn whatever_is_sent_is_decoded_or_refused_with_a_text(value in some_params()) {
            let raw = serde_json::value::to_raw_value(&value).unwrap();
            for unknown in [Unknown::Refuse, Unknown::Ignore] {
                match params::<Outer>("m", Some(&raw), unknown) {
                    Ok(outer) => prop_assert!(!outer.inner.version.is_empty()),
                    Err(error) => prop_assert!(error.message.starts_with("invalid m params: ")),
                }
            }
        }
    }
}
