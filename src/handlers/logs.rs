//! `logs.tail`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::protocol::ErrorShape;
use crate::protocol::methods::logs::LogsTailParams;
use crate::registry::{Ctx, Reply};
use crate::support::blocking;
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
    let limit = usize::try_from(p.limit.unwrap_or(LIMIT)).unwrap_or(usize::MAX);
    let max_bytes = p.max_bytes.unwrap_or(MAX_BYTES);
    let now_ms = cx.now_ms();
    let read = move || telemetry::tail(&place, p.cursor, limit, max_bytes, now_ms);
    let read = blocking(read).await;
    let read = read.map_err(|_| ErrorShape::unavailable("the gateway stops"))?;
    let tail = read.map_err(|error| ErrorShape::unavailable(error.to_string()))?;
    Ok(json!({
        "file": tail.file.display().to_string(),
        "cursor": tail.cursor,
        "size": tail.size,
        "lines": tail.lines,
        "truncated": tail.truncated,
        "reset": tail.reset,
    }))
}
