//! Folders with the files of a Control UI: how much may be in one, writing one,
//! copying one.
//!
//! Promises: only plain files with plain names get in, so many and so large at most.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail, ensure};

use crate::store::atomic::sync_dir;

/// The original's has some forty.
const MAX_FILES: u64 = 5_000;
/// The original's largest has one million.
const MAX_FILE: u64 = 32 * 1024 * 1024;
/// The original's has three million.
const MAX_BYTES: u64 = 256 * 1024 * 1024;
/// Folders in folders.
const MAX_DEPTH: usize = 8;

/// A new folder that is being filled.
pub(super) struct Filling {
    folder: PathBuf,
    files: u64,
    bytes: u64,
}

impl Filling {
    /// Makes the folder.
    pub(super) fn new(folder: &Path) -> anyhow::Result<Self> {
        make(folder)?;
        Ok(Self { folder: folder.to_owned(), files: 0, bytes: 0 })
    }

    /// So many files so far.
    pub(super) const fn files(&self) -> u64 {
        self.files
    }

    /// Adds a file; one that is hidden is left out.
    pub(super) fn add(&mut self, name: &Path, content: &mut dyn Read) -> anyhow::Result<()> {
        let parts: Vec<_> = name.components().collect();
        let is_plain = |it: &Component<'_>| matches!(it, Component::Normal(_));
        ensure!(
            parts.iter().all(is_plain) && (1..=MAX_DEPTH).contains(&parts.len()),
            "a file is named {}, which leads elsewhere",
            name.display()
        );
        let is_hidden = |it: &Component<'_>| it.as_os_str().to_string_lossy().starts_with('.');
        if parts.iter().any(is_hidden) {
            return Ok(());
        }
        self.files += 1;
        ensure!(self.files <= MAX_FILES, "it has more than {MAX_FILES} files");
        let path = self.folder.join(name);
        if let Some(parent) = path.parent() {
            make(parent)?;
        }
        let failed = || format!("cannot write {}", path.display());
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).create_new(true).mode(0o600).open(&path).with_context(failed)?;
        let written = io::copy(&mut content.take(MAX_FILE + 1), &mut file).with_context(failed)?;
        ensure!(written <= MAX_FILE, "{} has more than {MAX_FILE} bytes", name.display());
        self.bytes += written;
        ensure!(self.bytes <= MAX_BYTES, "it has more than {MAX_BYTES} bytes");
        file.sync_all().with_context(failed)
    }

    /// Adds what a folder has.
    pub(super) fn add_all(&mut self, from: &Path) -> anyhow::Result<()> {
        each(from, Path::new(""), &mut |name, path| {
            let mut file =
                File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
            self.add(name, &mut file)
        })
    }

    /// Says that the folder is whole, if it is.
    pub(super) fn finish(self, mark: &[u8]) -> anyhow::Result<()> {
        let page = self.folder.join(super::PAGE);
        ensure!(page.is_file(), "it has no {}", super::PAGE);
        let path = self.folder.join(super::MARK);
        let written = fs::write(&path, mark).and_then(|()| File::open(&path)?.sync_all());
        written.with_context(|| format!("cannot write {}", path.display()))?;
        sync_dir(&self.folder).with_context(|| format!("cannot write {}", self.folder.display()))
    }
}

fn make(folder: &Path) -> anyhow::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.with_context(|| format!("cannot make {}", folder.display()))
}

/// Each plain file below a folder, with its name there. Links are none.
fn each(
    root: &Path,
    below: &Path,
    work: &mut dyn FnMut(&Path, &Path) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    ensure!(below.components().count() < MAX_DEPTH, "{} is too deep", below.display());
    let folder = root.join(below);
    let failed = || format!("cannot read {}", folder.display());
    for entry in fs::read_dir(&folder).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        let (kind, name) = (entry.file_type().with_context(failed)?, below.join(entry.file_name()));
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        if kind.is_dir() {
            each(root, &name, work)?;
        } else if kind.is_file() {
            work(&name, &entry.path())?;
        } else {
            bail!("{} is neither a file nor a folder", entry.path().display());
        }
    }
    Ok(())
}

/// How many files and bytes a folder has.
pub(super) fn measure(folder: &Path) -> anyhow::Result<(u64, u64)> {
    let (mut files, mut bytes) = (0, 0);
    each(folder, Path::new(""), &mut |_, path| {
        files += 1;
        bytes += fs::metadata(path)?.len();
        Ok(())
    })?;
    Ok((files, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_get_in_and_hidden_ones_are_left_out() {
        let place = tempfile::tempdir().unwrap();
        let mut filling = Filling::new(&place.path().join("new")).unwrap();
        for wrong in ["../x", "/etc/x", "a/../../x", "", "a/b/c/d/e/f/g/h/i"] {
            assert!(filling.add(Path::new(wrong), &mut &b"x"[..]).is_err(), "{wrong}");
        }
        for name in ["index.html", "assets/a.js", ".env", "assets/.git/x"] {
            filling.add(Path::new(name), &mut &b"x"[..]).unwrap();
        }
        assert!(filling.add(Path::new("index.html"), &mut &b"y"[..]).is_err(), "twice");
        filling.finish(b"{}").unwrap();
        assert_eq!(measure(&place.path().join("new")).unwrap(), (2, 2));
        assert!(!place.path().join("x").exists());
    }

    #[test]
    fn a_file_may_be_so_large_and_no_larger() {
        let place = tempfile::tempdir().unwrap();
        let mut filling = Filling::new(place.path()).unwrap();
        let error = filling.add(Path::new("a"), &mut io::repeat(b'x')).unwrap_err();
        assert!(error.to_string().contains("more than"), "{error}");
        assert!(Filling::new(place.path()).unwrap().finish(b"{}").is_err(), "no page");
    }
}
