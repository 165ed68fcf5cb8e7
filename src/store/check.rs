//! Looking a database over.

use std::path::Path;

use super::beside::open_beside;
use super::error::StoreError;

/// More lines of complaint tell nothing new.
const COMPLAINTS_MAX: usize = 20;
/// What stands above the complaints about a database.
const HEADING: &str = "*** in database main ***";

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
    let mut complaints = Vec::new();
    for row in statement.query_map([], |row| row.get::<_, String>(0)).map_err(failed)? {
        match row {
            Ok(line) if line == "ok" => {}
            Ok(line) => {
                let said = line.trim_start_matches(HEADING).trim().lines();
                complaints.extend(said.map(str::to_owned));
            }
            Err(error) if complaints.is_empty() => return Err(failed(error)),
            // It ends at a page that it cannot read, which is named by then.
            Err(error) => complaints.push(error.to_string()),
        }
    }
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

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

    #[test]
    fn each_complaint_is_a_line_that_says_what_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sqlite");
        drop(Database::open(&path).unwrap());
        let size = 4096;
        let database = Connection::open(&path).unwrap();
        let last = "SELECT max(rootpage) FROM sqlite_schema";
        let last: i64 = database.query_row(last, [], |row| row.get(0)).unwrap();
        drop(database);
        let mut bytes = std::fs::read(&path).unwrap();
        let begin = (usize::try_from(last).unwrap() - 1) * size;
        bytes[begin..begin + size].fill(0xff);
        std::fs::write(&path, bytes).unwrap();
        let complaints = check(&path).unwrap();
        assert!(!complaints.is_empty());
        let says = |it: &String| !it.trim().is_empty() && !it.contains(['*', '\n']);
        assert!(complaints.iter().all(says), "{complaints:?}");
    }
}
