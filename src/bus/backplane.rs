//! How an event reaches the connections of every node.

use std::sync::Arc;

use serde::Serialize;

use super::event::{Audience, Event};
use super::hub::Hub;
use super::kind::EventKind;
use super::outbox::Closing;

/// Carries events to all nodes of a gateway. Nothing outside the bus knows
/// which way they take.
pub trait Backplane: Send + Sync {
    /// Whether such an event would reach anybody; spares building payloads.
    fn wants(&self, kind: EventKind, audience: &Audience) -> bool;

    /// Delivers it to everybody who gets it, in the order of the calls.
    fn publish(&self, event: &Arc<Event>, audience: &Audience);

    /// Ends the connections of a device, in one role or in all.
    fn close_device(&self, device_id: &str, role: Option<&str>, closing: &Closing, last: &str);

    /// What this node has to do.
    fn load(&self) -> Load;
}

/// What a node has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Its open connections.
    pub connections: usize,
    /// Events that it has delivered so far.
    pub events: u64,
}

/// One node alone: straight to its hub.
#[derive(Debug, Clone)]
pub struct LocalBackplane(pub Arc<Hub>);

impl Backplane for LocalBackplane {
    fn wants(&self, kind: EventKind, audience: &Audience) -> bool {
        self.0.has_audience(kind, audience)
    }

    fn publish(&self, event: &Arc<Event>, audience: &Audience) {
        self.0.deliver(event, audience);
    }

    fn close_device(&self, device_id: &str, role: Option<&str>, closing: &Closing, last: &str) {
        self.0.close_device(device_id, role, closing, last);
    }

    fn load(&self) -> Load {
        Load { connections: self.0.len(), events: self.0.delivered() }
    }
}

/// Where services publish events; clones share it.
#[derive(Clone)]
pub struct Bus(Arc<dyn Backplane>);

impl Bus {
    /// A bus over this backplane.
    pub fn new(backplane: impl Backplane + 'static) -> Self {
        Self(Arc::new(backplane))
    }

    /// See [`Backplane::wants`].
    pub fn wants(&self, kind: EventKind, audience: &Audience) -> bool {
        self.0.wants(kind, audience)
    }

    /// Serialises `payload` and publishes it, unless nobody would get it.
    pub fn publish(&self, kind: EventKind, audience: &Audience, payload: &impl Serialize) {
        if self.wants(kind, audience) {
            self.deliver(Event::new(kind, payload), audience);
        }
    }

    /// Ends the connections of a device, in one role or in all. What waits for
    /// them is not sent, but to the connection `last`.
    pub fn close_device(&self, device_id: &str, role: Option<&str>, closing: &Closing, last: &str) {
        self.0.close_device(device_id, role, closing, last);
    }

    /// See [`Backplane::load`].
    pub fn load(&self) -> Load {
        self.0.load()
    }

    /// Publishes an event that is already built.
    pub fn deliver(&self, event: Event, audience: &Audience) {
        self.0.publish(&Arc::new(event), audience);
    }
}
