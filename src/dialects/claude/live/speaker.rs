//! A connection that looks at a session.
//!
//! Promises: messages, settings and `subscribe` are done in their order, all else
//! at once; what nobody understands is passed over, as by the real software. Must not: do anything but by methods, in the name of whoever
//! connected.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Semaphore, mpsc};
use uuid::Uuid;

use super::frame;
use super::hear::Hearing;
use super::rooms::Seat;
use super::teller::idle;
use crate::agent::approvals::QuestionKind;
use crate::bus::{Closing, Event, EventKind, Subscriber};
use crate::gateway::{Frames, Gateway, Speaker, Utf8Bytes};
use crate::sessions::SessionKey;
use crate::support::{BoxFuture, json_of_javascript};

/// Frames of one connection that may be under way; beyond it nothing is read.
const MAX_IN_FLIGHT: usize = 64;

/// A connection that was let in.
pub struct Viewer {
    /// What every connection shares.
    gateway: Arc<Gateway>,
    /// Its place in the bus.
    subscriber: Arc<Subscriber>,
    /// The session.
    key: SessionKey,
    /// Its transcript.
    session_id: String,
    /// The line after which it wants to read.
    from: Option<Uuid>,
    line: Option<Line>,
    in_flight: Arc<Semaphore>,
}

/// What there is once it has begun.
struct Line {
    seat: Arc<Seat>,
    hearing: Arc<Hearing>,
    /// What is done in its order.
    messages: mpsc::Sender<Value>,
}

impl Viewer {
    /// A connection that has not begun.
    pub fn new(
        gateway: Arc<Gateway>,
        subscriber: Arc<Subscriber>,
        (key, session_id): (SessionKey, String),
        from: Option<Uuid>,
    ) -> Self {
        let in_flight = Arc::new(Semaphore::new(MAX_IN_FLIGHT));
        Self { gateway, subscriber, key, session_id, from, line: None, in_flight }
    }

    async fn enter(&mut self) -> Result<(), String> {
        let key = self.key.clone();
        let seat = self.gateway.claude.enter(&self.gateway, key, &self.session_id).await;
        let seat = seat.map_err(|error| error.to_string())?;
        let seat = Arc::new(seat.ok_or("the session is gone")?);
        let room = Arc::clone(seat.room().ok_or("the session is gone")?);
        let joined = room.join(&self.subscriber, None, self.from).await;
        joined.map_err(|error| error.to_string())?;
        let hearing = Arc::new(Hearing::new(room, Arc::clone(&self.subscriber)));
        let (messages, mut waiting) = mpsc::channel::<Value>(MAX_IN_FLIGHT);
        let (one, in_flight) = (Arc::clone(&hearing), Arc::clone(&self.in_flight));
        self.gateway.services.tasks.spawn("claude messages", async move {
            while let Some(message) = waiting.recv().await {
                let _permit = in_flight.acquire().await;
                one.hear(&message).await;
            }
        });
        self.line = Some(Line { seat, hearing, messages });
        Ok(())
    }
}

/// Whether a frame is heard after what its sender has said before: a message, and what
/// messages depend on. What goes on may wait for the others.
fn is_in_line(frame: &Value) -> bool {
    match frame["type"].as_str() {
        Some("user_message" | "subscribe") => true,
        Some("control_request") => {
            frame["request"]["subtype"].as_str().is_some_and(|it| it.starts_with("set_"))
        }
        _ => false,
    }
}

impl Viewer {
    /// Whether a turn goes on that clients are told of.
    fn is_working(&self) -> bool {
        let run = self.gateway.services.runs.active(&self.key);
        run.is_some_and(|run| run.progress().started_at.is_some() && !run.terms.is_heartbeat)
    }

    /// The answer to a side question.
    fn say_aside(&self, event: &Event) {
        let Ok(payload) = serde_json::from_str::<Value>(event.payload()) else { return };
        let (text, outbox) =
            (payload["text"].as_str().unwrap_or_default(), &self.subscriber.outbox);
        let (ids, now_ms) = (&self.gateway.services.ids, self.gateway.services.clock.now_ms());
        let said = frame::said_by_gateway(&self.session_id, text, &ids.uuid(), now_ms);
        outbox.answer(said.to_string());
        // What goes on meanwhile has an end of its own, and no client is idle before that.
        if self.is_working() {
            return;
        }
        for frame in idle(&self.session_id, text, 0.0, &ids.uuid(), now_ms) {
            outbox.answer(frame.text.to_string());
        }
    }
}

impl Speaker for Viewer {
    /// As the real software.
    fn ping_every(&self) -> Duration {
        Duration::from_secs(30)
    }

    fn subscriber(&self) -> &Arc<Subscriber> {
        &self.subscriber
    }

    fn begin(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Err(message) = self.enter().await {
                tracing::warn!(session = %self.key, message, "a session cannot be looked at");
                let error = frame::error("Failed to read session", &message);
                self.subscriber.outbox.answer(error.to_string());
                let reason = "session not readable".into();
                self.subscriber.outbox.close(Closing { code: 1011, reason, drains: true });
            }
        })
    }

    fn hear(&mut self, message: Utf8Bytes) -> Option<BoxFuture<'_, ()>> {
        Some(Box::pin(async move {
            let Some(line) = &self.line else { return };
            let Ok(message) = json_of_javascript(&message) else { return };
            if is_in_line(&message) {
                // Full only when its messages wait for each other; then so does this.
                drop(line.messages.send(message).await);
                return;
            }
            let Ok(permit) = Arc::clone(&self.in_flight).acquire_owned().await else { return };
            let hearing = Arc::clone(&line.hearing);
            self.gateway.services.tasks.spawn("claude frame", async move {
                hearing.hear(&message).await;
                drop(permit);
            });
        }))
    }

    /// Events about questions of others, and answers that are in no transcript;
    /// what else happens comes by the room.
    fn render(&mut self, event: &Event, _: &mut Frames) {
        let key = event.session_key.as_deref();
        if event.kind == EventKind::ChatSideResult && key == Some(&self.key) {
            self.say_aside(event);
        }
        let kind = match event.kind {
            EventKind::ExecApprovalRequested => QuestionKind::Exec,
            EventKind::PluginApprovalRequested => QuestionKind::Plugin,
            _ => return,
        };
        let Some(room) = self.line.as_ref().and_then(|line| line.seat.room()) else { return };
        let Ok(asked) = serde_json::from_str::<Value>(event.payload()) else { return };
        if room.is_about(&asked["request"])
            && let Some(id) = asked["id"].as_str()
            && let Ok(question) = self.gateway.services.runs.parts().approvals.find(kind, id)
        {
            room.ask(&question);
        }
    }

    fn in_flight(&self) -> Option<&Semaphore> {
        Some(&self.in_flight)
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        if let Some(room) = self.line.as_ref().and_then(|line| line.seat.room()) {
            room.leave(&self.subscriber.conn_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::json;

    #[test]
    fn only_messages_and_what_they_depend_on_wait_for_each_other() {
        for kind in ["user_message", "subscribe"] {
            assert!(is_in_line(&json!({"type": kind})), "{kind}");
        }
        for kind in ["typing", "ack", "tool_result", "control_response", "unknown"] {
            assert!(!is_in_line(&json!({"type": kind})), "{kind}");
        }
        for (subtype, waits) in [
            ("set_permission_mode", true),
            ("set_model", true),
            ("set_max_thinking_tokens", true),
            ("interrupt", false),
            ("initialize", false),
        ] {
            let frame = json!({"type": "control_request", "request": {"subtype": subtype}});
            assert_eq!(is_in_line(&frame), waits, "{subtype}");
        }
    }
}
