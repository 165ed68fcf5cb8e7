//! Files that are sent.
//!
//! Promises: a file is kept before its message is in the outbox, for as long as
//! that may wait; then it goes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::body::MediaItem;
use super::channel::SendFailure;
use super::service::Channels;
use crate::sessions::MediaType;
use crate::store::{FileError, create_private};
use crate::support::blocking;

/// Where they are, below the state directory.
const FOLDER: &str = "media/outbound";
/// How long a file is kept: longer than any message waits to be sent.
const KEPT: Duration = Duration::from_hours(48);
/// Old files are looked for at most this often, in milliseconds, when a new one
/// comes.
const SWEEP_EVERY_MS: u64 = 60 * 60 * 1000;
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
        let written = blocking(move || create_private(&path, &bytes)).await;
        written.map_err(|_| MediaKeepError::Stopped)??;
        self.sweep_files_now_and_then().await;
        Ok(MediaItem {
            file: Some(file),
            name: Some(shown),
            mime_type: Some(kind.mime.to_owned()),
            ..MediaItem::default()
        })
    }

    /// A file that was kept already, by its whole path.
    pub(super) async fn kept_file(&self, path: &str) -> Option<MediaItem> {
        let path = Path::new(path);
        let file = path.file_name()?.to_str()?;
        if path.parent() != Some(self.media_folder().as_path()) {
            return None;
        }
        let looked = path.to_owned();
        let look = move || Some((looked.symlink_metadata().ok()?, std::fs::read(looked).ok()?));
        let (facts, bytes) = blocking(look).await.ok().flatten()?;
        let kind = MediaType::of(&bytes, "");
        facts.is_file().then(|| MediaItem {
            file: Some(file.to_owned()),
            name: Some(format!("picture.{}", kind.extension)),
            mime_type: Some(kind.mime.to_owned()),
            ..MediaItem::default()
        })
    }

    /// Where a file is that was kept.
    pub fn path_of(&self, item: &MediaItem) -> Option<PathBuf> {
        item.file.as_ref().map(|file| self.media_folder().join(file))
    }

    async fn sweep_files_now_and_then(&self) {
        let now = self.0.parts.clock.now_ms();
        let last = self.0.swept_at.swap(now, Ordering::Relaxed);
        if now.saturating_sub(last) >= SWEEP_EVERY_MS {
            self.sweep_files().await;
        } else {
            self.0.swept_at.store(last, Ordering::Relaxed);
        }
    }

    /// Removes files whose messages are long sent.
    pub(super) async fn sweep_files(&self) {
        let folder = self.media_folder();
        let swept = blocking(move || sweep(&folder)).await;
        if let Ok(Err(error)) = swept {
            tracing::warn!(%error, "old files of channels are not removed");
        }
    }
}

/// The name and the bytes of a file that was kept to be sent.
pub(super) async fn read_kept(
    folder: &Path,
    item: &MediaItem,
    max: usize,
) -> Result<(String, Vec<u8>), SendFailure> {
    let refused = |why: String| SendFailure::Refused(why);
    let file = item.file.as_deref().filter(|name| !name.contains(['/', '\\']));
    let file = file.ok_or_else(|| refused("there is no file to send".into()))?;
    let whole = folder.join(file);
    let bytes = blocking(move || std::fs::read(whole)).await;
    let bytes = bytes.unwrap_or_else(|error| Err(error.into()));
    let bytes = bytes.map_err(|error| refused(format!("the file cannot be read: {error}")))?;
    if bytes.len() > max {
        return Err(refused("the file is larger than the channel's mediaMaxMb".into()));
    }
    Ok((item.name.clone().unwrap_or_else(|| file.to_owned()), bytes))
}

fn sweep(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read?,
    };
    let mut swept = Ok(());
    for entry in entries {
        // One that stays keeps no other from going; one that is gone is as good.
        match entry.and_then(|entry| remove_old(&entry)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => swept = Err(error),
            _ => {}
        }
    }
    swept
}

fn remove_old(entry: &fs::DirEntry) -> io::Result<()> {
    let age = entry.metadata()?.modified()?.elapsed().unwrap_or_default();
    if age > KEPT { fs::remove_file(entry.path()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_removed_keeps_no_other_file_from_going() {
        let home = tempfile::tempdir().unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH;
        // Whatever the order is in which a folder tells what it has.
        for number in 0..4 {
            let path = |kind: &str| home.path().join(format!("{kind}-{number}"));
            fs::write(path("new"), "x").unwrap();
            fs::write(path("old"), "x").unwrap();
            fs::create_dir(path("folder")).unwrap();
            for old_one in [path("old"), path("folder")] {
                fs::File::open(old_one).unwrap().set_modified(old).unwrap();
            }
        }
        sweep(home.path()).unwrap_err();
        let names = fs::read_dir(home.path()).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        let expected = ["folder", "new"].map(|kind| [0, 1, 2, 3].map(|it| format!("{kind}-{it}")));
        assert_eq!(names, expected.concat());
        sweep(&home.path().join("gone")).unwrap();
    }
}
