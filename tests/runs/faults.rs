//! Errors in the log, for tests that wait for one.

use std::sync::Arc;

use tokio::sync::Notify;
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// A log that rings for each error on this thread.
struct Faults(Arc<Notify>);

impl<S: Subscriber> Layer<S> for Faults {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() == Level::ERROR {
            self.0.notify_one();
        }
    }
}

/// Rings for each error in the log, as long as the second is there.
pub fn faults() -> (Arc<Notify>, DefaultGuard) {
    let faults = Arc::new(Notify::new());
    let log = tracing_subscriber::registry().with(Faults(Arc::clone(&faults)));
    (faults, tracing::subscriber::set_default(log))
}
