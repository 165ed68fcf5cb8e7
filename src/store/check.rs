//! Looking a database over.

use std::path::Path;

use super::beside::open_beside;
use super::error::StoreError;

/// More lines of complaint tell nothing new.
const COMPLAINTS_MAX: usize = 20;

/// What is wrong with the database; nothing when it is whole. It is opened for
/// reading only, beside a gateway that may be using it.
///
/// # Errors
/// When it cannot be read at all, or belongs to a later release.
pub fn check(path: &Path) -> Result<Vec<String>, StoreError> {
    let (connection, failed) = open_beside(path, "look for damage")?;
    let failed = |error: rusqlite::Error| failed(error.into());
    let mut statement =
        connection.prepare(&format!("PRAGMA quick_check({COMPLAINTS_MAX})")).map_err(failed)?;
    let rows = statement.query_map([], |row| row.get::<_, String>(0)).map_err(failed)?;
    let lines = rows.collect::<rusqlite::Result<Vec<_>>>().map_err(failed)?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Database;

    #[test]
    fn a_whole_database_has_no_complaints_and_a_broken_one_has() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sqlite");
        assert!(check(&path).is_err(), "there is none");
        drop(Database::open(&path).unwrap());
        assert_eq!(check(&path).unwrap(), Vec::<String>::new());
        let mut bytes = std::fs::read(&path).unwrap();
        // Past the header and the first page, whose tables are read first.
        bytes.iter_mut().skip(4096).for_each(|byte| *byte = 0xff);
        std::fs::write(&path, bytes).unwrap();
        assert!(check(&path).map_or(true, |complaints| !complaints.is_empty()));
        std::fs::write(&path, "no database at all, but long enough for a header").unwrap();
        assert!(check(&path).is_err());
    }
}
