//! Rules for values that hold others: what may be `null`, arrays, objects.

use serde_json::Value;

use super::super::{AND_MORE, Fields, MAX_PARTS, Params, Path, Unknown};
use super::{NO_ALTERNATIVE, Rule, Setting};

/// A value or `null`.
#[derive(Debug, Clone, Copy)]
pub struct Nullable<R>(R);

/// A value that follows `rule`, or `null`.
pub const fn nullable<R: Rule>(rule: R) -> Nullable<R> {
    Nullable(rule)
}

impl<R: Rule> Rule for Nullable<R> {
    type Out = Setting<R::Out>;
    fn read(
        &self,
        value: Value,
        path: &Path,
        unknown: Unknown,
        errors: &mut Vec<String>,
    ) -> Option<Self::Out> {
        if value.is_null() {
            return Some(Setting::Clear);
        }
        let mut own = Vec::new();
        if let Some(read) = self.0.read(value, path, unknown, &mut own) {
            return Some(Setting::Set(read));
        }
        neither(own, path, errors);
        None
    }
}

/// What is said of a value that is not `null`, and not what it may be beside that.
fn neither(of_rule: Vec<String>, path: &Path, errors: &mut Vec<String>) {
    let last = path.say(NO_ALTERNATIVE);
    errors.extend(of_rule.into_iter().filter(|text| *text != last));
    errors.push(path.say("must be null"));
    errors.push(last);
}

/// An array.
#[derive(Debug, Clone, Copy)]
pub struct List<R>(R, usize, usize);

/// An array whose items follow `item`.
pub const fn list<R: Rule>(item: R) -> List<R> {
    List(item, 0, usize::MAX)
}

impl<R> List<R> {
    /// Sets the least number of items.
    #[must_use]
    pub fn min(mut self, min: usize) -> Self {
        self.1 = min;
        self
    }

    /// Sets the greatest number of items.
    #[must_use]
    pub fn max(mut self, max: usize) -> Self {
        self.2 = max;
        self
    }
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
        let before = errors.len();
        let items = items(value, self.1, self.2, path, errors)?;
        let mut read = Vec::new();
        for (index, item) in items.into_iter().enumerate() {
            if is_enough(errors, before) {
                break;
            }
            read.extend(self.0.read(item, &path.child(&index.to_string()), unknown, errors));
        }
        (errors.len() == before).then_some(read)
    }
}

/// Those of an array; that there are too few or too many of them goes into `errors`.
fn items(
    value: Value,
    min: usize,
    max: usize,
    path: &Path,
    errors: &mut Vec<String>,
) -> Option<Vec<Value>> {
    let Value::Array(items) = value else {
        errors.push(path.say("must be array"));
        return None;
    };
    if items.len() < min {
        errors.push(path.say(&format!("must NOT have fewer than {min} items")));
    }
    if items.len() > max {
        errors.push(path.say(&format!("must NOT have more than {max} items")));
    }
    Some(items)
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
        let mut read = Vec::new();
        for (name, value) in members {
            if is_enough(errors, before) {
                break;
            }
            let value = self.0.read(value, &path.child(&name), unknown, errors);
            read.extend(value.map(|value| (name, value)));
        }
        (errors.len() == before).then_some(read)
    }
}

/// Whether so much is wrong since `before` that nothing more is read; it is said that
/// there may be more.
fn is_enough(errors: &mut Vec<String>, before: usize) -> bool {
    let is_enough = errors.len() >= before + MAX_PARTS;
    if is_enough {
        errors.push(AND_MORE.into());
    }
    is_enough
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
        let mut fields = Fields::of(value, path.clone(), unknown);
        let read = P::read(&mut fields);
        fields.finish(errors);
        (errors.len() == before).then_some(read)
    }
}
