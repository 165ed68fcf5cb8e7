//! Sub-agents: sessions that a session begins itself, and whose results come
//! back to it.
//!
//! Owns: which of them there are, how far they are, who is told of their ends.
//! Promises: what was accepted begins, and its end is told once, also when the
//! gateway is killed in between; what stops a session stops those below it, and answers of
//! other sessions that are on their way to it.
//! Must not: know how tools or commands are written.

mod announce;
mod answers;
mod care;
mod drive;
pub mod manage;
mod outcome;
mod recover;
mod spawn;
mod stop;
mod tell;

pub use announce::{ID_PREFIX, hears_of_another};
pub use manage::{StopError, TargetError};
pub use outcome::Outcome;
pub use spawn::{SpawnError, SpawnRequest, Spawned};
pub use tell::Said;

use std::sync::Arc;

use tokio::sync::{Mutex, Notify};

use crate::config::SubagentLimits;
use crate::support::{Permits, Tasks};

use answers::Askers;
use care::Cared;

/// Runs of sub-agents.
#[derive(Debug)]
pub struct Subagents {
    /// How many may be under way at a time.
    permits: Arc<Permits>,
    /// Rings when one is over.
    news: Notify,
    /// Held while one begins, ends, is stopped or spoken to, and while its result is told:
    /// whoever is told that it runs is heard before its end is written down, and a result
    /// is in the lane of its parent before it is stopped, or never. Whoever looks whether one
    /// still works holds it, too. Whoever holds it may not stop one.
    turning: Mutex<()>,
    /// Those that a task of this process takes to their ends.
    cared: Cared,
    /// To whom answers of other sessions are on their way.
    askers: Askers,
}

impl Subagents {
    /// None yet.
    pub fn new(limits: &SubagentLimits) -> Self {
        Self {
            permits: Arc::new(Permits::new(limits.max_concurrent)),
            news: Notify::new(),
            turning: Mutex::default(),
            cared: Cared::default(),
            askers: Askers::default(),
        }
    }

    /// Takes other limits.
    pub fn reconfigure(&self, limits: &SubagentLimits, tasks: &Tasks) {
        self.permits.resize(limits.max_concurrent, tasks);
    }
}
