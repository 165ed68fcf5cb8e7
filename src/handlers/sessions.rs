//! `sessions.*`.

use serde_json::{Value, json};

use crate::agent::SessionRow;
use crate::protocol::ErrorShape;
use crate::protocol::methods::AnyParams;
use crate::protocol::methods::sessions::{SessionKeyParams, SessionsListParams};
use crate::protocol::simple;
use crate::registry::{Ctx, Reply};
use crate::sessions::{AgentId, SessionKey, SessionQuery};

/// Rows when nobody says how many.
const DEFAULT_LIMIT: u64 = 100;

/// `sessions.list`: rows, newest first.
pub async fn list(cx: Ctx, p: SessionsListParams) -> Reply<Value> {
    let services = &cx.services;
    let now_ms = cx.now_ms();
    let limit = p.limit.unwrap_or(DEFAULT_LIMIT);
    let query = SessionQuery {
        limit: Some(u32::try_from(limit).unwrap_or(u32::MAX)),
        active_since_ms: p.active_minutes.map(|minutes| now_ms.saturating_sub(minutes * 60_000)),
        agent: p.agent_id.as_deref().map(|id| AgentId::normalize(id).to_string()),
        search: p.search.filter(|search| !search.trim().is_empty()),
        label: p.label,
        spawned_by: p.spawned_by,
        include_global: p.include_global.unwrap_or(true),
        include_unknown: p.include_unknown.unwrap_or(true),
    };
    let page = services
        .sessions
        .list(query)
        .await
        .map_err(|error| ErrorShape::unavailable(format!("Error: {error}")))?;
    let rows: Vec<Value> = page
        .entries
        .into_iter()
        .map(|listed| {
            let key = SessionKey::from_canonical(listed.key);
            let mut row = SessionRow::new(&key, &listed.entry, &services.models);
            if p.include_derived_titles {
                row.derived_title.clone_from(&listed.entry.transcript.derived_title);
            }
            if p.include_last_message {
                row.last_message_preview.clone_from(&listed.entry.transcript.last_message);
            }
            row.thinking_default = None;
            row.has_active_run = Some(services.runs.active(&key).is_some());
            shown(&cx, &key, &row)
        })
        .collect();
    let agent = &services.keys.default_agent;
    let path = services.settings.paths.sessions_dir(agent.as_str()).join("sessions.json");
    Ok(json!({
        "ts": now_ms,
        "path": path.display().to_string(),
        "count": rows.len(),
        "totalCount": page.total,
        "limitApplied": limit,
        "hasMore": u64::try_from(rows.len()).is_ok_and(|count| count < page.total),
        "defaults": SessionRow::defaults(&services.models),
        "sessions": rows,
    }))
}

/// The row as the caller's profile writes it.
fn shown(cx: &Ctx, key: &SessionKey, row: &SessionRow) -> Value {
    let mut row = serde_json::to_value(row).unwrap_or(Value::Null);
    if cx.is_simple()
        && let Value::Object(members) = &mut row
    {
        if let Some(name) = cx.caller.key_names.name(key.as_str()) {
            members.insert("key".into(), json!(name));
        }
        let level = members.get("thinkingLevel").and_then(Value::as_str).unwrap_or("off");
        let level = simple::thinking_out(level).to_owned();
        members.insert("thinkingLevel".into(), json!(level));
        members.insert("surface".into(), json!("web"));
    }
    row
}

/// `sessions.subscribe`: from now on events about all sessions.
pub async fn subscribe(cx: Ctx, _: AnyParams) -> Reply<Value> {
    cx.caller.subscriber.watch_sessions(true);
    Ok(json!({"subscribed": true}))
}

/// `sessions.unsubscribe`: ends that.
pub async fn unsubscribe(cx: Ctx, _: AnyParams) -> Reply<Value> {
    cx.caller.subscriber.watch_sessions(false);
    Ok(json!({"subscribed": false}))
}

/// `sessions.messages.subscribe`: from now on the messages of one session.
pub async fn subscribe_messages(cx: Ctx, p: SessionKeyParams) -> Reply<Value> {
    watch_messages(&cx, &p, true)
}

/// `sessions.messages.unsubscribe`: ends that.
pub async fn unsubscribe_messages(cx: Ctx, p: SessionKeyParams) -> Reply<Value> {
    watch_messages(&cx, &p, false)
}

fn watch_messages(cx: &Ctx, p: &SessionKeyParams, on: bool) -> Reply<Value> {
    let key = cx.session_key(&p.key);
    if !cx.caller.subscriber.watch_messages(key.clone(), on) {
        return Err(ErrorShape::invalid(
            "too many message subscriptions; use sessions.subscribe to follow all sessions",
        ));
    }
    Ok(json!({"subscribed": on, "key": key.as_str()}))
}
