//! A connection that came by a link.
//!
//! Promises: it is told what happens in the session, and nothing of where that is,
//! what it works with and what waits for permission; it ends with its link. Must
//! not: do anything in the session, also not mark it as read.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use serde_json::Value;

use super::rooms::Seat;
use crate::bus::{Closing, Event, Subscriber};
use crate::dialects::claude::rest::share::{Link, find_link, holds, without_places};
use crate::gateway::{Frames, Gateway, Opened, Speaker, Utf8Bytes};
use crate::http::OpenAsked;
use crate::sessions::{SessionError, SessionKey};
use crate::support::{BoxFuture, json, json_of_javascript};

/// Who looks at one session by links at the same time: whoever has one may pass it
/// on, and each costs a connection.
const GUESTS_MAX: usize = 64;
/// How the beginning of a frame looks that is a piece of an answer.
const PIECE: &str = r#"{"type":"stream_event""#;
/// Members of `init` that list what the gateway has.
const OWNERS: [&str; 6] = ["tools", "mcp_servers", "slash_commands", "agents", "skills", "plugins"];

/// A connection by a link.
struct Guest {
    gateway: Arc<Gateway>,
    subscriber: Arc<Subscriber>,
    key: SessionKey,
    link: Arc<Link>,
    from: Option<String>,
    seat: Option<Seat>,
}

/// Looks whether the link holds.
///
/// # Errors
/// The answer to somebody who has none, or has tried too often.
pub async fn open(asked: OpenAsked) -> Result<Opened, Response> {
    let token = asked.path.get("token");
    let (listed, link) = find_link(&asked.gateway, &asked.peer, asked.manner, token).await?;
    let from = asked.query("fromUuid");
    let (subscriber, _) = asked.subscriber(&[]);
    let (gateway, key) = (asked.gateway, SessionKey::from_canonical(listed.row.key));
    let link = Arc::new(link);
    Ok(Opened::new("claude", Guest { gateway, subscriber, key, link, from, seat: None }))
}

impl Guest {
    /// Comes in; `false` where there is no place any more.
    async fn enter(&mut self) -> Result<bool, SessionError> {
        let (key, session_id) = (self.key.clone(), &self.link.session_id);
        self.seat = self.gateway.claude.enter(&self.gateway, key, session_id).await?;
        let Some(room) = self.seat.as_ref().and_then(Seat::room) else { return Ok(false) };
        if room.guests().len() >= GUESTS_MAX {
            return Ok(false);
        }
        let from = self.from.take().and_then(|uuid| uuid.parse().ok());
        room.join(&self.subscriber, Some(&self.link), from).await?;
        Ok(true)
    }

    /// Nothing can be told. What goes on after the conversation has no part in its link.
    fn fail(&self, error: &SessionError) {
        if let SessionError::Replaced(_) = error {
            return self.subscriber.outbox.close(ended());
        }
        tracing::warn!(session = %self.key, %error, "a session cannot be looked at");
        self.close(1011, "session not readable");
    }

    fn close(&self, code: u16, reason: &str) {
        let closing = Closing { code, reason: reason.into(), drains: true };
        self.subscriber.outbox.close(closing);
    }
}

impl Speaker for Guest {
    /// As the real software.
    fn ping_every(&self) -> Duration {
        Duration::from_secs(30)
    }

    fn subscriber(&self) -> &Arc<Subscriber> {
        &self.subscriber
    }

    fn begin(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            match self.enter().await {
                Ok(true) => {}
                Ok(false) => return self.close(1013, "no place to look at this session"),
                Err(error) => return self.fail(&error),
            }
            // It may have ended before whoever ended it could see this connection.
            if !holds(&self.gateway, &self.link).await {
                self.subscriber.outbox.close(ended());
            }
        })
    }

    fn hear(&mut self, message: Utf8Bytes) -> Option<BoxFuture<'_, ()>> {
        Some(Box::pin(async move {
            let Ok(message) = json_of_javascript(&message) else { return };
            let Some(room) = self.seat.as_ref().and_then(Seat::room) else { return };
            if message["type"] == "subscribe" {
                let from = message["fromUuid"].as_str().and_then(|uuid| uuid.parse().ok());
                if let Err(error) = room.join(&self.subscriber, Some(&self.link), from).await {
                    self.fail(&error);
                }
            }
        }))
    }

    fn render(&mut self, _: &Event, _: &mut Frames) {}
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(room) = self.seat.as_ref().and_then(Seat::room) {
            room.leave(&self.subscriber.conn_id);
        }
    }
}

/// What a connection is told whose link has ended: it is cut off.
pub fn ended() -> Closing {
    Closing { code: 4001, reason: "the link has ended".into(), drains: false }
}

/// A frame as it is told to who came by a link; `None` for one that is not.
pub fn shown(text: &str) -> Option<String> {
    if text.starts_with(PIECE) {
        return Some(text.to_owned());
    }
    let mut frame: Value = serde_json::from_str(text).ok()?;
    let kind = frame["type"].as_str().unwrap_or_default();
    if kind.starts_with("control_") {
        return None;
    }
    without_places(&mut frame);
    if kind_is_init(&frame) {
        for name in OWNERS {
            frame[name] = json!([]);
        }
        frame["permissionMode"] = "default".into();
    }
    Some(frame.to_string())
}

fn kind_is_init(frame: &Value) -> bool {
    frame["type"] == "system" && frame["subtype"] == "init"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_told_what_is_said_and_not_where_or_with_what_or_what_is_asked() {
        for name in ["control_request", "control_response", "control_cancel_request"] {
            assert_eq!(shown(&json!({"type": name, "request_id": "r"}).to_string()), None);
        }
        let init = json!({"type": "system", "subtype": "init", "cwd": "/home/me", "tools": ["x"],
            "mcp_servers": [{"name": "y"}], "permissionMode": "plan", "slash_commands": ["z"],
            "agents": ["a"], "skills": ["b"], "plugins": ["c"], "model": "m"});
        let expected = json!({"type": "system", "subtype": "init", "cwd": "", "tools": [],
            "mcp_servers": [], "permissionMode": "default", "slash_commands": [],
            "agents": [], "skills": [], "plugins": [], "model": "m"});
        assert_eq!(shown(&init.to_string()), Some(expected.to_string()));
        let piece = r#"{"type":"stream_event","event":{"type":"message_stop"}}"#;
        assert_eq!(shown(piece).as_deref(), Some(piece));
    }
}
