//! Which files the tools of an agent reach.
//!
//! Owns: the way from a path that a model wrote to an open file. Promises: a
//! file is judged by what was opened, not by its name, so that no link and no
//! swap leads elsewhere; the gateway's own state is out of reach whatever the
//! configuration says; nothing here waits on a pipe or a device. Must not: know
//! any tool. Everything here blocks: call it off the async threads.

mod error;
mod guard;
mod locks;
mod place;
#[cfg(test)]
pub(in crate::agent) mod testing;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt as _};
use rustix::fs::readlinkat;

use crate::agent::approvals::Listed;
use crate::config::{AgentSettings, Settings};

pub use error::ReachError;
pub use guard::{Guard, PrivatePlaces, shared_folders};
pub use locks::FileLocks;
pub use place::{Place, PlaceId, Rights, Staged};

/// Links that are followed one after the other, as on Linux.
const LINKS_MAX: usize = 40;

/// Rights of a new folder in the state directory or a workspace …
const PRIVATE: u32 = 0o700;
/// … and elsewhere, less what the umask takes.
const PUBLIC: u32 = 0o777;

/// What the tools of one agent reach.
#[derive(Clone)]
pub struct Reach {
    workspace: PathBuf,
    home: Option<PathBuf>,
    only_workspace: bool,
    guard: Arc<Guard>,
}

/// Where paths begin.
enum Root {
    /// Nothing outside of this folder can be named.
    Workspace(Dir),
    /// The file system.
    Everything,
}

/// A place and the folders that were made for it, the innermost first.
pub struct Made {
    /// Where the file goes.
    pub place: Place,
    /// Folders that were not there before.
    pub folders: Vec<PathBuf>,
}

impl Reach {
    /// What an agent reaches: its workspace alone, or all that is not guarded.
    pub fn new(settings: &Settings, agent: &AgentSettings, only_workspace: bool) -> Self {
        Self {
            workspace: agent.workspace.clone(),
            home: settings.paths.expand("~").ok(),
            only_workspace,
            guard: Arc::new(Guard::new(settings)),
        }
    }

    /// The folder of the agent's own files.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// The same agent, with this rule on the workspace.
    #[must_use]
    pub fn limited(&self, only_workspace: bool) -> Self {
        Self { only_workspace, ..self.clone() }
    }

    /// The same agent, which reaches nothing outside of this folder.
    #[must_use]
    pub fn within(&self, folder: PathBuf) -> Self {
        Self { workspace: folder, only_workspace: true, ..self.clone() }
    }

    /// The same agent, which changes no program that the allowlist of commands may mean.
    #[must_use]
    pub fn sparing(self, listed: Listed) -> Self {
        Self { guard: Arc::new(self.guard.sparing(listed)), ..self }
    }

    /// The absolute path that is meant: `~` is the home, anything relative is
    /// relative to the workspace, and an `@` before it is dropped, as models
    /// write it to mark a file.
    ///
    /// # Errors
    /// An empty path, or one with a NUL byte.
    pub fn absolute(&self, written: &str) -> Result<PathBuf, ReachError> {
        if written.contains('\0') {
            return Err(ReachError::Nul);
        }
        let text = written.strip_prefix('@').unwrap_or(written);
        if text.trim().is_empty() {
            return Err(ReachError::Empty);
        }
        if let (Some(home), Some(rest)) = (&self.home, text.strip_prefix('~')) {
            if rest.is_empty() {
                return Ok(home.clone());
            }
            if let Some(rest) = rest.strip_prefix('/') {
                return Ok(home.join(rest));
            }
        }
        Ok(self.workspace.join(text))
    }

    /// The file that a model means; it need not be there.
    ///
    /// # Errors
    /// When its folder is not there or out of reach.
    pub fn find(&self, written: &str) -> Result<Place, ReachError> {
        self.walk(&self.absolute(written)?, &mut None)
    }

    /// The same, and the folders above it are made if need be.
    ///
    /// # Errors
    /// When it is out of reach, or a folder cannot be made.
    pub fn find_or_make(&self, written: &str) -> Result<Made, ReachError> {
        let mut made = Some(Vec::new());
        let place = self.walk(&self.absolute(written)?, &mut made);
        let folders = made.unwrap_or_default();
        match place {
            Ok(place) => Ok(Made { place, folders }),
            Err(error) => {
                self.unmake(&folders);
                Err(error)
            }
        }
    }

    /// Removes folders that were made for nothing; those with something in them
    /// stay.
    pub fn unmake(&self, folders: &[PathBuf]) {
        let Ok(root) = self.root(false) else { return };
        for folder in folders {
            // What is no longer empty has become somebody's.
            let _ = match &root {
                Root::Workspace(dir) => dir.remove_dir(folder),
                Root::Everything => std::fs::remove_dir(folder),
            };
        }
    }

    /// A folder of the workspace, for its list of files.
    ///
    /// # Errors
    /// When it is not there, or a link leads out of the workspace.
    pub fn workspace_folder(&self, name: &str) -> Result<Dir, ReachError> {
        let path = self.workspace.join(name);
        let Root::Workspace(dir) = self.limited(true).root(false)? else {
            return Err(ReachError::Outside(path));
        };
        let folder = dir.open_dir(name).map_err(|error| outside_or(error, "scandir", &path))?;
        self.guard.judge_folder(&folder, &path)?;
        Ok(folder)
    }

    fn root(&self, make: bool) -> Result<Root, ReachError> {
        if !self.only_workspace {
            return Ok(Root::Everything);
        }
        let open = || Dir::open_ambient_dir(&self.workspace, ambient_authority());
        let opened = match open() {
            Err(error) if make && error.kind() == ErrorKind::NotFound => {
                make_all(&self.workspace, PRIVATE).and_then(|()| open())
            }
            opened => opened,
        };
        opened.map(Root::Workspace).map_err(|e| ReachError::io(e, "access", &self.workspace))
    }

    /// The path as the root takes it.
    fn below(&self, root: &Root, path: &Path) -> Result<PathBuf, ReachError> {
        if matches!(root, Root::Everything) {
            return Ok(path.to_owned());
        }
        let real = std::fs::canonicalize(&self.workspace).ok();
        let roots = std::iter::once(self.workspace.as_path()).chain(real.as_deref());
        roots
            .filter_map(|root| path.strip_prefix(root).ok())
            .map(Path::to_owned)
            .next()
            .ok_or_else(|| ReachError::Outside(path.to_owned()))
    }

    /// Follows links one by one, each with the same limits, to a name in an
    /// open folder.
    fn walk(&self, wanted: &Path, made: &mut Option<Vec<PathBuf>>) -> Result<Place, ReachError> {
        let root = self.root(made.is_some())?;
        let mut path = wanted.to_owned();
        for links in 0..LINKS_MAX {
            let below = self.below(&root, &path)?;
            let (folder, name) = split(&below).ok_or_else(|| ReachError::folder(wanted))?;
            let dir = match open_folder(&root, &folder) {
                Err(error) if error.kind() == ErrorKind::NotFound && made.is_some() => {
                    self.make(&root, &folder, wanted, made)?
                }
                opened => opened.map_err(|error| outside_or(error, "access", wanted))?,
            };
            let Ok(link) = readlinkat(&dir, &name, Vec::new()) else {
                if dir.symlink_metadata(&name).is_ok_and(|facts| facts.is_dir()) {
                    return Err(ReachError::folder(wanted));
                }
                let (folder, guard) = (OwnedFd::from(dir), Arc::clone(&self.guard));
                let place = Place::new(folder, name, wanted, links > 0, guard);
                place.judge_folder()?;
                return Ok(place);
            };
            let link = OsString::from_vec(link.into_bytes());
            path = path.parent().unwrap_or(Path::new("/")).join(link);
        }
        Err(ReachError::too_many_links(wanted))
    }

    /// Makes a folder; the one that it begins in is judged first.
    fn make(
        &self,
        root: &Root,
        folder: &Path,
        wanted: &Path,
        made: &mut Option<Vec<PathBuf>>,
    ) -> Result<Dir, ReachError> {
        let failed = |error| outside_or(error, "mkdir", wanted);
        let mut rights = PRIVATE;
        for above in folder.ancestors() {
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            match open_folder(root, above) {
                Ok(dir) => {
                    self.guard.judge_folder(&dir, wanted)?;
                    if !self.guard.keeps_private(&dir) {
                        rights = PUBLIC;
                    }
                    break;
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    made.get_or_insert_default().push(above.to_owned());
                }
                Err(error) => return Err(failed(error)),
            }
        }
        match root {
            Root::Workspace(dir) => {
                let mut builder = DirBuilder::new();
                dir.create_dir_with(folder, builder.recursive(true).mode(rights))
            }
            Root::Everything => make_all(folder, rights),
        }
        .and_then(|()| open_folder(root, folder))
        .map_err(failed)
    }
}

fn make_all(folder: &Path, rights: u32) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(rights).create(folder)
}

fn open_folder(root: &Root, folder: &Path) -> std::io::Result<Dir> {
    match root {
        Root::Workspace(dir) => dir.open_dir(folder),
        Root::Everything => Dir::open_ambient_dir(folder, ambient_authority()),
    }
}

/// The folder and the name of a file; `None` for what can only be a folder.
fn split(path: &Path) -> Option<(PathBuf, OsString)> {
    let Some(Component::Normal(name)) = path.components().next_back() else { return None };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    Some((folder.unwrap_or(Path::new(".")).to_owned(), name.to_owned()))
}

/// What led out of the workspace has no error number.
fn outside_or(error: std::io::Error, action: &'static str, path: &Path) -> ReachError {
    if error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_none() {
        return ReachError::Outside(path.to_owned());
    }
    ReachError::io(error, action, path)
}
