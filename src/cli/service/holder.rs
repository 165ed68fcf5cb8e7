//! The process that has the state directory.
//!
//! Promises: a signal goes to the process that holds the lock, or to none.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use super::ServiceError;
use crate::store::instance::{Running, running_at};

/// More than a pid takes.
const PID_MAX: u64 = 32;
/// The kernel's list of locks, where it has one.
const LOCKS: &str = "/proc/locks";

/// Who has the state directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Its process, as it calls itself.
    pub pid: Pid,
    /// Where it listens; none before it does, and for what is no gateway.
    pub running: Option<Running>,
}

impl Holder {
    /// Of the lock at this path, if anybody holds it and has said who it is.
    pub fn of(lock: &Path) -> Option<Self> {
        if !is_held(lock) {
            return None;
        }
        let mut line = String::new();
        BufReader::new(File::open(lock).ok()?.take(PID_MAX)).read_line(&mut line).ok()?;
        let pid = line.trim().parse::<i32>().ok().and_then(Pid::from_raw)?;
        Some(Self { pid, running: running_at(lock) })
    }

    /// The number of its process.
    pub fn number(self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Sends it this signal.
    ///
    /// # Errors
    /// When its process is none of this machine, or not ours.
    pub fn signal(self, signal: Signal) -> Result<(), ServiceError> {
        let pid = self.number();
        // In a container it has another number, and ours may be anybody's.
        if fs::read_to_string(LOCKS).is_ok_and(|locks| !is_among(&locks, pid)) {
            return Err(ServiceError::Elsewhere(pid));
        }
        kill_process(self.pid, signal)
            .map_err(|error| ServiceError::Signal { pid, source: error.into() })
    }
}

/// Whether anybody holds the lock.
pub fn is_held(lock: &Path) -> bool {
    let Ok(file) = File::open(lock) else { return false };
    flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}

/// When the holder has last said where it listens, which it does each time that it begins, or
/// why it does not begin again.
pub fn told_at(lock: &Path) -> Option<(i64, i64)> {
    let found = fs::metadata(lock).ok()?;
    Some((found.mtime(), found.mtime_nsec()))
}

/// Whether this process holds a lock of our kind.
fn is_among(locks: &str, pid: i32) -> bool {
    let pid = pid.to_string();
    locks.lines().any(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        words.get(1) == Some(&"FLOCK") && words.get(4) == Some(&pid.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::instance::{InstanceLock, refuse_restart};

    #[test]
    fn who_holds_the_lock_is_known_and_nobody_when_it_is_free() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("clawgate.lock");
        assert_eq!(Holder::of(&path), None);
        let mut lock = InstanceLock::acquire(&path).unwrap();
        let own = Pid::from_raw(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert_eq!(Holder::of(&path), Some(Holder { pid: own, running: None }));
        let running = Running::at("127.0.0.1:7".parse().unwrap());
        lock.publish(running).unwrap();
        assert_eq!(Holder::of(&path), Some(Holder { pid: own, running: Some(running) }));
        refuse_restart(&path, &"ö".repeat(40)).unwrap();
        assert_eq!(Holder::of(&path), Some(Holder { pid: own, running: Some(running) }));
        drop(lock);
        std::fs::write(&path, "1\n127.0.0.1:7\nws\n").unwrap();
        // A program that another test starts at this moment has the lock until it is itself.
        let is_free = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            !is_held(&path)
        });
        assert!(is_free);
        assert_eq!(Holder::of(&path), None, "what a killed gateway left");
    }

    #[test]
    fn a_pid_that_holds_no_lock_gets_no_signal() {
        let locks = "1: FLOCK  ADVISORY  WRITE 8343 fe:00:10010706 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 77 fe:00:5 0 EOF\n";
        assert!(is_among(locks, 8343));
        assert!(!is_among(locks, 77) && !is_among(locks, 834));
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("clawgate.lock");
        let lock = InstanceLock::acquire(&path).unwrap();
        // The number of a process of a container: here it is of one that holds no lock.
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        std::fs::write(&path, format!("{}\n127.0.0.1:7\nws\n", child.id())).unwrap();
        let holder = Holder::of(&path).unwrap();
        if Path::new(LOCKS).exists() {
            let refused = holder.signal(Signal::TERM);
            assert!(matches!(refused, Err(ServiceError::Elsewhere(_))), "{refused:?}");
            assert!(child.try_wait().unwrap().is_none());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        drop(lock);
    }
}
