//! Sub-agents: sessions that a session begins itself, and whose results come
//! back to it.
//!
//! Owns: which of them there are, how far they are, who is told of their ends.
//! Promises: what was accepted begins, and its end is told once, also when the
//! gateway is killed in between; what stops a session stops those below it.
//! Must not: know how tools or commands are written.

mod announce;
mod drive;
pub mod manage;
mod outcome;
mod recover;
mod spawn;
mod stop;

pub use manage::{Said, StopError, TargetError};
pub use outcome::Outcome;
pub use spawn::{SpawnError, SpawnRequest, Spawned};

use tokio::sync::Notify;

use crate::config::SubagentLimits;
use crate::support::{Permits, Tasks};

/// Runs of sub-agents.
#[derive(Debug)]
pub struct Subagents {
    /// How many may be under way at a time.
    permits: Permits,
    /// Rings when one is over.
    news: Notify,
}

impl Subagents {
    /// None yet.
    pub fn new(limits: &SubagentLimits) -> Self {
        Self { permits: Permits::new(limits.max_concurrent), news: Notify::new() }
    }

    /// Takes other limits.
    pub fn reconfigure(&self, limits: &SubagentLimits, tasks: &Tasks) {
        self.permits.resize(limits.max_concurrent, tasks);
    }
}
