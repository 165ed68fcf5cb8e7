//! The methods of `sessions.*` that change no session.

use serde::Serialize;
use serde_json::Value;

use crate::agent::SessionRow;
use crate::protocol::ErrorShape;
use crate::protocol::methods::AnyParams;
use crate::protocol::methods::sessions::{
    SessionKeyParams, SessionsDescribeParams, SessionsGetParams, SessionsListParams,
    SessionsPreviewParams, SessionsResolveParams,
};
use crate::protocol::simple;
use crate::registry::{Ctx, Reply, Shared};
use crate::sessions::{
    AgentId, HistoryOptions, SessionEntry, SessionError, SessionKey, SessionQuery,
    SessionRow as Listed, WEBCHAT, iso_time,
};
use crate::support::json;

use super::shared::{Asked, raw, shared};

const MINUTE_MS: u64 = 60_000;
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

/// `sessions.list`: rows, newest first. Only those who name sessions in their own way
/// have lists of their own.
pub async fn list(cx: Ctx, p: SessionsListParams) -> Reply<Shared> {
    let asked = match (cx.is_simple(), cx.caller.is_dashboard) {
        (true, _) => return raw(&listing(&cx, p).await?),
        (false, true) => Asked::Dashboard(p.clone()),
        (false, false) => Asked::Sessions(p.clone()),
    };
    shared(&cx.services, asked, listing(&cx, p)).await
}

/// Answer to `sessions.list`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listing {
    ts: u64,
    path: String,
    count: usize,
    total_count: u64,
    limit_applied: u64,
    has_more: bool,
    defaults: Value,
    sessions: Vec<Shown>,
}

/// A row of it.
#[derive(Serialize)]
#[serde(untagged)]
enum Shown {
    /// As most clients get it. Written as it is: a tree of each row would be most of
    /// the work.
    Plain(Box<SessionRow>),
    /// With what the caller's profile adds.
    Adapted(Value),
}

async fn listing(cx: &Ctx, p: SessionsListParams) -> Reply<Listing> {
    let services = &cx.services;
    let keys = &services.keys.now();
    let now_ms = cx.now_ms();
    let limit = p.limit.unwrap_or(DEFAULT_LIMIT);
    let query = SessionQuery {
        hides_job_runs: true,
        limit: Some(u32::try_from(limit).unwrap_or(u32::MAX)),
        active_since_ms: p
            .active_minutes
            .map(|minutes| now_ms.saturating_sub(minutes.saturating_mul(MINUTE_MS))),
        agent: p.agent_id.as_deref().map(|id| AgentId::normalize(id).to_string()),
        search: p.search.filter(|search| !search.trim().is_empty()),
        label: p.label,
        spawned_by: p.spawned_by.map(|parent| SessionKey::parse(&parent, keys).to_string()),
        include_global: p.include_global.unwrap_or(keys.global_scope),
        include_unknown: p.include_unknown.unwrap_or_default(),
        ..SessionQuery::default()
    };
    let path = path(cx, query.agent.as_deref());
    let page = services.sessions.list(query).await.map_err(unavailable)?;
    let wanted =
        Extras { has_title: p.include_derived_titles, has_last_message: p.include_last_message };
    let sessions: Vec<_> = page
        .entries
        .into_iter()
        .map(|listed| {
            let mut row = row(cx, &listed, wanted);
            row.thinking_default = None;
            let key = SessionKey::from_canonical(listed.key);
            row.has_active_run = Some(services.runs.active(&key).is_some());
            if cx.is_simple() || cx.caller.is_dashboard {
                Shown::Adapted(shown(cx, row, &key, &listed.entry))
            } else {
                Shown::Plain(Box::new(row))
            }
        })
        .collect();
    let mut defaults = SessionRow::defaults(&services.models);
    if let Value::Object(members) = &mut defaults
        && cx.is_simple()
    {
        simple::row_out(members);
    }
    Ok(Listing {
        ts: now_ms,
        path,
        count: sessions.len(),
        total_count: page.total,
        limit_applied: limit,
        has_more: u64::try_from(sessions.len()).is_ok_and(|count| count < page.total),
        defaults,
        sessions,
    })
}

/// Where the original would have the rows: each agent has a file of its own.
fn path(cx: &Ctx, agent: Option<&str>) -> String {
    let (settings, keys) = (cx.services.settings.now(), cx.services.keys.now());
    if agent.is_none() && settings.agents.list.len() > 1 {
        return "(multiple)".to_owned();
    }
    let folder = settings.paths.sessions_dir(agent.unwrap_or(keys.default_agent.as_str()));
    folder.join("sessions.json").display().to_string()
}

/// What a caller wants to see of the transcript in a row.
#[derive(Clone, Copy, Default)]
struct Extras {
    has_title: bool,
    has_last_message: bool,
}

fn row(cx: &Ctx, listed: &Listed, wanted: Extras) -> SessionRow {
    let key = SessionKey::from_canonical(listed.key.as_str());
    let mut row = SessionRow::new(&key, &listed.entry, &cx.services.models).with_subagent();
    row.child_sessions.clone_from(&listed.children);
    let facts = &listed.entry.transcript;
    if wanted.has_title {
        row.derived_title.clone_from(&facts.derived_title);
    }
    if wanted.has_last_message {
        row.last_message_preview.clone_from(&facts.last_message);
    }
    row
}

/// The row as the caller's profile writes it.
pub(super) fn shown(cx: &Ctx, row: SessionRow, key: &SessionKey, entry: &SessionEntry) -> Value {
    let mut row = serde_json::to_value(row).unwrap_or(Value::Null);
    let Value::Object(members) = &mut row else { return row };
    let level = cx.services.models.thinking(key, entry).as_str();
    if cx.is_simple() {
        cx.caller.key_names.put_in_row(members);
        members.insert("thinkingLevel".into(), json!(level));
        simple::row_out(members);
        let channel = entry.channel.as_deref().filter(|channel| *channel != WEBCHAT);
        members.insert("surface".into(), json!(channel.unwrap_or("web")));
    }
    if cx.caller.is_dashboard {
        let agent = key.agent(&cx.services.keys.now());
        members.insert("agentId".into(), json!(agent.as_str()));
        members.insert("thinking".into(), json!(level));
        let created_at = entry.session_started_at.unwrap_or(entry.updated_at);
        members.insert("createdAt".into(), json!(iso_time(created_at)));
        members.insert("lastMessageAt".into(), json!(iso_time(entry.updated_at)));
        members.insert("messageCount".into(), json!(entry.transcript.message_count));
    }
    row
}

/// An answer about one session as the caller's profile writes it.
pub(super) fn told(cx: &Ctx, mut answer: Value) -> Value {
    if cx.is_simple() {
        let names = &cx.caller.key_names;
        for place in ["/key", "/sourceKey", "/checkpoint/sessionKey", "/artifact/sessionKey"] {
            names.put(answer.pointer_mut(place));
        }
        for list in ["checkpoints", "artifacts"] {
            let rows = answer.get_mut(list).and_then(Value::as_array_mut);
            for row in rows.into_iter().flatten() {
                names.put(row.get_mut("sessionKey"));
            }
        }
        if let Some(Value::Object(entry)) = answer.get_mut("entry") {
            names.put_in_row(entry);
            simple::row_out(entry);
        }
    }
    answer
}

/// `sessions.describe`: one row, or null.
pub async fn describe(cx: Ctx, p: SessionsDescribeParams) -> Reply<Value> {
    let key = cx.session_key(&p.key);
    let wanted =
        Extras { has_title: p.include_derived_titles, has_last_message: p.include_last_message };
    let listed = listed(&cx, &key).await?;
    let row = listed.map(|listed| shown(&cx, row(&cx, &listed, wanted), &key, &listed.entry));
    Ok(json!({"session": row}))
}

async fn listed(cx: &Ctx, key: &SessionKey) -> Reply<Option<Listed>> {
    let query = SessionQuery {
        key: Some(key.to_string()),
        include_global: true,
        include_unknown: true,
        ..SessionQuery::default()
    };
    let page = cx.services.sessions.list(query).await.map_err(unavailable)?;
    Ok(page.entries.into_iter().next())
}

/// `sessions.resolve`: the canonical key for a key, a transcript or a label.
pub async fn resolve(cx: Ctx, p: SessionsResolveParams) -> Reply<Value> {
    let sessions = &cx.services.sessions;
    let agent = p.agent_id.as_deref().map(AgentId::normalize);
    let parent = p.spawned_by.as_deref().map(|parent| cx.session_key(parent));
    let keys = cx.services.keys.now();
    let is_meant = |key: &SessionKey, entry: &SessionEntry| {
        let spawned_by = entry.spawned_by.as_deref();
        agent.as_ref().is_none_or(|agent| key.agent(&keys) == *agent)
            && parent.as_ref().is_none_or(|parent| spawned_by == Some(parent.as_str()))
    };
    let found = match (p.key, p.session_id, p.label) {
        (None, None, None) => {
            return Err(ErrorShape::invalid("Either key, sessionId, or label is required"));
        }
        (Some(written), None, None) => {
            let key = cx.session_key(&written);
            let entry = sessions.entry(&key).await.map_err(unavailable)?;
            let entry = entry.filter(|entry| is_meant(&key, entry));
            entry.map(|_| key.to_string()).ok_or_else(|| format!("No session found: {written}"))
        }
        (None, Some(id), None) => {
            let row = sessions.by_id(&id).await.map_err(unavailable)?;
            let key_of = |row: &Listed| SessionKey::from_canonical(row.key.as_str());
            let row = row.filter(|row| is_meant(&key_of(row), &row.entry));
            row.map(|row| row.key).ok_or_else(|| format!("No session found: {id}"))
        }
        (None, None, Some(label)) => {
            let query = SessionQuery {
                limit: Some(2),
                agent: agent.as_ref().map(ToString::to_string),
                label: Some(label.clone()),
                spawned_by: parent.as_ref().map(ToString::to_string),
                include_global: p.include_global,
                include_unknown: p.include_unknown,
                ..SessionQuery::default()
            };
            let page = sessions.list(query).await.map_err(unavailable)?;
            let mut keys: Vec<_> = page.entries.into_iter().map(|row| row.key).collect();
            if keys.len() > 1 {
                let keys = keys.join(", ");
                let text = format!("Multiple sessions found with label: {label} ({keys})");
                return Err(ErrorShape::invalid(text));
            }
            keys.pop().ok_or_else(|| format!("No session found with label: {label}"))
        }
        _ => {
            return Err(ErrorShape::invalid(
                "Provide either key, sessionId, or label (not multiple)",
            ));
        }
    };
    let key = found.map_err(ErrorShape::not_found)?;
    Ok(told(&cx, json!({"ok": true, "key": key})))
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
    let mut answer = json!({"ts": cx.now_ms(), "previews": previews});
    if p.is_single
        && let Some(written) = p.keys.first()
    {
        let found = cx.services.sessions.entry(&cx.session_key(written)).await;
        let entry = found.map_err(unavailable)?;
        let changed_at = entry.as_ref().map(|entry| entry.updated_at);
        let facts = entry.unwrap_or_default().transcript;
        answer["key"] = json!(written);
        answer["summary"] = json!(facts.last_message.unwrap_or_default());
        answer["messageCount"] = json!(facts.message_count);
        if let Some(changed_at) = changed_at {
            answer["lastMessageAt"] = json!(iso_time(changed_at));
        }
    }
    Ok(answer)
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
    Ok(told(cx, json!({"subscribed": on, "key": key.as_str()})))
}

#[allow(clippy::needless_pass_by_value)] // used as a plain function in map_err
pub(super) fn unavailable(error: SessionError) -> ErrorShape {
    ErrorShape::unavailable(format!("Error: {error}"))
}
