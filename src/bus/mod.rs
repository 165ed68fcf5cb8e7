//! Events and who gets them.
//!
//! Owns: the list of events with the right each needs, the open connections'
//! outboxes and subscriptions, the presence list. Promises: an event is
//! serialised once however many get it; a connection only ever gets what its
//! principal may see; one slow connection neither slows another nor grows
//! without bound. Must not: know about sockets or handlers.
#![deny(missing_docs)]

mod backplane;
mod event;
mod hub;
mod kind;
mod outbox;
mod presence;
mod subscriber;

pub use backplane::{Backplane, Bus, Load, LocalBackplane};
pub use event::{Audience, ChatMark, Event};
pub use hub::{Hub, Queued};
pub use kind::{EventKind, Gate};
pub use outbox::{Batch, Closing, Item, Outbox, SLOW};
pub use presence::{Beacon, Presence};
pub use subscriber::Subscriber;
