//! Taking over the sessions of another state folder.
//!
//! Owns: what is copied and what becomes of conflicts. Promises: the source is
//! only read; nothing here is overwritten; the same import again adds nothing.
//! Must not: print, or know whether a gateway runs.

mod admission;
mod copy;
mod keep;
mod plan;
mod report;
mod service;
mod sources;

pub use report::{AgentImport, ImportReport, LeftOut};
pub use service::{Import, Progress};
pub use sources::{Indexes, changed_sources};
pub(super) use sources::{kept, leaving, read_leaving};
