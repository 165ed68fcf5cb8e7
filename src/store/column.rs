//! Numbers between Rust and SQLite, whose integers are signed.

/// The column value of a count or time; far beyond both, it saturates.
pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The count or time in a column; we never write negative ones.
pub(super) fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
