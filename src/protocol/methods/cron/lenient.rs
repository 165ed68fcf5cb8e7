//! Rules for members of jobs.

use serde_json::Value;

use super::delivery::{AlertRules, FailureAlert};
use crate::protocol::decode::{Path, Rule, Unknown, object};

/// `main`, `isolated`, `current` or `session:<key>`.
#[derive(Debug, Clone, Copy)]
pub struct Target;

impl Rule for Target {
    type Out = String;
    fn read(
        &self,
        value: Value,
        path: &Path,
        _: Unknown,
        errors: &mut Vec<String>,
    ) -> Option<String> {
        if let Value::String(text) = &value {
            let text = text.trim();
            let is_named = text.strip_prefix("session:").is_some_and(|key| !key.is_empty());
            if is_named || ["main", "isolated", "current"].contains(&text) {
                return Some(text.to_owned());
            }
        }
        let (constant, last) = ("must be equal to constant", "must match a schema in anyOf");
        let complaints = if value.is_string() {
            [constant, "must match pattern \"^session:.+\"", last]
        } else {
            ["must be string", constant, last]
        };
        errors.extend(complaints.iter().map(|text| path.say(text)));
        None
    }
}

/// A number of seconds, not below 0.
#[derive(Debug, Clone, Copy)]
pub struct Seconds;

impl Rule for Seconds {
    type Out = Value;
    fn read(
        &self,
        value: Value,
        path: &Path,
        _: Unknown,
        errors: &mut Vec<String>,
    ) -> Option<Value> {
        match value.as_f64() {
            Some(seconds) if seconds >= 0.0 => return Some(value),
            Some(_) => errors.push(path.say("must be >= 0")),
            None => errors.push(path.say("must be number")),
        }
        None
    }
}

/// `false`, or when and where failures are told.
#[derive(Debug, Clone, Copy)]
pub struct FalseOr;

impl Rule for FalseOr {
    type Out = FailureAlert;
    fn read(
        &self,
        value: Value,
        path: &Path,
        unknown: Unknown,
        errors: &mut Vec<String>,
    ) -> Option<FailureAlert> {
        if value == Value::Bool(false) {
            return Some(FailureAlert::Off(false));
        }
        let mut own = Vec::new();
        if !value.is_boolean() {
            own.push(path.say("must be boolean"));
        }
        own.push(path.say("must be equal to constant"));
        if let Some(rules) = object::<AlertRules>().read(value, path, unknown, &mut own) {
            return Some(FailureAlert::On(rules));
        }
        own.push(path.say("must match a schema in anyOf"));
        errors.append(&mut own);
        None
    }
}
