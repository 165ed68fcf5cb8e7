//! The way into the list of connections, and the end of all of them.
//!
//! Promises: when all are closed, nobody is left over who has come meanwhile; who waits until
//! all have gone waits for what HTTP answers as well. Must not: decide who comes in.

use std::sync::{Arc, OnceLock};

use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TrackedFuture;

use crate::bus::{Closing, Hub, Subscriber};

/// Lets connections into the hub, until it is closed.
pub struct Door {
    hub: Arc<Hub>,
    /// How they were all closed.
    closed: OnceLock<Closing>,
    /// Connections that speak HTTP, until they have written all of their last answer.
    served: TaskTracker,
}

impl Door {
    /// To this hub.
    pub fn new(hub: Arc<Hub>) -> Self {
        Self { hub, closed: OnceLock::new(), served: TaskTracker::new() }
    }

    /// Adds a connection. One that comes too late has nothing to wait for.
    pub fn join(&self, subscriber: &Arc<Subscriber>) {
        self.hub.join(Arc::clone(subscriber));
        // After that: who closes all finds it there, or is found here.
        if let Some(closing) = self.closed.get() {
            subscriber.outbox.close(Closing { drains: false, ..closing.clone() });
        }
    }

    /// Closes every connection after what waits for it, and whatever comes later.
    pub fn close(&self, closing: Closing) {
        self.hub.close_all(self.closed.get_or_init(|| closing));
    }

    /// What serves a connection by HTTP.
    pub fn serving<F: Future>(&self, served: F) -> TrackedFuture<F> {
        self.served.track_future(served)
    }

    /// Whether nobody is connected, also by HTTP.
    pub fn have_all_gone(&self) -> bool {
        self.hub.is_empty() && self.served.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Principal;

    #[test]
    fn who_comes_when_all_are_closed_is_closed_as_well() {
        let door = Door::new(Arc::default());
        let comes = |id: &str| {
            let principal = Arc::new(Principal::of_this_machine());
            let subscriber = Arc::new(Subscriber::new(id.into(), principal, &[]));
            door.join(&subscriber);
            subscriber
        };
        let before = comes("before");
        assert!(!before.outbox.is_closing());
        door.close(Closing { code: 1012, reason: "service restart".into(), drains: true });
        assert!(before.outbox.is_closing() && !before.outbox.is_cut());
        assert!(comes("after").outbox.is_cut(), "it hears nothing but the close");
    }

    #[test]
    fn what_is_served_by_http_has_not_gone() {
        let door = Door::new(Arc::default());
        assert!(door.have_all_gone());
        let served = door.serving(std::future::pending::<()>());
        assert!(!door.have_all_gone());
        drop(served);
        assert!(door.have_all_gone());
    }
}
