//! `GET /api/notifications/stream`: what happens to sessions, as lines that do not
//! end.

use std::sync::Arc;

use axum::response::Response;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::bus::{Event, EventKind, Subscriber};
use crate::gateway::Gateway;
use crate::http::Asked;
use crate::support::json;

/// `sessions.changed`, as far as it matters here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Changed {
    session_id: Option<String>,
    phase: Option<String>,
    reason: Option<String>,
    #[serde(default)]
    ts: u64,
}

/// The stream.
pub(in crate::dialects::claude) async fn stream(asked: Asked<'_>) -> Response {
    let (subscriber, _) = asked.subscriber(&[]);
    subscriber.watch_sessions(true);
    subscriber.outbox.answer(json!({"type": "connected"}).to_string());
    let theirs = follow_theirs(asked.gateway, &subscriber);
    let render = move |event: &Event| {
        // Lives as long as the stream.
        let _ = &theirs;
        told(event)
    };
    asked.stream(subscriber, render).await
}

/// Tells of the sessions that Claude Code has itself, until it is dropped.
fn follow_theirs(gateway: &Arc<Gateway>, subscriber: &Arc<Subscriber>) -> Option<DropGuard> {
    let projects = gateway.projects.clone()?;
    let (ends, subscriber) = (CancellationToken::new(), Arc::clone(subscriber));
    let (token, clock) = (ends.clone(), Arc::clone(&gateway.services.clock));
    gateway.services.tasks.spawn("claude projects", async move {
        let follow = async {
            let mut list = projects.follow_list().await?;
            loop {
                for id in list.changed().await? {
                    let line = operation(&id, "updated", clock.now_ms());
                    subscriber.outbox.answer(line.to_string());
                }
            }
        };
        let followed: Option<std::io::Result<()>> = token.run_until_cancelled(follow).await;
        if let Some(Err(error)) = followed {
            tracing::warn!(%error, "the sessions of Claude Code cannot be followed");
        }
    });
    Some(ends.drop_guard())
}

/// The line of an event, if it has one.
fn told(event: &Event) -> Option<Value> {
    if event.kind != EventKind::SessionsChanged {
        return None;
    }
    let mut changed: Changed = serde_json::from_str(event.payload()).ok()?;
    changed.session_id = changed.session_id.or_else(|| event.gone_session_id.clone());
    line(&changed)
}

fn line(changed: &Changed) -> Option<Value> {
    let session_id = changed.session_id.as_deref().filter(|id| !id.is_empty())?;
    let operation = match (changed.phase.as_deref(), changed.reason.as_deref()) {
        (Some("start"), _) => "activated",
        (_, Some("create")) => "created",
        (_, Some("delete")) => "deleted",
        (_, Some("deactivate")) => "deactivated",
        (_, Some("read")) => "read",
        _ => "updated",
    };
    Some(self::operation(session_id, operation, changed.ts))
}

fn operation(session_id: &str, operation: &str, timestamp: u64) -> Value {
    json!({
        "type": "claude-session-updated",
        "timestamp": timestamp,
        "data": {"sessionId": session_id, "operation": operation},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_has_its_word() {
        let of = |payload: Value| {
            let told = line(&serde_json::from_value(payload).unwrap());
            told.map(|line| line["data"]["operation"].as_str().unwrap().to_owned())
        };
        for (member, value, operation) in [
            ("reason", "create", "created"),
            ("reason", "delete", "deleted"),
            ("reason", "deactivate", "deactivated"),
            ("reason", "read", "read"),
            ("reason", "archive", "updated"),
            ("reason", "patch", "updated"),
            ("phase", "start", "activated"),
            ("phase", "message", "updated"),
            ("phase", "end", "updated"),
        ] {
            let payload = json!({"sessionId": "s", member: value, "ts": 7});
            assert_eq!(of(payload).as_deref(), Some(operation), "{value}");
        }
        assert_eq!(of(json!({"sessionKey": "k", "reason": "delete"})), None);
    }
}
