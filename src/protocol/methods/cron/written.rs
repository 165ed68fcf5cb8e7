//! Jobs as people, models and programs write them, and as older releases did.
//!
//! Promises: what is spelled otherwise, or stands elsewhere, comes where it belongs; what stands
//! there already stays, and so does what nobody can read, which is then told with its place.
//! Must not: know what a job does.

use serde_json::{Map, Number, Value};

use super::WakeMode;
use crate::support::json;

/// What a schedule is made of.
pub const OF_SCHEDULE: [&str; 8] =
    ["at", "atMs", "everyMs", "anchorMs", "cron", "expr", "tz", "staggerMs"];
/// What a payload says.
pub const OF_PAYLOAD: [&str; 2] = ["message", "text"];
/// What else a question to an agent is made of.
pub const OF_TURN: [&str; 7] = [
    "model",
    "fallbacks",
    "thinking",
    "timeoutSeconds",
    "toolsAllow",
    "lightContext",
    "allowUnsafeExternalContent",
];
/// Where an answer goes, as older releases kept it in the payload, or beside that.
const OF_ANSWER: [&str; 6] =
    ["deliver", "provider", "channel", "to", "threadId", "bestEffortDeliver"];
/// What of a payload says nothing when it is blank.
const MAY_BE_BLANK: [&str; 4] = ["kind", "model", "thinking", "timeoutSeconds"];
/// Longest name that is made of what a job says, as in the original.
const NAME_MAX: usize = 60;

type Members = Map<String, Value>;

/// A job that is wanted, as a request says it.
pub(super) fn new_job(job: &mut Members) {
    unpack(job);
    let says_delivery = job.contains_key("delivery");
    respell_all(job);
    if let Some(Value::Object(delivery)) = job.get_mut("delivery")
        && !says_delivery
    {
        delivery.entry("mode").or_insert_with(|| "announce".into());
    }
    drop_blank(job, &["name"]);
    let is_part = |name: &&str| job.get(*name).is_some_and(Value::is_object);
    if !job.contains_key("name") && ["schedule", "payload"].iter().all(is_part) {
        let name = named(job);
        job.insert("name".into(), name.into());
    }
}

/// What changes of a job, as a request says it.
pub(super) fn changes(job: &mut Members) {
    unpack(job);
    respell_all(job);
}

/// Puts a job right as files may have it, but for its `delivery`.
pub fn modernize(job: &mut Members) {
    gather(job);
    within(job, "schedule", schedule);
    within(job, "payload", payload);
    deliver(job);
    drop_blank(job, &["agentId", "sessionKey", "sessionTarget", "wakeMode"]);
    respell(job, "sessionTarget", &["main", "isolated", "current"]);
    respell(job, "wakeMode", &WakeMode::WORDS);
    let said = job.get("enabled").and_then(Value::as_str);
    let said = said.and_then(|word| word.trim().to_lowercase().parse::<bool>().ok());
    if let Some(is_enabled) = said {
        job.insert("enabled".into(), is_enabled.into());
    }
}

/// A name for a job that has none: how what it says begins.
pub fn named(job: &Members) -> String {
    let payload = job.get("payload");
    let said = payload.and_then(|it| it["text"].as_str().or_else(|| it["message"].as_str()));
    let mut lines = said.unwrap_or_default().lines().map(str::trim);
    let Some(line) = lines.find(|line| !line.is_empty()) else { return "Cron job".into() };
    if line.chars().nth(NAME_MAX).is_none() {
        return line.to_owned();
    }
    let begin: String = line.chars().take(NAME_MAX - 1).collect();
    format!("{}…", begin.trim_end())
}

/// Takes a job, or what changes of one, out of the member in which it may be sent.
fn unpack(job: &mut Members) {
    for name in ["data", "job"] {
        if let Some(Value::Object(own)) = job.get_mut(name) {
            let own = std::mem::take(own);
            *job = own;
            return;
        }
    }
}

/// Puts right what only requests say, and what holds for files as well.
fn respell_all(job: &mut Members) {
    rename(job, "sessionTarget", &["session"]);
    rename(job, "toolsAllow", &["tools"]);
    // The one is no more, the other is seen in what there is beside it.
    shed(job, &["isolation", "kind"]);
    gather(job);
    within(job, "payload", question);
    modernize(job);
    within(job, "delivery", delivery);
}

/// Takes what belongs into the schedule and the payload of a job, and stands beside them, there.
fn gather(job: &mut Members) {
    take_in(job, "schedule", &OF_SCHEDULE);
    take_in(job, "payload", &OF_PAYLOAD);
    take_in(job, "payload", &OF_TURN);
}

fn take_in(job: &mut Members, name: &str, of: &[&str]) {
    // In what is no object there is no place.
    if job.get(name).is_some_and(|own| !own.is_object()) {
        return;
    }
    let moved = take(job, of);
    if moved.is_empty() {
        return;
    }
    if let Value::Object(own) = job.entry(name).or_insert_with(|| json!({})) {
        for (name, value) in moved {
            own.entry(name).or_insert(value);
        }
    }
}

/// Where the answer goes, when the job itself does not say it and its payload does, or what
/// stands beside that; what of it nobody can read is left there. The main session answers in
/// its chat.
fn deliver(job: &mut Members) {
    let mut said = take(job, &OF_ANSWER);
    let mut is_event = false;
    if let Some(Value::Object(payload)) = job.get_mut("payload") {
        said.extend(take(payload, &OF_ANSWER));
        is_event = is_kind(payload, "systemEvent");
    }
    // What the job itself says counts, though nobody can read it.
    if is_event || job.contains_key("delivery") {
        return;
    }
    let mut delivery = Map::new();
    for word in OF_ANSWER {
        let Some(value) = said.shift_remove(word) else { continue };
        match (word, value) {
            ("deliver", Value::Bool(true)) => {}
            ("deliver", Value::Bool(false)) => {
                delivery.insert("mode".into(), "none".into());
            }
            ("bestEffortDeliver", value @ Value::Bool(_)) => {
                delivery.insert("bestEffort".into(), value);
            }
            ("provider", value @ Value::String(_)) => {
                delivery.insert("channel".into(), value);
            }
            ("channel" | "to" | "threadId", value @ Value::String(_))
            | ("threadId", value @ Value::Number(_)) => {
                delivery.insert(word.into(), value);
            }
            (_, value) => {
                job.insert(word.into(), value);
            }
        }
    }
    if !delivery.is_empty() {
        job.insert("delivery".into(), delivery.into());
    }
}

/// A schedule without `kind`, with `atMs`, or as in seed 001, and what forms of another kind
/// have left in it.
pub(super) fn schedule(members: &mut Members) {
    drop_blank(members, &["kind"]);
    respell(members, "kind", &["at", "every", "cron"]);
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
    let others: &[&str] = match members.get("kind").and_then(Value::as_str) {
        // A zone is refused: without it this would be another moment.
        Some("at") => &["everyMs", "anchorMs", "expr", "staggerMs"],
        Some("every") => &["at", "expr", "tz", "staggerMs"],
        Some("cron") => &["at", "everyMs", "anchorMs"],
        _ => &[],
    };
    shed(members, others);
    // Milliseconds since the epoch are read as text later on.
    if let Some(Value::Number(at)) = members.get("at") {
        let text = at.to_string();
        members.insert("at".into(), text.into());
    }
}

/// A payload without `kind` that says how or where to answer, which is a question. Only of
/// requests: a file may say that beside what the main session is told.
fn question(members: &mut Members) {
    drop_blank(members, &MAY_BE_BLANK);
    if members.contains_key("kind") {
        return;
    }
    let is_of_turn = has(members, &OF_TURN);
    if is_of_turn {
        rename(members, "message", &["text"]);
    }
    if (is_of_turn || has(members, &OF_ANSWER)) && !has(members, &["text", "event"]) {
        members.insert("kind".into(), "agentTurn".into());
    }
}

/// A payload without `kind`, with blank fields or those of the other kind, or as in seed 001.
fn payload(members: &mut Members) {
    drop_blank(members, &MAY_BE_BLANK);
    respell(members, "kind", &["agentTurn", "systemEvent"]);
    if let Some(Value::String(text)) = members.get("timeoutSeconds")
        && let Ok(seconds) = text.parse::<Number>()
    {
        members.insert("timeoutSeconds".into(), Value::Number(seconds));
    }
    if !members.contains_key("kind") {
        if members.contains_key("message") {
            members.insert("kind".into(), "agentTurn".into());
        } else if has(members, &["text", "event"]) {
            members.insert("kind".into(), "systemEvent".into());
        }
    }
    if is_kind(members, "agentTurn") {
        shed(members, &["text"]);
    }
    if !is_kind(members, "systemEvent") {
        return;
    }
    shed(members, &["message"]);
    shed(members, &OF_TURN);
    if !members.contains_key("text")
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
fn delivery(members: &mut Members) {
    drop_blank(members, &["mode", "channel", "to", "threadId", "accountId"]);
    respell(members, "mode", &["deliver", "none", "announce", "webhook"]);
    if members.get("mode") == Some(&json!("deliver")) {
        members.insert("mode".into(), "announce".into());
    }
    if let Some(Value::String(channel)) = members.get_mut("channel") {
        *channel = channel.to_lowercase();
    }
}

/// Puts right what a member is made of.
pub(super) fn within(job: &mut Members, name: &str, put_right: fn(&mut Members)) {
    if let Some(Value::Object(own)) = job.get_mut(name) {
        put_right(own);
    }
}

/// Takes the first of several other names of a member.
fn rename(members: &mut Members, name: &str, others: &[&str]) {
    for other in others {
        if let Some(value) = members.shift_remove(*other) {
            members.entry(name).or_insert(value);
        }
    }
}

/// A word that is known, however it is written.
fn respell(members: &mut Members, name: &str, known: &[&str]) {
    if let Some(Value::String(text)) = members.get_mut(name)
        && let Some(word) = known.iter().find(|word| word.eq_ignore_ascii_case(text.trim()))
    {
        (*word).clone_into(text);
    }
}

/// Trims texts; one without anything in it is left out.
fn drop_blank(members: &mut Members, names: &[&str]) {
    for name in names {
        if let Some(Value::String(text)) = members.get_mut(*name) {
            *text = text.trim().to_owned();
            if text.is_empty() {
                members.shift_remove(*name);
            }
        }
    }
}

fn shed(members: &mut Members, names: &[&str]) {
    for name in names {
        members.shift_remove(*name);
    }
}

/// Takes these members; a blank text is none.
fn take(members: &mut Members, names: &[&str]) -> Members {
    let is_said = |value: &Value| value.as_str().is_none_or(|text| !text.trim().is_empty());
    let own = |name: &&str| {
        let value = members.shift_remove(*name).filter(is_said)?;
        Some(((*name).to_owned(), value))
    };
    names.iter().filter_map(own).collect()
}

fn has(members: &Members, names: &[&str]) -> bool {
    names.iter().any(|name| members.contains_key(*name))
}

fn is_kind(members: &Members, kind: &str) -> bool {
    members.get("kind").is_some_and(|own| own == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_already_stays_and_what_is_no_object_takes_nothing() {
        let gathered = |mut job: Value| {
            if let Value::Object(members) = &mut job {
                gather(members);
            }
            job
        };
        let loose = json!({"name": "n", "tz": "UTC", "model": "beside", "lightContext": true,
            "schedule": {"expr": "0 9 * * *"}, "payload": {"message": "own", "model": "own"}});
        assert_eq!(
            gathered(loose),
            json!({"name": "n", "schedule": {"expr": "0 9 * * *", "tz": "UTC"},
                "payload": {"message": "own", "model": "own", "lightContext": true}})
        );
        let bare = json!({"everyMs": 5, "text": "t", "message": " "});
        let wanted = json!({"schedule": {"everyMs": 5}, "payload": {"text": "t"}});
        assert_eq!(gathered(bare), wanted);
        let wrong = json!({"schedule": "0 9 * * *", "tz": "UTC"});
        assert_eq!(gathered(wrong.clone()), wrong);
    }
}
