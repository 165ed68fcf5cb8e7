//! Writing the user's config file.
//!
//! Promises: the file is the old one or the new one, never a mix; the earlier
//! versions are beside it (`.bak`, `.bak.1` … `.bak.4`, as OpenClaw keeps
//! them); whoever writes it by this, in whatever process, waits for the one before;
//! a file is not overwritten that somebody else changed meanwhile, be it only in
//! what it includes. A write that is refused changes nothing, unless an editor saves in the
//! moment between: the oldest version may be gone then. No more than that one goes by writes
//! that fail, however many there are.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use super::edit::EditError;
use super::error::ConfigError;
use super::include;
use super::load::{readable_start, said};
use crate::store::atomic::{self, Disk, FileError, OnPath, System};
use crate::store::{WriteLock, WriteLockError};
use crate::support::open_file;

/// How many earlier versions are kept, beside the newest.
const OLDER: usize = 4;

/// Why the file was not written.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// It is not readable.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It is none: `/dev/null` stands for no settings, and must never be replaced.
    #[error("{} is no file that can be written; point OPENCLAW_CONFIG_PATH to one", .0.display())]
    NoFile(PathBuf),
    /// It is no text.
    #[error(transparent)]
    Text(ConfigError),
    /// It cannot be changed as asked.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// Somebody else changed it, or what it includes.
    #[error("{} has changed meanwhile; try again", .0.display())]
    Stale(PathBuf),
    /// Nobody else can be kept from writing it.
    #[error(transparent)]
    Lock(#[from] WriteLockError),
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] FileError),
}

/// One writer at a time in this process, in the order in which they came. It then waits for
/// those of other processes; editors are noticed by what they wrote.
static WRITING: Mutex<()> = Mutex::new(());

/// Changes the file by `edit`; whether anything is different now. A file that
/// is not there is made.
///
/// # Errors
/// When the file is not readable, not editable or not writable.
pub fn edit_file(
    path: &Path,
    edit: impl FnOnce(&str) -> Result<String, EditError>,
) -> Result<bool, SaveError> {
    write_with(&System, path, |before| -> Result<String, SaveError> {
        Ok(edit(said(before, path).map_err(SaveError::Text)?)?)
    })
}

/// The same on a disk and by `next`, which gets the bytes if there is a file, and has errors of
/// its own.
pub(super) fn write_with<E: From<SaveError>>(
    disk: &dyn Disk,
    path: &Path,
    next: impl FnOnce(Option<&[u8]>) -> Result<String, E>,
) -> Result<bool, E> {
    let writing = Writing::begin(path)?;
    let after = next(writing.before.as_deref())?;
    Ok(writing.end(disk, &after)?)
}

/// One write of the file; nobody else writes it meanwhile.
struct Writing<'a> {
    path: &'a Path,
    before: Option<Vec<u8>>,
    /// What it meant then.
    known: Option<Value>,
    _alone: WriteLock,
    _one: MutexGuard<'static, ()>,
}

impl<'a> Writing<'a> {
    fn begin(path: &'a Path) -> Result<Self, SaveError> {
        // Before: there is to be no lock beside `/dev/null`, which is never written.
        refuse_other(path)?;
        let one = WRITING.lock();
        let alone = WriteLock::acquire(path)?;
        let before = read(path)?;
        let known = meaning(before.as_deref(), path);
        Ok(Self { path, before, known, _alone: alone, _one: one })
    }

    /// Whether anything is different by what the file says now.
    fn end(&self, disk: &dyn Disk, after: &str) -> Result<bool, SaveError> {
        let (path, before) = (self.path, self.before.as_deref());
        // Nothing to be said is no reason to make a file, which would be an empty one.
        if before.unwrap_or_default() == after.as_bytes() {
            return Ok(false);
        }
        let unchanged = || -> Result<(), SaveError> {
            let is_same = read(path)? == self.before && meaning(before, path) == self.known;
            if is_same { Ok(()) } else { Err(SaveError::Stale(path.to_owned())) }
        };
        // First: a write that is refused must not cost an earlier version. Last, when only the
        // name is missing: an editor may have been faster than the disk.
        unchanged()?;
        if let Some(before) = before {
            keep(disk, path, before)?;
        }
        atomic::write_private_if(disk, path, after.as_bytes(), unchanged)?;
        Ok(true)
    }
}

/// What a file with these bytes means, with what it includes.
fn meaning(bytes: Option<&[u8]>, path: &Path) -> Option<Value> {
    include::meaning(readable_start(bytes.unwrap_or_default()), path)
}

/// What is in it, if there is a file.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, SaveError> {
    let unreadable = |source| SaveError::Read { path: path.to_owned(), source };
    let mut file = match open_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(unreadable)?,
    };
    // `/dev/null` can be read as well.
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(SaveError::NoFile(path.to_owned()));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(Some(bytes))
}

/// Refuses what is there and is no file.
fn refuse_other(path: &Path) -> Result<(), SaveError> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(SaveError::NoFile(path.to_owned()));
    }
    Ok(())
}

/// Makes this the newest earlier version.
fn keep(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let newest = backup(path, 0);
    // Writes that fail one after the other must not cost one version each.
    if matches!(read(&newest), Ok(Some(kept)) if kept == bytes) {
        return Ok(());
    }
    // Those behind an empty place stay where they are.
    let is_empty = |age: &usize| backup(path, *age).try_exists().is_ok_and(|is_there| !is_there);
    let last = (0..OLDER).find(is_empty).unwrap_or(OLDER);
    for age in (1..=last).rev() {
        let (older, newer) = (backup(path, age), backup(path, age - 1));
        // The oldest version goes; one that goes missing meanwhile leaves its place empty.
        match disk.rename(&newer, &older) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).on_path("move", &newer);
            }
            _ => {}
        }
    }
    atomic::write_private_on(disk, &newest, bytes)
}

fn backup(path: &Path, age: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".bak");
    if age > 0 {
        name.push(format!(".{age}"));
    }
    PathBuf::from(name)
}

#[cfg(test)]
mod faults;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::config::edit::{ValuePath, set};
    use crate::support::json;

    fn change(path: &Path, number: u64) -> Result<bool, SaveError> {
        edit_file(path, |text| set(text, &ValuePath::of(&["n"]), &json!(number)))
    }

    #[test]
    fn each_version_is_kept_for_a_while_and_an_empty_change_is_none() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("openclaw.json");
        for number in 0..8 {
            assert!(change(&path, number).unwrap());
            assert!(!change(&path, number).unwrap());
        }
        let read = |name: &str| fs::read_to_string(home.path().join(name)).unwrap();
        assert_eq!(read("openclaw.json"), "{\n  \"n\": 7\n}\n");
        let kept = ["", ".1", ".2", ".3", ".4"].map(|age| read(&format!("openclaw.json.bak{age}")));
        assert_eq!(kept, [6, 5, 4, 3, 2].map(|n| format!("{{\n  \"n\": {n}\n}}\n")));
        // With the lock, which stays.
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 7);
        for entry in fs::read_dir(home.path()).unwrap() {
            assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn what_is_no_file_is_not_taken_for_one_that_can_be_replaced() {
        let refused = read(Path::new("/dev/null")).unwrap_err().to_string();
        let told = "/dev/null is no file that can be written; point OPENCLAW_CONFIG_PATH to one";
        assert_eq!(refused, told);
    }

    #[test]
    fn what_is_no_text_is_told_with_its_place() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("c");
        fs::write(&path, b"{n: 1,\n m: \"\xff\"}").unwrap();
        let refused = change(&path, 2).unwrap_err().to_string();
        let why = "not valid JSON5: the text is not UTF-8; save it as UTF-8";
        assert_eq!(refused, format!("{}:2:6: {why}", path.display()));
        assert_eq!(fs::read(&path).unwrap(), b"{n: 1,\n m: \"\xff\"}");
    }

    #[test]
    fn beside_what_is_no_file_there_is_no_lock() {
        let home = tempfile::tempdir().unwrap();
        let pipe = home.path().join("c");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        let refused = change(&pipe, 1).unwrap_err();
        assert!(matches!(refused, SaveError::NoFile(_)), "{refused:?}");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_somebody_else_wrote_meanwhile_is_not_lost() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("c");
        fs::write(&path, "{n: 1}").unwrap();
        let error = edit_file(&path, |text| {
            fs::write(&path, "{n: 2} // theirs").unwrap();
            set(text, &ValuePath::of(&["n"]), &json!(3))
        });
        assert!(matches!(error, Err(SaveError::Stale(_))), "{error:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "{n: 2} // theirs");
    }

    #[test]
    fn a_write_that_is_refused_takes_no_earlier_version_away() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("c");
        for number in 0..=6 {
            change(&path, number).unwrap();
        }
        let kept = || -> Vec<String> {
            (0..=OLDER).map(|age| fs::read_to_string(backup(&path, age)).unwrap()).collect()
        };
        let before = kept();
        for number in 7..=9 {
            let error = edit_file(&path, |text| {
                fs::write(&path, format!("{{n: {number}}} // theirs")).unwrap();
                set(text, &ValuePath::of(&["n"]), &json!(0))
            });
            assert!(matches!(error, Err(SaveError::Stale(_))), "{error:?}");
            assert_eq!(kept(), before);
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "{n: 9} // theirs");
    }

    #[test]
    fn writers_that_do_not_know_of_each_other_lose_nothing() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("c");
        let other = WriteLock::acquire(&path).unwrap();
        let second = std::thread::scope(|threads| {
            let second = threads.spawn(|| change(&path, 2));
            // What another process does while it has the lock.
            fs::write(&path, "{m: 1}").unwrap();
            drop(other);
            second.join().unwrap()
        });
        assert!(second.unwrap());
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(crate::config::parse(&text, &path).unwrap(), json!({"m": 1, "n": 2}));
    }
}
