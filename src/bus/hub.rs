//! Who is connected, and the way of an event to them.

use std::collections::HashMap;
use std::sync::Arc;

use super::event::{Audience, Event};
use super::kind::EventKind;
use super::outbox::Closing;
use super::subscriber::Subscriber;
use crate::auth::Principal;
use crate::support::sync::{AtomicU64, Ordering, RwLock};
use crate::telemetry::metrics::stir;

/// What waits on all connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Queued {
    /// Bytes in all outboxes.
    pub bytes: usize,
    /// Bytes in the fullest one.
    pub largest: usize,
}

/// The open connections of this process.
#[derive(Debug, Default)]
pub struct Hub {
    // Lock order: hub -> subscriber -> outbox; see docs/locks.md.
    subscribers: RwLock<HashMap<Arc<str>, Arc<Subscriber>>>,
    /// Requests that are being answered: they get no events.
    attending: RwLock<HashMap<Arc<str>, Arc<Subscriber>>>,
    delivered: AtomicU64,
}

impl Hub {
    /// Adds a connection.
    pub fn join(&self, subscriber: Arc<Subscriber>) {
        self.subscribers.write().insert(Arc::clone(&subscriber.conn_id), subscriber);
        stir();
    }

    /// Removes a connection. What waits for it is freed, and nothing more is taken:
    /// requests of it that still wait for something keep its queue.
    pub fn leave(&self, conn_id: &str) {
        let mut subscribers = self.subscribers.write();
        let gone = subscribers.remove(conn_id);
        if subscribers.is_empty() {
            subscribers.shrink_to_fit();
        }
        drop(subscribers);
        if let Some(gone) = gone {
            gone.outbox.close(Closing::gone());
        }
        stir();
    }

    /// Adds a request that takes a while, so that it is closed as a connection of
    /// the same caller would be.
    pub fn attend(&self, subscriber: Arc<Subscriber>) {
        self.attending.write().insert(Arc::clone(&subscriber.conn_id), subscriber);
    }

    /// Removes a request.
    pub fn depart(&self, conn_id: &str) {
        let mut attending = self.attending.write();
        attending.remove(conn_id);
        if attending.is_empty() {
            attending.shrink_to_fit();
        }
    }

    /// How many connections there are.
    pub fn len(&self) -> usize {
        self.subscribers.read().len()
    }

    /// Whether nobody is connected.
    pub fn is_empty(&self) -> bool {
        self.subscribers.read().is_empty()
    }

    /// Whether anybody would get such an event; spares building payloads for
    /// nobody.
    pub fn has_audience(&self, kind: EventKind, audience: &Audience) -> bool {
        let is_for_all = *audience == Audience::Everyone;
        self.subscribers.read().values().any(|subscriber| {
            admits(subscriber, kind, audience) || (is_for_all && subscriber.follows(kind, None))
        })
    }

    /// How many events were delivered so far, each counted once.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// How many bytes wait to be sent.
    pub fn queued(&self) -> Queued {
        let subscribers = self.subscribers.read();
        subscribers.values().fold(Queued::default(), |queued, subscriber| {
            let bytes = subscriber.outbox.bytes();
            Queued { bytes: queued.bytes + bytes, largest: queued.largest.max(bytes) }
        })
    }

    /// Puts an event into the outbox of everybody who gets it.
    pub fn deliver(&self, event: &Arc<Event>, audience: &Audience) {
        self.delivered.fetch_add(1, Ordering::Relaxed);
        stir();
        for subscriber in self.subscribers.read().values() {
            let follows = || {
                let key = event.session_key.as_deref();
                key.is_some()
                    && *audience == Audience::Everyone
                    && subscriber.follows(event.kind, key)
            };
            if admits(subscriber, event.kind, audience) || follows() {
                subscriber.outbox.event(event);
            }
        }
    }

    /// Closes the connections and requests of a device, in one role or in all. They
    /// are cut off: only the connection `last` gets what waits for it.
    pub fn close_device(&self, device_id: &str, role: Option<&str>, closing: &Closing, last: &str) {
        for list in [&self.subscribers, &self.attending] {
            for subscriber in list.read().values() {
                if subscriber.principal.is_device(device_id, role) {
                    let drains = *subscriber.conn_id == *last;
                    subscriber.outbox.close(Closing { drains, ..closing.clone() });
                }
            }
        }
    }

    /// Closes the connections and requests of whom `is_meant` says so, but for
    /// `spared`. They are cut off.
    pub fn close_where(
        &self,
        closing: &Closing,
        spared: Option<&str>,
        is_meant: impl Fn(&Principal) -> bool,
    ) {
        for list in [&self.subscribers, &self.attending] {
            for subscriber in list.read().values() {
                if spared != Some(&*subscriber.conn_id) && is_meant(&subscriber.principal) {
                    subscriber.outbox.close(closing.clone());
                }
            }
        }
    }

    /// Whether it is so of whoever has this connection.
    pub fn is_any(&self, conn_id: &str, is_so: impl Fn(&Principal) -> bool) -> bool {
        let subscribers = self.subscribers.read();
        subscribers.get(conn_id).is_some_and(|subscriber| is_so(&subscriber.principal))
    }

    /// Closes every connection after what waits for it.
    pub fn close_all(&self, closing: &Closing) {
        for subscriber in self.subscribers.read().values() {
            subscriber.outbox.close(closing.clone());
        }
    }
}

fn admits(subscriber: &Subscriber, kind: EventKind, audience: &Audience) -> bool {
    // Nodes have no scopes: that they follow a session is what lets them see it.
    let is_let_in = || kind.gate().admits(&subscriber.principal);
    (matches!(audience, Audience::Followers(_)) || is_let_in()) && subscriber.is_in(audience)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_waits_for_who_has_left_and_no_answer_is_taken() {
        let hub = Hub::default();
        let principal = Arc::new(Principal::of_this_machine());
        let subscriber = Arc::new(Subscriber::new("c".into(), principal, &[]));
        hub.join(Arc::clone(&subscriber));
        assert!(subscriber.outbox.answer("nobody fetches it".into()));
        hub.leave("c");
        assert_eq!(subscriber.outbox.bytes(), 0);
        assert!(!subscriber.outbox.answer("of a request that waited".into()));
        assert_eq!(hub.queued(), Queued::default());
    }
}
