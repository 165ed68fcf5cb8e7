//! Wall-clock time as a value that is passed in.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Source of wall-clock time. Timers use `tokio::time`, which tests can pause.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch, as on the wire.
    fn now_ms(&self) -> u64;
}

/// The machine's clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)] // the one place that may ask
    fn now_ms(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
    }
}

impl SystemClock {
    /// Nanoseconds since the Unix epoch, for traces.
    #[allow(clippy::disallowed_methods)] // as above
    pub fn now_ns(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Whole milliseconds, as on the wire.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
