//! Reading a database beside a gateway that may be using it.

use std::fs;
use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::error::{Fault, StoreError};
use super::{CronJobRow, SessionRow, cron, migrations, sessions};

/// Opens a database for reading only.
///
/// # Errors
/// When it cannot be read, or belongs to a later release.
pub(super) fn open_beside(
    path: &Path,
    operation: &'static str,
) -> Result<(Connection, impl Fn(Fault) -> StoreError), StoreError> {
    let failed = move |fault: Fault| fault.at(operation, path);
    let open = |name: &Path| {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(name, flags | OpenFlags::SQLITE_OPEN_URI);
        let connection = connection.map_err(|error| failed(error.into()))?;
        migrations::check(&connection, path).map(|_| connection)
    };
    let mut opened = open(path);
    if opened.as_ref().is_err_and(is_without_place)
        && let Some(name) = as_it_lies(path)
    {
        // Of two that fail the first has the name that people know.
        opened = open(Path::new(&name)).or(opened);
    }
    Ok((opened?, failed))
}

/// Whether there is no place for what those share who use a database: the disk, or the
/// folder, takes no files.
fn is_without_place(error: &StoreError) -> bool {
    let StoreError::Database { source, .. } = error else { return false };
    matches!(source.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
}

/// The name of a database that nobody changes and all of whose writes are in it.
fn as_it_lies(path: &Path) -> Option<String> {
    let path = path.to_str()?;
    let is_whole = fs::metadata(format!("{path}-wal")).map_or(true, |log| log.len() == 0);
    let name = path.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    is_whole.then(|| format!("file:{name}?immutable=1"))
}

/// Whether the database is of an earlier release, or empty: the next start completes it.
///
/// # Errors
/// When it cannot be read, or belongs to a later release.
pub fn is_earlier_beside(path: &Path) -> Result<bool, StoreError> {
    let (connection, _) = open_beside(path, "read the schema")?;
    migrations::check(&connection, path).map(|(found, known)| found < known)
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

/// All jobs.
///
/// # Errors
/// When it cannot be read, or belongs to a later release.
pub fn cron_jobs_beside(path: &Path) -> Result<Vec<CronJobRow>, StoreError> {
    let (connection, failed) = open_beside(path, "list jobs")?;
    cron::jobs(&connection).map_err(failed)
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

    #[test]
    fn where_no_file_can_be_made_a_database_is_read_unless_its_last_writes_are_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x?y%20#z.sqlite");
        let beside = |end: &str| dir.path().join(format!("x?y%20#z.sqlite{end}"));
        drop(Database::open(&path).unwrap());
        // Nobody opens a link in its place, as if nothing could be made.
        std::os::unix::fs::symlink("nowhere", beside("-shm")).unwrap();
        assert_eq!(sessions_beside(&path).unwrap(), None);
        copy_beside(&path, &beside(".copy")).unwrap();
        assert_eq!(sessions_beside(&beside(".copy")).unwrap(), None);
        fs::write(beside("-wal"), "writes").unwrap();
        let error = sessions_beside(&path).unwrap_err();
        assert!(error.help().is_some_and(|help| help.contains("belongs to")), "{error}");
    }

    #[test]
    fn who_owns_a_database_is_only_asked_where_it_cannot_be_opened() {
        let path = Path::new("x.sqlite");
        let json = serde_json::from_str::<u8>("{").unwrap_err();
        let sqlite = |code| rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
        for (fault, asks) in [
            (Fault::Json(json), false),
            (Fault::Sql(rusqlite::Error::InvalidQuery), false),
            (Fault::Sql(sqlite(rusqlite::ffi::SQLITE_CORRUPT)), false),
            (Fault::Sql(sqlite(rusqlite::ffi::SQLITE_ERROR)), false),
            (Fault::Sql(sqlite(rusqlite::ffi::SQLITE_READONLY)), true),
        ] {
            let error = fault.at("look", path);
            let help = error.help();
            assert_eq!(help.is_some_and(|it| it.contains("gateway's user")), asks, "{error}");
            assert_eq!(help.is_some(), asks, "{error}");
        }
        assert_eq!(StoreError::Stopped { operation: "look" }.help(), None);
    }
}
