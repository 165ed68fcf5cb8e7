//! The log file.
//!
//! Owns: the queue between those who log and the one thread that writes.
//! Promises: who logs never waits; what does not fit is counted and said; what
//! is written can be read again by a cursor that survives rotation, see
//! [`tail()`]. Must not: log by itself while the file cannot be written.

mod place;
mod tail;
mod writer;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::{mpsc, oneshot};

use super::line::Logged;
pub use place::LogPlace;
pub use tail::{Tail, TailError, tail};

/// Lines that may wait for the disk: some seconds of a gateway at its busiest.
const WAITING_MAX: usize = 1024;
/// How often the end of the process looks whether its last lines are written,
/// and how many times: two seconds, less than a supervisor waits.
const END_LOOK_EVERY: Duration = Duration::from_millis(2);
const END_LOOKS: usize = 1000;
/// The thread makes one line after another, which needs little, but looks for the
/// time zone of this machine at the first, which needs more. Only what is used is
/// memory.
const STACK: usize = 1024 * 1024;

/// What the thread is asked to do.
enum Job {
    /// Writes a line.
    Line(Logged),
    /// Goes on in another place.
    Place(LogPlace),
    /// Answers when all that came before is written.
    Flush(oneshot::Sender<()>),
}

static QUEUE: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
static PLACE: LazyLock<ArcSwapOption<LogPlace>> = LazyLock::new(ArcSwapOption::empty);
static LOST: AtomicU64 = AtomicU64::new(0);

/// From now on lines go to this place; the first call starts the thread.
pub(super) fn open(place: LogPlace) {
    PLACE.store(Some(Arc::new(place.clone())));
    if let Some(queue) = QUEUE.get() {
        // A full queue holds the old place's lines; who logs must not wait, but
        // this is asked for at a start and at a reload only.
        send_later(queue, Job::Place(place));
        return;
    }
    let (queue, jobs) = mpsc::channel(WAITING_MAX);
    let thread = std::thread::Builder::new().name("log".into()).stack_size(STACK);
    match thread.spawn(move || writer::serve(place, jobs)) {
        Ok(_) => drop(QUEUE.set(queue)),
        Err(error) => tracing::error!(%error, "there is no log file"),
    }
}

fn send_later(queue: &mpsc::Sender<Job>, job: Job) {
    if let Err(mpsc::error::TrySendError::Full(job)) = queue.try_send(job) {
        let queue = queue.clone();
        // Rare and short: the thread at the other end empties the queue.
        std::thread::spawn(move || queue.blocking_send(job));
    }
}

/// Whether lines are taken.
pub(super) fn is_open() -> bool {
    QUEUE.get().is_some()
}

/// Hands an event over.
pub(super) fn write(event: Logged) {
    if let Some(queue) = QUEUE.get()
        && queue.try_send(Job::Line(event)).is_err()
    {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits until what was logged before is in the file.
pub async fn flush() {
    let Some(queue) = QUEUE.get() else { return };
    let (done, written) = oneshot::channel();
    if queue.send(Job::Flush(done)).await.is_ok() {
        // Without an answer the thread is gone, and so is what it held.
        let _ = written.await;
    }
}

/// The same for the end of the process, where nothing else runs. A disk that
/// does not answer does not hold it.
pub fn flush_at_end() {
    let Some(queue) = QUEUE.get() else { return };
    let (done, mut written) = oneshot::channel();
    let mut job = Some(Job::Flush(done));
    for _ in 0..END_LOOKS {
        if let Some(flush) = job.take()
            && let Err(mpsc::error::TrySendError::Full(flush)) = queue.try_send(flush)
        {
            job = Some(flush);
        }
        let is_open = matches!(written.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        if !is_open {
            return;
        }
        std::thread::sleep(END_LOOK_EVERY);
    }
}

/// Where the log file is; `None` when this process has none.
pub fn place() -> Option<Arc<LogPlace>> {
    PLACE.load_full()
}
