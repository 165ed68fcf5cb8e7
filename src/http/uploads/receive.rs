//! The body of an upload, on its way to the disk.
//!
//! Promises: a little of it is in memory; it ends where its bound is, and when it
//! does not come on.

use axum::body::Bytes;
use futures_util::{Stream, StreamExt};
use tokio::time::{Instant, timeout_at};

use crate::http::body::{LONGEST, PROGRESS, WINDOW};
use crate::http::ui::blocking;
use crate::sessions::{MediaError, MediaType, Partial};

/// So much is written at once.
const BATCH: usize = 256 * 1024;
/// So many of the first bytes say what it is.
const HEAD: usize = 4 * 1024;

/// Why there is no file.
#[derive(Debug)]
pub(super) enum Failure {
    /// It has more bytes than that.
    TooLarge(u64, MediaType),
    /// It does not come on.
    TooSlow,
    /// There is nothing in it.
    Empty,
    /// It ended before its end, or cannot be read.
    Broken(String),
    /// It cannot be written.
    Disk(MediaError),
}

impl From<MediaError> for Failure {
    fn from(error: MediaError) -> Self {
        Self::Disk(error)
    }
}

/// What is told of a file before it has come.
pub(super) struct Told<'a> {
    /// What the client says it is.
    pub kind: &'a str,
    /// How large it says it is.
    pub size: Option<u64>,
    /// Most bytes of a file of a type.
    pub most: &'a (dyn Fn(MediaType) -> u64 + Send + Sync),
}

/// Writes what comes.
///
/// # Errors
/// When it cannot be had as a whole. Nothing of it stays then.
pub(super) async fn receive<E: std::fmt::Display>(
    mut chunks: impl Stream<Item = Result<Bytes, E>> + Unpin + Send,
    partial: Partial,
    told: &Told<'_>,
) -> Result<(Partial, MediaType), Failure> {
    let mut coming = Coming { partial, batch: Vec::new(), kind: None };
    let begun = Instant::now();
    let (mut until, mut came) = (begun + WINDOW, 0);
    loop {
        let next = timeout_at(until.min(begun + LONGEST), chunks.next()).await;
        let Some(chunk) = next.map_err(|_| Failure::TooSlow)? else { break };
        let chunk = chunk.map_err(|error| Failure::Broken(error.to_string()))?;
        came += chunk.len();
        coming.batch.extend_from_slice(&chunk);
        coming.look(told, HEAD)?;
        let writing = Instant::now();
        if coming.batch.len() >= BATCH {
            coming = coming.written().await?;
        }
        // A slow disk is nobody's fault who sends.
        until += writing.elapsed();
        if came >= PROGRESS {
            (until, came) = (Instant::now() + WINDOW, 0);
        }
    }
    coming.look(told, 0)?;
    let coming = coming.written().await?;
    match coming.kind {
        Some(kind) if coming.partial.bytes() > 0 => Ok((coming.partial, kind)),
        _ => Err(Failure::Empty),
    }
}

struct Coming {
    partial: Partial,
    batch: Vec<u8>,
    /// Known when enough has come.
    kind: Option<MediaType>,
}

impl Coming {
    /// Says what it is when `enough` has come, and refuses what is too large.
    fn look(&mut self, told: &Told<'_>, enough: usize) -> Result<(), Failure> {
        let kind = match self.kind {
            Some(kind) => kind,
            None if self.batch.len() < enough => return Ok(()),
            None => MediaType::of_beginning(&self.batch, told.kind),
        };
        self.kind = Some(kind);
        let most = (told.most)(kind);
        let waiting = u64::try_from(self.batch.len()).unwrap_or(u64::MAX);
        let here = self.partial.bytes().saturating_add(waiting);
        if told.size.unwrap_or_default().max(here) > most {
            return Err(Failure::TooLarge(most, kind));
        }
        Ok(())
    }

    async fn written(mut self) -> Result<Self, Failure> {
        let writing = blocking(move || {
            let done = self.partial.write(&self.batch);
            self.batch.clear();
            Ok((self, done))
        });
        let (coming, done) = writing.await.map_err(|_| Failure::Disk(MediaError::Stopped))?;
        done?;
        Ok(coming)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use futures_util::stream;

    use super::*;
    use crate::sessions::Media;

    const MOST: u64 = 1_000_000;
    const MOST_OF_PICTURES: u64 = 10_000;

    fn most(kind: MediaType) -> u64 {
        if kind.is_picture() { MOST_OF_PICTURES } else { MOST }
    }

    fn told(size: Option<u64>) -> Told<'static> {
        Told { kind: "", size, most: &most }
    }

    fn begun() -> (tempfile::TempDir, Partial) {
        let home = tempfile::tempdir().unwrap();
        let partial = Media::new(home.path()).uploads().begin().unwrap();
        (home, partial)
    }

    fn chunks(of: &[u8], size: usize) -> impl Stream<Item = Result<Bytes, Infallible>> + Unpin {
        let chunks: Vec<_> = of.chunks(size).map(|it| Ok(Bytes::copy_from_slice(it))).collect();
        stream::iter(chunks)
    }

    fn left(home: &tempfile::TempDir) -> usize {
        std::fs::read_dir(home.path().join("media/uploads/partial")).unwrap().count()
    }

    async fn comes(bytes: &[u8], size: Option<u64>) -> Result<(u64, &'static str), Failure> {
        let (home, partial) = begun();
        let done = receive(chunks(bytes, 1000), partial, &told(size)).await;
        let done = done.map(|(partial, kind)| (partial.bytes(), kind.mime));
        assert_eq!(left(&home), 0);
        done
    }

    #[tokio::test]
    async fn what_fits_is_written_and_what_does_not_leaves_nothing() {
        let text = vec![b'x'; usize::try_from(MOST).unwrap()];
        assert_eq!(comes(&text, None).await.unwrap(), (MOST, "text/plain"));
        let more = [text, vec![b'x']].concat();
        assert!(matches!(comes(&more, None).await, Err(Failure::TooLarge(MOST, _))));
        let told = comes(b"x", Some(MOST + 1)).await;
        assert!(matches!(told, Err(Failure::TooLarge(MOST, _))));
        let picture = [b"\x89PNG\r\n\x1a\n".as_slice(), &vec![0; 10_000]].concat();
        let refused = comes(&picture, None).await;
        assert!(matches!(refused, Err(Failure::TooLarge(MOST_OF_PICTURES, _))));
        assert!(matches!(comes(b"", None).await, Err(Failure::Empty)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_come_on_is_given_up_and_what_does_may_take_long() {
        let every = |bytes: usize, count: usize| {
            let one = move |sent| async move {
                tokio::time::sleep(Duration::from_secs(10)).await;
                (sent < count).then(|| (Ok::<_, Infallible>(vec![b'x'; bytes].into()), sent + 1))
            };
            Box::pin(stream::unfold(0, one))
        };
        let (home, partial) = begun();
        let slow = receive(every(1, 100), partial, &told(None)).await;
        assert!(matches!(slow, Err(Failure::TooSlow)));
        assert_eq!(left(&home), 0);
        let (_home, partial) = begun();
        let (partial, _) = receive(every(PROGRESS, 15), partial, &told(None)).await.unwrap();
        assert_eq!(partial.bytes(), 15 * PROGRESS as u64);
        let (_home, partial) = begun();
        let endless = every(PROGRESS, usize::MAX);
        let unbounded = Told { kind: "", size: None, most: &|_| u64::MAX };
        let endless = receive(endless, partial, &unbounded).await;
        assert!(matches!(endless, Err(Failure::TooSlow)));
    }
}
