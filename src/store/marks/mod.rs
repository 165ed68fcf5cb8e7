//! What people did with sessions beside talking in them: what they have read, what
//! they have put away, whom they show it to.
//!
//! Promises: a result is counted once and is read until it was looked at; a link
//! ends with the transcript that it shows. Must not: know who somebody is.

mod overview;
mod shares;
mod sql;
#[cfg(test)]
mod tests;
mod traits;

pub use overview::{Overview, OverviewFilter, OverviewPlace, OverviewQuery, OverviewRow};
pub(super) use shares::revoke;
pub use shares::{MAX_SHARES, SessionShare};
pub use sql::SessionMarks;
pub(super) use sql::{forget, rename};
pub use traits::MarkStore;
