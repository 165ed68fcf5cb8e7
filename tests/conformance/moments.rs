//! Moments that a recording asks for: what lay ahead of it must lie as far
//! ahead of the replay.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use serde_json::Value;

use super::trace::{Trace, What};

/// Moments further away than this are meant as they stand.
const NEAR_MS: i64 = 24 * 60 * 60 * 1000;

/// When the recording began: a job was made after it was asked for and before
/// that was told, so what lies between is known to some milliseconds.
pub fn began(trace: &Trace) -> Option<i64> {
    let (mut asked, mut bounds) = (0, None::<(i64, i64)>);
    for line in &trace.lines {
        let at = i64::try_from(line.at).ok()?;
        let frame = match &line.what {
            What::Sent(_) => {
                asked = at;
                continue;
            }
            What::Received(frame) => frame,
            _ => continue,
        };
        let is_new = frame["event"] == "cron" && frame["payload"]["action"] == "added";
        let made = frame["payload"]["job"]["createdAtMs"].as_i64().filter(|_| is_new);
        let Some(made) = made else { continue };
        let (low, high) = bounds.unwrap_or((i64::MIN, i64::MAX));
        bounds = Some((low.max(made - at), high.min(made - asked)));
    }
    bounds.map(|(low, high)| low + (high - low) / 2)
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
