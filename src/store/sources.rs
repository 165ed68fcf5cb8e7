//! Files of another program that were taken over, as they were then.
//!
//! Promises: a file is another one when its bytes are; nothing of it is kept but what
//! stands for them, and the ids that came from it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use rusqlite::{Connection, params};
use sha2::{Digest, Sha256};

use super::beside::open_beside;
use super::error::{Fault, StoreError};
use super::sqlite::SqliteStore;
use super::traits::StoreFuture;
use crate::support::hex;

/// Read at once.
const CHUNK: usize = 64 * 1024;

/// A file as it was when it was taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceNote {
    /// Where it is.
    pub path: String,
    /// What stands for its bytes; empty where there was none, or none that could be read.
    pub print: String,
    /// What came from it.
    pub ids: Vec<String>,
}

impl SourceNote {
    /// A file as it is now. Blocks.
    pub fn of(path: &Path) -> Self {
        let print = print(path).unwrap_or_default();
        Self { path: path.display().to_string(), print, ids: Vec::new() }
    }

    /// Whether there is another file now. One that is gone says nothing. Blocks.
    pub fn has_changed(&self) -> bool {
        let now = Self::of(Path::new(&self.path)).print;
        !now.is_empty() && now != self.print
    }
}

/// The part of [`Store`](super::Store) that is about them.
pub trait SourceStore: Send + Sync + 'static {
    /// Every file that is noted.
    fn sources(&self) -> StoreFuture<'_, Vec<SourceNote>>;

    /// Notes files; those that are noted already are noted anew.
    fn note_sources(&self, notes: Vec<SourceNote>) -> StoreFuture<'_, ()>;

    /// Takes these notes out, unless they have been noted anew.
    fn drop_sources(&self, notes: Vec<SourceNote>) -> StoreFuture<'_, ()>;
}

impl SourceStore for SqliteStore {
    fn sources(&self) -> StoreFuture<'_, Vec<SourceNote>> {
        Box::pin(self.database().read("list the files that were taken over", all))
    }

    fn note_sources(&self, notes: Vec<SourceNote>) -> StoreFuture<'_, ()> {
        let note = move |c: &Connection| notes.iter().try_for_each(|note| put(c, note));
        Box::pin(self.database().write("note files that were taken over", note))
    }

    fn drop_sources(&self, notes: Vec<SourceNote>) -> StoreFuture<'_, ()> {
        let take = move |c: &Connection| notes.iter().try_for_each(|note| take_out(c, note));
        Box::pin(self.database().write("take out notes of files", take))
    }
}

/// What is noted, read beside a gateway or without one.
///
/// # Errors
/// When it cannot be read, or belongs to a later release.
pub fn sources_beside(path: &Path) -> Result<Vec<SourceNote>, StoreError> {
    let (connection, failed) = open_beside(path, "list the files that were taken over")?;
    all(&connection).map_err(failed)
}

fn all(connection: &Connection) -> Result<Vec<SourceNote>, Fault> {
    let mut statement = connection.prepare_cached("SELECT path, print, ids FROM sources")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let rows = rows.collect::<rusqlite::Result<Vec<(String, String, String)>>>()?;
    let note = |(path, print, ids): (String, String, String)| {
        Ok(SourceNote { path, print, ids: serde_json::from_str(&ids)? })
    };
    rows.into_iter().map(note).collect()
}

fn put(connection: &Connection, note: &SourceNote) -> Result<(), Fault> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO sources (path, print, ids) VALUES (?1, ?2, ?3)")?
        .execute(params![note.path, note.print, serde_json::to_string(&note.ids)?])?;
    Ok(())
}

fn take_out(connection: &Connection, note: &SourceNote) -> Result<(), Fault> {
    connection
        .prepare_cached("DELETE FROM sources WHERE path = ?1 AND print = ?2 AND ids = ?3")?
        .execute(params![note.path, note.print, serde_json::to_string(&note.ids)?])?;
    Ok(())
}

fn print(path: &Path) -> io::Result<String> {
    // To open a pipe would never end.
    if !fs::metadata(path)?.is_file() {
        return Ok(String::new());
    }
    let (mut file, mut hash) = (File::open(path)?, Sha256::new());
    let mut buffer = vec![0; CHUNK];
    loop {
        let size = file.read(&mut buffer)?;
        if size == 0 {
            return Ok(hex(hash.finalize()));
        }
        hash.update(buffer.get(..size).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_is_another_one_when_its_bytes_are_and_one_that_is_gone_says_nothing() {
        let root = tempfile::tempdir().unwrap();
        let (path, database) = (root.path().join("jobs.json"), root.path().join("x.sqlite"));
        let store = SqliteStore::open(&database).unwrap();
        let nothing = SourceNote::of(&path);
        assert!(nothing.print.is_empty() && !nothing.has_changed());
        fs::write(&path, "one").unwrap();
        assert!(nothing.has_changed(), "there was none");
        let one = SourceNote { ids: vec!["a".into()], ..SourceNote::of(&path) };
        store.note_sources(vec![nothing]).await.unwrap();
        store.note_sources(vec![one.clone()]).await.unwrap();
        assert_eq!(store.sources().await.unwrap(), std::slice::from_ref(&one));
        assert_eq!(sources_beside(&database).unwrap(), std::slice::from_ref(&one));
        assert!(!one.has_changed());
        fs::write(&path, "two").unwrap();
        assert!(one.has_changed());
        fs::remove_file(&path).unwrap();
        assert!(!one.has_changed());
        let anew = SourceNote { ids: vec!["b".into()], ..one.clone() };
        store.note_sources(vec![anew.clone()]).await.unwrap();
        store.drop_sources(vec![one]).await.unwrap();
        assert_eq!(store.sources().await.unwrap(), std::slice::from_ref(&anew));
        store.drop_sources(vec![anew]).await.unwrap();
        assert_eq!(store.sources().await.unwrap(), []);
        assert_eq!(SourceNote::of(root.path()).print, "", "a folder is no file");
    }
}
