//! The methods of `sessions.*` that change no session.

use serde_json::{Value, json};

use crate::agent::SessionRow;
use crate::protocol::ErrorShape;
use crate::protocol::methods::AnyParams;
use crate::protocol::methods::sessions::{
    SessionKeyParams, SessionsDescribeParams, SessionsGetParams, SessionsListParams,
    SessionsPreviewParams, SessionsResolveParams,
};
use crate::protocol::simple;
use crate::registry::{Ctx, Reply};
use crate::sessions::{
    AgentId, HistoryOptions, SessionEntry, SessionError, SessionKey, SessionQuery,
};

/// Rows when nobody says how many.
const DEFAULT_LIMIT: u64 = 100;
/// Lines of a preview when nobody says how many.
const PREVIEW_LINES: usize = 12;
/// Most lines of a preview.
const PREVIEW_LINES_MAX: usize = 50;
/// Characters of a preview's line when nobody says how many.
const PREVIEW_CHARS: usize = 240;
/// Most characters of a preview's line.
const PREVIEW_CHARS_MAX: usize = 2000;
/// Most sessions of one request for previews; further ones are left out.
const PREVIEW_KEYS_MAX: usize = 64;

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
    let page = services.sessions.list(query).await.map_err(unavailable)?;
    let rows: Vec<Value> = page
        .entries
        .into_iter()
        .map(|listed| {
            let key = SessionKey::from_canonical(listed.key);
            shown(&cx, &key, &listed.entry, p.include_derived_titles, p.include_last_message, true)
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
fn shown(
    cx: &Ctx,
    key: &SessionKey,
    entry: &SessionEntry,
    has_title: bool,
    has_last_message: bool,
    is_listed: bool,
) -> Value {
    let mut row = SessionRow::new(key, entry, &cx.services.models);
    if has_title {
        row.derived_title.clone_from(&entry.transcript.derived_title);
    }
    if has_last_message {
        row.last_message_preview.clone_from(&entry.transcript.last_message);
    }
    if is_listed {
        row.thinking_default = None;
        row.has_active_run = Some(cx.services.runs.active(key).is_some());
    }
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

/// `sessions.describe`: one row, or null.
pub async fn describe(cx: Ctx, p: SessionsDescribeParams) -> Reply<Value> {
    let key = cx.session_key(&p.key);
    let entry = cx.services.sessions.entry(&key).await.map_err(unavailable)?;
    let row = entry.map(|entry| {
        shown(&cx, &key, &entry, p.include_derived_titles, p.include_last_message, false)
    });
    Ok(json!({"session": row}))
}

/// `sessions.resolve`: the canonical key for a key, a transcript or a label.
pub async fn resolve(cx: Ctx, p: SessionsResolveParams) -> Reply<Value> {
    let sessions = &cx.services.sessions;
    let found = match (p.key, p.session_id, p.label) {
        (None, None, None) => {
            return Err(ErrorShape::invalid("Either key, sessionId, or label is required"));
        }
        (Some(written), None, None) => {
            let key = cx.session_key(&written);
            let entry = sessions.entry(&key).await.map_err(unavailable)?;
            entry.map(|_| key.to_string()).ok_or_else(|| format!("No session found: {written}"))
        }
        (None, Some(id), None) => {
            let row = sessions.by_id(&id).await.map_err(unavailable)?;
            row.map(|row| row.key).ok_or_else(|| format!("No session found: {id}"))
        }
        (None, None, Some(label)) => {
            let query = SessionQuery {
                limit: Some(1),
                agent: p.agent_id.as_deref().map(|id| AgentId::normalize(id).to_string()),
                label: Some(label.clone()),
                spawned_by: p.spawned_by,
                include_global: p.include_global,
                include_unknown: p.include_unknown,
                ..SessionQuery::default()
            };
            let page = sessions.list(query).await.map_err(unavailable)?;
            let row = page.entries.into_iter().next();
            row.map(|row| row.key).ok_or_else(|| format!("No session found with label: {label}"))
        }
        _ => {
            return Err(ErrorShape::invalid(
                "Provide either key, sessionId, or label (not multiple)",
            ));
        }
    };
    let key = found.map_err(ErrorShape::invalid)?;
    Ok(json!({"ok": true, "key": key}))
}

/// `sessions.get`: the newest messages as they are stored.
pub async fn get(cx: Ctx, p: SessionsGetParams) -> Reply<Value> {
    if p.key.is_empty() {
        return Err(ErrorShape::invalid("key required"));
    }
    let key = cx.session_key(&p.key);
    let defaults = HistoryOptions::default();
    let limit = p.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(defaults.limit);
    let options = HistoryOptions { limit, is_raw: true, ..defaults };
    let page = cx.services.sessions.history(&key, options).await.map_err(unavailable)?;
    Ok(json!({"messages": page.messages}))
}

/// `sessions.preview`: the last lines of several sessions.
pub async fn preview(cx: Ctx, p: SessionsPreviewParams) -> Reply<Value> {
    let number = |given: Option<u64>, default: usize| {
        given.and_then(|given| usize::try_from(given).ok()).unwrap_or(default)
    };
    let limit = number(p.limit, PREVIEW_LINES).min(PREVIEW_LINES_MAX);
    let max_chars = number(p.max_chars, PREVIEW_CHARS).min(PREVIEW_CHARS_MAX);
    let mut previews = Vec::new();
    for written in p.keys.iter().take(PREVIEW_KEYS_MAX) {
        let key = cx.session_key(written);
        let lines = cx.services.sessions.preview(&key, limit, max_chars).await;
        previews.push(match lines {
            Ok(Some(items)) if items.is_empty() => {
                json!({"key": written, "status": "empty", "items": items})
            }
            Ok(Some(items)) => json!({"key": written, "status": "ok", "items": items}),
            Ok(None) => json!({"key": written, "status": "missing", "items": []}),
            Err(error) => {
                tracing::warn!(session = %key, %error, "no preview");
                json!({"key": written, "status": "error", "items": []})
            }
        });
    }
    Ok(json!({"ts": cx.now_ms(), "previews": previews}))
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

#[allow(clippy::needless_pass_by_value)] // used as a plain function in map_err
pub(super) fn unavailable(error: SessionError) -> ErrorShape {
    ErrorShape::unavailable(format!("Error: {error}"))
}
