//! `GET /api/notifications/stream`: what happens to sessions, as lines that do not
//! end.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::response::Response;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::bus::{Event, EventKind, Subscriber};
use crate::gateway::Gateway;
use crate::http::Asked;
use crate::support::json;

/// Most sessions that a stream remembers to have told of as made. Who has made one speaks in it
/// before so many others are made.
const CREATED_MAX: usize = 1000;

/// `sessions.changed`, as far as it matters here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Changed {
    session_id: Option<String>,
    phase: Option<String>,
    reason: Option<String>,
    /// The number of a message, from 1.
    message_seq: Option<u64>,
    #[serde(default)]
    ts: u64,
}

/// The stream.
pub(in crate::dialects::claude) async fn stream(asked: Asked<'_>) -> Response {
    let (subscriber, _) = asked.subscriber(&[]);
    subscriber.watch_sessions(true);
    subscriber.outbox.answer(json!({"type": "connected"}).to_string());
    let theirs = follow_theirs(asked.gateway, &subscriber);
    let mut own = Own::default();
    let render = move |event: &Event| {
        // Lives as long as the stream.
        let _ = &theirs;
        own.told(event)
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

/// The gateway's own sessions, as a stream tells of them.
#[derive(Default)]
struct Own {
    /// Those that it has told of as made, the newest last.
    created: VecDeque<String>,
}

impl Own {
    /// The line of an event, if it has one.
    fn told(&mut self, event: &Event) -> Option<Value> {
        if event.kind != EventKind::SessionsChanged {
            return None;
        }
        let mut changed: Changed = serde_json::from_str(event.payload()).ok()?;
        changed.session_id = changed.session_id.or_else(|| event.gone_session_id.clone());
        self.line(&changed)
    }

    fn line(&mut self, changed: &Changed) -> Option<Value> {
        let session_id = changed.session_id.as_deref().filter(|id| !id.is_empty())?;
        let operation = match (changed.phase.as_deref(), changed.reason.as_deref()) {
            (Some("start"), _) => "activated",
            (_, Some("create" | "new" | "reset")) => "created",
            // Somebody has made it by speaking in it.
            _ if changed.message_seq == Some(1) && !self.has_created(session_id) => "created",
            (_, Some("delete")) => "deleted",
            (_, Some("deactivate")) => "deactivated",
            (_, Some("read")) => "read",
            _ => "updated",
        };
        if operation == "created" && !self.has_created(session_id) {
            self.created.push_back(session_id.to_owned());
            if self.created.len() > CREATED_MAX {
                self.created.pop_front();
            }
        }
        Some(self::operation(session_id, operation, changed.ts))
    }

    fn has_created(&self, session_id: &str) -> bool {
        self.created.iter().any(|id| id == session_id)
    }
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
            let told = Own::default().line(&serde_json::from_value(payload).unwrap());
            told.map(|line| line["data"]["operation"].as_str().unwrap().to_owned())
        };
        for (member, value, operation) in [
            ("reason", "create", "created"),
            ("reason", "reset", "created"),
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

    #[test]
    fn a_session_is_made_once_by_whoever_makes_it_or_speaks_first() {
        let mut own = Own::default();
        let mut of = |id: &str, mut payload: Value| {
            payload["sessionId"] = json!(id);
            let line = own.line(&serde_json::from_value(payload).unwrap()).unwrap();
            line["data"]["operation"].as_str().unwrap().to_owned()
        };
        let message = |seq: u64| json!({"phase": "message", "messageSeq": seq});
        for (id, payload, operation) in [
            ("talked", message(1), "created"),
            ("talked", json!({"phase": "start"}), "activated"),
            ("talked", message(2), "updated"),
            ("made", json!({"reason": "create"}), "created"),
            ("made", message(1), "updated"),
            ("old", message(5), "updated"),
        ] {
            assert_eq!(of(id, payload.clone()), operation, "{id}: {payload}");
        }
        for index in 0..=CREATED_MAX {
            of(&index.to_string(), message(1));
        }
        assert_eq!(own.created.len(), CREATED_MAX);
    }
}
