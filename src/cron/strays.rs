//! Members of a job that stand beside its schedule or its payload: models write jobs so,
//! and so do people in the file of OpenClaw.
//!
//! Promises: they come where they belong; what stands there already stays. Must not: know
//! what a job does.

use serde_json::{Map, Value};

use crate::support::json;

/// What a schedule is made of.
pub const OF_SCHEDULE: [&str; 8] =
    ["at", "atMs", "everyMs", "anchorMs", "cron", "expr", "tz", "staggerMs"];
/// What a payload is made of.
pub const OF_PAYLOAD: [&str; 9] = [
    "message",
    "text",
    "model",
    "fallbacks",
    "thinking",
    "timeoutSeconds",
    "toolsAllow",
    "lightContext",
    "allowUnsafeExternalContent",
];

/// Takes what belongs into the schedule and the payload of a job, and stands beside them, there.
pub fn gather(job: &mut Map<String, Value>) {
    take_in(job, "schedule", &OF_SCHEDULE);
    take_in(job, "payload", &OF_PAYLOAD);
}

fn take_in(job: &mut Map<String, Value>, name: &str, of: &[&str]) {
    // In what is no object there is no place.
    if job.get(name).is_some_and(|own| !own.is_object()) {
        return;
    }
    let take = |name: &&str| Some(((*name).to_owned(), job.shift_remove(*name)?));
    let moved: Vec<_> = of.iter().filter_map(take).collect();
    if moved.is_empty() {
        return;
    }
    if let Value::Object(own) = job.entry(name).or_insert_with(|| json!({})) {
        for (name, value) in moved {
            own.entry(name).or_insert(value);
        }
    }
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
        let bare = json!({"everyMs": 5, "text": "t"});
        let wanted = json!({"schedule": {"everyMs": 5}, "payload": {"text": "t"}});
        assert_eq!(gathered(bare), wanted);
        let wrong = json!({"schedule": "0 9 * * *", "tz": "UTC"});
        assert_eq!(gathered(wrong.clone()), wrong);
    }
}
