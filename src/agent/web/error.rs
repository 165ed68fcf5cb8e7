//! Why a page cannot be had.

use std::time::Duration;

/// Why a page cannot be had, in words for the model. No text of it comes from
/// the page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// What was asked for is no address that may be asked.
    #[error("Invalid URL: {0}")]
    Invalid(String),
    /// It is private.
    #[error(
        "Blocked: {host} is a private, internal or special-use address; web tools only reach \
         the public Internet (tools.web.fetch.ssrfPolicy.allowedHostnames names exceptions)"
    )]
    Blocked {
        /// The host as it was asked for.
        host: String,
    },
    /// There is no such name.
    #[error("Cannot find the address of {host}: {reason}")]
    Unknown {
        /// The name.
        host: String,
        /// What the system said.
        reason: String,
    },
    /// It leads on and on.
    #[error("Too many redirects (limit: {0})")]
    Redirects(usize),
    /// It leads nowhere.
    #[error("The server redirects without saying where to ({0})")]
    NoTarget(u16),
    /// It takes too long.
    #[error("No complete answer within {} seconds", .0.as_secs_f64())]
    Slow(Duration),
    /// There is no connection, or it broke.
    #[error("Connection error: {0}")]
    Connection(String),
    /// It is nothing that can be read as text.
    #[error("{0}")]
    Unreadable(String),
}
