//! How long each part of a start takes.
//!
//! Owns: when the current part began. Promises: one line of the log for each, as a start
//! that is slow somewhere has to say where. Must not: decide anything.

use tokio::time::Instant;

pub(super) struct Phases(Instant);

impl Phases {
    pub(super) fn begin() -> Self {
        Self(Instant::now())
    }

    /// This part is over; the next one begins.
    pub(super) fn end(&mut self, phase: &'static str) {
        let now = Instant::now();
        let took = now - self.0;
        tracing::debug!(phase, ?took, "a phase of the start is over");
        self.0 = now;
    }
}
