//! One connection as the bus sees it.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::auth::Principal;
use crate::protocol::Role;
use crate::sessions::SessionKey;
use crate::support::sync::{AtomicBool, Mutex, Ordering};

use super::event::Audience;
use super::kind::EventKind;
use super::outbox::Outbox;

/// Most sessions whose messages one connection may follow singly; who wants
/// more subscribes to all.
const MAX_MESSAGE_SUBSCRIPTIONS: usize = 1000;

/// Most requests of one connection that wait for something after their first answer, when
/// they are not among those under way any more. Each takes some kilobytes meanwhile.
const MAX_ANSWERED_TWICE: usize = 1000;

/// A connection's rights, wishes and queue.
#[derive(Debug)]
pub struct Subscriber {
    /// Id of the connection.
    pub conn_id: Arc<str>,
    /// What it may see.
    pub principal: Arc<Principal>,
    /// What waits for it.
    pub outbox: Outbox,
    /// Places of its requests that are answered twice.
    pub answered_twice: Semaphore,
    wants_tool_events: bool,
    watches_sessions: AtomicBool,
    watches_messages: Mutex<HashSet<SessionKey>>,
}

impl Subscriber {
    /// A connection that has subscribed to nothing yet.
    pub fn new(conn_id: Arc<str>, principal: Arc<Principal>, caps: &[String]) -> Self {
        Self {
            conn_id,
            principal,
            outbox: Outbox::default(),
            answered_twice: Semaphore::new(MAX_ANSWERED_TWICE),
            wants_tool_events: caps.iter().any(|cap| cap == "tool-events"),
            watches_sessions: AtomicBool::new(false),
            watches_messages: Mutex::default(),
        }
    }

    /// Begins or ends following all sessions.
    pub fn watch_sessions(&self, on: bool) {
        self.watches_sessions.store(on, Ordering::Relaxed);
    }

    /// Begins or ends following the messages of one session; `false` when
    /// there are too many already.
    pub fn watch_messages(&self, key: SessionKey, on: bool) -> bool {
        let mut keys = self.watches_messages.lock();
        if !on {
            keys.remove(&key);
            return true;
        }
        if keys.len() >= MAX_MESSAGE_SUBSCRIPTIONS && !keys.contains(&key) {
            return false;
        }
        keys.insert(key);
        true
    }

    /// Whether it is a node that follows what is said in a session, or in any.
    /// That is all it gets to see of conversations.
    pub fn follows(&self, kind: EventKind, key: Option<&SessionKey>) -> bool {
        if self.principal.role() != Role::Node
            || !matches!(kind, EventKind::Chat | EventKind::ChatSideResult | EventKind::Agent)
        {
            return false;
        }
        let keys = self.watches_messages.lock();
        key.map_or(!keys.is_empty(), |key| keys.contains(key))
    }

    /// Whether it belongs to an audience.
    pub fn is_in(&self, audience: &Audience) -> bool {
        let watches_all = || self.watches_sessions.load(Ordering::Relaxed);
        match audience {
            Audience::Everyone => true,
            Audience::SessionWatchers => watches_all(),
            Audience::MessageWatchers(key) => {
                watches_all() || self.watches_messages.lock().contains(key)
            }
            Audience::ToolWatchers(owner) => {
                self.wants_tool_events && self.principal.owner() == &**owner
            }
            Audience::Followers(key) => self.follows(EventKind::Agent, Some(key)),
            Audience::Connection(conn_id) => self.conn_id == *conn_id,
            Audience::Others(conn_id) => self.conn_id != *conn_id,
        }
    }
}
