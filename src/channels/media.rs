//! Files that are sent.
//!
//! Promises: a file is kept before its message is in the outbox, for as long as
//! that may wait; then it goes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::body::MediaItem;
use super::service::Channels;
use crate::sessions::MediaType;
use crate::store::{FileError, create_private};

/// Where they are, below the state directory.
const FOLDER: &str = "media/outbound";
/// How long a file is kept: longer than any message waits to be sent.
const KEPT: Duration = Duration::from_hours(48);
/// Longest name for people, in characters.
const NAME_MAX: usize = 80;

/// A file that cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum MediaKeepError {
    /// It cannot be written.
    #[error("the file cannot be kept: {0}")]
    Write(#[from] FileError),
    /// The gateway stops.
    #[error("the file cannot be kept: the gateway stops")]
    Stopped,
}

impl Channels {
    /// Where files are that are sent.
    pub(super) fn media_folder(&self) -> PathBuf {
        self.0.parts.settings.now().paths.state_dir.join(FOLDER)
    }

    /// Keeps a file that is to be sent; `id` makes its name its own.
    ///
    /// # Errors
    /// When it cannot be written.
    pub async fn keep_file(
        &self,
        id: &str,
        name: &str,
        bytes: Vec<u8>,
    ) -> Result<MediaItem, MediaKeepError> {
        let kind = MediaType::of(&bytes, "");
        let shown: String = name
            .chars()
            .filter(|c| !c.is_control() && !"/\\".contains(*c))
            .take(NAME_MAX)
            .collect();
        let file = format!("{id}.{}", kind.extension);
        let path = self.media_folder().join(&file);
        let written = tokio::task::spawn_blocking(move || create_private(&path, &bytes)).await;
        written.map_err(|_| MediaKeepError::Stopped)??;
        Ok(MediaItem {
            url: None,
            file: Some(file),
            name: Some(shown),
            mime_type: Some(kind.mime.to_owned()),
        })
    }

    /// Removes files whose messages are long sent.
    pub(super) async fn sweep_files(&self) {
        let folder = self.media_folder();
        let swept = tokio::task::spawn_blocking(move || sweep(&folder)).await;
        if let Ok(Err(error)) = swept {
            tracing::warn!(%error, "old files of channels are not removed");
        }
    }
}

fn sweep(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read?,
    };
    for entry in entries {
        let entry = entry?;
        let age = entry.metadata()?.modified()?.elapsed().unwrap_or_default();
        if age > KEPT {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
