//! `sessions.usage*`, `usage.*`.

use serde_json::{Map, Value};

use super::sessions::unavailable;
use super::shared::{Asked, raw, shared};
use crate::protocol::ErrorShape;
use crate::protocol::methods::AnyParams;
use crate::protocol::methods::usage::{SessionUsageParams, SessionsUsageParams, UsageCostParams};
use crate::registry::{Ctx, Reply, Shared};
use crate::sessions::usage::{
    DateRange, ListedUsage, RangeError, UsageError, UsageQuery, Zone, chat_type,
};
use crate::support::json;

/// Sessions when nobody says how many.
const SESSIONS: usize = 50;
/// Most sessions of one answer; dashboards ask for so many.
const SESSIONS_MAX: usize = 1000;
/// Log lines when nobody says how many.
const LOGS: usize = 200;
/// Most log lines.
const LOGS_MAX: usize = 1000;

/// `usage.status`: what is left of the quotas of model providers. They publish
/// them to the logins of their own programs only; with the credentials that this
/// gateway has nobody can ask, so none is listed.
pub async fn status(cx: Ctx, _: AnyParams) -> Reply<Value> {
    Ok(json!({"updatedAt": cx.now_ms(), "providers": []}))
}

/// `sessions.usage`: tokens and prices of sessions, over days. A single session is named in
/// the caller's own way.
pub async fn sessions(cx: Ctx, p: SessionsUsageParams) -> Reply<Shared> {
    if p.key.is_some() {
        return raw(&of_sessions(&cx, p).await?);
    }
    let asked = Asked::Usage(p.clone());
    shared(&cx.services, asked, Box::pin(of_sessions(&cx, p))).await
}

async fn of_sessions(cx: &Ctx, p: SessionsUsageParams) -> Reply<Value> {
    let now_ms = cx.now_ms();
    let range = Zone::read(p.mode.as_deref(), p.utc_offset.as_deref()).and_then(|zone| {
        DateRange::read(zone, p.start_date.as_deref(), p.end_date.as_deref(), None, now_ms)
    });
    let range = range.map_err(|error| no_range("sessions.usage", &error))?;
    let days = (range.first.to_string(), range.last.to_string());
    let limit = count(p.limit, SESSIONS).min(SESSIONS_MAX);
    let key = p.key.map(|written| cx.session_key(&written));
    let query = UsageQuery { range, key, limit };
    let (rows, totals, aggregates, status) =
        cx.services.usage.sessions(query).await.map_err(unavailable)?;
    let rows: Vec<_> = rows.iter().map(|row| shown(cx, row, p.include_context_weight)).collect();
    Ok(json!({
        "updatedAt": now_ms,
        "startDate": days.0,
        "endDate": days.1,
        "sessions": rows,
        "totals": totals,
        "aggregates": aggregates,
        "cacheStatus": status,
    }))
}

fn shown(cx: &Ctx, row: &ListedUsage, has_context_weight: bool) -> Value {
    let entry = row.entry.as_ref();
    let model = entry.map(|entry| cx.services.models.of_session(&row.key, Some(entry)));
    // What people said without a channel came by the gateway's own, as in rows.
    let spoken = entry.is_some_and(|entry| entry.last_interaction_at.is_some());
    let chat_type = entry.and_then(chat_type).or_else(|| spoken.then(|| "direct".into()));
    let origin = entry.and_then(|entry| entry.origin.clone()).or_else(|| {
        let channel = row.channel.as_deref();
        spoken.then(|| json!({"provider": channel, "surface": channel, "chatType": chat_type}))
    });
    let weight = || entry.and_then(|entry| entry.extra.get("systemPromptReport").cloned());
    let members = [
        ("key", Some(json!(row.key.as_str()))),
        ("label", entry.and_then(|entry| entry.label.clone()).map(Value::from)),
        ("sessionId", Some(json!(row.session_id))),
        ("updatedAt", Some(json!(row.updated_at))),
        ("agentId", Some(json!(row.agent))),
        ("channel", row.channel.as_deref().map(Value::from)),
        ("chatType", chat_type.map(Value::from)),
        ("origin", origin),
        ("modelOverride", entry.and_then(|entry| entry.model_override.clone()).map(Value::from)),
        (
            "providerOverride",
            entry.and_then(|entry| entry.provider_override.clone()).map(Value::from),
        ),
        ("modelProvider", model.as_ref().map(|model| json!(model.name.provider))),
        ("model", model.as_ref().map(|model| json!(model.name.model))),
        ("usage", Some(json!(row.usage))),
        ("contextWeight", has_context_weight.then(|| weight().unwrap_or_default())),
    ];
    let set = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(set.collect::<Map<_, _>>())
}

/// `usage.cost`: what all sessions used, day by day.
pub async fn cost(cx: Ctx, p: UsageCostParams) -> Reply<Shared> {
    shared(&cx.services, Asked::Cost(p.clone()), of_all(&cx, &p)).await
}

async fn of_all(cx: &Ctx, p: &UsageCostParams) -> Reply<Value> {
    let now_ms = cx.now_ms();
    let range = Zone::read(p.mode.as_deref(), p.utc_offset.as_deref()).and_then(|zone| {
        DateRange::read(zone, p.start_date.as_deref(), p.end_date.as_deref(), p.days, now_ms)
    });
    let range = range.map_err(|error| no_range("usage.cost", &error))?;
    let summary = cx.services.usage.cost(range).await.map_err(unavailable)?;
    let mut answer = json!({"updatedAt": now_ms});
    if let (Value::Object(answer), Value::Object(summary)) = (&mut answer, json!(summary)) {
        answer.extend(summary);
    }
    Ok(answer)
}

/// `sessions.usage.timeseries`: the answers of a session over time.
pub async fn timeseries(cx: Ctx, p: SessionUsageParams) -> Reply<Value> {
    let Some(written) = p.key else {
        return Err(ErrorShape::invalid("key is required for timeseries"));
    };
    let key = cx.session_key(&written);
    let found = cx.services.usage.timeseries(&key, &written).await;
    let (session_id, points) = found.map_err(no_usage)?;
    Ok(json!({"sessionId": session_id, "points": points}))
}

/// `sessions.usage.logs`: the newest messages of a session with what they used.
pub async fn logs(cx: Ctx, p: SessionUsageParams) -> Reply<Value> {
    let Some(written) = p.key else {
        return Err(ErrorShape::invalid("key is required for logs"));
    };
    let key = cx.session_key(&written);
    let limit = count(p.limit, LOGS).min(LOGS_MAX);
    let logs = cx.services.usage.logs(&key, &written, limit).await.map_err(no_usage)?;
    Ok(json!({"logs": logs}))
}

fn count(given: Option<u64>, default: usize) -> usize {
    given.map_or(default, |given| usize::try_from(given).unwrap_or(usize::MAX))
}

fn no_range(method: &str, error: &RangeError) -> ErrorShape {
    let member = match error {
        RangeError::Start(_) => "startDate",
        RangeError::End(_) => "endDate",
        RangeError::Offset(_) => "utcOffset",
    };
    ErrorShape::invalid(format!("invalid {method} params: at /{member}: {error}"))
}

fn no_usage(error: UsageError) -> ErrorShape {
    match error {
        UsageError::Session(error) => unavailable(error),
        UsageError::NoTranscript(_) | UsageError::BadKey(_) => {
            ErrorShape::invalid(error.to_string())
        }
    }
}
