//! Numbers of the gateway.
//!
//! Owns: what is counted ([`NUMBERS`]), the names under which it is told
//! ([`families`]) and their text form; the ring of samples of the last hour; the
//! count of log lines that complain. Promises: counting takes no lock and no
//! memory on any hot path; what is kept is bounded. Must not: know who shows it.

mod activity;
mod complaints;
pub mod families;
mod histogram;
mod history;
mod numbers;
mod page;
mod series;

pub use activity::{stir, until_something};
pub(super) use complaints::ComplaintLayer;
pub use complaints::{Complaints, complaints};
pub use histogram::{Counts, Histogram};
pub use history::{CAPACITY, EVERY, History, Reading, Sample};
pub use numbers::{Counter, ModelNumbers, NUMBERS, OpenConnection, Split};
pub use page::{Form, Page};
pub use series::Series;
