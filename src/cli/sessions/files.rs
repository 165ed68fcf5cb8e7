//! Where an export goes.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::NamedTempFile;

use crate::cli::Screen;
use crate::store::atomic::create_private_dir;

/// A folder that files are written into, for their owner only.
pub struct Folder {
    path: PathBuf,
    overwrites: bool,
}

impl Folder {
    /// The folder; it is made when it is not there.
    pub fn new(path: &Path, overwrites: bool) -> anyhow::Result<Self> {
        create_private_dir(path)?;
        Ok(Self { path: path.to_owned(), overwrites })
    }

    /// Writes one file, whole or not at all; answers its path and what `write`
    /// says. `None` when it is there already and is not to be overwritten.
    pub fn write<T>(
        &self,
        name: &Path,
        write: impl FnOnce(&mut dyn Write) -> io::Result<T>,
    ) -> anyhow::Result<Option<(PathBuf, T)>> {
        let path = self.path.join(name);
        if !self.overwrites && fs::symlink_metadata(&path).is_ok() {
            return Ok(None);
        }
        let folder = path.parent().unwrap_or(&self.path);
        create_private_dir(folder)?;
        let cannot = || format!("cannot write {}", path.display());
        let mut file = NamedTempFile::new_in(folder).with_context(cannot)?;
        let mut buffered = BufWriter::new(&mut file);
        let told = write(&mut buffered).and_then(|told| buffered.flush().map(|()| told));
        let told = told.with_context(cannot)?;
        drop(buffered);
        file.as_file().sync_all().with_context(cannot)?;
        if self.overwrites {
            file.persist(&path).map_err(|error| error.error).with_context(cannot)?;
        } else if let Err(error) = file.persist_noclobber(&path) {
            if error.error.kind() == io::ErrorKind::AlreadyExists {
                return Ok(None);
            }
            return Err(error.error).with_context(cannot);
        }
        Ok(Some((path, told)))
    }
}

/// Standard output. What a session says cannot steer a terminal.
pub struct Printed(pub Screen);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.text(&String::from_utf8_lossy(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
