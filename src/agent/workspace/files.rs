//! Reading and writing the files of a workspace by name.
//!
//! Promises: a link that leads out of the workspace is never followed, nor is
//! anything opened that is no regular file, nor told what is another name of the
//! gateway's own files; a write is the old text or the new one, never a mix, and
//! survives power loss. Only the names of [`BootstrapFile`] get here, so no path
//! of a client does.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::BootstrapFile;
use crate::agent::reach::{Guard, ReachError};
use crate::store::atomic;

/// Largest file that is read or written, as in the original.
pub const MAX_FILE_BYTES: u64 = 2 * 1024 * 1024;

/// Why a file of a workspace cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// It leads out of the workspace, or is no file.
    #[error("unsafe workspace file \"{0}\"")]
    Unsafe(&'static str),
    /// It is the gateway's own: commands of the agent can link that.
    #[error(transparent)]
    Private(#[from] ReachError),
    /// It is too large.
    #[error("workspace file \"{name}\" is larger than {MAX_FILE_BYTES} bytes")]
    TooLarge {
        /// Its name.
        name: &'static str,
    },
    /// It is not readable.
    #[error("workspace file \"{name}\" is not readable: {source}")]
    Unreadable {
        /// Its name.
        name: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It is not writable.
    #[error("workspace file \"{name}\" is not writable: {source}")]
    Unwritable {
        /// Its name.
        name: &'static str,
        /// What the system said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A file as `agents.files.*` tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// Which one.
    pub file: BootstrapFile,
    /// Where it is, or would be.
    pub path: PathBuf,
    /// Size and time of the last change; `None` when it is not there.
    pub found: Option<Found>,
    /// Its text, where that was asked for.
    pub content: Option<String>,
    /// Why nothing is told of what is there.
    pub trouble: Option<String>,
}

impl FileEntry {
    /// One that is there and cannot be had.
    pub fn withheld(dir: &Path, file: BootstrapFile, error: &FilesError) -> Self {
        let trouble = Some(error.to_string());
        Self { file, path: dir.join(file.name()), found: None, content: None, trouble }
    }
}

/// What the file system says of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Bytes.
    pub size: u64,
    /// Milliseconds since the epoch.
    pub updated_at_ms: u64,
}

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    inode: u64,
    size: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl Stamp {
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            size: metadata.size(),
            seconds: metadata.mtime(),
            nanoseconds: metadata.mtime_nsec(),
        }
    }
}

/// A file that is there, opened.
pub struct Opened {
    pub file: File,
    pub metadata: Metadata,
    /// Where it really is.
    path: PathBuf,
}

/// Opens `file` in the workspace `dir`; `None` when there is none.
pub fn open(dir: &Path, file: BootstrapFile, guard: &Guard) -> Result<Option<Opened>, FilesError> {
    match open_judged(dir, file, guard)? {
        Some(opened) if opened.metadata.len() > MAX_FILE_BYTES => {
            Err(FilesError::TooLarge { name: file.name() })
        }
        opened => Ok(opened),
    }
}

/// The same, however large it is.
fn open_judged(
    dir: &Path,
    file: BootstrapFile,
    guard: &Guard,
) -> Result<Option<Opened>, FilesError> {
    let Some(opened) = open_any_size(dir, file.name())? else { return Ok(None) };
    let home = fs::canonicalize(dir).ok();
    guard.judge_opened(&opened.file, &opened.path, home.as_deref())?;
    Ok(Some(opened))
}

/// The same for a file of this name, a path below `dir`, whatever it is another name of.
pub fn open_any_size(dir: &Path, name: &'static str) -> Result<Option<Opened>, FilesError> {
    let unreadable = |source| FilesError::Unreadable { name, source };
    let Some(target) = target(dir, name)? else { return Ok(None) };
    let metadata = match fs::symlink_metadata(&target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(unreadable)?,
    };
    // Before it is opened: that would wait for the other end of a pipe.
    if !metadata.is_file() {
        return Err(FilesError::Unsafe(name));
    }
    let opened = File::open(&target).map_err(unreadable)?;
    let metadata = opened.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(FilesError::Unsafe(name));
    }
    Ok(Some(Opened { file: opened, metadata, path: target }))
}

/// Reads what is open; bytes that are no UTF-8 are replaced.
pub fn text(opened: Opened, file: BootstrapFile) -> Result<String, FilesError> {
    let name = file.name();
    let mut bytes = Vec::new();
    let read = opened.file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|source| FilesError::Unreadable { name, source })?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_FILE_BYTES) {
        return Err(FilesError::TooLarge { name });
    }
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// What is known of `file` in `dir` without reading it.
pub fn look(dir: &Path, file: BootstrapFile, guard: &Guard) -> Result<FileEntry, FilesError> {
    let found = open_judged(dir, file, guard)?.map(|opened| found(&opened.metadata));
    Ok(FileEntry { file, path: dir.join(file.name()), found, content: None, trouble: None })
}

/// The same, with its text.
pub fn read(dir: &Path, file: BootstrapFile, guard: &Guard) -> Result<FileEntry, FilesError> {
    let path = dir.join(file.name());
    let Some(opened) = open(dir, file, guard)? else {
        return Ok(FileEntry { file, path, found: None, content: None, trouble: None });
    };
    let found = Some(found(&opened.metadata));
    Ok(FileEntry { file, path, found, content: Some(text(opened, file)?), trouble: None })
}

/// Puts `content` in the place of `file`.
pub fn write(
    dir: &Path,
    file: BootstrapFile,
    content: &str,
    guard: &Guard,
) -> Result<FileEntry, FilesError> {
    let name = file.name();
    if u64::try_from(content.len()).is_ok_and(|length| length > MAX_FILE_BYTES) {
        return Err(FilesError::TooLarge { name });
    }
    let unwritable =
        |source: Box<dyn std::error::Error + Send + Sync>| FilesError::Unwritable { name, source };
    atomic::create_private_dir(dir).map_err(|error| unwritable(Box::new(error)))?;
    // What stands there now decides: a link inside the workspace is kept.
    open_judged(dir, file, guard)?;
    let path = dir.join(name);
    atomic::write_private(&path, content.as_bytes())
        .map_err(|error| unwritable(Box::new(error)))?;
    read(dir, file, guard)
}

/// Where the file of this name really is; `None` when it is not there.
fn target(dir: &Path, name: &'static str) -> Result<Option<PathBuf>, FilesError> {
    let unreadable = |source| FilesError::Unreadable { name, source };
    let inside = match fs::canonicalize(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(unreadable)?,
    };
    match fs::canonicalize(inside.join(name)) {
        Ok(target) if target.starts_with(&inside) => Ok(Some(target)),
        Ok(_) => Err(FilesError::Unsafe(name)),
        // A link to nowhere would be written through.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let path = inside.join(name);
            let parent = path.parent().unwrap_or(&inside);
            let is_out = fs::canonicalize(parent).is_ok_and(|real| !real.starts_with(&inside));
            // Also a folder on the way that leads elsewhere, or to nowhere.
            let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|it| it.is_symlink());
            if is_out || is_link(&path) || (!parent.exists() && is_link(parent)) {
                return Err(FilesError::Unsafe(name));
            }
            Ok(None)
        }
        Err(source) => Err(unreadable(source)),
    }
}

fn found(metadata: &Metadata) -> Found {
    let changed = metadata.modified().ok();
    let since = changed.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    Found { size: metadata.len(), updated_at_ms: since.map_or(0, crate::support::millis) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::agent::reach::testing::Scene;

    const SOUL: BootstrapFile = BootstrapFile::Soul;

    fn look(dir: &Path, file: BootstrapFile) -> Result<FileEntry, FilesError> {
        super::look(dir, file, &Guard::new(&Scene::new().settings))
    }

    fn read(dir: &Path, file: BootstrapFile) -> Result<FileEntry, FilesError> {
        super::read(dir, file, &Guard::new(&Scene::new().settings))
    }

    fn write(dir: &Path, file: BootstrapFile, content: &str) -> Result<FileEntry, FilesError> {
        super::write(dir, file, content, &Guard::new(&Scene::new().settings))
    }

    #[test]
    fn a_name_of_the_gateways_own_files_is_refused_like_those() {
        let scene = Scene::new();
        let guard = Guard::new(&scene.settings);
        let dir = scene.path("");
        for own in ["openclaw.json", "gateway-token", "credentials/oauth.json"] {
            let own = scene.put_at_home(&format!(".openclaw/{own}"), "canary");
            fs::hard_link(&own, dir.join("SOUL.md")).unwrap();
            for attempt in [
                super::read(&dir, SOUL, &guard),
                super::look(&dir, SOUL, &guard),
                super::write(&dir, SOUL, "x", &guard),
            ] {
                let error = attempt.unwrap_err().to_string();
                assert!(error.starts_with("Access denied: "), "{error}");
            }
            assert_eq!(fs::read_to_string(&own).unwrap(), "canary");
            fs::remove_file(dir.join("SOUL.md")).unwrap();
        }
        // A workspace around the state directory: the link stays in it.
        let home = scene.at_home("");
        symlink(".openclaw/credentials/oauth.json", home.join("SOUL.md")).unwrap();
        assert!(matches!(super::read(&home, SOUL, &guard), Err(FilesError::Private(_))));
        // Nobody else's file with two names is meant.
        let shared = scene.put_at_home("shared", "mine");
        fs::hard_link(shared, dir.join("SOUL.md")).unwrap();
        let read = super::read(&dir, SOUL, &guard).unwrap();
        assert_eq!(read.content.as_deref(), Some("mine"));
    }

    #[test]
    fn what_is_written_is_read_with_its_size() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("new");
        assert_eq!(read(&dir, SOUL).unwrap().found, None);
        let written = write(&dir, SOUL, "# häh\n").unwrap();
        assert_eq!(written, read(&dir, SOUL).unwrap());
        assert_eq!(written.found.unwrap().size, 7);
        assert_eq!(written.content.as_deref(), Some("# häh\n"));
        assert_eq!(look(&dir, SOUL).unwrap().found, written.found);
    }

    #[test]
    fn a_link_is_followed_inside_and_refused_outside() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("w");
        fs::create_dir_all(dir.join("sub")).unwrap();
        fs::write(root.path().join("secret"), "s").unwrap();
        symlink("../secret", dir.join("SOUL.md")).unwrap();
        for attempt in [read(&dir, SOUL), look(&dir, SOUL), write(&dir, SOUL, "x")] {
            let error = attempt.unwrap_err().to_string();
            assert_eq!(error, "unsafe workspace file \"SOUL.md\"");
        }
        assert_eq!(fs::read_to_string(root.path().join("secret")).unwrap(), "s");
        symlink("../nowhere", dir.join("USER.md")).unwrap();
        assert!(write(&dir, BootstrapFile::User, "x").is_err());
        assert!(!root.path().join("nowhere").exists());
        fs::write(dir.join("sub/real.md"), "r").unwrap();
        symlink("sub/real.md", dir.join("AGENTS.md")).unwrap();
        write(&dir, BootstrapFile::Agents, "new").unwrap();
        assert_eq!(fs::read_to_string(dir.join("sub/real.md")).unwrap(), "new");
        assert!(fs::symlink_metadata(dir.join("AGENTS.md")).unwrap().is_symlink());
    }

    #[test]
    fn a_workspace_that_is_a_link_itself_is_fine() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("real")).unwrap();
        symlink("real", root.path().join("w")).unwrap();
        write(&root.path().join("w"), SOUL, "s").unwrap();
        assert_eq!(fs::read_to_string(root.path().join("real/SOUL.md")).unwrap(), "s");
    }

    #[test]
    fn only_regular_files_of_a_fair_size_are_read() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("SOUL.md")).unwrap();
        assert!(matches!(read(root.path(), SOUL), Err(FilesError::Unsafe(_))));
        let status = std::process::Command::new("mkfifo").arg(root.path().join("USER.md")).status();
        assert!(status.unwrap().success());
        assert!(matches!(read(root.path(), BootstrapFile::User), Err(FilesError::Unsafe(_))));
        let large = File::create(root.path().join("TOOLS.md")).unwrap();
        large.set_len(MAX_FILE_BYTES + 1).unwrap();
        let error = read(root.path(), BootstrapFile::Tools).unwrap_err().to_string();
        assert_eq!(error, "workspace file \"TOOLS.md\" is larger than 2097152 bytes");
        // It spoils no list.
        let found = look(root.path(), BootstrapFile::Tools).unwrap().found;
        assert_eq!(found.unwrap().size, MAX_FILE_BYTES + 1);
        // It may be replaced by a smaller one.
        write(root.path(), BootstrapFile::Tools, "t").unwrap();
        let too_much = "x".repeat(2 * 1024 * 1024 + 1);
        assert!(write(root.path(), BootstrapFile::Tools, &too_much).is_err());
    }
}
