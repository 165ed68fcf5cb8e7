//! Reading a database beside a gateway that may be using it.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::error::{Fault, StoreError};
use super::{SessionRow, migrations, sessions};

/// Opens a database for reading only.
///
/// # Errors
/// When it cannot be read, or belongs to a later release.
pub(super) fn open_beside(
    path: &Path,
    operation: &'static str,
) -> Result<(Connection, impl Fn(Fault) -> StoreError), StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let failed = move |fault: Fault| fault.at(operation, path);
    let connection = Connection::open_with_flags(path, flags);
    let connection = connection.map_err(|error| failed(error.into()))?;
    migrations::check(&connection, path)?;
    Ok((connection, failed))
}

/// All sessions of the index, the last changed first; `None` when it is new, so that
/// only files can tell of sessions.
///
/// # Errors
/// When it cannot be read, or belongs to a later release.
pub fn sessions_beside(path: &Path) -> Result<Option<Vec<SessionRow>>, StoreError> {
    let (connection, failed) = open_beside(path, "read the sessions")?;
    if sessions::is_new(&connection).map_err(&failed)? {
        return Ok(None);
    }
    sessions::all(&connection).map(Some).map_err(failed)
}

/// Writes a copy of the database into an empty file: all of it as it is at one moment,
/// whatever is written meanwhile.
///
/// # Errors
/// When it cannot be read or belongs to a later release, or the copy cannot be written.
pub fn copy_beside(path: &Path, to: &Path) -> Result<(), StoreError> {
    let (connection, failed) = open_beside(path, "copy what is")?;
    let to = to.to_str().ok_or_else(|| rusqlite::Error::InvalidPath(to.to_owned()));
    let copied = to.and_then(|to| connection.execute("VACUUM INTO ?1", [to]));
    copied.map(drop).map_err(|error| failed(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Database;

    #[test]
    fn a_database_in_use_is_read_and_a_missing_one_is_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sqlite");
        assert!(sessions_beside(&path).is_err());
        assert!(!path.exists());
        let _used = Database::open(&path).unwrap();
        assert_eq!(sessions_beside(&path).unwrap(), None);
    }
}
