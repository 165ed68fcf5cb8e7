//! Whether transcripts can be written.
//!
//! Promises: what is wrong is on the board (`support/trouble.rs`) as long as it
//! lasts, and is looked for again where nobody writes.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::sessions::error::{At, TranscriptError};
use crate::store::atomic::{create_private_dir, staged_in};
use crate::support::trouble;

/// What it is called on the board.
pub(super) const PART: &str = "transcripts";

/// How the last group of requests went, and whether there is trouble.
pub(super) struct WriterHealth {
    /// The last error of the group.
    error: Option<TranscriptError>,
    has_synced: bool,
    /// Where the last trouble was.
    troubled: Option<PathBuf>,
    /// What is on the board may be of the gateway before a restart in place.
    is_told: bool,
}

impl Default for WriterHealth {
    fn default() -> Self {
        Self { error: None, has_synced: false, troubled: None, is_told: true }
    }
}

impl WriterHealth {
    /// Something was tried.
    pub(super) fn note(&mut self, error: Option<&TranscriptError>) {
        if let Some(error) = error {
            self.error = Some(error.clone());
        }
    }

    /// Something is on the disk.
    pub(super) const fn note_synced(&mut self) {
        self.has_synced = true;
    }

    /// Tells what has changed with a group.
    pub(super) fn tell(&mut self) {
        let has_synced = std::mem::take(&mut self.has_synced);
        let Some(error) = self.error.take() else {
            if has_synced && self.is_told {
                self.is_well();
            }
            return;
        };
        tracing::error!(%error, "a transcript was not written");
        if let TranscriptError::Io { path, .. } = &error {
            self.troubled = Some(path.clone());
        }
        self.is_told = true;
        trouble::tell(PART, Some(error.to_string()));
    }

    /// Writes something where the trouble was, and takes it away again.
    pub(super) fn look_again(&mut self) -> Result<(), TranscriptError> {
        let folder = self.troubled.as_deref().and_then(Path::parent);
        if let Some(folder) = folder {
            write_there(folder).at("write a file in", folder)?;
        }
        self.is_well();
        Ok(())
    }

    fn is_well(&mut self) {
        self.troubled = None;
        self.is_told = false;
        trouble::tell(PART, None);
    }
}

fn write_there(folder: &Path) -> io::Result<()> {
    create_private_dir(folder).map_err(io::Error::other)?;
    let mut file = staged_in(folder, folder)?;
    file.write_all(b"\n")?;
    file.as_file().sync_all()
}
