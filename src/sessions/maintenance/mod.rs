//! What becomes of old sessions and of transcripts that were put away.
//!
//! Owns: the rules of `session.maintenance`. Promises: a bound that is not
//! written removes nothing; main sessions, sessions of groups and threads, and
//! those in which something runs are never removed; a file stays while a session
//! or one of its checkpoints needs it; a transcript goes only after it was put
//! away for its time, or for the disk budget. Must not: know where the rules are
//! written, or touch files of messages.

mod budget;
mod needs;
mod plan;
mod service;

pub use budget::BudgetReport;
pub use service::{Cleanup, CleanupReport};
