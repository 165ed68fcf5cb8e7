//! Jobs as models write them.
//!
//! Owns: finding them in the arguments, as the original does, and refusing what is plainly a
//! slip. Must not: know what a job does.

use serde_json::{Map, Value};

use crate::protocol::methods::cron::{OF_PAYLOAD, OF_SCHEDULE, OF_TURN, Schedule};

/// What a job is made of, for models that write it beside the action.
const OF_JOB: [&str; 11] = [
    "name",
    "description",
    "schedule",
    "sessionTarget",
    "sessionKey",
    "payload",
    "delivery",
    "wakeMode",
    "enabled",
    "deleteAfterRun",
    "agentId",
];
/// A job that is due more often is meant in seconds: each time costs a run of a model.
const LEAST_MS: u64 = 10_000;

/// The job, or what changes of one, that is written in the argument `name` or beside it.
pub(super) fn members(arguments: &Value, name: &str) -> Map<String, Value> {
    match &arguments[name] {
        Value::Object(members) if !members.is_empty() => members.clone(),
        _ => {
            let all = OF_JOB.iter().chain(&OF_SCHEDULE).chain(&OF_PAYLOAD).chain(&OF_TURN);
            let own = |name: &&str| Some(((*name).to_owned(), arguments.get(*name)?.clone()));
            all.filter_map(own).collect()
        }
    }
}

/// Refuses a schedule whose milliseconds are plainly meant as seconds.
pub(super) fn check(schedule: &Schedule) -> Result<(), String> {
    match schedule {
        Schedule::Every { every_ms, .. } if *every_ms < LEAST_MS => Err(format!(
            "everyMs is in milliseconds, and {every_ms} of them are too few (at least {LEAST_MS}): \
             every minute is 60000"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::protocol::decode::{Unknown, decode};
    use crate::protocol::methods::cron::NewJob;
    use crate::support::json;

    use super::*;

    fn read(job: Value) -> NewJob {
        decode("cron.add", job, Unknown::Refuse).unwrap()
    }

    fn job(arguments: &Value) -> NewJob {
        read(Value::Object(members(arguments, "job")))
    }

    #[test]
    fn what_stands_beside_the_schedule_and_the_payload_belongs_into_them() {
        let every = json!({"kind": "every", "everyMs": 60_000});
        let wanted = read(json!({"name": "n", "schedule": every, "payload": {"message": "hey"}}));
        let nested = json!({"name": "n", "schedule": every, "message": "hey"});
        assert_eq!(job(&json!({"action": "add", "job": nested})), wanted);
        for empty in [json!(null), json!({})] {
            let flat = json!({"action": "add", "job": empty, "name": "n", "schedule": every,
                "message": "hey"});
            assert_eq!(job(&flat), wanted);
        }
        let loose = json!({"name": "n", "cron": "0 9 * * *", "tz": "UTC", "message": "hey",
            "model": "m", "payload": {"message": "own"}});
        let wanted = json!({"name": "n", "payload": {"message": "own", "model": "m"},
            "schedule": {"cron": "0 9 * * *", "tz": "UTC"}});
        assert_eq!(job(&json!({"job": loose})), read(wanted));
        let whole = json!({"name": "n", "schedule": every, "payload": {"text": "hey"}});
        assert_eq!(job(&json!({"job": whole})), read(whole));
    }

    #[test]
    fn milliseconds_that_are_seconds_are_refused() {
        let every = |every_ms| check(&Schedule::Every { every_ms, anchor_ms: None });
        assert!(every(300).unwrap_err().contains("in milliseconds"));
        assert_eq!(every(LEAST_MS), Ok(()));
        assert_eq!(check(&Schedule::At { at: "2030-01-01".into() }), Ok(()));
    }
}
