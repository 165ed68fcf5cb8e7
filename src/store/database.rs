//! The embedded database: one writer thread, a few [readers](Readers).
//!
//! Owns: the database file and the connection that writes. Promises: a write is
//! answered after the commit that holds it was synced; writes that wait are
//! committed together; one that fails undoes only itself. Must not: run SQL on
//! a thread that serves sockets.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tokio::sync::mpsc;

use super::atomic::open_private;
use super::error::{Fault, StoreError};
use super::group::{self, Damage, Found, Job, Work};
use super::migrations;
use super::readers::Readers;
use crate::support::BoxFuture;

/// Writes that may wait; beyond it callers wait for a place.
const QUEUE_MAX: usize = 1024;

/// Another process (a doctor, a backup) may hold the file for a moment.
const BUSY_LIMIT: Duration = Duration::from_secs(5);

/// Page caches, as `cache_size` wants them: KiB, negative.
const WRITER_CACHE: i64 = -2048;
const READER_CACHE: i64 = -512;

/// Handle to the database; clones share it. Dropping the last one waits for
/// the writes that are queued.
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
}

struct Inner {
    path: Arc<Path>,
    /// `None` only while dropping: closing the channel ends the writer.
    jobs: Option<mpsc::Sender<Job>>,
    writer: Option<JoinHandle<()>>,
    readers: Arc<Readers>,
}

impl Database {
    /// Opens the database, creates it if it is missing (readable by its owner
    /// only) and brings its schema up to date.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        create_private(path)?;
        let mut connection =
            open_writer(path).map_err(|error| Fault::from(error).at("open a connection", path))?;
        migrations::migrate(&mut connection, path)?;
        let (jobs, queue) = mpsc::channel(QUEUE_MAX);
        let damage = Arc::new(Damage::none());
        let writer = thread::Builder::new()
            .name("database".into())
            .spawn({
                let (path, damage) = (path.to_owned(), Arc::clone(&damage));
                move || group::serve(connection, queue, &path, &damage)
            })
            .map_err(|source| file_error(path, source))?;
        let path: Arc<Path> = path.into();
        let readers = Arc::new(Readers::new(Arc::clone(&path), damage));
        let (jobs, writer) = (Some(jobs), Some(writer));
        Ok(Self { inner: Arc::new(Inner { path, jobs, writer, readers }) })
    }

    /// Runs `work` inside a transaction on the writer thread. The future is
    /// ready when the commit is on disk. `operation` completes the sentence
    /// "cannot … in the database".
    pub(super) fn write<T, F>(
        &self,
        operation: &'static str,
        work: F,
    ) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        unboxed(operation, Box::pin(self.write_boxed(operation, boxed(work))))
    }

    async fn write_boxed(&self, operation: &'static str, work: Work) -> Result<Found, StoreError> {
        let stopped = StoreError::Stopped { operation };
        let (job, answer) = Job::new(operation, Arc::clone(&self.inner.path), work);
        let Some(jobs) = &self.inner.jobs else { return Err(stopped) };
        jobs.send(job).await.map_err(|_| stopped.clone())?;
        answer.await.unwrap_or(Err(stopped))
    }

    /// Runs `work` on a read connection; it sees everything that was answered.
    pub(super) fn read<T, F>(
        &self,
        operation: &'static str,
        work: F,
    ) -> impl Future<Output = Result<T, StoreError>> + Send
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        unboxed(operation, Box::pin(self.inner.readers.read(operation, boxed(work))))
    }

    #[cfg(test)]
    pub(super) fn readers(&self) -> &Arc<Readers> {
        &self.inner.readers
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(writer) = self.writer.take() {
            // A panic in the writer was already answered to those who waited.
            let _ = writer.join();
        }
        // A reader that still comes finds nothing to do, and holds no file open.
        self.readers.close();
    }
}

fn boxed<T: Send + 'static>(
    work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
) -> Work {
    Box::new(|connection| Ok(Box::new(work(connection)?)))
}

/// What was found, as what was asked for. Of the work it knows nothing, so that it is compiled
/// once for each `T` instead of once for each question.
async fn unboxed<T: 'static>(
    operation: &'static str,
    found: BoxFuture<'_, Result<Found, StoreError>>,
) -> Result<T, StoreError> {
    found.await?.downcast().map(|found| *found).map_err(|_| StoreError::Stopped { operation })
}

/// SQLite gives the `-wal` and `-shm` files the mode and the owner of the database file.
fn create_private(path: &Path) -> Result<(), StoreError> {
    open_private(OpenOptions::new().append(true), path, path.parent().unwrap_or(path))
        .map(drop)
        .map_err(|source| file_error(path, source))
}

fn file_error(path: &Path, source: std::io::Error) -> StoreError {
    StoreError::File { path: path.to_owned(), source: Arc::new(source) }
}

fn open_writer(path: &Path) -> rusqlite::Result<Connection> {
    let connection = connect(path, WRITER_CACHE)?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(connection)
}

/// A connection that only reads.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let connection = connect(path, READER_CACHE)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// Each connection is used by one thread at a time, so SQLite needs no mutex.
fn connect(path: &Path, cache: i64) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_LIMIT)?;
    connection.pragma_update(None, "cache_size", cache)?;
    Ok(connection)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A database of its own.
    pub fn scratch() -> (tempfile::TempDir, Database) {
        let dir = tempfile::tempdir().unwrap();
        let database = Database::open(&dir.path().join("x.sqlite")).unwrap();
        (dir, database)
    }

    async fn note(database: &Database, key: &'static str) -> Result<(), StoreError> {
        database
            .write("note", move |connection| {
                connection.execute(
                    "INSERT INTO runs (scope, key, run_id, session_key, state, created_at)
                     VALUES ('t', ?1, ?1, 's', 'active', 0)",
                    [key],
                )?;
                Ok(())
            })
            .await
    }

    async fn noted(database: &Database) -> Vec<String> {
        database
            .read("look", |connection| {
                let mut statement = connection.prepare("SELECT key FROM runs ORDER BY key")?;
                let keys = statement.query_map([], |row| row.get(0))?;
                Ok(keys.collect::<rusqlite::Result<Vec<String>>>()?)
            })
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn a_failing_write_undoes_only_itself() {
        let (_dir, database) = scratch();
        let failing = database.write("fail", |connection| {
            connection.execute(
                "INSERT INTO runs (scope, key, run_id, session_key, state, created_at)
                 VALUES ('t', 'half', 'half', 's', 'active', 0)",
                [],
            )?;
            connection.execute("INSERT INTO nowhere VALUES (1)", [])?;
            Ok(())
        });
        let (first, failed, second) =
            tokio::join!(note(&database, "a"), failing, note(&database, "b"));
        first.unwrap();
        second.unwrap();
        assert!(failed.unwrap_err().to_string().starts_with("cannot fail in the database /"));
        assert_eq!(noted(&database).await, ["a", "b"]);
    }

    #[tokio::test]
    async fn a_panicking_write_is_answered_and_the_writer_lives_on() {
        let (_dir, database) = scratch();
        let error = database.write::<(), _>("explode", |_| panic!("boom")).await.unwrap_err();
        assert!(matches!(error, StoreError::Stopped { operation: "explode" }));
        note(&database, "after").await.unwrap();
        assert_eq!(noted(&database).await, ["after"]);
    }

    #[tokio::test]
    async fn a_failing_commit_fails_all_of_its_group() {
        let (_dir, database) = scratch();
        // Ending the transaction under the writer makes its commit fail.
        let sabotage = database.write("sabotage", |connection| {
            connection.execute_batch("ROLLBACK")?;
            Ok(())
        });
        let (lost, sabotage) = tokio::join!(note(&database, "lost"), sabotage);
        assert!(sabotage.unwrap_err().to_string().ends_with("the transaction was rolled back"));
        // Either both were in one group, or the first was committed before.
        assert_eq!(noted(&database).await.len(), usize::from(lost.is_ok()));
        note(&database, "later").await.unwrap();
    }

    #[tokio::test]
    async fn files_are_for_the_owner_only_and_survive_a_reopen() {
        let (dir, database) = scratch();
        note(&database, "kept").await.unwrap();
        for name in ["x.sqlite", "x.sqlite-wal", "x.sqlite-shm"] {
            let mode = dir.path().join(name).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        drop(database);
        let reopened = Database::open(&dir.path().join("x.sqlite")).unwrap();
        assert_eq!(noted(&reopened).await, ["kept"]);
    }
}
