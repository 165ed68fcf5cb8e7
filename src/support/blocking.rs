//! Work that waits for files, or takes its time.
//!
//! Owns: the way off the threads that serve sockets. Promises: work that was begun goes on,
//! also when nobody waits for it any more; a panic in it takes nothing with it.

use std::any::Any;
use std::io;

use tokio::task::{self, JoinHandle};

/// Work that came to no end: it panicked, or the gateway stopped before it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("work on files was stopped inside the gateway; its log says why")]
pub struct Unfinished;

impl From<Unfinished> for io::Error {
    fn from(unfinished: Unfinished) -> Self {
        Self::other(unfinished)
    }
}

type Found = Box<dyn Any + Send>;

/// Begins `work` on a thread that may wait, at once; the future is ready when it is done.
///
/// # Errors
/// [`Unfinished`] when there is no result.
pub fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> impl Future<Output = Result<T, Unfinished>> + Send {
    let begun = begin(Box::new(move || Box::new(work())));
    async move {
        let found = begun.await.map_err(|_| Unfinished)?;
        found.downcast().map(|found| *found).map_err(|_| Unfinished)
    }
}

/// Boxed on both ends, so that what the runtime does with a task is compiled once instead of
/// once for each kind of work: that was half a megabyte of the program.
fn begin(work: Box<dyn FnOnce() -> Found + Send>) -> JoinHandle<Found> {
    task::spawn_blocking(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_has_its_result_or_none() {
        assert_eq!(blocking(|| "found".to_owned()).await, Ok("found".to_owned()));
        assert_eq!(blocking(|| -> u8 { panic!("boom") }).await, Err(Unfinished));
    }

    #[tokio::test]
    async fn work_goes_on_when_nobody_waits_for_it() {
        let (done, seen) = std::sync::mpsc::channel();
        drop(blocking(move || done.send(7)));
        assert_eq!(seen.recv(), Ok(7));
    }
}
