//! `diagnostics.stability`.

use jiff::Timestamp;
use serde_json::Value;

use crate::protocol::ErrorShape;
use crate::protocol::methods::diagnostics::StabilityParams;
use crate::registry::{Ctx, Reply};
use crate::support::stability::{self, CAPACITY, Wanted};
use crate::support::{json, memory};

/// Records when nobody says how many, as in the original.
const LIMIT: u64 = 50;

/// `diagnostics.stability`: what happened lately, with counts by type, and how
/// much memory the gateway has.
pub async fn stability(cx: Ctx, p: StabilityParams) -> Reply<Value> {
    let whole = |name: &str, value: Option<Value>| match value {
        None => Ok(None),
        Some(value) => value
            .as_u64()
            .map(Some)
            .ok_or_else(|| ErrorShape::invalid(format!("{name} must be a non-negative integer"))),
    };
    let limit = whole("limit", p.limit)?.unwrap_or(LIMIT);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if !(1..=CAPACITY).contains(&limit) {
        return Err(ErrorShape::invalid(format!("limit must be between 1 and {CAPACITY}")));
    }
    let since_seq = whole("sinceSeq", p.since_seq)?;
    let kind = match p.kind {
        Some(Value::String(kind)) if !kind.trim().is_empty() => Some(kind.trim().to_owned()),
        Some(Value::Null) | None => None,
        Some(_) => return Err(ErrorShape::invalid("type must be a non-empty string")),
    };
    let mut report = stability::report(&Wanted { limit, kind, since_seq });
    if let Some(used) = memory::used() {
        // As `openclaw gateway stability` reads it. Nothing here runs short of memory and says so.
        report["summary"]["memory"] = json!({"latest": {"rssBytes": used.resident},
            "maxRssBytes": used.peak, "pressureCount": 0});
    }
    let now = i64::try_from(cx.now_ms()).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let mut answer = json!({"generatedAt": format!("{:.3}", now.unwrap_or_default())});
    if let (Value::Object(answer), Value::Object(report)) = (&mut answer, report) {
        answer.extend(report);
    }
    Ok(answer)
}
