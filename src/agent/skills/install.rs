//! Taking a skill over from a folder of this machine.
//!
//! Promises: the skill is there whole or not at all, also after a kill; only
//! regular files and folders are copied, no link is followed and none is kept;
//! number, size and depth are bounded; what is copied survives power loss.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::front::{Head, HeadError};
use super::scan::FILE;
use crate::store::atomic::{self, FileError};

/// Files and folders of one skill.
const MAX_ENTRIES: usize = 1_000;
/// Bytes of one skill.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Folders in folders.
const MAX_DEPTH: usize = 16;
/// How the folder begins that a skill is copied into first; the dot keeps it
/// from being taken for one.
const STAGED: &str = ".installing-";
/// Longest name of a folder.
const MAX_NAME: usize = 64;

/// A skill that was taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// What its head says.
    pub head: Head,
    /// Where it is now.
    pub base_dir: PathBuf,
}

/// Why a skill was not taken over.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The path is no absolute one.
    #[error("{} is no absolute path", .0.display())]
    NotAbsolute(PathBuf),
    /// There is no such folder.
    #[error("{} is no folder with a SKILL.md", .0.display())]
    NoSkill(PathBuf),
    /// Its `SKILL.md` is none.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The name does not fit for a folder.
    #[error("\"{0}\" does not fit for a folder's name; use letters, digits, -, _ and .")]
    Name(String),
    /// There is one already.
    #[error("the skill \"{0}\" is there already; force replaces it")]
    Exists(String),
    /// Folder and target lie in each other.
    #[error("{} lies in the folder of managed skills, or holds it", .0.display())]
    Overlap(PathBuf),
    /// Something in it is neither file nor folder.
    #[error("{} is a link or no regular file; a skill has only files and folders", .0.display())]
    Special(PathBuf),
    /// It is too much.
    #[error("the skill has more than {MAX_ENTRIES} files, {MAX_BYTES} bytes or {MAX_DEPTH} levels")]
    TooMuch,
    /// Something cannot be read or written.
    #[error("cannot copy {}: {source}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The folder of managed skills cannot be made.
    #[error(transparent)]
    Folder(#[from] FileError),
    /// The work was given up, as the gateway stops.
    #[error("the gateway stops")]
    Stopped,
}

/// Copies the skill in `from` into the folder `managed`. Blocks.
pub fn install(from: &Path, managed: &Path, is_forced: bool) -> Result<Installed, InstallError> {
    if !from.is_absolute() {
        return Err(InstallError::NotAbsolute(from.to_owned()));
    }
    let no_skill = || InstallError::NoSkill(from.to_owned());
    let source = fs::canonicalize(from).map_err(|_| no_skill())?;
    let folder = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let head = Head::parse(&text(&source.join(FILE)).ok_or_else(no_skill)?, &folder)?;
    let name = folder_name(&head.name)?;
    atomic::create_private_dir(managed)?;
    let managed = fs::canonicalize(managed).map_err(on(managed))?;
    if source.starts_with(&managed) || managed.starts_with(&source) {
        return Err(InstallError::Overlap(source));
    }
    let target = managed.join(&name);
    let is_there = fs::symlink_metadata(&target).is_ok();
    if is_there && !is_forced {
        return Err(InstallError::Exists(name));
    }
    sweep(&managed);
    let staged =
        tempfile::Builder::new().prefix(STAGED).tempdir_in(&managed).map_err(on(&managed))?;
    let copied = staged.path().join("new");
    copy(&source, &copied, 0, &mut Budget::default())?;
    // In one step, so that there is always one of them; the old one goes with
    // the staging folder.
    let placed = if is_there {
        renameat_with(CWD, &copied, CWD, &target, RenameFlags::EXCHANGE).map_err(io::Error::from)
    } else {
        fs::rename(&copied, &target)
    };
    placed.map_err(on(&target))?;
    sync_dir(&managed)?;
    Ok(Installed { head, base_dir: target })
}

/// Takes away what installations have left that a kill ended. There is no other
/// now: one gateway has the folder, and does one change at a time.
fn sweep(managed: &Path) {
    let entries = fs::read_dir(managed).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().as_bytes().starts_with(STAGED.as_bytes()))
    {
        if let Err(error) = fs::remove_dir_all(entry.path()) {
            tracing::warn!(path = %entry.path().display(), %error, "left of an installation");
        }
    }
}

/// What has been copied so far.
#[derive(Default)]
struct Budget {
    entries: usize,
    bytes: u64,
}

fn copy(from: &Path, to: &Path, depth: usize, used: &mut Budget) -> Result<(), InstallError> {
    if depth > MAX_DEPTH {
        return Err(InstallError::TooMuch);
    }
    fs::create_dir(to).map_err(on(to))?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).map_err(on(to))?;
    for entry in fs::read_dir(from).map_err(on(from))? {
        let entry = entry.map_err(on(from))?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(on(&entry.path()))?);
        if entry.file_name() == ".git" {
            continue;
        }
        used.entries += 1;
        if used.entries > MAX_ENTRIES {
            return Err(InstallError::TooMuch);
        }
        let target = to.join(entry.file_name());
        if kind.is_dir() {
            copy(&path, &target, depth + 1, used)?;
        } else if kind.is_file() {
            copy_file(&path, &target, used)?;
        } else {
            return Err(InstallError::Special(path));
        }
    }
    sync_dir(to)
}

fn copy_file(from: &Path, to: &Path, used: &mut Budget) -> Result<(), InstallError> {
    let mut source = open(from).map_err(on(from))?;
    let metadata = source.metadata().map_err(on(from))?;
    // What was a file may be something else by now.
    if !metadata.is_file() {
        return Err(InstallError::Special(from.to_owned()));
    }
    let mode = if metadata.permissions().mode() & 0o111 == 0 { 0o600 } else { 0o700 };
    let mut target =
        OpenOptions::new().write(true).create_new(true).mode(mode).open(to).map_err(on(to))?;
    let room = MAX_BYTES - used.bytes;
    let mut limited = (&mut source).take(room + 1);
    used.bytes += io::copy(&mut limited, &mut target).map_err(on(from))?;
    if used.bytes > MAX_BYTES {
        return Err(InstallError::TooMuch);
    }
    target.flush().and_then(|()| target.sync_all()).map_err(on(to))
}

/// Opens a file without following a link at its end or waiting for a pipe.
fn open(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

fn text(file: &Path) -> Option<String> {
    /// The head is at the beginning.
    const ENOUGH: u64 = 256 * 1024;
    let opened = open(file).ok().filter(|file| file.metadata().is_ok_and(|it| it.is_file()))?;
    let mut bytes = Vec::new();
    opened.take(ENOUGH).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn folder_name(name: &str) -> Result<String, InstallError> {
    let folder: String = name.split_whitespace().collect::<Vec<_>>().join("-");
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_fit = folder.starts_with(|c: char| c.is_ascii_alphanumeric())
        && folder.len() <= MAX_NAME
        && folder.chars().all(fits);
    if is_fit { Ok(folder) } else { Err(InstallError::Name(name.to_owned())) }
}

fn sync_dir(dir: &Path) -> Result<(), InstallError> {
    atomic::sync_dir(dir).map_err(on(dir))
}

fn on(path: &Path) -> impl FnOnce(io::Error) -> InstallError + '_ {
    move |source| InstallError::Io { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::agent::skills::scan::tests::make;

    fn left_in(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_skill_is_copied_whole_and_replaced_only_by_force() {
        let home = tempfile::tempdir().unwrap();
        let (from, managed) = (home.path().join("My Skill"), home.path().join("state/skills"));
        make(&from, "My Skill", "");
        fs::create_dir_all(from.join("scripts")).unwrap();
        fs::create_dir_all(from.join(".git")).unwrap();
        fs::write(from.join("scripts/run.sh"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(from.join("scripts/run.sh"), fs::Permissions::from_mode(0o755))
            .unwrap();
        let installed = install(&from, &managed, false).unwrap();
        assert_eq!(installed.base_dir, fs::canonicalize(&managed).unwrap().join("My-Skill"));
        let script = fs::metadata(installed.base_dir.join("scripts/run.sh")).unwrap();
        assert_eq!(script.permissions().mode() & 0o777, 0o700);
        assert!(!installed.base_dir.join(".git").exists());
        let error = install(&from, &managed, false).unwrap_err().to_string();
        assert_eq!(error, "the skill \"My-Skill\" is there already; force replaces it");
        fs::remove_dir_all(from.join("scripts")).unwrap();
        // As a kill in the middle leaves it.
        fs::create_dir_all(managed.join(".installing-x/new")).unwrap();
        install(&from, &managed, true).unwrap();
        assert!(!installed.base_dir.join("scripts").exists());
        assert_eq!(left_in(&managed), ["My-Skill"]);
    }

    #[test]
    fn links_and_pipes_end_it_and_nothing_is_left() {
        let home = tempfile::tempdir().unwrap();
        let managed = home.path().join("skills");
        fs::write(home.path().join("secret"), "s").unwrap();
        for (index, target) in ["../secret", "/etc/passwd", "SKILL.md", "."].iter().enumerate() {
            let from = home.path().join(format!("s{index}"));
            make(&from, "s", "");
            symlink(target, from.join("link")).unwrap();
            let error = install(&from, &managed, false).unwrap_err();
            assert!(matches!(error, InstallError::Special(_)), "{target}: {error}");
        }
        let from = home.path().join("pipe");
        make(&from, "s", "");
        assert!(
            std::process::Command::new("mkfifo").arg(from.join("p")).status().unwrap().success()
        );
        assert!(matches!(install(&from, &managed, false), Err(InstallError::Special(_))));
        let from = home.path().join("head");
        fs::create_dir(&from).unwrap();
        symlink("../s0/SKILL.md", from.join("SKILL.md")).unwrap();
        assert!(matches!(install(&from, &managed, false), Err(InstallError::NoSkill(_))));
        assert_eq!(left_in(&managed), Vec::<String>::new());
    }

    #[test]
    fn a_name_never_leads_out_of_the_folder() {
        let home = tempfile::tempdir().unwrap();
        let managed = home.path().join("skills");
        for name in ["../x", "..", ".hidden", "a/b", "/abs", "ü"] {
            let from = home.path().join("from");
            make(&from, &format!("\"{name}\""), "");
            let error = install(&from, &managed, true).unwrap_err();
            assert!(matches!(error, InstallError::Name(_)), "{name}: {error}");
        }
    }

    #[test]
    fn folders_in_each_other_relative_paths_and_too_much_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let managed = home.path().join("skills");
        make(&managed.join("a"), "a", "");
        make(home.path(), "outer", "");
        for from in [managed.join("a"), home.path().to_owned()] {
            let error = install(&from, &managed, true).unwrap_err();
            assert!(matches!(error, InstallError::Overlap(_)), "{error}");
        }
        assert!(matches!(
            install(Path::new("a"), &managed, true),
            Err(InstallError::NotAbsolute(_))
        ));
        let large = home.path().join("large");
        make(&large, "large", "");
        File::create(large.join("f")).unwrap().set_len(MAX_BYTES + 1).unwrap();
        assert!(matches!(install(&large, &managed, true), Err(InstallError::TooMuch)));
        let deep = home.path().join("deep");
        make(&deep, "deep", "");
        fs::create_dir_all(deep.join("d/".repeat(MAX_DEPTH + 1))).unwrap();
        assert!(matches!(install(&deep, &managed, true), Err(InstallError::TooMuch)));
    }
}
