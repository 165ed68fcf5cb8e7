//! Shapes of jobs that OpenClaw reads and does not write: what people put into its
//! file, and what older releases left there.
//!
//! Promises: what is missing becomes what OpenClaw takes it for; whatever else is
//! wrong stays.

use serde_json::{Map, Value};

use crate::protocol::methods::cron::{modernize, named};

/// Whole numbers of a schedule.
const TIMES: [&str; 3] = ["everyMs", "anchorMs", "staggerMs"];
/// How an answer may be delivered.
const MODES: [&str; 3] = ["none", "announce", "webhook"];

/// Makes a job whole.
pub(super) fn complete(job: &mut Map<String, Value>) {
    if let Some(id) = job.shift_remove("jobId") {
        job.entry("id").or_insert(id);
    }
    // In its file that says nothing; a request is refused for it.
    if job.get("delivery").is_some_and(Value::is_null) {
        job.shift_remove("delivery");
    }
    modernize(job);
    if let Some(Value::Object(schedule)) = job.get_mut("schedule") {
        round(schedule, &TIMES);
    }
    round(job, &["createdAtMs", "updatedAtMs"]);
    let is_enabled = job.get("enabled").and_then(Value::as_bool).unwrap_or(true);
    job.insert("enabled".into(), is_enabled.into());
    let said = job.get("name").and_then(Value::as_str).map(str::trim);
    let name = said.filter(|name| !name.is_empty()).map_or_else(|| named(job), str::to_owned);
    job.insert("name".into(), name.into());
    if !job.get("sessionTarget").is_some_and(Value::is_string) {
        let is_event = job.get("payload").is_some_and(|payload| payload["kind"] == "systemEvent");
        let target = if is_event { "main" } else { "isolated" };
        job.insert("sessionTarget".into(), target.into());
    }
    deliver(job);
}

/// How the answer is delivered. A mode that there is not says nothing, and neither does
/// `deliver`, the older word for announcing.
fn deliver(job: &mut Map<String, Value>) {
    let Some(Value::Object(own)) = job.get_mut("delivery") else { return };
    let mode = own.shift_remove("mode");
    let mode = mode.as_ref().and_then(Value::as_str).map(|mode| mode.trim().to_lowercase());
    if let Some(mode) = mode.filter(|mode| MODES.contains(&mode.as_str())) {
        own.insert("mode".into(), mode.into());
    }
}

/// Numbers in texts, and those with fractions, which count as whole ones there.
fn round(members: &mut Map<String, Value>, names: &[&str]) {
    for name in names {
        let Some(value) = members.get_mut(*name) else { continue };
        let number = match &*value {
            Value::Number(number) if number.is_f64() => number.as_f64(),
            Value::String(text) => text.trim().parse::<f64>().ok(),
            _ => None,
        };
        let whole = number.and_then(|number| format!("{:.0}", number.floor()).parse::<u64>().ok());
        if let Some(whole) = whole {
            *value = whole.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::support::json;

    use super::*;

    #[test]
    fn what_is_missing_becomes_what_openclaw_takes_it_for() {
        let complete = |mut job: Value| {
            if let Value::Object(members) = &mut job {
                complete(members);
            }
            job
        };
        let expected = json!({"id": "a", "enabled": true, "sessionTarget": "main",
            "name": "Feed the cat", "schedule": {"everyMs": 60000, "anchorMs": 5, "kind": "every"},
            "payload": {"text": "\n Feed the cat \nnow", "kind": "systemEvent"}});
        let schedule = json!({"everyMs": "60000.7", "anchorMs": 5.9});
        let payload = json!({"text": "\n Feed the cat \nnow"});
        let odd = json!({"id": "a", "schedule": schedule, "payload": payload, "enabled": "TRUE"});
        assert_eq!(complete(odd), expected);
        let flat = json!({"jobId": "b", "name": " B ", "expr": "5 5 * * *", "tz": "UTC",
            "message": "go", "enabled": "false", "sessionTarget": 5});
        let expected = json!({"id": "b", "name": "B", "enabled": false,
            "sessionTarget": "isolated", "payload": {"message": "go", "kind": "agentTurn"},
            "schedule": {"expr": "5 5 * * *", "tz": "UTC", "kind": "cron"}});
        assert_eq!(complete(flat), expected);
        let beside = json!({"id": "c", "name": "C", "model": "m", "tz": "UTC",
            "schedule": {"kind": "cron", "expr": "5 5 * * *"},
            "payload": {"kind": "agentTurn", "message": "go"}});
        let told = complete(beside);
        assert_eq!(
            (&told["payload"]["model"], &told["schedule"]["tz"]),
            (&json!("m"), &json!("UTC"))
        );
        let long = complete(json!({"payload": {"kind": "agentTurn", "message": "é".repeat(61)}}));
        assert_eq!(long["name"], format!("{}…", "é".repeat(59)));
        assert_eq!(complete(json!({}))["name"], "Cron job");
        let delivered = |mut job: Value| {
            job["payload"]["kind"] = "agentTurn".into();
            complete(job).get("delivery").cloned().unwrap_or_default()
        };
        for (said, expected) in [
            (json!({}), Value::Null),
            (json!({"delivery": {"mode": "deliver", "to": "7"}}), json!({"to": "7"})),
            (json!({"delivery": {"mode": " None "}}), json!({"mode": "none"})),
            (json!({"payload": {"deliver": true}}), Value::Null),
            (json!({"payload": {"deliver": false}}), json!({"mode": "none"})),
            (json!({"payload": {"deliver": false}, "delivery": null}), json!({"mode": "none"})),
            (
                json!({"payload": {"deliver": true, "channel": "telegram", "to": "7"},
                    "bestEffortDeliver": true}),
                json!({"channel": "telegram", "to": "7", "bestEffort": true}),
            ),
            (
                json!({"payload": {"channel": "telegram"}, "delivery": {"mode": "none"}}),
                json!({"mode": "none"}),
            ),
        ] {
            assert_eq!(delivered(said.clone()), expected, "{said}");
        }
        let whole = json!({"schedule": {"kind": "every", "everyMs": "soon"}});
        assert_eq!(complete(whole)["schedule"]["everyMs"], "soon", "nobody can read that");
    }

    #[test]
    fn what_the_main_session_is_told_is_no_question_though_a_model_stands_there() {
        let mut job = json!({"text": "tea", "model": "m"});
        complete(job.as_object_mut().unwrap());
        assert_eq!(job["payload"], json!({"kind": "systemEvent", "text": "tea"}));
        assert_eq!(job["sessionTarget"], "main");
    }
}
