//! Files that came with messages: `media/inbound` in the state folder.
//!
//! Promises: a file is on disk before the message that names it is accepted;
//! a file whose message was not accepted goes away, at the latest at the next
//! start; one that was uploaded before its message (`uploads.rs`) stays where it
//! was until then. Must not: read anything outside of its folder.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::media_type::is_picture;
use super::paths;
use super::steps::blocking;
use super::uploads::Uploads;
use crate::store::{FileError, create_private, move_private};
use crate::support::{json, reading};

/// The member of a stored message that lists its files.
pub const MEDIA_MEMBER: &str = "inboundMedia";

/// Longest name that a file keeps, in characters.
const NAME_MAX: usize = 60;
/// The same in bytes: with what tells files apart it has to be an id and a name on disk.
const STEM_MAX: usize = 120;

/// A failure of the media folder.
#[derive(Debug, Clone, thiserror::Error)]
pub enum MediaError {
    /// The file system refused.
    #[error("attachment not stored: {0}")]
    File(#[source] Arc<FileError>),
    /// The disk refused.
    #[error("attachment not stored: {0}")]
    Disk(#[source] Arc<io::Error>),
    /// The work was cut off.
    #[error("attachment not stored: the gateway is stopping")]
    Stopped,
}

impl MediaError {
    pub(super) fn disk(error: io::Error) -> Self {
        Self::Disk(Arc::new(error))
    }

    /// Whether there is no room for it.
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let kind = match self {
            Self::File(error) => error.kind(),
            Self::Disk(error) => error.kind(),
            Self::Stopped => return false,
        };
        matches!(kind, StorageFull | QuotaExceeded | FileTooLarge)
    }
}

impl From<FileError> for MediaError {
    fn from(error: FileError) -> Self {
        Self::File(Arc::new(error))
    }
}

/// A file that is to be kept.
#[derive(Debug)]
pub struct NewMedia {
    /// Made by [`Media::name`].
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// A file that a stored message names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredMedia {
    /// Where it is.
    pub path: String,
    /// What it is.
    pub mime_type: String,
    /// How large it is.
    pub bytes: u64,
    /// Whether the message holds it as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inline: bool,
}

impl StoredMedia {
    /// The files of a stored message.
    pub fn of(message: &Map<String, Value>) -> Vec<Self> {
        let list = message.get(MEDIA_MEMBER).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(|media| reading::of(media).ok()).collect()
    }

    /// Its name in the media folder.
    pub fn name(&self) -> Option<String> {
        Some(Path::new(&self.path).file_name()?.to_str()?.to_owned())
    }

    /// Whether it is a picture that models can look at.
    pub fn is_picture(&self) -> bool {
        is_picture(&self.mime_type)
    }

    /// Whether it is a picture that the message itself does not hold.
    pub fn is_picture_apart(&self) -> bool {
        self.is_picture() && !self.inline
    }

    /// Names files in a shown message, as the original does while it is new:
    /// the Control UI shows what lies there.
    pub(super) fn name_in(message: &mut Map<String, Value>, files: &[Self]) {
        let Some(first) = files.first() else { return };
        let all = |of: fn(&Self) -> &String| files.iter().map(of).collect::<Vec<_>>();
        let members = [
            ("MediaPath", json!(first.path)),
            ("MediaPaths", json!(all(|file| &file.path))),
            ("MediaType", json!(first.mime_type)),
            ("MediaTypes", json!(all(|file| &file.mime_type))),
        ];
        message.extend(members.map(|(name, value)| (name.to_owned(), value)));
    }

    /// The block that stands for a picture in lists; `bytes` counts base64.
    pub(super) fn omitted(&self) -> Value {
        let bytes = self.bytes.div_ceil(3).saturating_mul(4);
        json!({"type": "image", "mimeType": self.mime_type, "omitted": true, "bytes": bytes})
    }
}

fn encoded(read: io::Result<Vec<u8>>, stored: &StoredMedia) -> Option<String> {
    read.inspect_err(|error| tracing::warn!(path = stored.path, %error, "media not readable"))
        .ok()
        .map(|bytes| STANDARD.encode(bytes))
}

/// The media folder.
#[derive(Debug, Clone)]
pub struct Media {
    inbound: PathBuf,
    staging: PathBuf,
    uploads: Uploads,
}

impl Media {
    /// The media folder of this state folder; creates nothing.
    pub fn new(state_dir: &Path) -> Self {
        let media = state_dir.join("media");
        let (inbound, staging) = (media.join("inbound"), media.join("staging"));
        let uploads = Uploads::new(media.join("uploads"), inbound.clone());
        Self { inbound, staging, uploads }
    }

    /// Files that were uploaded before their message.
    pub const fn uploads(&self) -> &Uploads {
        &self.uploads
    }

    /// The name of a new file: `<uuid>.<ext>`, or `<name>---<uuid>.<ext>` when
    /// the client named it.
    pub fn name(given: Option<&str>, extension: &str, uuid: &str) -> String {
        match given.map(clean_stem).filter(|stem| !stem.is_empty()) {
            Some(stem) => format!("{stem}---{uuid}.{extension}"),
            None => format!("{uuid}.{extension}"),
        }
    }

    /// Where the file with this name is, or will be.
    pub fn path(&self, name: &str) -> PathBuf {
        self.inbound.join(name)
    }

    /// Writes files that nobody has accepted yet. They are on disk when this
    /// returns, and go away when the answer is dropped. `uploaded` are names of
    /// files that are on disk already.
    pub async fn stage(
        &self,
        files: Vec<NewMedia>,
        uploaded: Vec<String>,
    ) -> Result<StagedMedia, MediaError> {
        let mut staged = StagedMedia { media: self.clone(), names: Vec::new(), uploaded };
        work(move || {
            for file in files {
                let path = staged.media.staging.join(&file.name);
                staged.names.push(file.name);
                create_private(&path, &file.bytes)?;
            }
            Ok(staged)
        })
        .await
    }

    /// Puts files of an accepted message into their place, where they are not
    /// there already.
    pub async fn place(&self, names: Vec<String>) -> Result<(), MediaError> {
        let media = self.clone();
        work(move || {
            for name in names {
                let place = media.inbound.join(&name);
                if !move_private(&media.staging.join(&name), &place)? {
                    move_private(&media.uploads.file(&name), &place)?;
                }
            }
            Ok(())
        })
        .await
    }

    /// Removes what the last process staged and did not accept; for the start,
    /// after the accepted messages were completed. Answers how many files.
    pub fn sweep(&self) -> io::Result<usize> {
        let entries = match std::fs::read_dir(&self.staging) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            entries => entries?,
        };
        let mut removed = 0;
        for entry in entries {
            std::fs::remove_file(entry?.path())?;
            removed += 1;
        }
        Ok(removed)
    }

    /// A picture as base64. `None` when its file is gone or is not in the
    /// folder.
    pub async fn base64(&self, stored: &StoredMedia) -> Option<String> {
        let name = stored.name()?;
        let (media, limit) = (self.clone(), stored.bytes);
        let read = work(move || Ok(media.read(&name, limit))).await.ok()?;
        encoded(read, stored)
    }

    /// The same, for threads that may wait for a disk.
    pub(super) fn base64_now(&self, stored: &StoredMedia) -> Option<String> {
        encoded(self.read(&stored.name()?, stored.bytes), stored)
    }

    fn read(&self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        // A run may begin while its files are on their way.
        let file = paths::open(&self.inbound.join(name))
            .or_else(|_| paths::open(&self.staging.join(name)))
            .or_else(|_| paths::open(&self.uploads.file(name)))
            .or_else(|_| paths::open(&self.inbound.join(name)))?;
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Files that were written for a message that is not accepted yet.
#[derive(Debug)]
pub struct StagedMedia {
    media: Media,
    names: Vec<String>,
    /// Files that stay whether the message is accepted or not.
    uploaded: Vec<String>,
}

impl StagedMedia {
    /// The message was accepted: the files stay.
    pub async fn keep(mut self) -> Result<(), MediaError> {
        let names = self.names.iter().chain(&self.uploaded).cloned().collect();
        self.media.place(names).await?;
        self.names.clear();
        Ok(())
    }
}

impl Drop for StagedMedia {
    fn drop(&mut self) {
        for name in &self.names {
            // What cannot be removed now is removed at the next start.
            let _ = std::fs::remove_file(self.media.staging.join(name));
        }
    }
}

async fn work<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, MediaError> + Send + 'static,
) -> Result<T, MediaError> {
    blocking(move || Ok(work())).await.unwrap_or(Err(MediaError::Stopped))
}

/// What a client calls a file, without folders and extension, in letters,
/// digits and `._-`.
fn clean_stem(given: &str) -> String {
    let name = given.rsplit(['/', '\\']).next().unwrap_or_default();
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let mut clean = String::new();
    for c in stem.chars().take(NAME_MAX) {
        if clean.len() + c.len_utf8() > STEM_MAX {
            break;
        }
        let is_kept = c.is_alphanumeric() || "._-".contains(c);
        if is_kept || !clean.ends_with('_') {
            clean.push(if is_kept { c } else { '_' });
        }
    }
    clean.trim_matches(['.', '_']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_clean_and_tell_files_apart() {
        for (given, name) in [
            (None, "u.png"),
            (Some("a.txt"), "a---u.png"),
            (Some("../../etc/pass wd.txt"), "pass_wd---u.png"),
            (Some("C:\\Bilder\\Gruß  aus.tar.gz"), "Gruß_aus.tar---u.png"),
            (Some(".."), "u.png"),
            (Some("\n\0"), "u.png"),
        ] {
            assert_eq!(Media::name(given, "png", "u"), name, "{given:?}");
        }
        assert!(Media::name(Some(&"x".repeat(300)), "png", "u").len() < 100);
        for letter in ["件", "𠮷"] {
            let name = Media::name(Some(&letter.repeat(60)), "png", "u");
            assert!(name.starts_with(letter) && name.len() < 130, "{name}");
        }
    }

    fn files(dir: &Path) -> usize {
        std::fs::read_dir(dir).map_or(0, Iterator::count)
    }

    #[tokio::test]
    async fn files_stay_only_when_their_message_was_accepted() {
        let home = tempfile::tempdir().unwrap();
        let media = Media::new(home.path());
        let new = |name: &str| vec![NewMedia { name: name.into(), bytes: b"x".to_vec() }];
        drop(media.stage(new("refused.txt"), vec![]).await.unwrap());
        assert_eq!((files(&media.staging), files(&media.inbound)), (0, 0));
        media.stage(new("kept.txt"), vec![]).await.unwrap().keep().await.unwrap();
        assert_eq!((files(&media.staging), files(&media.inbound)), (0, 1));
        // As a crash leaves them: one was accepted, the other was not.
        std::mem::forget(media.stage(new("accepted.txt"), vec![]).await.unwrap());
        std::mem::forget(media.stage(new("orphan.txt"), vec![]).await.unwrap());
        media.place(vec!["accepted.txt".into(), "kept.txt".into()]).await.unwrap();
        assert_eq!(media.sweep().unwrap(), 1);
        assert_eq!((files(&media.staging), files(&media.inbound)), (0, 2));
    }

    #[tokio::test]
    async fn only_files_of_the_folder_are_read() {
        let home = tempfile::tempdir().unwrap();
        let media = Media::new(home.path());
        std::fs::write(home.path().join("secret"), "secret").unwrap();
        let stored = |path: &str| StoredMedia {
            path: path.into(),
            mime_type: "image/png".into(),
            bytes: 3,
            inline: false,
        };
        let secret = home.path().join("secret");
        assert_eq!(media.base64(&stored(secret.to_str().unwrap())).await, None);
        assert_eq!(media.base64(&stored("../../secret")).await, None);
        let file = vec![NewMedia { name: "a.png".into(), bytes: b"Man".to_vec() }];
        media.stage(file, vec![]).await.unwrap().keep().await.unwrap();
        let path = media.path("a.png").to_string_lossy().into_owned();
        assert_eq!(media.base64(&stored(&path)).await.as_deref(), Some("TWFu"));
        // A command may have put something else there.
        let (link, pipe) = (media.path("link.png"), media.path("pipe.png"));
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        let (here, all) = (rustix::fs::CWD, rustix::fs::Mode::RWXU);
        rustix::fs::mkfifoat(here, &pipe, all).unwrap();
        for other in [link, pipe] {
            assert_eq!(media.base64(&stored(other.to_str().unwrap())).await, None, "{other:?}");
        }
    }
}
