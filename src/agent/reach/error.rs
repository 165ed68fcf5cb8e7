//! Why a file is out of reach, in words that a model can act on.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// Why a file is not read or written.
#[derive(Debug, thiserror::Error)]
pub enum ReachError {
    /// No path at all.
    #[error("Path is empty")]
    Empty,
    /// No file has such a name.
    #[error("Path contains a NUL byte")]
    Nul,
    /// The agent is kept to its workspace.
    #[error("Path escapes workspace root: {}", .0.display())]
    Outside(PathBuf),
    /// It is the gateway's own.
    #[error("Access denied: {} belongs to the gateway or the system", .0.display())]
    Private(PathBuf),
    /// A command that names it may run without a question.
    #[error(
        "Access denied: {} is a program that the allowlist of commands may mean; the user has to \
         change it",
        .0.display()
    )]
    Listed(PathBuf),
    /// A pipe, a socket, a device.
    #[error("Not a regular file: {}", .0.display())]
    Special(PathBuf),
    /// More than a tool takes at once.
    #[error("File too large: {} has {size} bytes, the limit is {limit}", path.display())]
    TooLarge {
        /// Which.
        path: PathBuf,
        /// Its bytes.
        size: u64,
        /// Most bytes.
        limit: u64,
    },
    /// The system said so; told as the original does.
    #[error("{}", told(source, action, path))]
    Io {
        /// What was tried, such as `access`.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl ReachError {
    /// An error of the system.
    pub fn io(source: impl Into<io::Error>, action: &'static str, path: &Path) -> Self {
        Self::Io { action, path: path.to_owned(), source: source.into() }
    }

    /// The file is a folder.
    pub fn folder(path: &Path) -> Self {
        Self::io(Errno::ISDIR, "read", path)
    }

    /// Links that lead to links without end.
    pub fn too_many_links(path: &Path) -> Self {
        Self::io(Errno::LOOP, "access", path)
    }

    /// Whether there is no such file.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// The system's name of the error, such as `ENOENT`.
    pub fn code(&self) -> Option<&'static str> {
        let Self::Io { source, .. } = self else { return None };
        known(source).map(|(_, code, _)| *code)
    }
}

/// Names and texts as the original's runtime gives them.
const KNOWN: &[(Errno, &str, &str)] = &[
    (Errno::NOENT, "ENOENT", "no such file or directory"),
    (Errno::ACCESS, "EACCES", "permission denied"),
    (Errno::PERM, "EPERM", "operation not permitted"),
    (Errno::ISDIR, "EISDIR", "illegal operation on a directory"),
    (Errno::NOTDIR, "ENOTDIR", "not a directory"),
    (Errno::EXIST, "EEXIST", "file already exists"),
    (Errno::NAMETOOLONG, "ENAMETOOLONG", "name too long"),
    (Errno::LOOP, "ELOOP", "too many symbolic links encountered"),
    (Errno::NOSPC, "ENOSPC", "no space left on device"),
    (Errno::ROFS, "EROFS", "read-only file system"),
    (Errno::MFILE, "EMFILE", "too many open files"),
    (Errno::BUSY, "EBUSY", "resource busy or locked"),
    (Errno::DQUOT, "EDQUOT", "disk quota exceeded"),
];

fn known(error: &io::Error) -> Option<&'static (Errno, &'static str, &'static str)> {
    let errno = Errno::from_io_error(error)?;
    KNOWN.iter().find(|(number, ..)| *number == errno)
}

fn told(error: &io::Error, action: &str, path: &Path) -> String {
    let path = path.display();
    match known(error) {
        // A folder that is read fails after it was opened, without a name.
        Some((Errno::ISDIR, code, text)) => format!("{code}: {text}, {action}"),
        Some((_, code, text)) => format!("{code}: {text}, {action} '{path}'"),
        None => format!("{error}, {action} '{path}'"),
    }
}
