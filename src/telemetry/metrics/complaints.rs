//! How many warnings and errors were logged.

use std::sync::atomic::{AtomicU64, Ordering};

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

static WARNINGS: AtomicU64 = AtomicU64::new(0);
static ERRORS: AtomicU64 = AtomicU64::new(0);

/// Lines of this process, whether or not a log takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Complaints {
    /// Warnings.
    pub warnings: u64,
    /// Errors.
    pub errors: u64,
}

/// How many there were so far.
pub fn complaints() -> Complaints {
    let (warnings, errors) = (WARNINGS.load(Ordering::Relaxed), ERRORS.load(Ordering::Relaxed));
    Complaints { warnings, errors }
}

/// Counts them; to be filtered by level.
pub struct ComplaintLayer;

impl<S: Subscriber> Layer<S> for ComplaintLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let count = if *event.metadata().level() == Level::ERROR { &ERRORS } else { &WARNINGS };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
