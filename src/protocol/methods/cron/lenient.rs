//! Rules for members of jobs, and older spellings of them.

use serde_json::{Map, Value};

use super::delivery::{AlertRules, FailureAlert};
use crate::protocol::decode::{Path, Rule, Unknown, object};
use crate::support::json;

/// A rule for what a value means, after its older spellings were put right.
pub struct Lenient<R>(pub fn(&mut Map<String, Value>), pub R);

impl<R: Rule> Rule for Lenient<R> {
    type Out = R::Out;
    fn read(
        &self,
        mut value: Value,
        path: &Path,
        unknown: Unknown,
        errors: &mut Vec<String>,
    ) -> Option<R::Out> {
        if let Value::Object(members) = &mut value {
            (self.0)(members);
        }
        self.1.read(value, path, unknown, errors)
    }
}

/// Takes the first of several other names of a member.
fn rename(members: &mut Map<String, Value>, name: &str, others: &[&str]) {
    for other in others {
        if let Some(value) = members.shift_remove(*other) {
            members.entry(name).or_insert(value);
        }
    }
}

/// A schedule without `kind`, with `atMs`, or as in seed 001.
pub fn schedule(members: &mut Map<String, Value>) {
    rename(members, "at", &["atMs", "datetime"]);
    rename(members, "everyMs", &["intervalMs"]);
    rename(members, "expr", &["expression", "cron"]);
    if !members.contains_key("kind") {
        let kind = ["at", "everyMs", "expr"].into_iter().find(|name| members.contains_key(*name));
        let kind = kind.map(|name| match name {
            "everyMs" => "every",
            "expr" => "cron",
            name => name,
        });
        if let Some(kind) = kind {
            members.insert("kind".into(), kind.into());
        }
    }
    // Milliseconds since the epoch are read as text later on.
    if let Some(Value::Number(at)) = members.get("at") {
        let text = at.to_string();
        members.insert("at".into(), text.into());
    }
}

/// A payload without `kind`, with blank fields, or as in seed 001.
pub fn payload(members: &mut Map<String, Value>) {
    drop_blank(members, &["model", "thinking"]);
    if !members.contains_key("kind") {
        let kind = if members.contains_key("message") {
            Some("agentTurn")
        } else if members.contains_key("text") || members.contains_key("event") {
            Some("systemEvent")
        } else {
            None
        };
        if let Some(kind) = kind {
            members.insert("kind".into(), kind.into());
        }
    }
    if members.get("kind") == Some(&json!("systemEvent"))
        && !members.contains_key("text")
        && let Some(Value::String(event)) = members.shift_remove("event")
    {
        let text = match members.shift_remove("data") {
            Some(data) if !data.is_null() => format!("{event}: {data}"),
            _ => event,
        };
        members.insert("text".into(), text.into());
    }
}

/// A delivery as forms write it, where a blank field says nothing, or with the
/// older word for announcing.
pub fn delivery(members: &mut Map<String, Value>) {
    drop_blank(members, &["mode", "channel", "to", "threadId", "accountId"]);
    if members.get("mode") == Some(&json!("deliver")) {
        members.insert("mode".into(), "announce".into());
    }
}

/// Trims texts; one without anything in it is left out.
fn drop_blank(members: &mut Map<String, Value>, names: &[&str]) {
    for name in names {
        if let Some(Value::String(text)) = members.get_mut(*name) {
            *text = text.trim().to_owned();
            if text.is_empty() {
                members.shift_remove(*name);
            }
        }
    }
}

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

/// Puts older spellings of a whole job right, as files of older releases have
/// them.
pub fn modernize(job: &mut Map<String, Value>) {
    if let Some(Value::Object(members)) = job.get_mut("schedule") {
        schedule(members);
    }
    if let Some(Value::Object(members)) = job.get_mut("payload") {
        payload(members);
    }
    rename(job, "id", &["jobId"]);
}
