//! A name in an open folder: reading what is there, putting something there.
//!
//! Promises: a file is either the old one or the new one, never a mix, and
//! keeps its rights and its owner; a new one in a workspace is its user's only.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    Access, AtFlags, FileType, Gid, Mode, OFlags, RawMode, Stat, Uid, accessat, fchmod, fchown,
    fstat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::{Guard, ReachError};
use crate::store::atomic::{STAGED, STAGED_LETTERS};

/// Rights of a new file outside of the state directory and of workspaces, less what the umask
/// takes.
const NEW_MODE: RawMode = 0o666;

/// A name in an open folder.
pub struct Place {
    folder: OwnedFd,
    name: OsString,
    path: PathBuf,
    is_linked: bool,
    guard: Arc<Guard>,
}

/// What a file is, whatever its name: its folder on the disk, and its name there.
pub type PlaceId = (u64, u64, OsString);

impl Place {
    pub(super) fn new(
        folder: OwnedFd,
        name: OsString,
        path: &Path,
        is_linked: bool,
        guard: Arc<Guard>,
    ) -> Self {
        Self { folder, name, path: path.to_owned(), is_linked, guard }
    }

    pub(super) fn judge_folder(&self) -> Result<(), ReachError> {
        self.guard.judge_folder(&self.folder, &self.path)
    }

    /// The absolute path that was asked for.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the name that was asked for is a link that leads here.
    pub const fn is_linked(&self) -> bool {
        self.is_linked
    }

    /// The same for every way to write the path.
    ///
    /// # Errors
    /// When the folder is gone.
    pub fn id(&self) -> Result<PlaceId, ReachError> {
        let facts = fstat(&self.folder).map_err(|error| self.failed(error, "access"))?;
        #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss)]
        Ok((facts.st_dev as u64, facts.st_ino as u64, self.name.clone()))
    }

    /// Opens the file for reading.
    ///
    /// # Errors
    /// When it is missing, no regular file, or the gateway's own.
    pub fn open(&self) -> Result<(File, u64), ReachError> {
        let Some(_) = self.facts()? else { return Err(self.failed(Errno::NOENT, "access")) };
        // It may have become a pipe meanwhile: do not wait for a writer.
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(&self.folder, &self.name, flags, Mode::empty());
        let file = file.map_err(|error| self.failed(error, "open"))?;
        let facts = fstat(&file).map_err(|error| self.failed(error, "open"))?;
        self.judge(&facts)?;
        Ok((file.into(), u64::try_from(facts.st_size).unwrap_or(0)))
    }

    /// Reads the file as a whole.
    ///
    /// # Errors
    /// As [`Self::open`], or when it has more than `limit` bytes.
    pub fn read(&self, limit: u64) -> Result<Vec<u8>, ReachError> {
        let (file, size) = self.open()?;
        let too_large = |size| ReachError::TooLarge { path: self.path.clone(), size, limit };
        if size > limit {
            return Err(too_large(size));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        // It may grow while it is read.
        let read = file.take(limit + 1).read_to_end(&mut bytes);
        let read = read.map_err(|error| ReachError::io(error, "read", &self.path))?;
        let read = u64::try_from(read).unwrap_or(u64::MAX);
        if read > limit { Err(too_large(read)) } else { Ok(bytes) }
    }

    /// Whether there is a file that may be touched.
    ///
    /// # Errors
    /// When there is something else than a file, or the gateway's own.
    pub fn exists(&self) -> Result<bool, ReachError> {
        self.facts().map(|facts| facts.is_some())
    }

    /// The rights of the file, when there is one.
    ///
    /// # Errors
    /// When there is something else than a file, or the gateway's own.
    pub fn rights(&self) -> Result<Option<Rights>, ReachError> {
        Ok(self.facts()?.as_ref().map(Rights::of))
    }

    /// Puts `bytes` in the place of what is there, or makes the file.
    ///
    /// # Errors
    /// When the place is out of reach, or the disk refuses.
    pub fn replace(&self, bytes: &[u8]) -> Result<(), ReachError> {
        self.stage(bytes, None)?.commit()
    }

    /// The first half of [`Self::replace`]: all that can fail for want of
    /// rights or room. The file gets these rights, else those of what is there.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub fn stage(&self, bytes: &[u8], rights: Option<Rights>) -> Result<Staged<'_>, ReachError> {
        let before = self.rights()?;
        if before.is_some() {
            self.check_writable()?;
        }
        for rights in before.iter().chain(&rights) {
            self.judge_change(*rights)?;
        }
        let rights = rights.or(before);
        let is_private = rights.is_some() || self.guard.keeps_private(&self.folder);
        let mode = if is_private { Mode::RUSR | Mode::WUSR } else { Mode::from_raw_mode(NEW_MODE) };
        let failed = |error: io::Error| ReachError::io(error, "open", &self.path);
        let (name, file) = self.temporary(mode).map_err(failed)?;
        let staged = Staged { place: self, name, is_committed: false };
        let mut file = File::from(file);
        if let Some(rights) = rights {
            rights.give(&file).map_err(failed)?;
        }
        file.write_all(bytes)
            .and_then(|()| file.sync_all())
            .map_err(|error| ReachError::io(error, "write", &self.path))?;
        Ok(staged)
    }

    /// Removes the file.
    ///
    /// # Errors
    /// When it is missing or out of reach.
    pub fn remove(&self) -> Result<(), ReachError> {
        let Some(rights) = self.rights()? else {
            return Err(self.failed(Errno::NOENT, "unlink"));
        };
        self.judge_change(rights)?;
        unlinkat(&self.folder, &self.name, AtFlags::empty())
            .map_err(|error| self.failed(error, "unlink"))?;
        self.sync();
        Ok(())
    }

    /// What is there, links not followed.
    fn facts(&self) -> Result<Option<Stat>, ReachError> {
        match statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(facts) => self.judge(&facts).map(|()| Some(facts)),
            Err(Errno::NOENT) => {
                self.guard.judge_file(&self.folder, Path::new(&self.name), None, &self.path)?;
                Ok(None)
            }
            Err(error) => Err(self.failed(error, "access")),
        }
    }

    fn judge(&self, facts: &Stat) -> Result<(), ReachError> {
        match FileType::from_raw_mode(facts.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(ReachError::folder(&self.path)),
            _ => return Err(ReachError::Special(self.path.clone())),
        }
        self.guard.judge_file(&self.folder, Path::new(&self.name), Some(facts), &self.path)
    }

    /// Whether a file with these rights may be changed or put here. Where that is the open
    /// folder says: a link on the way may lead elsewhere by now.
    fn judge_change(&self, rights: Rights) -> Result<(), ReachError> {
        let folder = format!("/proc/self/fd/{}", self.folder.as_raw_fd());
        // Only Linux tells it so.
        let path = fs::canonicalize(folder).map(|folder| folder.join(&self.name));
        self.guard.judge_change(rights.mode, path.as_ref().unwrap_or(&self.path))
    }

    /// Replacing needs rights on the folder only; a file that is read-only
    /// stays as it is nevertheless.
    fn check_writable(&self) -> Result<(), ReachError> {
        accessat(&self.folder, &self.name, Access::WRITE_OK, AtFlags::empty())
            .map_err(|error| self.failed(error, "open"))
    }

    fn temporary(&self, mode: Mode) -> io::Result<(String, OwnedFd)> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut random = [0; STAGED_LETTERS / 2];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let name = format!("{STAGED}{}", crate::support::hex(random));
        let file = openat(&self.folder, &name, flags, mode)?;
        Ok((name, file))
    }

    /// Makes a name durable. Some file systems cannot, and the file is right
    /// either way.
    fn sync(&self) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let _ = openat(&self.folder, ".", flags, Mode::empty()).and_then(rustix::fs::fsync);
    }

    fn failed(&self, error: Errno, action: &'static str) -> ReachError {
        ReachError::io(error, action, &self.path)
    }
}

/// Content on disk that has no name yet; dropped, it is gone.
pub struct Staged<'a> {
    place: &'a Place,
    name: String,
    is_committed: bool,
}

impl Staged<'_> {
    /// Gives it its name.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn commit(mut self) -> Result<(), ReachError> {
        let place = self.place;
        renameat(&place.folder, &self.name, &place.folder, &place.name)
            .map_err(|error| place.failed(error, "rename"))?;
        self.is_committed = true;
        place.sync();
        Ok(())
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if !self.is_committed {
            // Nothing refers to it.
            let _ = unlinkat(&self.place.folder, &self.name, AtFlags::empty());
        }
    }
}

/// Whose a file is, and who may do what with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    owner: u32,
    group: u32,
    mode: RawMode,
}

impl Rights {
    fn of(facts: &Stat) -> Self {
        Self { owner: facts.st_uid, group: facts.st_gid, mode: facts.st_mode }
    }

    /// Gives them to a file that stands for the one that had them. Only root can give
    /// files away; for others the owner is the same. A program that ran with its
    /// owner's rights does so no longer, as the system has it for writing.
    fn give(self, file: &File) -> io::Result<()> {
        let now = fstat(file)?;
        if (now.st_uid, now.st_gid) != (self.owner, self.group) {
            let (owner, group) = (Uid::from_raw(self.owner), Gid::from_raw(self.group));
            let _ = fchown(file, Some(owner), Some(group));
        }
        let mode = Mode::from_raw_mode(self.mode);
        Ok(fchmod(file, mode.difference(Mode::SUID | Mode::SGID))?)
    }
}
