//! Files of the Control UI's folder.
//!
//! Promises: a file is opened below the folder or not at all, wherever links in it
//! lead; nothing waits on a pipe; so many bytes are in memory as a client takes.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use axum::body::{Body, Bytes};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use futures_util::stream;
use rustix::fs::OFlags;
use tokio::sync::Semaphore;

use crate::support;

/// Bytes that are read at once; a smaller file is read as a whole.
const CHUNK: u64 = 64 * 1024;
/// Reads at a time, however many ask: a disk is no faster with more.
const READS_MAX: usize = 16;
/// Each read holds one of these. Nothing depends on who does.
static READS: Semaphore = Semaphore::const_new(READS_MAX);

/// The name of the page.
pub(super) const PAGE: &str = "index.html";

/// An open file.
pub(super) struct Opened {
    file: File,
    /// Its bytes.
    pub size: u64,
    /// Another one for every change of it.
    pub tag: String,
    /// When it was changed, in seconds since the epoch.
    pub changed_s: i64,
}

/// Does this off the async threads.
pub(in crate::http) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let _permit = READS.acquire().await.map_err(io::Error::other)?;
    support::blocking(work).await.map_err(io::Error::other)?
}

/// Opens a file below a folder.
///
/// # Errors
/// When it is not there, no file, or elsewhere.
pub(super) fn open(folder: &Path, name: &str) -> io::Result<Opened> {
    let folder = Dir::open_ambient_dir(folder, ambient_authority())?;
    open_in(&folder, name)
}

fn open_in(folder: &Dir, name: &str) -> io::Result<Opened> {
    let mut options = OpenOptions::new();
    // A pipe must not hold anybody up.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    options.read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    opened(folder.open_with(name, &options)?.into_std())
}

/// A file that is open, if it is one.
///
/// # Errors
/// When it is none.
fn opened(file: File) -> io::Result<Opened> {
    let facts = file.metadata()?;
    if facts.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !facts.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // Packages set the time of a change, never that of the inode.
    let tag = format!(
        "\"{:x}-{:x}-{:x}.{:x}\"",
        facts.size(),
        facts.ino(),
        facts.ctime(),
        facts.ctime_nsec()
    );
    Ok(Opened { size: facts.size(), tag, changed_s: facts.mtime(), file })
}

impl AsFd for Opened {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Opened {
    /// All of it.
    ///
    /// # Errors
    /// When it has more than `limit` bytes.
    pub(super) fn read(mut self, limit: u64) -> io::Result<Vec<u8>> {
        if self.size > limit {
            return Err(io::Error::other("too large"));
        }
        let mut bytes = vec![0; usize::try_from(self.size).map_err(io::Error::other)?];
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Its first bytes, and the rest as the client takes it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn body(self) -> io::Result<Body> {
        let size = self.size;
        self.part(0, size)
    }

    /// The same of so many bytes from there on.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) fn part(mut self, from: u64, len: u64) -> io::Result<Body> {
        self.file.seek(SeekFrom::Start(from))?;
        let (first, rest) = chunk(self.file, len)?;
        let Some(rest) = rest else { return Ok(Body::from(first)) };
        let first = stream::once(async move { Ok(first) });
        let rest = stream::try_unfold(Some(rest), async |rest| {
            let Some((file, left)) = rest else { return Ok(None) };
            blocking(move || chunk(file, left)).await.map(Some)
        });
        Ok(Body::from_stream(futures_util::StreamExt::chain(first, rest)))
    }
}

/// The next bytes of a file of which so many are left, and what is left then.
type Rest = Option<(File, u64)>;

fn chunk(mut file: File, left: u64) -> io::Result<(Bytes, Rest)> {
    let now = left.min(CHUNK);
    let mut bytes = vec![0; usize::try_from(now).map_err(io::Error::other)?];
    file.read_exact(&mut bytes)?;
    let left = left - now;
    Ok((bytes.into(), (left > 0).then_some((file, left))))
}
