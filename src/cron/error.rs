//! Why something cannot be done with a job.

use crate::sessions::SessionError;
use crate::store::StoreError;

/// Why something cannot be done with a job.
#[derive(Debug, thiserror::Error)]
pub enum CronError {
    /// It was asked for wrongly; the text is the whole answer.
    #[error("{0}")]
    Invalid(String),
    /// What was asked for does not go together.
    #[error("{0}")]
    Refused(String),
    /// There is no such job.
    #[error("unknown cron job id: {0}")]
    Unknown(String),
    /// There are as many as there may be.
    #[error("there are {0} cron jobs already; remove some that are not needed")]
    TooMany(u64),
    /// The job was written by a later release.
    #[error("cron job not readable: {0}")]
    Unreadable(String),
    /// The database does not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A session does not take it.
    #[error(transparent)]
    Session(#[from] SessionError),
}
