//! What a command has said beyond what is kept in memory.
//!
//! Owns: the files that hold all of it. Promises: only the user of the gateway
//! reads them; each has a limit, and so has their number and age, but none goes whose
//! command still writes it. Must not: hold up the threads that serve clients.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::support::{blocking, sort};

/// Most of one command: far more than anybody reads.
pub const MAX_FILE: usize = 64 * 1024 * 1024;
/// Most files; the oldest give way.
const MAX_FILES: usize = 32;
/// What nobody has asked for in a week.
const MAX_AGE: Duration = Duration::from_hours(7 * 24);

/// The file of one command.
pub struct Overflow {
    path: PathBuf,
    file: Option<File>,
    written: usize,
}

impl Overflow {
    /// Makes the file, and removes old ones. `now_ms` is the time.
    ///
    /// # Errors
    /// When the disk does not take it.
    pub async fn create(dir: PathBuf, name: String, now_ms: u64) -> io::Result<Self> {
        let made = blocking(move || {
            DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
            make_room(&dir, SystemTime::UNIX_EPOCH + Duration::from_millis(now_ms))?;
            let path = dir.join(name);
            let file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path)?;
            // Held until the command ends. Where no lock can be had, the file is as any other.
            let _ = file.try_lock();
            Ok(Self { path, file: Some(file), written: 0 })
        });
        made.await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// One whose disk takes nothing.
    #[cfg(all(test, target_os = "linux"))]
    pub(super) fn on_a_full_disk() -> Self {
        let path = PathBuf::from("/dev/full");
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        Self { path, file: Some(file), written: 0 }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds text; what goes beyond the limit is left out.
    ///
    /// # Errors
    /// When the disk does not take it; nothing is added from then on.
    pub async fn push(&mut self, text: &str) -> io::Result<()> {
        let room = MAX_FILE - self.written;
        let piece = text[..text.floor_char_boundary(room.min(text.len()))].to_owned();
        if piece.is_empty() {
            return Ok(());
        }
        let Some(mut file) = self.file.take() else { return Ok(()) };
        self.written += piece.len();
        let written = blocking(move || file.write_all(piece.as_bytes()).map(|()| file));
        self.file = Some(written.await.unwrap_or_else(|error| Err(io::Error::other(error)))?);
        Ok(())
    }
}

impl Drop for Overflow {
    fn drop(&mut self) {
        // A program that is being started may have the file for a moment as well, and the lock
        // would last as long.
        if let Some(file) = &self.file {
            let _ = file.unlock();
        }
    }
}

/// Removes what is old, and so many that one more fits.
fn make_room(dir: &Path, now: SystemTime) -> io::Result<()> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        // What is gone meanwhile takes no room.
        let Ok(found) = entry.metadata() else { continue };
        files.push((found.modified()?, entry.path()));
    }
    sort::plain(&mut files);
    // The oldest may be that of a command which has been silent for long.
    let too_many = (files.len() + 1).saturating_sub(MAX_FILES);
    files.retain(|(_, path)| !is_held(path));
    for (index, (changed, path)) in files.iter().enumerate() {
        let age = now.duration_since(*changed).unwrap_or_default();
        if index < too_many || age > MAX_AGE {
            match fs::remove_file(path) {
                // Another command has made room at the same time.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
    }
    Ok(())
}

/// Whether a command still writes the file.
fn is_held(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tempfile::TempDir;

    use super::*;

    const NOW: u64 = 4_000_000_000_000;

    #[tokio::test]
    async fn the_file_is_private_and_bounded() {
        let root = TempDir::new().unwrap();
        let dir = root.path().join("exec-output");
        let mut overflow = Overflow::create(dir, "one.log".into(), 0).await.unwrap();
        let large = "ä".repeat(10 * 1024 * 1024);
        for _ in 0..4 {
            overflow.push(&large).await.unwrap();
        }
        let found = fs::metadata(overflow.path()).unwrap();
        assert_eq!(found.len(), 64 * 1024 * 1024);
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn old_files_and_too_many_files_go() {
        let root = TempDir::new().unwrap();
        let dir = root.path().to_owned();
        for index in 0..40 {
            let name = format!("{index}.log");
            Overflow::create(dir.clone(), name, 0).await.unwrap();
        }
        assert_eq!(fs::read_dir(&dir).unwrap().count(), MAX_FILES);
        Overflow::create(dir.clone(), "late.log".into(), NOW).await.unwrap();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn the_file_of_a_command_that_runs_stays_however_old_it_is() {
        let root = TempDir::new().unwrap();
        let dir = root.path().to_owned();
        let running = Overflow::create(dir.clone(), "running.log".into(), 0).await.unwrap();
        for index in 0..MAX_FILES {
            Overflow::create(dir.clone(), format!("{index}.log"), 0).await.unwrap();
        }
        assert_eq!(fs::read_dir(&dir).unwrap().count(), MAX_FILES);
        Overflow::create(dir.clone(), "late.log".into(), NOW).await.unwrap();
        assert!(running.path().exists());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 2);
        drop(running);
        Overflow::create(dir.clone(), "last.log".into(), NOW).await.unwrap();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    }
}
