//! What sessions used: tokens, prices, tools, waiting times.
//!
//! Owns: reading that out of transcripts, once for every byte. Promises: what
//! transcripts say counts, whoever wrote them; answers come in bounded time,
//! and say so when not everything was read yet. Must not: change a transcript.

mod candidates;
mod detail;
mod files;
mod range;
mod refresh;
mod report;
mod scan;
mod service;
mod tally;

pub use candidates::chat_type;
pub use detail::{LogEntry, TimePoint};
pub use range::{DateRange, RangeError, Zone};
pub use refresh::CacheStatus;
pub use report::{Aggregates, SessionUsage};
pub use service::{CostSummary, ListedUsage, Prices, UsageError, UsageQuery, UsageReports};
pub use tally::Totals;
