//! The way to a value: `agents.list[0].model`, `models["a.b"]`.

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

/// One step down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// To the member with this name.
    Key(String),
    /// To the item at this place.
    Index(usize),
}

/// Shows `see` a value and, with the way to each, what is in it; but not what is in one
/// that it says `false` to. `path` is the way to the value.
pub(in crate::config) fn walk<'a>(
    path: &mut Vec<Step>,
    value: &'a Value,
    see: &mut dyn FnMut(&[Step], &'a Value) -> bool,
) {
    if !see(path, value) {
        return;
    }
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                path.push(Step::Key(name.clone()));
                walk(path, member, see);
                path.pop();
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(Step::Index(index));
                walk(path, item, see);
                path.pop();
            }
        }
        _ => {}
    }
}

/// The way to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValuePath(Vec<Step>);

/// A text that is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no path; write it as a.b, a[0] or a[\"b.c\"]")]
pub struct PathError(String);

impl ValuePath {
    /// From the names of members.
    pub fn of(keys: &[&str]) -> Self {
        Self(keys.iter().map(|&key| Step::Key(key.to_owned())).collect())
    }

    /// Its steps.
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// Its first `count` steps.
    pub(super) fn above(&self, count: usize) -> Self {
        Self(self.0.iter().take(count).cloned().collect())
    }

    /// What is left of it after `count` steps.
    pub(super) fn below(&self, count: usize) -> Self {
        Self(self.0.iter().skip(count).cloned().collect())
    }

    /// The value that has `value` at this path and nothing else.
    pub(super) fn wrap(&self, value: Value) -> Value {
        self.0.iter().rev().fold(value, |inner, step| match step {
            Step::Key(key) => Value::Object(Map::from_iter([(key.clone(), inner)])),
            Step::Index(_) => Value::Array(vec![inner]),
        })
    }

    /// Puts `value` there. What is absent or null on the way is made.
    pub(in crate::config) fn set_in(&self, root: &mut Value, value: Value) -> Result<(), ()> {
        let mut at = root;
        for step in &self.0 {
            at = match step {
                Step::Key(key) => {
                    if at.is_null() {
                        *at = Value::Object(Map::new());
                    }
                    let members = at.as_object_mut().ok_or(())?;
                    members.entry(key.as_str()).or_insert(Value::Null)
                }
                Step::Index(index) => {
                    if at.is_null() {
                        *at = Value::Array(Vec::new());
                    }
                    let items = at.as_array_mut().ok_or(())?;
                    if *index == items.len() {
                        items.push(Value::Null);
                    }
                    items.get_mut(*index).ok_or(())?
                }
            };
        }
        *at = value;
        Ok(())
    }

    /// The value there.
    pub fn find<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(root, |value, step| match step {
            Step::Key(name) => value.get(name),
            Step::Index(index) => value.get(index),
        })
    }

    /// Puts `value` there where something is already; whether it was.
    pub fn put(&self, root: &mut Value, value: Value) -> bool {
        self.find(root).is_some() && self.set_in(root, value).is_ok()
    }

    /// Takes away what is there; whether anything was.
    pub(in crate::config) fn remove_from(&self, root: &mut Value) -> bool {
        let Some((last, way)) = self.0.split_last() else { return false };
        let mut at = root;
        for step in way {
            let next = match step {
                Step::Key(key) => at.get_mut(key.as_str()),
                Step::Index(index) => at.get_mut(*index),
            };
            let Some(next) = next else { return false };
            at = next;
        }
        match (at, last) {
            (Value::Object(members), Step::Key(key)) => members.shift_remove(key).is_some(),
            (Value::Array(items), Step::Index(index)) if *index < items.len() => {
                items.remove(*index);
                true
            }
            _ => false,
        }
    }
}

impl From<Vec<Step>> for ValuePath {
    fn from(steps: Vec<Step>) -> Self {
        Self(steps)
    }
}

impl FromStr for ValuePath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        steps(text).map(Self).ok_or_else(|| PathError(text.to_owned()))
    }
}

fn steps(text: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let after = if inside.starts_with('"') {
                let mut values = serde_json::Deserializer::from_str(inside).into_iter::<String>();
                steps.push(Step::Key(values.next()?.ok()?));
                inside.get(values.byte_offset()..)?
            } else {
                let end = inside.find(']')?;
                steps.push(Step::Index(inside.get(..end)?.parse().ok()?));
                inside.get(end..)?
            };
            rest = after.strip_prefix(']')?;
        } else {
            let key = if steps.is_empty() { rest } else { rest.strip_prefix('.')? };
            let end = key.find(['.', '[']).unwrap_or(key.len());
            let (key, after) = key.split_at(end);
            if key.is_empty() {
                return None;
            }
            steps.push(Step::Key(key.to_owned()));
            rest = after;
        }
    }
    (!steps.is_empty()).then_some(steps)
}

impl fmt::Display for ValuePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) if key.contains(['.', '[', '"']) || key.is_empty() => {
                    write!(f, "[{}]", Value::String(key.clone()))?;
                }
                Step::Key(key) if at == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
            }
        }
        Ok(())
    }
}
