//! Numbers of the gateway over time.
//!
//! Owns: the histogram of durations, the ring of samples, the count of log lines
//! that complain. Promises: counting takes no lock and no memory; what is kept
//! is bounded. Must not: know what is counted, or who shows it.

mod complaints;
mod histogram;
mod history;

pub(super) use complaints::ComplaintLayer;
pub use complaints::{Complaints, complaints};
pub use histogram::{Counts, Histogram};
pub use history::{CAPACITY, EVERY, History, Reading, Sample};
