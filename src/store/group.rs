//! Group commit: what waits is committed together, with one sync.
//!
//! Promises: each job runs in its own savepoint; all are answered after the
//! commit, with its error if it failed, also those that did not get to run. A database that
//! was found to be damaged is told of as long as it is open: that other writes are stored
//! says nothing of the part that cannot be read.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::error::{Fault, StoreError};
use crate::support::trouble;
use crate::telemetry::metrics::NUMBERS;

/// Most writes of one commit: enough to share a sync among all that wait, few
/// enough that the first does not wait for long.
const GROUP_MAX: usize = 256;
/// A disk with less than this after a write that was not stored is still full: a group
/// may need so much.
const LEAST_ROOM: u64 = 1024 * 1024;

/// What a damaged database is on the board of troubles. Writes go on beside it, so that the
/// gateway takes work all the same.
const DAMAGE: &str = "database";

/// What was found of a damaged database, by whoever reads or writes it.
pub(super) struct Damage(OnceLock<String>);

impl Damage {
    /// Of a database that is opened; what was told of one that was open before is forgotten.
    pub(super) fn none() -> Self {
        trouble::tell(DAMAGE, None);
        Self(OnceLock::new())
    }

    /// Notes whether an error says that the database is damaged.
    pub(super) fn heed(&self, error: &StoreError) {
        if error.is_damage() {
            let told = self.0.get_or_init(|| {
                let told = format!("{error}; `clawgate doctor` says what to do");
                tracing::error!("{told}");
                told
            });
            trouble::tell(DAMAGE, Some(told.clone()));
        }
    }

    /// What is told of it.
    #[cfg(test)]
    pub(super) fn told(&self) -> Option<&String> {
        self.0.get()
    }
}

/// What work in the database found. Boxed, as the work is, so that what leads there is
/// compiled once instead of once for each question.
pub(super) type Found = Box<dyn Any + Send>;

/// Work in the database.
pub(super) type Work = Box<dyn FnOnce(&Connection) -> Result<Found, Fault> + Send>;

/// A write that waits for its turn, and whose result somebody awaits.
pub(super) struct Job {
    operation: &'static str,
    path: Arc<Path>,
    work: Option<Work>,
    result: Result<Found, StoreError>,
    reply: oneshot::Sender<Result<Found, StoreError>>,
}

impl Job {
    pub(super) fn new(
        operation: &'static str,
        path: Arc<Path>,
        work: Work,
    ) -> (Self, oneshot::Receiver<Result<Found, StoreError>>) {
        let (reply, answer) = oneshot::channel();
        let result = Err(StoreError::Stopped { operation });
        (Self { operation, path, work: Some(work), result, reply }, answer)
    }

    /// Does the work; false when what it wrote is to be undone.
    fn run(&mut self, connection: &Connection) -> bool {
        let Some(work) = self.work.take() else { return false };
        // A panic must not take the writer with it; the savepoint undoes what
        // was half done, and the result stays "stopped".
        if let Ok(result) = catch_unwind(AssertUnwindSafe(|| work(connection))) {
            self.result = result.map_err(|fault| fault.at(self.operation, &self.path));
        }
        self.result.is_ok()
    }

    /// Tells the one who waits.
    fn answer(self, committed: Result<(), StoreError>) {
        let result = match committed {
            Err(error) if self.work.is_some() => Err(error),
            committed => self.result.and_then(|value| committed.map(|()| value)),
        };
        // Nobody may be waiting any more; the write counts all the same.
        let _ = self.reply.send(result);
    }
}

/// The writer thread: ends when the last handle is gone and the queue is empty.
pub(super) fn serve(
    mut connection: Connection,
    mut queue: mpsc::Receiver<Job>,
    path: &Path,
    damage: &Damage,
) {
    let mut group = Vec::new();
    // Of the gateway before a restart in place.
    let mut has_failed = true;
    // A full disk is tried again and again.
    let mut is_told = false;
    while let Some(first) = queue.blocking_recv() {
        group.push(first);
        while group.len() < GROUP_MAX {
            let Ok(next) = queue.try_recv() else { break };
            group.push(next);
        }
        let began = Instant::now();
        let committed = trouble::watched("store", || commit(&mut connection, &mut group))
            .map_err(|error| Fault::from(error).at("commit", path));
        NUMBERS.commits.note(began.elapsed());
        NUMBERS.writes.add(u64::try_from(group.len()).unwrap_or_default());
        if let Err(error) = &committed {
            NUMBERS.commit_failures.count();
            if !std::mem::replace(&mut is_told, true) {
                tracing::error!(%error, writes = group.len(), "a group of writes was not stored");
            }
        }
        let errors = group.iter().filter_map(|job| job.result.as_ref().err());
        errors.chain(committed.as_ref().err()).for_each(|it| damage.heed(it));
        if committed.is_err() || has_failed {
            let error = committed.as_ref().err().map(ToString::to_string);
            let error = error.or_else(|| without_room(path));
            has_failed = error.is_some();
            if !has_failed && std::mem::take(&mut is_told) {
                tracing::info!("writes are stored again");
            }
            trouble::tell("store", error);
        }
        for job in group.drain(..) {
            job.answer(committed.clone());
        }
    }
}

/// Says so of a disk that has next to nothing left: what is small still finds room in
/// what the database had before, where others are refused.
fn without_room(database: &Path) -> Option<String> {
    let disk = rustix::fs::statvfs(database).ok()?;
    let left = disk.f_bavail.saturating_mul(disk.f_frsize);
    // Some file systems do not tell.
    (disk.f_blocks > 0 && left < LEAST_ROOM)
        .then(|| format!("the disk is full ({left} bytes left)"))
}

fn commit(connection: &mut Connection, group: &mut [Job]) -> rusqlite::Result<()> {
    let mut transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for job in group {
        let savepoint = transaction.savepoint()?;
        let is_done = job.run(&savepoint);
        // Some failures (a full disk) end the whole transaction, savepoints and all; going
        // on would commit the following writes one by one, without the group.
        if savepoint.is_autocommit() {
            return Err(rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ABORT),
                Some("the transaction was rolled back".into()),
            ));
        }
        if is_done {
            savepoint.commit()?;
        } else {
            savepoint.finish()?;
        }
    }
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Writes for one group, and what is said of each in the end.
    fn answered<const N: usize>(
        connection: Connection,
        path: &Path,
        group: [Work; N],
    ) -> Vec<String> {
        answered_in(connection, path, group, &Damage(OnceLock::new()))
    }

    /// The same in a database of which this is known.
    fn answered_in<const N: usize>(
        connection: Connection,
        path: &Path,
        group: [Work; N],
        damage: &Damage,
    ) -> Vec<String> {
        let (jobs, queue) = mpsc::channel(N);
        let answers = group.map(|work| {
            let (job, answer) = Job::new("note", path.into(), work);
            assert!(jobs.try_send(job).is_ok());
            answer
        });
        drop(jobs);
        serve(connection, queue, path, damage);
        let said = answers.map(|answer| answer.blocking_recv().unwrap());
        said.map(|said| said.map_or_else(|error| error.to_string(), |_| "stored".into())).into()
    }

    fn nothing() -> Work {
        Box::new(|_| Ok(Box::new(())))
    }

    #[test]
    fn a_database_of_which_a_part_is_damaged_is_told_of_whatever_else_is_stored() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sqlite");
        let damaged = || -> Work {
            Box::new(|_| {
                let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
                let text = "database disk image is malformed".to_owned();
                Err(rusqlite::Error::SqliteFailure(code, Some(text)).into())
            })
        };
        let open = || Connection::open(&path).unwrap();
        let is_told = |_| {
            let damage = Damage(OnceLock::new());
            let said = answered_in(open(), &path, [nothing(), damaged()], &damage);
            assert_eq!(said[0], "stored");
            let told = format!("{}; `clawgate doctor` says what to do", said[1]);
            assert!(told.contains("is malformed; "), "{told}");
            assert_eq!(answered_in(open(), &path, [nothing()], &damage), ["stored"]);
            trouble::of(DAMAGE).is_some_and(|trouble| trouble.error == told)
        };
        // The board is that of all tests: another may open a database meanwhile.
        assert!((0..9).any(is_told));
    }

    #[test]
    fn a_group_that_cannot_begin_is_told_why() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sqlite");
        let [other, writer, next] = [(); 3].map(|()| Connection::open(&path).unwrap());
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        writer.busy_timeout(Duration::ZERO).unwrap();
        let locked =
            format!("cannot commit in the database {}: database is locked", path.display());
        assert_eq!(answered(writer, &path, [nothing(), nothing()]), [locked.clone(), locked]);
        other.execute_batch("ROLLBACK").unwrap();
        assert_eq!(answered(next, &path, [nothing(), nothing()]), ["stored", "stored"]);
    }

    #[test]
    fn what_waits_behind_a_write_that_ends_the_transaction_is_told_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sqlite");
        let sabotage: Work = Box::new(|connection| {
            connection.execute_batch("ROLLBACK")?;
            Ok(Box::new(()))
        });
        let group = [nothing(), sabotage, nothing()];
        let said = answered(Connection::open(&path).unwrap(), &path, group);
        let place = path.display();
        let lost =
            format!("cannot commit in the database {place}: the transaction was rolled back");
        assert_eq!(said, [lost.clone(), lost.clone(), lost]);
        let next = answered(Connection::open(&path).unwrap(), &path, [nothing()]);
        assert_eq!(next, ["stored"]);
    }
}
