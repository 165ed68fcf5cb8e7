//! Reads of the database.
//!
//! Owns: the connections that only read, and the reads that wait. Promises: reads begin in
//! the order in which they were asked for, a few at a time; one that fails or panics fails
//! alone. A thread that has come to read goes on while something waits, so that many reads
//! at once do not wake as many threads; all come from the runtime that asks, of which a
//! database has one. Must not: run SQL on a thread that serves sockets.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::support::blocking;

use super::database::open_reader;
use super::error::{Fault, StoreError};
use super::group::{Damage, Found, Work};

/// Reads at a time: as many as there are cores, within these. They are short; more would only
/// add connections and threads.
const READERS: RangeInclusive<usize> = 2..=4;
/// When so many reads wait, and whenever there are twice as many, those are taken out that
/// nobody waits for any more: while a disk hangs, clients give up and ask again.
const CROWD: usize = 1024;

/// A read that waits, and whom to tell.
struct Read {
    operation: &'static str,
    work: Work,
    reply: oneshot::Sender<Result<Found, StoreError>>,
}

#[derive(Default)]
struct Reads {
    /// Reads that no thread has begun.
    waiting: VecDeque<Read>,
    /// When so many wait, it is looked who has given up.
    crowd: usize,
    /// Connections that no thread reads with.
    idle: Vec<Connection>,
    /// Threads that read.
    readers: usize,
}

/// Those who read a database.
pub(super) struct Readers {
    path: Arc<Path>,
    /// Threads that may read at a time.
    most: usize,
    damage: Arc<Damage>,
    reads: Mutex<Reads>,
}

impl Readers {
    /// Readers of the database at `path`; none has come yet.
    pub(super) fn new(path: Arc<Path>, damage: Arc<Damage>) -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let most = cores.clamp(*READERS.start(), *READERS.end());
        Self { path, most, damage, reads: Mutex::default() }
    }

    /// What `work` finds. Nobody reads for who waits no longer.
    pub(super) async fn read(
        self: &Arc<Self>,
        operation: &'static str,
        work: Work,
    ) -> Result<Found, StoreError> {
        let (reply, answer) = oneshot::channel();
        if let Some(reader) = self.queue(Read { operation, work, reply }) {
            drop(blocking(move || reader.serve()));
        }
        answer.await.unwrap_or(Err(StoreError::Stopped { operation }))
    }

    /// Has a read wait; who is to come for it, unless enough are there.
    fn queue(self: &Arc<Self>, read: Read) -> Option<Reader> {
        // Outlives the lock: what is in there is not ours.
        let mut given_up = VecDeque::new();
        let mut reads = self.reads.lock();
        if reads.waiting.len() >= reads.crowd {
            let all = std::mem::take(&mut reads.waiting).into_iter();
            (given_up, reads.waiting) = all.partition(|read| read.reply.is_closed());
            reads.crowd = CROWD.max(2 * reads.waiting.len());
        }
        reads.waiting.push_back(read);
        let reader = (reads.readers < self.most).then(|| {
            reads.readers += 1;
            Reader { readers: Arc::clone(self), is_here: true }
        });
        drop(reads);
        drop(given_up);
        reader
    }

    /// Closes the connections that nobody reads with.
    pub(super) fn close(&self) {
        let idle = std::mem::take(&mut self.reads.lock().idle);
        drop(idle);
    }
}

/// One thread that reads.
struct Reader {
    readers: Arc<Readers>,
    /// Whether it still counts.
    is_here: bool,
}

impl Reader {
    /// Reads until nothing waits. It answers when it has taken the next read, or has put its
    /// connection back and gone: who then asks again needs no further thread.
    fn serve(mut self) {
        let mut connection = None;
        let mut next = self.next(&mut connection);
        while let Some(Read { operation, work, reply }) = next {
            if reply.is_closed() {
                next = self.next(&mut connection);
                continue;
            }
            let found = catch_unwind(AssertUnwindSafe(|| self.find(work, &mut connection)));
            if found.is_err() {
                // What was under way on it is unknown.
                connection = None;
            }
            next = self.next(&mut connection);
            let fault = |fault: Fault| {
                let error = fault.at(operation, &self.readers.path);
                self.readers.damage.heed(&error);
                error
            };
            let stopped = Err(StoreError::Stopped { operation });
            // Nobody may be waiting any more.
            let _ = reply.send(found.map_or(stopped, |found| found.map_err(fault)));
        }
    }

    fn find(&self, work: Work, connection: &mut Option<Connection>) -> Result<Found, Fault> {
        let connection = match connection {
            Some(connection) => connection,
            none => none.insert(open_reader(&self.readers.path)?),
        };
        work(connection)
    }

    /// The next read. Without one the reader goes, and leaves its connection.
    fn next(&mut self, connection: &mut Option<Connection>) -> Option<Read> {
        let mut reads = self.readers.reads.lock();
        let next = reads.waiting.pop_front();
        if next.is_none() {
            reads.idle.extend(connection.take());
            reads.readers -= 1;
            self.is_here = false;
        } else if connection.is_none() {
            *connection = reads.idle.pop();
        }
        next
    }
}

impl Drop for Reader {
    /// One that never came, since the gateway stops: nobody waits for it in vain.
    fn drop(&mut self) {
        if self.is_here {
            let mut reads = self.readers.reads.lock();
            reads.readers -= 1;
            let nobody_comes = reads.readers == 0;
            let left = nobody_comes.then(|| std::mem::take(&mut reads.waiting));
            drop(reads);
            // Outside of the lock: whoever waits is told.
            drop(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::super::database::tests::scratch;
    use super::*;

    fn number(connection: &Connection, number: usize) -> Result<usize, Fault> {
        let number = i64::try_from(number).unwrap();
        let found: i64 = connection.query_row("SELECT ?1", [number], |row| row.get(0))?;
        Ok(usize::try_from(found).unwrap())
    }

    #[tokio::test]
    async fn each_of_many_reads_at_once_has_its_own_answer() {
        let (_dir, database) = scratch();
        let reads = (0..1_000).map(|index| database.read("count", move |it| number(it, index)));
        let found: Vec<usize> = join_all(reads).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(found, (0..1_000).collect::<Vec<_>>());
        let idle = database.readers().reads.lock().idle.len();
        assert!((1..=database.readers().most).contains(&idle), "{idle} connections");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_reads_again_and_again_needs_one_connection() {
        let (_dir, database) = scratch();
        for index in 0..200 {
            let found = database.read("count", move |it| number(it, index)).await;
            assert_eq!(found.unwrap(), index);
            assert_eq!(database.readers().reads.lock().idle.len(), 1);
        }
    }

    #[tokio::test]
    async fn one_thread_reads_in_the_order_of_the_questions_and_nobody_reads_for_who_has_gone() {
        let (_dir, database) = scratch();
        // All of them wait before the first reader comes.
        let readers = database.readers();
        let (tell, told) = std::sync::mpsc::channel();
        let read = |index: usize| {
            let tell = tell.clone();
            let (reply, answer) = oneshot::channel();
            let work: Work = Box::new(move |_| {
                tell.send(index).unwrap();
                Ok(Box::new(()))
            });
            (readers.queue(Read { operation: "look", work, reply }), answer)
        };
        let (come, mut answers): (Vec<_>, Vec<_>) = (0..100).map(read).unzip();
        drop(answers.remove(7));
        let mut come: Vec<_> = come.into_iter().flatten().collect();
        assert_eq!(come.len(), readers.most);
        // With one of them here it is seen in which order the reads begin.
        let last = come.pop().unwrap();
        last.serve();
        let order: Vec<_> = told.try_iter().collect();
        assert_eq!(order, (0..100).filter(|index| *index != 7).collect::<Vec<_>>());
        // Who comes later finds nothing left.
        come.into_iter().for_each(Reader::serve);
        for answer in answers {
            answer.await.unwrap().unwrap();
        }
        assert_eq!(told.try_iter().count(), 0);
    }

    #[tokio::test]
    async fn of_very_many_reads_those_go_that_nobody_waits_for() {
        let (_dir, database) = scratch();
        let readers = database.readers();
        let read = |_| {
            let (reply, answer) = oneshot::channel();
            let work: Work = Box::new(|_| Ok(Box::new(())));
            (readers.queue(Read { operation: "look", work, reply }), answer)
        };
        let waiting = || readers.reads.lock().waiting.len();
        let (mut come, mut answers): (Vec<_>, Vec<_>) = (0..CROWD).map(read).unzip();
        let kept = answers.split_off(CROWD - 10);
        drop(answers);
        assert_eq!(waiting(), CROWD);
        let (reader, one_more) = read(CROWD);
        come.push(reader);
        assert_eq!(waiting(), 11);
        come.into_iter().flatten().for_each(Reader::serve);
        for answer in kept.into_iter().chain([one_more]) {
            answer.await.unwrap().unwrap();
        }
        // As many who all wait: it is looked again when they are twice as many.
        let all: Vec<_> = (0..3 * CROWD).map(read).collect();
        assert_eq!(waiting(), 3 * CROWD);
        drop(all);
    }

    #[tokio::test]
    async fn one_that_fails_or_panics_fails_alone() {
        let (_dir, database) = scratch();
        let reads = (0..40).map(|index| {
            database.read("look", move |connection| match index % 4 {
                1 => panic!("boom"),
                2 => Ok(connection.query_row("SELECT nothing", [], |_| Ok(index))?),
                _ => number(connection, index),
            })
        });
        for (index, found) in join_all(reads).await.into_iter().enumerate() {
            match index % 4 {
                1 => assert!(matches!(found, Err(StoreError::Stopped { operation: "look" }))),
                2 => {
                    let error = found.unwrap_err().to_string();
                    assert!(error.starts_with("cannot look in the database /"), "{error}");
                }
                _ => assert_eq!(found.unwrap(), index),
            }
        }
    }

    #[tokio::test]
    async fn a_read_that_finds_damage_has_its_own_database_told_of_as_damaged() {
        let ((_dir, database), (_other_dir, other)) = (scratch(), scratch());
        let read = database.read::<(), _>("look", |_| {
            let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
            let text = "database disk image is malformed".to_owned();
            Err(rusqlite::Error::SqliteFailure(code, Some(text)).into())
        });
        let error = read.await.unwrap_err();
        let told = format!("{error}; `clawgate doctor` says what to do");
        assert!(told.contains("is malformed; "), "{told}");
        assert_eq!(database.readers().damage.told(), Some(&told));
        assert!(other.read("look", |it| number(it, 7)).await.is_ok());
        assert_eq!(other.readers().damage.told(), None);
    }

    #[tokio::test]
    async fn nobody_waits_for_a_reader_that_never_came() {
        let (_dir, database) = scratch();
        let readers = database.readers();
        let read = |reply| Read { operation: "look", work: Box::new(|_| Ok(Box::new(1))), reply };
        let (reply, answer) = oneshot::channel();
        let reader = readers.queue(read(reply)).unwrap();
        let (reply, another) = oneshot::channel();
        let other = readers.queue(read(reply)).unwrap();
        drop(reader);
        // The other one may still come.
        other.serve();
        assert!(answer.await.is_ok() && another.await.is_ok());
        let (reply, answer) = oneshot::channel();
        drop(readers.queue(read(reply)));
        assert!(answer.await.is_err());
        assert_eq!(database.read("count", |it| number(it, 7)).await.unwrap(), 7);
    }
}
