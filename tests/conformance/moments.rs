//! Moments that a recording asks for: what lay ahead of it must lie as far
//! ahead of the replay.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use serde_json::Value;

use super::trace::{Trace, What};

/// Moments further away than this are meant as they stand.
const NEAR_MS: i64 = 24 * 60 * 60 * 1000;

/// When the recording began, by the first job that was made in it.
pub fn began(trace: &Trace) -> Option<i64> {
    trace.lines.iter().find_map(|line| {
        let What::Received(frame) = &line.what else { return None };
        let made = frame["payload"]["job"]["createdAtMs"].as_i64()?;
        Some(made - i64::try_from(line.at).ok()?)
    })
}

/// What time it is.
#[allow(clippy::disallowed_methods)] // the recordings are compared with real time
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The params with the moments of schedules moved by `delta` milliseconds, those
/// that were near `recorded`.
pub fn moved(value: &Value, recorded: i64, delta: i64) -> Value {
    let is_near = |moment: i64| (moment - recorded).abs() < NEAR_MS;
    match value {
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                let at = match (name.as_str(), value) {
                    ("at", Value::String(text)) => millis(text).filter(|at| is_near(*at)),
                    ("atMs", Value::Number(at)) => at.as_i64().filter(|at| is_near(*at)),
                    _ => None,
                };
                let moved = match (at, value) {
                    (None, value) => moved(value, recorded, delta),
                    (Some(at), Value::Number(_)) => (at + delta).into(),
                    (Some(at), _) => iso(at + delta).into(),
                };
                (name.clone(), moved)
            };
            Value::Object(members.iter().map(member).collect())
        }
        other => other.clone(),
    }
}

fn millis(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

fn iso(millis: i64) -> String {
    let moment = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH);
    moment.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}
