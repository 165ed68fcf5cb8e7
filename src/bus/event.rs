//! One event, serialised once.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde_json::Value;

use crate::protocol::hello::StateVersion;
use crate::sessions::SessionKey;

use super::kind::EventKind;

/// Who gets an event, beside the gate of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Audience {
    /// Every connection.
    Everyone,
    /// Connections that subscribed to all sessions.
    SessionWatchers,
    /// Those, and connections that subscribed to the messages of this session.
    MessageWatchers(SessionKey),
    /// Connections that asked for tool events, of the run's owner.
    ToolWatchers(Arc<crate::auth::Owner>),
    /// Nodes that follow this session, and nobody else.
    Followers(Arc<SessionKey>),
    /// One connection.
    Connection(Arc<str>),
    /// Every connection but this one.
    Others(Arc<str>),
}

/// What a connection needs to turn snapshots of a run's text into increments.
#[derive(Debug, Clone)]
pub struct ChatMark {
    /// The run.
    pub run_id: Arc<str>,
    /// All of its text so far, for a delta; `None` when the run has ended.
    pub text: Option<Arc<str>>,
    /// Whether this is the run's first delta.
    pub begins: bool,
}

/// An event on its way.
#[derive(Debug)]
pub struct Event {
    /// Which one.
    pub kind: EventKind,
    /// The frame's text up to and including the payload.
    head: String,
    /// The session it is about.
    pub session_key: Option<Arc<SessionKey>>,
    /// Its id, where the payload has none because it is gone. Not on the wire.
    pub gone_session_id: Option<String>,
    /// For `chat` events.
    pub chat: Option<ChatMark>,
    state_version: Option<StateVersion>,
    /// The name that the first connection with one of its own has for the session, and the
    /// head with it: most of them have the same.
    named: OnceLock<(String, String)>,
}

impl Event {
    /// Serialises `payload`, which must be an object.
    pub fn new(kind: EventKind, payload: &impl Serialize) -> Self {
        let mut head = begin(kind);
        match serde_json::to_string(payload) {
            Ok(text) => head.push_str(&text),
            Err(error) => {
                // Only a map with non-string keys can fail, and no payload has one.
                tracing::error!(event = kind.name(), %error, "event payload could not be written");
                head.push_str("{}");
            }
        }
        Self {
            kind,
            head,
            session_key: None,
            gone_session_id: None,
            chat: None,
            state_version: None,
            named: OnceLock::new(),
        }
    }

    /// Names the id of a session that is gone.
    #[must_use]
    pub fn of_gone(mut self, session_id: &str) -> Self {
        self.gone_session_id = Some(session_id.to_owned());
        self
    }

    /// Names the session it is about.
    #[must_use]
    pub fn about(mut self, key: impl Into<Arc<SessionKey>>) -> Self {
        self.session_key = Some(key.into());
        self
    }

    /// Marks it as part of a run's text.
    #[must_use]
    pub fn chat(mut self, mark: ChatMark) -> Self {
        self.chat = Some(mark);
        self
    }

    /// Adds the counters that `presence` and `health` carry.
    #[must_use]
    pub const fn versioned(mut self, version: StateVersion) -> Self {
        self.state_version = Some(version);
        self
    }

    /// Bytes that it takes in a queue.
    pub const fn len(&self) -> usize {
        self.head.len()
    }

    /// Never: there is always a frame around the payload.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// The payload as JSON text.
    pub fn payload(&self) -> &str {
        let start = r#"{"type":"event","event":"","payload":"#.len() + self.kind.name().len();
        self.head.get(start..).unwrap_or("{}")
    }

    /// The frame's text up to and including the payload; [`Self::end`] is what
    /// comes behind it.
    pub fn head(&self) -> &str {
        &self.head
    }

    /// The head with this name in the place of the session's key, written once for all
    /// connections whose name for it is the first one that was asked for.
    pub fn head_named(&self, name: &str) -> Cow<'_, str> {
        let (first, head) = self.named.get_or_init(|| (name.to_owned(), self.write_named(name)));
        if first == name { Cow::Borrowed(head) } else { Cow::Owned(self.write_named(name)) }
    }

    /// What we wrote ourselves can be read; if not, it stays as it is.
    fn write_named(&self, name: &str) -> String {
        let Ok(Value::Object(mut payload)) = serde_json::from_str(self.payload()) else {
            return self.head.clone();
        };
        payload.insert("sessionKey".into(), name.into());
        begin(self.kind) + &Value::Object(payload).to_string()
    }

    /// The frame as sent to a standard connection.
    pub fn frame(&self, seq: u64) -> String {
        let mut frame = String::with_capacity(self.head.len() + 64);
        frame.push_str(&self.head);
        self.end(&mut frame, seq);
        frame
    }

    /// The frame with one more member in the payload, `,"name":value`.
    pub fn frame_with(&self, members: &str, seq: u64) -> String {
        let mut frame = String::with_capacity(self.head.len() + members.len() + 64);
        frame.push_str(self.head.strip_suffix('}').unwrap_or(&self.head));
        frame.push_str(members);
        frame.push('}');
        self.end(&mut frame, seq);
        frame
    }

    /// A frame of this event around another payload.
    pub fn frame_around(&self, payload: &str, seq: u64) -> String {
        let mut frame = begin(self.kind) + payload;
        self.end(&mut frame, seq);
        frame
    }

    /// Adds what a frame has behind its payload.
    pub fn end(&self, frame: &mut String, seq: u64) {
        let mut digits = itoa::Buffer::new();
        let mut add = |name: &str, number: u64| {
            frame.push_str(name);
            frame.push_str(digits.format(number));
        };
        add(r#","seq":"#, seq);
        if let Some(version) = self.state_version {
            add(r#","stateVersion":{"presence":"#, version.presence);
            add(r#","health":"#, version.health);
            frame.push('}');
        }
        frame.push('}');
    }
}

/// What a frame has before its payload.
fn begin(kind: EventKind) -> String {
    format!(r#"{{"type":"event","event":"{}","payload":"#, kind.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    #[test]
    fn a_frame_has_the_recorded_members_in_order() {
        let event = Event::new(EventKind::Presence, &json!({"presence": []}))
            .versioned(StateVersion { presence: 4, health: 2 });
        assert_eq!(
            event.frame(7),
            r#"{"type":"event","event":"presence","payload":{"presence":[]},"seq":7,"stateVersion":{"presence":4,"health":2}}"#
        );
        assert_eq!(event.payload(), r#"{"presence":[]}"#);
    }

    #[test]
    fn members_can_be_added_to_the_payload() {
        let event = Event::new(EventKind::Chat, &json!({"state": "delta"}));
        let frame: Value =
            serde_json::from_str(&event.frame_with(r#","deltaText":"x""#, 3)).unwrap();
        assert_eq!(
            frame,
            json!({"type": "event", "event": "chat", "payload": {"state": "delta", "deltaText": "x"}, "seq": 3})
        );
    }

    #[test]
    fn a_head_with_another_name_is_written_once_for_all_that_call_the_session_so() {
        let payload = json!({"sessionKey": "agent:main:main", "data": {"sessionKey": "x"}});
        let event = Event::new(EventKind::Agent, &payload);
        let head = r#"{"type":"event","event":"agent","payload":{"sessionKey":"main","data":{"sessionKey":"x"}}"#;
        let named: Vec<_> = ["main", "main"].map(|name| event.head_named(name)).into();
        assert!(named.iter().all(|it| matches!(it, Cow::Borrowed(it) if *it == head)), "{named:?}");
        let other = event.head_named("other");
        assert_eq!(other, head.replace(r#""main""#, r#""other""#));
        assert_eq!(event.head_named("main"), head);
    }
}
