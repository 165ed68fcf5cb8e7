//! One writer at a time of a file that several processes change.
//!
//! Owns: the advisory lock beside such a file. Promises: while one is held no second one for
//! the same file is given out, and the kernel takes it back from a process that dies, however
//! it dies; nobody waits for ever. Must not: be taken by who only reads, or know what is in
//! the files.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use super::atomic::{FileError, OnPath, create_private_dir, open_private};

/// What follows the name of the file in that of its lock. The `.lock` of the same name is
/// OpenClaw's, which takes one that is there for a lock that somebody holds.
const SUFFIX: &str = ".clawgate-lock";
/// Longer than a write takes, with the look at what is written before it, unless programs
/// that tell secrets are slow.
const WAIT: Duration = Duration::from_secs(10);
/// Between two looks whether it is free.
const LOOK: Duration = Duration::from_millis(10);

/// The right to read a file and to write what was made of it; dropping it gives it up. The
/// file that is locked stays: one that is removed keeps nobody out.
#[derive(Debug)]
pub struct WriteLock {
    _file: File,
}

/// Why the lock was not given.
#[derive(Debug, thiserror::Error)]
pub enum WriteLockError {
    /// Somebody holds it.
    #[error(
        "{} has been in the hands of another program that writes it for too long; try again, and if it stays so see which one has {} open",
        path.display(),
        lock.display()
    )]
    Busy {
        /// The file that is to be changed.
        path: PathBuf,
        /// What is locked for it.
        lock: PathBuf,
    },
    /// What is locked cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
}

impl WriteLock {
    /// Takes the lock of a file, which need not be there; waits for the one who has it. Every
    /// link to the file has the same one. Blocks.
    ///
    /// # Errors
    /// When somebody does not let go of it, or there can be none.
    pub fn acquire(path: &Path) -> Result<Self, WriteLockError> {
        Self::within(path, WAIT)
    }

    fn within(path: &Path, limit: Duration) -> Result<Self, WriteLockError> {
        let target = fs::canonicalize(path).or_else(|_| std::path::absolute(path));
        let target = target.on_path("find", path)?;
        if let Some(dir) = target.parent() {
            create_private_dir(dir)?;
        }
        let lock = beside(&target);
        let file = open_private(OpenOptions::new().read(true).write(true), &lock, &target);
        let file = file.on_path("open", &lock)?;
        let began = Instant::now();
        let mut locked = file.try_lock();
        while matches!(locked, Err(TryLockError::WouldBlock)) && began.elapsed() < limit {
            thread::sleep(LOOK);
            locked = file.try_lock();
        }
        if matches!(locked, Err(TryLockError::WouldBlock)) {
            return Err(WriteLockError::Busy { path: path.to_owned(), lock });
        }
        locked.on_path("lock", &lock)?;
        Ok(Self { _file: file })
    }
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(SUFFIX);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::mpsc::{TryRecvError, channel};

    use super::*;

    #[test]
    fn while_one_is_held_there_is_no_second_one_by_any_name_of_the_file() {
        let home = tempfile::tempdir().unwrap();
        let (path, link) = (home.path().join("folder/file"), home.path().join("link"));
        let first = WriteLock::acquire(&path).unwrap();
        let lock = beside(&path);
        assert_eq!(fs::metadata(&lock).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!path.exists());
        fs::write(&path, "x").unwrap();
        symlink(&path, &link).unwrap();
        for name in [&path, &link] {
            let error = WriteLock::within(name, Duration::ZERO).unwrap_err();
            assert!(matches!(error, WriteLockError::Busy { .. }), "{error}");
            let said = error.to_string();
            assert!(said.starts_with(&format!("{} has been in", name.display())), "{said}");
            assert!(
                said.contains(&fs::canonicalize(&lock).unwrap().display().to_string()),
                "{said}"
            );
        }
        // Another file has another one.
        WriteLock::within(&home.path().join("folder/other"), Duration::ZERO).unwrap();
        drop(first);
        assert!(lock.exists());
        WriteLock::within(&link, Duration::ZERO).unwrap();
    }

    #[test]
    fn who_comes_second_waits_for_the_first() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        let first = WriteLock::acquire(&path).unwrap();
        let (begins, begun) = channel();
        let (ends, ended) = channel();
        let other = path.clone();
        let second = thread::spawn(move || {
            begins.send(()).unwrap();
            let second = WriteLock::acquire(&other).unwrap();
            ends.send(()).unwrap();
            drop(second);
        });
        begun.recv().unwrap();
        assert_eq!(ended.try_recv(), Err(TryRecvError::Empty));
        drop(first);
        ended.recv().unwrap();
        second.join().unwrap();
    }

    #[test]
    fn where_nothing_can_be_written_there_is_no_lock() {
        let home = tempfile::tempdir().unwrap();
        let blocker = home.path().join("file");
        fs::write(&blocker, "").unwrap();
        let error = WriteLock::acquire(&blocker.join("x")).unwrap_err();
        assert!(matches!(error, WriteLockError::File(_)), "{error}");
    }
}
