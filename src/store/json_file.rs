//! A small JSON file that is read and replaced as a whole.
//!
//! Owns: where it is and how it is read. Promises: it is the old one or the new
//! one, and only its owner can read it; nothing blocks an async thread. Must
//! not: know what is in it.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::support::{blocking, open_file};

use super::{FileError, write_private};

/// Far more than any such file holds; keeps a wrong file from filling memory.
const FILE_LIMIT: usize = 4 * 1024 * 1024;

/// The file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JsonFileError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Where it is.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// What is in it cannot be used.
    #[error("{} cannot be used: {reason}; mend it or take it away", path.display())]
    Unusable {
        /// Where it is.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It cannot be removed.
    #[error("cannot remove {}: {source}", path.display())]
    Remove {
        /// Where it is.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// What should be in it could not be read again.
    #[error("{} would be too large", path.display())]
    TooLarge {
        /// Where it is.
        path: PathBuf,
    },
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] FileError),
    /// The gateway stops.
    #[error("the gateway stops")]
    Stopped,
}

/// One file.
#[derive(Debug, Clone)]
pub struct JsonFile(Arc<Path>);

impl JsonFile {
    /// The file at this path; nothing is read yet.
    pub fn new(path: PathBuf) -> Self {
        Self(path.into())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What `understand` makes of it; `None` when there is no file.
    ///
    /// # Errors
    /// When it cannot be read, or is not understood.
    pub async fn read<T>(
        &self,
        understand: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Result<Option<T>, JsonFileError> {
        let path = Arc::clone(&self.0);
        let read = blocking(move || text_of(&path)).await;
        let read = read.map_err(|_| JsonFileError::Stopped)?;
        let read =
            read.map_err(|source| JsonFileError::Read { path: self.0.to_path_buf(), source })?;
        let Some(bytes) = read else { return Ok(None) };
        let parsed = serde_json::from_slice(&bytes).map_err(|error| error.to_string());
        parsed
            .and_then(|value| understand(&value))
            .map(Some)
            .map_err(|reason| JsonFileError::Unusable { path: self.0.to_path_buf(), reason })
    }

    /// Replaces it; it is on disk when this returns.
    ///
    /// # Errors
    /// When it cannot be written; then it is the old one.
    pub async fn write(&self, value: &Value) -> Result<(), JsonFileError> {
        let (path, text) = (Arc::clone(&self.0), format!("{value:#}\n"));
        if text.len() > FILE_LIMIT {
            return Err(JsonFileError::TooLarge { path: path.to_path_buf() });
        }
        let written = blocking(move || write_private(&path, text.as_bytes()));
        Ok(written.await.map_err(|_| JsonFileError::Stopped)??)
    }

    /// Takes it away, if it is there.
    ///
    /// # Errors
    /// When it cannot be removed; then it stays.
    pub async fn remove(&self) -> Result<(), JsonFileError> {
        let path = Arc::clone(&self.0);
        let removed = blocking(move || fs::remove_file(path)).await;
        match removed.map_err(|_| JsonFileError::Stopped)? {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(JsonFileError::Remove { path: self.0.to_path_buf(), source })
            }
            _ => Ok(()),
        }
    }
}

fn text_of(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match open_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    file.take(FILE_LIMIT as u64).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_waits_for_what_a_pipe_in_its_place_would_say() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("x.json");
        let file = JsonFile::new(path.clone());
        assert!(file.read(|_| Ok(())).await.unwrap().is_none());
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
        let error = file.read(|_| Ok(())).await.unwrap_err();
        assert!(matches!(error, JsonFileError::Read { .. }), "{error}");
    }
}
