//! What the events of a run may cost those who get them.

use std::time::Duration;

use tokio::time::Instant;

use crate::support::millis;

/// Most bytes of text that events have at once: a small part of what an outbox holds.
const MOST: usize = 4 * 1024 * 1024;
/// How many more they may have after each millisecond: a megabyte a second, which a slow
/// line still takes.
const EACH_MS: usize = 1024;

/// How many bytes of text the events of a run may have for now. Each has all that its turn
/// has said, so that an answer that comes in one burst of small pieces would have thousands
/// of times its length, and its readers would be cut off for being slow.
pub(super) struct Allowance {
    left: usize,
    as_of: Instant,
}

impl Allowance {
    /// All of it.
    pub fn new() -> Self {
        Self { left: MOST, as_of: Instant::now() }
    }

    /// Whether an event with so many bytes is within it.
    pub fn covers(&mut self, bytes: usize) -> bool {
        let passed = millis(self.as_of.elapsed());
        self.as_of += Duration::from_millis(passed);
        let more = usize::try_from(passed).unwrap_or(usize::MAX).saturating_mul(EACH_MS);
        self.left = self.left.saturating_add(more).min(MOST);
        bytes <= self.left
    }

    /// An event with so many bytes is told, within it or not.
    pub const fn spend(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
    }
}
