//! What can go wrong in the store.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::ErrorCode;

/// What a database needs that is there and cannot be opened.
const USABLE: &str = "see that it belongs to the gateway's user, and is on a disk that is there \
    and can be written to";
/// What to do with one of a later release.
const OLDER: &str =
    "start the release that wrote it, or restore the backup from before the upgrade";

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
    /// The database file itself could not be made or opened.
    #[error("cannot open the database {}: {source}; {}", .path.display(), USABLE)]
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
         {}",
        .path.display(),
        OLDER
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

impl StoreError {
    /// Whether the file is damaged, or no database.
    pub(super) fn is_damage(&self) -> bool {
        let Self::Database { source, .. } = self else { return false };
        let code = source.sqlite_error_code();
        matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
    }

    /// What to do so that the database can be used as it is; `None` when that is not known, as
    /// of one that is damaged.
    pub fn help(&self) -> Option<&'static str> {
        let source = match self {
            Self::Database { source, .. } => source,
            Self::File { .. } => return Some(USABLE),
            Self::TooNew { .. } => return Some(OLDER),
            Self::Row { .. } | Self::Stopped { .. } => return None,
        };
        match source.sqlite_error_code()? {
            ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::PermissionDenied
            | ErrorCode::SystemIoFailure
            | ErrorCode::DiskFull => Some(USABLE),
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
                Some("another program holds it: find that with `lsof`, and end it")
            }
            _ => None,
        }
    }
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
