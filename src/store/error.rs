//! What can go wrong in the store.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A failure of the store. It can be cloned, because all writes of a group
/// share the fate of their commit.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The database refused.
    #[error("cannot {operation} in the database {}: {source}", .path.display())]
    Database {
        /// What was to be done, as in "cannot … in the database".
        operation: &'static str,
        /// The database file.
        path: PathBuf,
        /// What the database said.
        #[source]
        source: Arc<rusqlite::Error>,
    },
    /// The database file itself could not be made.
    #[error("cannot create the database {}: {source}", .path.display())]
    File {
        /// The database file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: Arc<io::Error>,
    },
    /// The file belongs to a later release.
    #[error(
        "the database {} has schema {found}, but this release knows only {known}; \
         start the release that wrote it, or move the file away",
        .path.display()
    )]
    TooNew {
        /// The database file.
        path: PathBuf,
        /// The schema in the file.
        found: i64,
        /// The schema of this release.
        known: i64,
    },
    /// A row holds what this release cannot read.
    #[error("cannot {operation} in the database {}: unreadable row: {source}", .path.display())]
    Row {
        /// What was to be done.
        operation: &'static str,
        /// The database file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Arc<serde_json::Error>,
    },
    /// The store was closed, or the work died half way and was rolled back.
    #[error("cannot {operation}: the store has stopped")]
    Stopped {
        /// What was to be done.
        operation: &'static str,
    },
}

/// A failure inside a piece of database work, before it knows its context.
#[derive(Debug)]
pub(super) enum Fault {
    /// From the database.
    Sql(rusqlite::Error),
    /// From a JSON column.
    Json(serde_json::Error),
}

impl Fault {
    /// Adds what was being done, and where.
    pub(super) fn at(self, operation: &'static str, path: &Path) -> StoreError {
        let path = path.to_owned();
        match self {
            Self::Sql(source) => StoreError::Database { operation, path, source: Arc::new(source) },
            Self::Json(source) => StoreError::Row { operation, path, source: Arc::new(source) },
        }
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}
