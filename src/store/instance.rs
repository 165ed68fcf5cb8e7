//! One gateway per state directory.
//!
//! Owns: the advisory lock on `clawgate.lock`, and that on the folder it is in. Promises: while
//! a lock is held no second one is given out, be it that somebody has removed the file, and the
//! kernel takes it back from a process that dies, however it dies. Must not: rely on what the
//! file says to decide who may run, or who does; pid, address, certificate and why there is no
//! restart are for people and for clients on this machine.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tokio::time::Instant;

use super::atomic::{FileError, OnPath, create_private_dir, open_private};
use crate::support::Fingerprint;

/// More than a pid, an address, a certificate and a reason take.
const TEXT_LIMIT: u64 = 8192;
/// Lines of a gateway that runs: pid, address, how it is spoken to. That is the scheme, and
/// beside it, unless it is of an earlier version, the fingerprint, or that it mends.
const LINES: usize = 3;
/// Characters of a reason that are told; the log has all of it.
const REASON_MAX: usize = 1000;

/// A gateway that was killed holds the lock until its last write has ended, and whoever
/// starts the next one at once should not have to try again.
const LAST_WRITE: Duration = Duration::from_secs(1);
/// Between two looks whether it has.
const LOOK: Duration = Duration::from_millis(10);

/// The pid of a gateway that does not say it.
const NOBODY_KNOWS: &str = "unknown";
/// What the lock file calls a gateway without TLS, and one with it.
const PLAIN: &str = "ws";
const TLS: &str = "wss";
/// What it says there of one that only waits for its config file to be mended.
const MENDS: &str = "mends";

/// Who changes what a lock file says, from reading to writing: only the process that holds the
/// lock does, and of two changes at once one would be lost.
static TELLING: Mutex<()> = Mutex::new(());

/// How a running gateway is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether it speaks TLS.
    pub is_tls: bool,
    /// Of the certificate that it has in use, which need not be that of the file.
    pub fingerprint: Option<Fingerprint>,
    /// Whether it only waits for its config file to be mended, and goes by little of that.
    pub mends: bool,
}

impl Running {
    /// At this address, without TLS.
    pub const fn at(address: SocketAddr) -> Self {
        Self { address, is_tls: false, fingerprint: None, mends: false }
    }

    /// What the lines of a lock file say.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().skip(1);
        let address = lines.next()?.trim().parse().ok()?;
        let words: Vec<_> = lines.next().unwrap_or_default().split_whitespace().collect();
        Some(Self {
            address,
            is_tls: words.contains(&TLS),
            fingerprint: words.iter().find_map(|word| word.parse().ok()),
            mends: words.contains(&MENDS),
        })
    }

    /// The last of those lines.
    fn manner(self) -> String {
        let scheme = if self.is_tls { TLS } else { PLAIN };
        let pin = self.fingerprint.map_or_else(String::new, |pin| format!(" {pin}"));
        let mends = if self.mends { format!(" {MENDS}") } else { String::new() };
        format!("{scheme}{pin}{mends}")
    }
}

/// The right to be the gateway of a state directory; dropping it gives it up.
#[derive(Debug)]
pub struct InstanceLock {
    file: File,
    /// The state directory, locked as well: a file that is removed keeps nobody out, and people
    /// remove what is called a lock. `None` where it cannot be opened.
    _folder: Option<File>,
}

/// Why the lock was not given.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// Somebody holds it.
    #[error(
        "another gateway (pid {pid}) already uses the state directory {}; stop it first, or set OPENCLAW_STATE_DIR to run a second one beside it",
        state_dir.display()
    )]
    Held {
        /// What the holder wrote into the file, `unknown` when it had no time to, or the file
        /// is another one by now.
        pid: String,
        /// The directory both want.
        state_dir: PathBuf,
    },
    /// The lock file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
}

impl InstanceLock {
    /// Takes the lock in `path`, a file inside the state directory; waits a moment for
    /// one that is about to let go of it.
    pub fn acquire(path: &Path) -> Result<Self, InstanceError> {
        let state_dir = path.parent().unwrap_or(path);
        create_private_dir(state_dir)?;
        // The holder's pid is in it, and stays.
        let file = open_private(OpenOptions::new().read(true).write(true), path, state_dir);
        let mut file = file.on_path("open", path)?;
        let held = |pid| InstanceError::Held { pid, state_dir: state_dir.to_owned() };
        let locked = lock_soon(&file);
        if locked == Err(Errno::WOULDBLOCK) {
            return Err(held(holder(&file)));
        }
        locked.on_path("lock", path)?;
        // Some file systems lock no folders; there the file alone has to do.
        let folder = File::open(state_dir).ok();
        if folder.as_ref().is_some_and(|it| lock_soon(it) == Err(Errno::WOULDBLOCK)) {
            return Err(held(NOBODY_KNOWS.to_owned()));
        }
        write_anew(&mut file, &format!("{}\n", std::process::id())).on_path("write", path)?;
        Ok(Self { file, _folder: folder })
    }

    /// Tells clients on this machine how they reach the gateway.
    pub fn publish(&mut self, running: Running) -> io::Result<()> {
        let (pid, address, manner) = (std::process::id(), running.address, running.manner());
        // A gateway that begins again says it again, and nobody reads half of it.
        let text = format!("{pid}\n{address}\n{manner}\n");
        let _telling = TELLING.lock();
        write_anew(&mut self.file, &text)
    }

    /// Names no gateway any more, and keeps the lock for as long as the process lives: a
    /// write that a disk holds up may still be under way.
    pub fn end_with_process(self) {
        self.name_nobody();
        std::mem::forget(self);
    }

    fn name_nobody(&self) {
        let _telling = TELLING.lock();
        // Whoever gets the lock next writes its own.
        let _ = self.file.set_len(0);
    }
}

impl Drop for InstanceLock {
    fn drop(&mut self) {
        self.name_nobody();
    }
}

/// Locks it; waits a moment for one that is about to let go of it.
fn lock_soon(file: &File) -> Result<(), Errno> {
    let began = Instant::now();
    let mut locked = flock(file, FlockOperation::NonBlockingLockExclusive);
    while locked == Err(Errno::WOULDBLOCK) && began.elapsed() < LAST_WRITE {
        thread::sleep(LOOK);
        locked = flock(file, FlockOperation::NonBlockingLockExclusive);
    }
    locked
}

/// How the gateway of a state directory is reached, if one runs.
pub fn running_at(path: &Path) -> Option<Running> {
    let file = File::open(path).ok()?;
    // Of a gateway that was killed the file still tells, and its pid may be another
    // program's by now. One that starts meanwhile waits longer than this lock is held.
    if flock(&file, FlockOperation::NonBlockingLockShared) != Err(Errno::WOULDBLOCK) {
        return None;
    }
    Running::parse(&read_start(&file)?)
}

/// Tells clients on this machine of another certificate that the gateway of a state directory
/// has in use. The time of the file stays: by that a gateway is known that has begun again.
///
/// # Errors
/// When it cannot be written.
pub fn renew_certificate(path: &Path, fingerprint: Fingerprint) -> io::Result<()> {
    let _telling = TELLING.lock();
    let (mut file, text) = open_again(path)?;
    let Some(running) = Running::parse(&text) else { return Ok(()) };
    let began = file.metadata()?.modified()?;
    let manner = Running { fingerprint: Some(fingerprint), ..running }.manner();
    let mut lines: Vec<_> = text.lines().collect();
    if let Some(line) = lines.get_mut(LINES - 1) {
        *line = &manner;
    }
    write_over(&mut file, &format!("{}\n", lines.join("\n")))?;
    file.set_modified(began)
}

/// Tells whoever waits for the gateway of a state directory to begin again that it does not,
/// and why. It stands there until that is published anew.
///
/// # Errors
/// When it cannot be written.
pub fn refuse_restart(path: &Path, why: &str) -> io::Result<()> {
    let _telling = TELLING.lock();
    let (mut file, text) = open_again(path)?;
    // Of one that names no gateway any more the first line would be taken for a pid.
    if Running::parse(&text).is_none() {
        return Ok(());
    }
    let running: String = text.split_inclusive('\n').take(LINES).collect();
    let line = |sign: char| if sign.is_control() { ' ' } else { sign };
    let why: String = why.chars().take(REASON_MAX).map(line).collect();
    write_over(&mut file, &format!("{running}{why}\n"))
}

/// Why the gateway of a state directory has not begun again, if it was last told to in vain.
pub fn refusal_at(path: &Path) -> Option<String> {
    let text = read_start(&File::open(path).ok()?)?;
    text.lines().nth(LINES).map(str::to_owned)
}

/// The file of a lock that is held, and what it says.
fn open_again(path: &Path) -> io::Result<(File, String)> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let text = read_start(&file).ok_or_else(|| io::Error::other("it cannot be read"))?;
    Ok((file, text))
}

/// Writes over what is there, which is cut afterwards: nobody finds no address meanwhile, or
/// a file that has changed without a reason in it.
fn write_over(file: &mut File, text: &str) -> io::Result<()> {
    file.rewind()?;
    file.write_all(text.as_bytes())?;
    let end = file.stream_position()?;
    file.set_len(end)
}

fn write_anew(file: &mut File, text: &str) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(text.as_bytes())
}

fn holder(file: &File) -> String {
    let text = read_start(file).unwrap_or_default();
    let pid = text.lines().next().map(str::trim).filter(|pid| !pid.is_empty());
    pid.unwrap_or(NOBODY_KNOWS).to_owned()
}

fn read_start(file: &File) -> Option<String> {
    let mut text = String::new();
    file.take(TEXT_LIMIT).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_told_while_the_lock_is_held() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("clawgate.lock");
        let address = "[::1]:18790".parse().unwrap();
        let plain = Running::at(address);
        let tls = Running { is_tls: true, ..plain };
        assert_eq!(running_at(&path), None);
        let mut lock = InstanceLock::acquire(&path).unwrap();
        assert_eq!(running_at(&path), None, "it does not listen yet");
        lock.publish(plain).unwrap();
        assert_eq!(running_at(&path), Some(plain));
        std::fs::write(&path, format!("{}\n[::1]:18790\n", std::process::id())).unwrap();
        assert_eq!(running_at(&path), Some(plain), "of an earlier version");
        std::fs::write(&path, format!("{}\n[::1]:18790\nwss\n", std::process::id())).unwrap();
        assert_eq!(running_at(&path), Some(tls), "of an earlier version");
        let pinned = Running { fingerprint: Some(Fingerprint::of(b"x")), ..tls };
        for running in [tls, pinned, Running { mends: true, ..plain }] {
            lock.publish(running).unwrap();
            assert_eq!(running_at(&path), Some(running));
        }
        drop(lock);
        assert_eq!(running_at(&path), None);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
    }

    #[test]
    fn why_there_is_no_restart_is_told_beside_the_address_until_there_is_one() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("clawgate.lock");
        assert!(refuse_restart(&path, "nobody runs").is_err() && !path.exists());
        let mut lock = InstanceLock::acquire(&path).unwrap();
        let address = "127.0.0.1:7".parse().unwrap();
        let fingerprint = Some(Fingerprint::of(b"x"));
        let running = Running { is_tls: true, fingerprint, ..Running::at(address) };
        lock.publish(running).unwrap();
        assert_eq!(refusal_at(&path), None);
        for (why, told) in [
            ("𝄞".repeat(REASON_MAX + 1), "𝄞".repeat(REASON_MAX)),
            ("a: no\nb".to_owned(), "a: no b".to_owned()),
        ] {
            refuse_restart(&path, &why).unwrap();
            assert_eq!((refusal_at(&path), running_at(&path)), (Some(told), Some(running)));
        }
        lock.publish(running).unwrap();
        assert_eq!((refusal_at(&path), running_at(&path)), (None, Some(running)));
        // One that names no gateway any more goes on not to.
        lock.name_nobody();
        refuse_restart(&path, "too late").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
    }

    #[test]
    fn of_a_refusal_and_another_certificate_at_the_same_time_none_is_lost() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("clawgate.lock");
        let mut lock = InstanceLock::acquire(&path).unwrap();
        let tls = Running { is_tls: true, ..Running::at("127.0.0.1:7".parse().unwrap()) };
        let of = |turn: u32| Some(Fingerprint::of(&turn.to_be_bytes()));
        lock.publish(Running { fingerprint: of(100), ..tls }).unwrap();
        refuse_restart(&path, "100").unwrap();
        thread::scope(|scope| {
            // Each sees what it has told itself as long as the other one tells nothing old.
            scope.spawn(|| {
                for turn in 101..600 {
                    renew_certificate(&path, of(turn).unwrap()).unwrap();
                    let told = running_at(&path).and_then(|running| running.fingerprint);
                    assert_eq!(told, of(turn));
                }
            });
            scope.spawn(|| {
                for turn in 101..600 {
                    refuse_restart(&path, &turn.to_string()).unwrap();
                    assert_eq!(refusal_at(&path), Some(turn.to_string()));
                }
            });
        });
    }

    #[test]
    fn another_certificate_is_told_and_is_no_new_beginning() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("clawgate.lock");
        let mut lock = InstanceLock::acquire(&path).unwrap();
        let [first, second] = [b"first", b"other"].map(|of| Some(Fingerprint::of(of)));
        let tls = Running { is_tls: true, ..Running::at("127.0.0.1:7".parse().unwrap()) };
        lock.publish(Running { fingerprint: first, ..tls }).unwrap();
        refuse_restart(&path, "no key").unwrap();
        let began = std::time::SystemTime::UNIX_EPOCH + LAST_WRITE;
        lock.file.set_modified(began).unwrap();
        renew_certificate(&path, second.unwrap()).unwrap();
        assert_eq!(running_at(&path), Some(Running { fingerprint: second, ..tls }));
        assert_eq!(refusal_at(&path).as_deref(), Some("no key"));
        assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), began);
        // One that names no gateway any more goes on not to.
        lock.name_nobody();
        renew_certificate(&path, second.unwrap()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
    }

    #[test]
    fn a_lock_file_that_somebody_removes_lets_no_second_gateway_in() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("clawgate.lock");
        let first = InstanceLock::acquire(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let error = InstanceLock::acquire(&path).unwrap_err().to_string();
        assert!(error.starts_with("another gateway (pid unknown) already uses"), "{error}");
        drop(first);
        InstanceLock::acquire(&path).unwrap();
    }

    #[test]
    fn a_gateway_that_ends_is_named_no_more_and_keeps_the_lock_while_its_process_lives() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("clawgate.lock");
        let mut lock = InstanceLock::acquire(&path).unwrap();
        let address = "127.0.0.1:18790".parse().unwrap();
        lock.publish(Running::at(address)).unwrap();
        lock.end_with_process();
        assert_eq!(running_at(&path), None);
        let refused = InstanceLock::acquire(&path).unwrap_err();
        assert!(matches!(refused, InstanceError::Held { .. }), "{refused}");
    }

    #[test]
    fn what_a_killed_gateway_left_names_no_gateway_though_its_pid_lives_again() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("clawgate.lock");
        std::fs::write(&path, format!("{}\n127.0.0.1:18790\nws\n", std::process::id())).unwrap();
        assert_eq!(running_at(&path), None);
        InstanceLock::acquire(&path).unwrap();
    }

    #[test]
    fn the_second_is_refused_with_pid_and_directory_until_the_first_is_gone() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("state/clawgate.lock");
        let first = InstanceLock::acquire(&path).unwrap();
        let refused = InstanceLock::acquire(&path).unwrap_err().to_string();
        assert!(refused.contains(&format!("pid {}", std::process::id())), "{refused}");
        assert!(refused.contains(home.path().to_str().unwrap()), "{refused}");
        drop(first);
        InstanceLock::acquire(&path).unwrap();
    }

    #[test]
    fn one_that_is_about_to_let_go_is_waited_for() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("clawgate.lock");
        let first = InstanceLock::acquire(&path).unwrap();
        let dies = thread::spawn(move || {
            thread::sleep(LAST_WRITE / 10);
            drop(first);
        });
        InstanceLock::acquire(&path).unwrap();
        dies.join().unwrap();
    }
}
