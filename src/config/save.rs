//! Writing the user's config file.
//!
//! Promises: the file is the old one or the new one, never a mix; the earlier
//! versions are beside it (`.bak`, `.bak.1` … `.bak.4`, as OpenClaw keeps
//! them); a file that somebody else changed meanwhile is not overwritten.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::edit::EditError;
use crate::store::atomic::{self, Disk, FileError, OnPath, System};

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
    /// It cannot be changed as asked.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// Somebody else changed it.
    #[error("{} has changed meanwhile; try again", .0.display())]
    Stale(PathBuf),
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] FileError),
}

/// One writer at a time in this process; others are noticed by what they wrote.
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
    write_with(&System, path, |before| Ok(edit(before.unwrap_or_default())?))
}

/// The same on a disk and by `next`, which gets the text if there is a file, and has errors of
/// its own.
pub(super) fn write_with<E: From<SaveError>>(
    disk: &dyn Disk,
    path: &Path,
    next: impl FnOnce(Option<&str>) -> Result<String, E>,
) -> Result<bool, E> {
    let _one = WRITING.lock();
    let before = read(path)?;
    let after = next(before.as_deref())?;
    if before.as_deref() == Some(after.as_str()) {
        return Ok(false);
    }
    if let Some(before) = &before {
        keep(disk, path, before).map_err(SaveError::from)?;
    }
    if read(path)? != before {
        return Err(SaveError::Stale(path.to_owned()).into());
    }
    atomic::write_private_on(disk, path, after.as_bytes()).map_err(SaveError::from)?;
    Ok(true)
}

/// The text, if there is a file.
pub(super) fn read(path: &Path) -> Result<Option<String>, SaveError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(SaveError::Read { path: path.to_owned(), source }),
    }
}

/// Makes `text` the newest earlier version.
fn keep(disk: &dyn Disk, path: &Path, text: &str) -> Result<(), FileError> {
    for age in (1..=OLDER).rev() {
        let (older, newer) = (backup(path, age), backup(path, age - 1));
        // The oldest version goes; one that is missing leaves its place empty.
        match disk.rename(&newer, &older) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).on_path("move", &newer);
            }
            _ => {}
        }
    }
    atomic::write_private_on(disk, &backup(path, 0), text.as_bytes())
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
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 6);
        for entry in fs::read_dir(home.path()).unwrap() {
            assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
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
}
