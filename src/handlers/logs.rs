//! `logs.tail`.

use std::time::Duration;

use serde_json::Value;

use crate::protocol::ErrorShape;
use crate::protocol::methods::logs::{LEVELS, LIMIT_MAX, LogsTailParams};
use crate::registry::{Ctx, Reply};
use crate::support::{blocking, json};
use crate::telemetry;

/// How long lines that were logged just now are waited for.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);
/// Lines when nobody says how many, as in the original.
const LIMIT: u64 = 500;
/// Bytes when nobody says how many, as in the original.
const MAX_BYTES: u64 = 250_000;

/// `logs.tail`: lines of the log file after a cursor, or else the last ones.
pub async fn tail(cx: Ctx, p: LogsTailParams) -> Reply<Value> {
    let Some(place) = telemetry::place() else {
        return Err(ErrorShape::unavailable("this gateway writes no log file"));
    };
    // What the disk has not taken by then is not there yet.
    let _ = tokio::time::timeout(FLUSH_LIMIT, telemetry::flush()).await;
    let wanted = Wanted::of(&cx, &p);
    let limit = usize::try_from(p.limit.unwrap_or(LIMIT)).unwrap_or(usize::MAX);
    // Few of the last lines may be wanted. After a cursor none may be passed over.
    let is_chosen = p.cursor.is_none() && !wanted.is_all();
    let asked = if is_chosen { usize::try_from(LIMIT_MAX).unwrap_or(usize::MAX) } else { limit };
    let max_bytes = p.max_bytes.unwrap_or(MAX_BYTES);
    let now_ms = cx.now_ms();
    let read = move || telemetry::tail(&place, p.cursor, asked, max_bytes, now_ms);
    let read = blocking(read).await?;
    let mut tail = read.map_err(|error| ErrorShape::unavailable(error.to_string()))?;
    tail.lines.retain(|line| wanted.has(line));
    tail.lines.drain(..tail.lines.len().saturating_sub(limit));
    let mut answer = json!({
        "file": tail.file.display().to_string(),
        "cursor": tail.cursor,
        "size": tail.size,
        "lines": tail.lines,
        "truncated": tail.truncated,
        "reset": tail.reset,
    });
    if cx.caller.is_dashboard {
        answer["entries"] = tail.lines.iter().map(|line| entry(line)).collect();
    }
    Ok(answer)
}

/// Which lines somebody wants to see.
#[derive(Debug, Default)]
struct Wanted {
    /// The number of the least grave level.
    level: Option<usize>,
    /// The key of the session that they name.
    session: Option<String>,
}

impl Wanted {
    fn of(cx: &Ctx, p: &LogsTailParams) -> Self {
        let number = |level: &String| LEVELS.iter().position(|it| it == level).map(|at| at + 1);
        let session = p.session_key.as_ref().map(|key| cx.session_key(key).to_string());
        Self { level: p.level.as_ref().and_then(number), session }
    }

    const fn is_all(&self) -> bool {
        self.level.is_none() && self.session.is_none()
    }

    fn has(&self, line: &str) -> bool {
        let is_grave = self.level.is_none_or(|least| {
            let read: Value = serde_json::from_str(line).unwrap_or_default();
            let level = read["_meta"]["logLevelId"].as_u64().unwrap_or_default();
            usize::try_from(level).is_ok_and(|level| level >= least)
        });
        is_grave && self.session.as_ref().is_none_or(|key| names(line, key))
    }
}

/// Whether a line names this session, and not only one whose key begins with its key.
fn names(line: &str, key: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "-_@+".contains(c);
    let mut places = line.match_indices(key).filter_map(|(at, _)| line.get(at + key.len()..));
    places.any(|rest| {
        let rest = rest.strip_prefix(':').unwrap_or(rest);
        !rest.starts_with(is_part)
    })
}

/// A line as dashboards read it.
fn entry(line: &str) -> Value {
    let read: Value = serde_json::from_str(line).unwrap_or_default();
    let level = read["_meta"]["logLevelName"].as_str().unwrap_or_default().to_lowercase();
    json!({"timestamp": read["time"], "level": level, "message": read["message"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_chosen_by_how_grave_they_are_and_by_their_session() {
        let line = |level: u64, text: &str| {
            json!({"_meta": {"logLevelId": level, "logLevelName": "WARN"}, "message": text,
                "time": "2026-01-01T00:00:00.000+00:00"})
            .to_string()
        };
        let wanted = Wanted { level: Some(4), session: Some("agent:main:main".into()) };
        assert!(wanted.has(&line(4, "a run of agent:main:main failed")));
        assert!(wanted.has(&line(5, "agent:main:main")));
        assert!(!wanted.has(&line(3, "agent:main:main")), "less grave");
        for other in ["agent:main:other", "agent:main:main-2", "agent:main:main:thread:5"] {
            assert!(!wanted.has(&line(4, other)), "{other}");
        }
        assert!(wanted.has(&line(4, "of agent:main:main-2 and of agent:main:main: failed")));
        assert!(!wanted.has("no line of ours: agent:main:main"));
        assert!(Wanted::default().has("no line of ours"));
        let shown = entry(&line(4, "x"));
        assert_eq!((&shown["level"], &shown["message"]), (&json!("warn"), &json!("x")));
    }
}
