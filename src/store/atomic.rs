//! Private files that are either the old one or the new one, never a mix.
//!
//! Owns: creating directories (0700) and files (0600), replacing a file.
//! Promises: when a call returns `Ok`, the content and its name survive power
//! loss. Must not: know what is in the files.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use parking_lot::{Condvar, Mutex};
use rustix::fs::{Gid, Mode, OFlags, Uid, fchown, open};
use rustix::process::geteuid;
use tempfile::NamedTempFile;

use crate::support::millis;

/// How the names of files begin that are not whole yet.
pub(crate) const STAGED: &str = ".clawgate-";
/// How many letters and digits follow, and nothing after them. No word that somebody gives a
/// file of his own is as long.
pub(crate) const STAGED_LETTERS: usize = 16;
/// A file that is not whole after this will not be: no write takes as long.
const STAGED_MAX_MS: u64 = 60 * 60 * 1000;
/// How many folders deep the state directory is where files are replaced.
const DEPTH: usize = 4;

/// Only the owner may read and write.
const FILE_MODE: u32 = 0o600;
/// Only the owner may look inside.
const DIR_MODE: u32 = 0o700;

/// The folders that are being made: one may be there that a power loss takes yet.
static MAKING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
/// Rung when one of them is made, or is not.
static MADE: Condvar = Condvar::new();

/// A file operation that failed, with the path it was about.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}", path.display())]
pub struct FileError {
    action: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl FileError {
    /// What was wrong.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }
}

/// Names the path in an I/O error.
pub(crate) trait OnPath<T> {
    /// `action` completes the sentence "cannot … <path>".
    fn on_path(self, action: &'static str, path: &Path) -> Result<T, FileError>;
}

impl<T, E: Into<io::Error>> OnPath<T> for Result<T, E> {
    fn on_path(self, action: &'static str, path: &Path) -> Result<T, FileError> {
        self.map_err(|error| FileError { action, path: path.to_owned(), source: error.into() })
    }
}

/// What replacing a file asks of the system, step by step: a test can have any of
/// them fail.
pub(crate) trait Disk {
    /// Makes an empty file with a new name in `dir`; it belongs to who has `like`.
    fn create(&self, dir: &Path, like: &Path) -> io::Result<NamedTempFile>;
    /// Writes all of it.
    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()>;
    /// Has what was written survive power loss.
    fn sync(&self, file: &File) -> io::Result<()>;
    /// Gives a file another name, or the name of another.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Has the names in `dir` survive power loss.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// The file system itself.
pub(crate) struct System;

impl Disk for System {
    fn create(&self, dir: &Path, like: &Path) -> io::Result<NamedTempFile> {
        staged_in(dir, like)
    }

    fn write(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        sync_dir(dir)
    }
}

/// Makes an empty private file in `dir` that is to get its name once it is whole; it belongs to
/// who has `like`. What a crash leaves of it goes with [`sweep`].
pub(crate) fn staged_in(dir: &Path, like: &Path) -> io::Result<NamedTempFile> {
    let mut named = tempfile::Builder::new();
    let named = named.prefix(STAGED).rand_bytes(STAGED_LETTERS);
    let file = named.permissions(Permissions::from_mode(FILE_MODE)).tempfile_in(dir)?;
    keep_owner(file.as_file(), like);
    Ok(file)
}

/// Opens a private file as `options` say; one that is not there is made, and belongs to who has
/// `like`.
pub(crate) fn open_private(
    options: &mut OpenOptions,
    path: &Path,
    like: &Path,
) -> io::Result<File> {
    let options = options.mode(FILE_MODE);
    match options.create_new(true).open(path) {
        Ok(file) => {
            keep_owner(&file, like);
            Ok(file)
        }
        Err(_) => options.create_new(false).create(true).truncate(false).open(path),
    }
}

/// Makes the names in `dir` durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Creates the directory and its missing parents with mode 0700. Directories
/// that exist keep their mode: they are the user's.
pub fn create_private_dir(path: &Path) -> Result<(), FileError> {
    if path.is_dir() && !MAKING.lock().contains(path) {
        return Ok(());
    }
    let parent = parent_of(path);
    if parent != path {
        create_private_dir(parent)?;
    }
    let _making = Making::of(path);
    match DirBuilder::new().mode(DIR_MODE).create(path) {
        // A later call would take a folder that is there for one that stays.
        Ok(()) => {
            // Somebody may have put a link in its place by now.
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            if let Ok(made) = open(path, flags, Mode::empty()) {
                keep_owner(&made, parent);
            }
            keep_names(parent).inspect_err(|_| drop(fs::remove_dir(path)))
        }
        // Somebody else made it since we looked, and may not have synced it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {
            keep_names(parent)
        }
        Err(error) => Err(error).on_path("create the directory", path),
    }
}

/// A folder that is being made, by one thread at a time.
struct Making<'a>(&'a Path);

impl<'a> Making<'a> {
    fn of(path: &'a Path) -> Self {
        let mut making = MAKING.lock();
        while !making.insert(path.to_owned()) {
            MADE.wait(&mut making);
        }
        Self(path)
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        MAKING.lock().remove(self.0);
        MADE.notify_all();
    }
}

/// Replaces the content of `path` by `bytes`, with mode 0600. A symbolic link
/// is followed, so that a file managed elsewhere stays where it is.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    write_private_on(&System, path, bytes)
}

/// The same on this disk.
pub(crate) fn write_private_on(
    disk: &dyn Disk,
    path: &Path,
    bytes: &[u8],
) -> Result<(), FileError> {
    write_private_if(disk, path, bytes, || Ok(()))
}

/// The same, unless `may` refuses it: that is asked when all of it is on the disk, and only the
/// name is still that of the old one. A sync can take seconds.
pub(crate) fn write_private_if<E: From<FileError>>(
    disk: &dyn Disk,
    path: &Path,
    bytes: &[u8],
    may: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let file = staged(disk, &target, bytes)?.into_temp_path();
    may()?;
    disk.rename(&file, &target).on_path("write", &target)?;
    // Its first name is gone.
    drop(file.keep());
    let dir = parent_of(&target);
    disk.sync_dir(dir).on_path("sync the directory", dir)?;
    Ok(())
}

/// Like [`write_private`], but only when `path` does not exist yet. Returns
/// whether it was this call that created it.
pub fn create_private(path: &Path, bytes: &[u8]) -> Result<bool, FileError> {
    let file = staged(&System, path, bytes)?;
    match file.persist_noclobber(path) {
        Ok(_) => {
            let synced = keep_names(parent_of(path));
            synced.inspect_err(|_| drop(fs::remove_file(path))).map(|()| true)
        }
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error).on_path("create", path),
    }
}

/// The same for files of one directory, which is synced once for all of them. Those
/// that are there stay.
pub fn create_all_private<'a>(
    dir: &Path,
    files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Result<(), FileError> {
    // Written before the first is synced: what syncs one may take the others along.
    let mut written = Vec::new();
    for (name, bytes) in files {
        let path = dir.join(name);
        written.push((unsynced(&System, &path, bytes)?, path));
    }
    for (file, _) in &written {
        System.sync(file.as_file()).on_path("write", file.path())?;
    }
    let is_any = !written.is_empty();
    for (file, path) in written {
        match file.persist_noclobber(&path) {
            Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(error).on_path("create", &path);
            }
            _ => {}
        }
    }
    if is_any { keep_names(dir) } else { Ok(()) }
}

/// Moves a private file to its place on the same file system. Returns whether
/// it was there to be moved.
pub fn move_private(from: &Path, to: &Path) -> Result<bool, FileError> {
    let dir = parent_of(to);
    create_private_dir(dir)?;
    match fs::rename(from, to) {
        Ok(()) => keep_names(dir).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).on_path("move", from),
    }
}

/// What a [`sweep`] has done.
#[derive(Debug, Default)]
pub struct Swept {
    /// How many files are gone.
    pub removed: usize,
    /// What could not be looked at, or stays.
    pub failed: Vec<FileError>,
}

/// Removes what crashes have left of files that were to be replaced, in a folder and
/// those inside of it.
pub fn sweep(folder: &Path, now_ms: u64) -> Swept {
    sweep_all(vec![(folder.to_owned(), DEPTH)], now_ms)
}

/// The same beside a file, wherever links to it lead, but not in the folders there: those are
/// somebody else's. Answers how many files are gone.
pub fn sweep_beside(file: &Path, now_ms: u64) -> usize {
    let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    sweep_all(vec![(parent_of(&target).to_owned(), 0)], now_ms).removed
}

/// The same in these folders, each so many folders deep.
fn sweep_all(mut folders: Vec<(PathBuf, usize)>, now_ms: u64) -> Swept {
    let mut swept = Swept::default();
    while let Some((folder, depth)) = folders.pop() {
        let entries = fs::read_dir(&folder).on_path("look into", &folder);
        // It may be gone by now.
        let Some(entries) = swept.unless_gone(entries) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push((path, depth.saturating_sub(1)));
            } else if is_left(&entry, now_ms) {
                let removed = fs::remove_file(&path).on_path("remove", &path);
                let is_removed = swept.unless_gone(removed).is_some();
                swept.removed = swept.removed.saturating_add(usize::from(is_removed));
            }
        }
    }
    swept
}

impl Swept {
    /// What was found, if anything was there; another failure is kept.
    fn unless_gone<T>(&mut self, found: Result<T, FileError>) -> Option<T> {
        match found {
            Ok(found) => return Some(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => self.failed.push(error),
        }
        None
    }
}

/// Whether a file is called as those are that are not whole yet.
pub(crate) fn is_staged(name: &[u8]) -> bool {
    name.strip_prefix(STAGED.as_bytes()).is_some_and(|rest| {
        rest.len() == STAGED_LETTERS && rest.iter().all(u8::is_ascii_alphanumeric)
    })
}

/// Whether nobody can still be writing this file.
fn is_left(entry: &fs::DirEntry, now_ms: u64) -> bool {
    if !is_staged(entry.file_name().as_encoded_bytes()) {
        return false;
    }
    let Ok(facts) = entry.metadata() else { return false };
    let since = facts.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    facts.is_file()
        && since.is_some_and(|since| now_ms.saturating_sub(millis(since)) > STAGED_MAX_MS)
}

/// A synced temporary file beside `target`, ready to be renamed.
fn staged(disk: &dyn Disk, target: &Path, bytes: &[u8]) -> Result<NamedTempFile, FileError> {
    let file = unsynced(disk, target, bytes)?;
    disk.sync(file.as_file()).on_path("write", file.path())?;
    Ok(file)
}

/// The same, not synced yet.
fn unsynced(disk: &dyn Disk, target: &Path, bytes: &[u8]) -> Result<NamedTempFile, FileError> {
    let dir = parent_of(target);
    create_private_dir(dir)?;
    let mut file = disk.create(dir, target).on_path("create a file in", dir)?;
    disk.write(file.as_file_mut(), bytes).on_path("write", file.path())?;
    Ok(file)
}

/// Has what root has just made belong to the owner of the one that it stands for, or else of
/// its folder: what `sudo` writes, the gateway's user can read.
fn keep_owner(made: impl AsFd, target: &Path) {
    if geteuid().is_root()
        && let Ok(facts) = fs::metadata(target).or_else(|_| fs::metadata(parent_of(target)))
    {
        let (owner, group) = (Uid::from_raw(facts.uid()), Gid::from_raw(facts.gid()));
        // A root that may give nothing away keeps it.
        let _ = fchown(made, Some(owner), Some(group));
    }
}

/// Makes a new name in `dir` durable.
fn keep_names(dir: &Path) -> Result<(), FileError> {
    sync_dir(dir).on_path("sync the directory", dir)
}

/// The directory `path` is in; the working directory for a bare name.
fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn files_are_0600_in_directories_of_0700() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a/b/secret");
        write_private(&path, b"one").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(&home.path().join("a")), 0o700);
        assert_eq!(mode(&home.path().join("a/b")), 0o700);
    }

    #[test]
    fn a_folder_is_there_for_nobody_until_it_stays() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a");
        let making = Making::of(&path);
        fs::create_dir(&path).unwrap();
        let (told, answers) = std::sync::mpsc::channel();
        let asked = path.clone();
        let other = std::thread::spawn(move || {
            create_private_dir(&asked).unwrap();
            told.send(()).unwrap();
        });
        let early = answers.recv_timeout(std::time::Duration::from_millis(200));
        assert!(early.is_err(), "told before it was synced");
        drop(making);
        answers.recv().unwrap();
        other.join().unwrap();
        assert!(!MAKING.lock().contains(&path));
    }

    #[test]
    fn a_rewrite_closes_a_file_that_was_open_to_others_and_leaves_nothing_behind() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("secret");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        write_private(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(mode(&path), 0o600);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_root_writes_belongs_to_the_owner_of_the_file_or_of_its_folder() {
        if !geteuid().is_root() {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let give = |path: &Path| std::os::unix::fs::chown(path, Some(7), Some(8)).unwrap();
        let owner = |path: &Path| {
            let facts = fs::metadata(path).unwrap();
            (facts.uid(), facts.gid())
        };
        let [theirs, new] = ["theirs", "new"].map(|name| home.path().join(name));
        write_private(&theirs, b"1").unwrap();
        assert_eq!(owner(&theirs), (0, 0));
        give(&theirs);
        write_private(&theirs, b"2").unwrap();
        give(home.path());
        assert!(create_private(&new, b"3").unwrap());
        assert_eq!((owner(&theirs), owner(&new), mode(&new)), ((7, 8), (7, 8), 0o600));
        let folder = home.path().join("made/inner");
        create_private_dir(&folder).unwrap();
        let staged = staged_in(&folder, &folder).unwrap();
        let [lock, database] = ["lock", "x.sqlite"].map(|name| folder.join(name));
        drop(crate::store::instance::InstanceLock::acquire(&lock).unwrap());
        drop(crate::store::Database::open(&database).unwrap());
        let made: [&Path; 5] = [folder.parent().unwrap(), &folder, staged.path(), &lock, &database];
        assert_eq!(made.map(owner), [(7, 8); 5]);
        std::os::unix::fs::chown(&new, Some(9), Some(9)).unwrap();
        assert_eq!(owner(staged_in(&folder, &new).unwrap().path()), (9, 9));
        // One that was there is left alone.
        std::os::unix::fs::chown(&lock, Some(0), Some(0)).unwrap();
        drop(crate::store::instance::InstanceLock::acquire(&lock).unwrap());
        assert_eq!(owner(&lock), (0, 0));
    }

    #[test]
    fn a_symbolic_link_stays_a_link() {
        let home = tempfile::tempdir().unwrap();
        let real = home.path().join("dotfiles/real");
        write_private(&real, b"old").unwrap();
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write_private(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"new");
    }

    #[test]
    fn creating_never_replaces() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("once");
        assert!(create_private(&path, b"first").unwrap());
        assert!(!create_private(&path, b"second").unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn files_that_are_made_together_replace_none_and_leave_nothing_behind() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("dir");
        create_all_private(&dir, []).unwrap();
        assert!(!dir.exists(), "for no file no directory is needed");
        create_all_private(&dir, [("a", &b"1"[..])]).unwrap();
        create_all_private(&dir, [("a", &b"2"[..]), ("b", &b"2"[..])]).unwrap();
        let read = |name: &str| fs::read(dir.join(name)).unwrap();
        assert_eq!((read("a"), read("b")), (b"1".to_vec(), b"2".to_vec()));
        assert_eq!(mode(&dir.join("b")), 0o600);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 2);
    }

    #[test]
    fn what_a_crash_has_left_goes_when_nobody_can_be_writing_it() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("a/b");
        create_private_dir(&dir).unwrap();
        let (_, left) = staged_in(&dir, &dir).unwrap().keep().unwrap();
        let written = fs::metadata(&left).unwrap().modified().unwrap();
        let now_ms = millis(written.duration_since(UNIX_EPOCH).unwrap());
        let swept = sweep(home.path(), now_ms + STAGED_MAX_MS);
        assert!((swept.removed, swept.failed.len()) == (0, 0) && left.exists(), "{swept:?}");
        let swept = sweep(home.path(), now_ms + STAGED_MAX_MS + 1);
        assert!((swept.removed, swept.failed.len()) == (1, 0) && !left.exists(), "{swept:?}");
    }

    #[test]
    fn beside_a_file_it_goes_where_the_file_is_and_no_deeper() {
        let home = tempfile::tempdir().unwrap();
        let (dir, link) = (home.path().join("a"), home.path().join("link"));
        create_private_dir(&dir.join("b")).unwrap();
        std::os::unix::fs::symlink(dir.join("file"), &link).unwrap();
        fs::write(dir.join("file"), "x").unwrap();
        let left = |dir: &Path| staged_in(dir, dir).unwrap().keep().unwrap().1;
        let (beside, deeper) = (left(&dir), left(&dir.join("b")));
        assert_eq!(sweep_beside(&link, u64::MAX), 1);
        assert!(!beside.exists() && deeper.exists());
        assert_eq!(sweep_beside(&home.path().join("nowhere/file"), u64::MAX), 0);
    }

    #[test]
    fn a_file_that_somebody_calls_nearly_the_same_is_his_own() {
        let home = tempfile::tempdir().unwrap();
        let left = [".clawgate-0123456789abcdef", ".clawgate-aBcDeFgHiJkLmNoP"];
        let own = [
            ".clawgate-",
            ".clawgate-ignore",
            ".clawgate-config.json",
            ".clawgate-notes-of-today.md",
            ".clawgate-0123456789abcde",
            ".clawgate-0123456789abcdef0",
            ".clawgate-0123456789abcd.e",
            "x.clawgate-0123456789abcdef",
        ];
        for name in left.iter().chain(&own) {
            fs::write(home.path().join(name), "x").unwrap();
        }
        let swept = sweep(home.path(), u64::MAX);
        assert!(swept.removed == left.len() && swept.failed.is_empty(), "{swept:?}");
        assert!(own.iter().all(|name| home.path().join(name).exists()));
    }

    #[test]
    fn a_folder_that_is_gone_or_cannot_be_looked_into_keeps_no_other_from_being_swept() {
        let home = tempfile::tempdir().unwrap();
        let (_, left) = staged_in(home.path(), home.path()).unwrap().keep().unwrap();
        let blocker = home.path().join("file");
        fs::write(&blocker, "").unwrap();
        // The last one is the first.
        let folders = [home.path().to_owned(), blocker.clone(), home.path().join("gone")];
        let swept = sweep_all(folders.map(|folder| (folder, DEPTH)).to_vec(), u64::MAX);
        assert!(swept.removed == 1 && !left.exists(), "{swept:?}");
        let said: Vec<_> = swept.failed.iter().map(ToString::to_string).collect();
        assert_eq!(said, [format!("cannot look into {}", blocker.display())]);
    }

    #[test]
    fn an_error_names_the_path() {
        let home = tempfile::tempdir().unwrap();
        let blocker = home.path().join("file");
        fs::write(&blocker, "").unwrap();
        let error = write_private(&blocker.join("x"), b"").unwrap_err();
        assert!(error.to_string().contains(blocker.to_str().unwrap()), "{error}");
    }
}
