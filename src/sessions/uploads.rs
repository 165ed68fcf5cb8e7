//! Files that were uploaded before their message: `media/uploads` in the state
//! folder.
//!
//! Owns: the files, and beside each a record of whose it is. Promises: what
//! [`Partial::finish`] has answered is on disk; what was not finished goes away
//! when it is dropped, at the latest at the next start; a file that no message
//! took goes away when its time is over. Must not: decide who may upload. All of
//! it blocks.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tempfile::TempPath;

use super::media::MediaError;
use super::media_type::MediaType;
use super::paths;
use crate::store::{create_private, create_private_dir, move_private};
use crate::support::{hex, millis, sort};

/// How long a file may be named by messages.
const LIFE: Duration = Duration::from_hours(24);
/// It is removed so much later: a message that was checked in time is accepted
/// by then.
const GRACE: Duration = Duration::from_hours(1);
/// So many files that messages took may be named by others: each has a record. Of more
/// the oldest are forgotten, which nobody names any more but a flood.
const TAKEN_MAX: usize = 10_000;
/// Most bytes of an id; ours are shorter.
const ID_MAX: usize = 200;

/// A file that was uploaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Upload {
    /// Made by [`super::Media::name`]: what the file is called in the media folder.
    pub id: String,
    /// Whose it is.
    pub owner: String,
    /// The session whose messages may name it, canonical.
    pub session_key: String,
    /// What the client calls it.
    pub file_name: Option<String>,
    /// What its first bytes say.
    pub mime_type: String,
    /// How large it is.
    pub bytes: u64,
    /// Of its content, in hexadecimal.
    pub sha256: String,
    /// Until when messages may name it, in milliseconds since the epoch.
    pub expires_at_ms: u64,
}

/// The files that no message took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stock {
    /// How many.
    pub count: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// The folder.
#[derive(Debug, Clone)]
pub struct Uploads {
    folder: PathBuf,
    inbound: PathBuf,
}

impl Uploads {
    pub(super) const fn new(folder: PathBuf, inbound: PathBuf) -> Self {
        Self { folder, inbound }
    }

    /// Where a file is until a message takes it.
    pub(super) fn file(&self, id: &str) -> PathBuf {
        self.folder.join("files").join(id)
    }

    fn record(&self, id: &str) -> PathBuf {
        self.folder.join("records").join(format!("{id}.json"))
    }

    fn partial(&self) -> PathBuf {
        self.folder.join("partial")
    }

    /// A new file, to be written.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn begin(&self) -> Result<Partial, MediaError> {
        let folder = self.partial();
        create_private_dir(&folder)?;
        // Only its owner may read it; `tempfile` sees to that.
        let made = tempfile::Builder::new().prefix(".upload-").tempfile_in(&folder);
        let (file, path) = made.map_err(MediaError::disk)?.into_parts();
        Ok(Partial { uploads: self.clone(), file, path, hash: Sha256::new(), bytes: 0 })
    }

    /// The upload with this id, while messages may name it.
    pub fn find(&self, id: &str, now_ms: u64) -> Option<Upload> {
        if id.is_empty() || id.len() > ID_MAX || id.starts_with('.') {
            return None;
        }
        if id.contains(['/', '\\', '\0']) {
            return None;
        }
        let mut record = Vec::new();
        paths::open(&self.record(id)).ok()?.read_to_end(&mut record).ok()?;
        let upload: Upload = serde_json::from_slice(&record).ok()?;
        let is_there = || self.file(id).is_file() || self.inbound.join(id).is_file();
        (upload.id == id && now_ms < upload.expires_at_ms && is_there()).then_some(upload)
    }

    /// The first bytes of a file, at most so many.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn beginning(&self, id: &str, most: u64) -> io::Result<Vec<u8>> {
        // A message that names it may just be taking it.
        let file = paths::open(&self.file(id)).or_else(|_| paths::open(&self.inbound.join(id)))?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Removes what has been there for long enough, and the oldest of too many records;
    /// answers what no message took.
    ///
    /// # Errors
    /// When the folder cannot be read, or something stays that should not.
    pub fn tidy(&self, now_ms: u64) -> io::Result<Stock> {
        let life = millis(LIFE + GRACE);
        let mut taken = Vec::new();
        for entry in entries(&self.folder.join("records"))? {
            let (entry, facts) = entry?;
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".json"));
            let file = id.map(|id| self.file(id));
            // The time of the record is the one of the upload.
            let made = millis(facts.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default());
            if made.saturating_add(life) > now_ms {
                if file.is_some_and(|file| !file.exists()) {
                    taken.push((made, entry.path()));
                }
                continue;
            }
            // The record goes last: no file stays without one.
            if let Some(file) = file {
                remove(&file)?;
            }
            remove(&entry.path())?;
        }
        sort::plain(&mut taken);
        let excess = taken.len().saturating_sub(TAKEN_MAX);
        for (_, record) in taken.iter().take(excess) {
            remove(record)?;
        }
        let mut stock = Stock::default();
        for entry in entries(&self.folder.join("files"))? {
            stock.count += 1;
            stock.bytes = stock.bytes.saturating_add(entry?.1.len());
        }
        Ok(stock)
    }

    /// Removes what the last process did not finish. Answers how many files.
    ///
    /// # Errors
    /// When something stays.
    pub fn sweep(&self) -> io::Result<usize> {
        let mut removed = 0;
        for entry in entries(&self.partial())? {
            remove(&entry?.0.path())?;
            removed += 1;
        }
        Ok(removed)
    }
}

/// What is in a folder, if there is one. What goes away meanwhile is left out.
fn entries(
    folder: &Path,
) -> io::Result<impl Iterator<Item = io::Result<(fs::DirEntry, fs::Metadata)>>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        entries => Some(entries?),
    };
    let facts = |entry: io::Result<fs::DirEntry>| {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return Some(Err(error)),
        };
        match entry.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            facts => Some(facts.map(|facts| (entry, facts))),
        }
    };
    Ok(entries.into_iter().flatten().filter_map(facts))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A file that is being uploaded.
#[derive(Debug)]
pub struct Partial {
    uploads: Uploads,
    file: File,
    /// Removes it when it is dropped.
    path: TempPath,
    hash: Sha256,
    bytes: u64,
}

impl Partial {
    /// Adds to it.
    ///
    /// # Errors
    /// When there is no room.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), MediaError> {
        self.file.write_all(bytes).map_err(MediaError::disk)?;
        self.hash.update(bytes);
        self.bytes += u64::try_from(bytes.len()).unwrap_or_default();
        Ok(())
    }

    /// How much of it there is.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// SHA-256 of what there is of it.
    pub fn digest(&self) -> [u8; 32] {
        self.hash.clone().finalize().into()
    }

    /// All of it is there. It survives power loss when this returns.
    ///
    /// # Errors
    /// When it cannot be written; then nothing of it stays.
    pub fn finish(self, about: About) -> Result<Upload, MediaError> {
        let About { id, owner, session_key, file_name, kind, now_ms } = about;
        let upload = Upload {
            sha256: hex(self.digest()),
            id,
            owner,
            session_key,
            file_name,
            mime_type: kind.mime.to_owned(),
            bytes: self.bytes,
            expires_at_ms: now_ms.saturating_add(millis(LIFE)),
        };
        let Self { uploads, file, path, .. } = self;
        file.sync_all().map_err(MediaError::disk)?;
        let record = uploads.record(&upload.id);
        let text = serde_json::to_vec(&upload).map_err(|error| MediaError::disk(error.into()))?;
        // The record comes first: no file is there without one.
        create_private(&record, &text)?;
        let failed = match move_private(&path, &uploads.file(&upload.id)) {
            Ok(true) => None,
            // Somebody has removed it meanwhile.
            Ok(false) => Some(MediaError::disk(io::ErrorKind::NotFound.into())),
            Err(error) => Some(error.into()),
        };
        if let Some(error) = failed {
            // It may have its name already, only not for sure. What stays of it is removed
            // when its time is over.
            let _ = remove(&uploads.file(&upload.id)).and_then(|()| remove(&record));
            return Err(error);
        }
        // Its first name is gone.
        drop(path.keep());
        Ok(upload)
    }
}

/// What a record says of a file that its bytes do not.
#[derive(Debug)]
pub struct About {
    /// See [`Upload::id`].
    pub id: String,
    /// See [`Upload::owner`].
    pub owner: String,
    /// See [`Upload::session_key`].
    pub session_key: String,
    /// See [`Upload::file_name`].
    pub file_name: Option<String>,
    /// What it is.
    pub kind: MediaType,
    /// The time.
    pub now_ms: u64,
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::sessions::Media;

    fn about(id: &str, now_ms: u64) -> About {
        About {
            id: id.into(),
            owner: "device:a".into(),
            session_key: "agent:main:main".into(),
            file_name: Some("a.txt".into()),
            kind: MediaType::named("text/plain"),
            now_ms,
        }
    }

    fn uploaded(media: &Media, id: &str, now_ms: u64) -> Upload {
        let mut partial = media.uploads().begin().unwrap();
        partial.write(b"hello ").unwrap();
        partial.write(b"file").unwrap();
        partial.finish(about(id, now_ms)).unwrap()
    }

    fn files(media: &Media) -> Vec<String> {
        let mut found = Vec::new();
        for folder in ["partial", "files", "records"] {
            let folder_path = media.uploads().folder.join(folder);
            let names = entries(&folder_path).unwrap();
            found.extend(names.map(|entry| {
                format!("{folder}/{}", entry.unwrap().0.file_name().to_str().unwrap())
            }));
        }
        found
    }

    fn home() -> (tempfile::TempDir, Media) {
        let home = tempfile::tempdir().unwrap();
        let media = Media::new(home.path());
        (home, media)
    }

    #[test]
    fn an_upload_is_found_until_its_time_is_over_and_nothing_else_is() {
        let (home, media) = home();
        fs::create_dir_all(home.path().join("media/uploads")).unwrap();
        fs::write(home.path().join("media/uploads/x.json"), "{}").unwrap();
        let made = uploaded(&media, "a---1.txt", 1000);
        assert_eq!(made.bytes, 10);
        assert_eq!(made.sha256, hex(Sha256::digest("hello file")));
        assert_eq!(made.expires_at_ms, 1000 + millis(LIFE));
        let uploads = media.uploads();
        assert_eq!(uploads.find("a---1.txt", 1000), Some(made.clone()));
        assert_eq!(uploads.find("a---1.txt", made.expires_at_ms), None);
        assert_eq!(uploads.beginning("a---1.txt", 5).unwrap(), b"hello");
        for none in ["", ".", "..", "../x", "b", "records/a---1.txt", "a\0", &"x".repeat(201)] {
            assert_eq!(uploads.find(none, 1000), None, "{none:?}");
        }
        let (here, all) = (rustix::fs::CWD, rustix::fs::Mode::RWXU);
        rustix::fs::mkfifoat(here, uploads.record("pipe"), all).unwrap();
        assert_eq!(uploads.find("pipe", 1000), None, "nobody waits at it");
    }

    #[test]
    fn what_is_not_finished_leaves_nothing() {
        let (_home, media) = home();
        let mut partial = media.uploads().begin().unwrap();
        partial.write(b"x").unwrap();
        assert_eq!(files(&media).len(), 1);
        drop(partial);
        assert!(files(&media).is_empty());
        // As a kill leaves it.
        std::mem::forget(media.uploads().begin().unwrap());
        assert_eq!(media.uploads().sweep().unwrap(), 1);
        assert!(files(&media).is_empty());
    }

    #[test]
    fn a_file_that_is_gone_before_it_is_whole_is_no_upload() {
        let (_home, media) = home();
        let mut partial = media.uploads().begin().unwrap();
        partial.write(b"x").unwrap();
        fs::remove_file(&partial.path).unwrap();
        partial.finish(about("a---1.txt", 0)).unwrap_err();
        assert_eq!(files(&media), [""; 0]);
    }

    #[test]
    fn a_full_disk_is_told_and_leaves_nothing() {
        let (_home, media) = home();
        let mut partial = media.uploads().begin().unwrap();
        partial.file = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert!(partial.write(b"x").unwrap_err().is_full());
        drop(partial);
        assert!(files(&media).is_empty());
        assert!(!MediaError::Stopped.is_full());
    }

    #[tokio::test]
    async fn a_message_takes_a_file_and_may_be_repeated() {
        let (_home, media) = home();
        uploaded(&media, "a---1.txt", 0);
        for _ in 0..2 {
            drop(media.stage(vec![], vec!["a---1.txt".into()]).await.unwrap());
            assert!(media.uploads().find("a---1.txt", 0).is_some(), "it was not accepted");
            let staged = media.stage(vec![], vec!["a---1.txt".into()]).await.unwrap();
            staged.keep().await.unwrap();
            assert_eq!(fs::read(media.path("a---1.txt")).unwrap(), b"hello file");
            assert_eq!(media.uploads().beginning("a---1.txt", 99).unwrap(), b"hello file");
            assert_eq!(files(&media), ["records/a---1.txt.json"]);
            let now = millis(SystemTime::UNIX_EPOCH.elapsed().unwrap());
            assert_eq!(media.uploads().tidy(now).unwrap(), Stock::default());
        }
    }

    #[test]
    fn of_files_that_messages_took_the_newest_stay_known() {
        let (_home, media) = home();
        let uploads = media.uploads();
        let waits = uploaded(&media, "waits", 0);
        let old = UNIX_EPOCH + Duration::from_hours(24 * 365);
        for number in 0..TAKEN_MAX + 2 {
            let record = File::create(uploads.record(&format!("taken-{number}"))).unwrap();
            record.set_modified(old + Duration::from_secs(number as u64)).unwrap();
        }
        File::open(uploads.record("waits")).unwrap().set_modified(old).unwrap();
        let stock = Stock { count: 1, bytes: waits.bytes };
        assert_eq!(uploads.tidy(millis(Duration::from_hours(24 * 365))).unwrap(), stock);
        let is_known = |id: &str| uploads.record(id).exists();
        assert_eq!(["taken-0", "taken-1", "taken-2"].map(is_known), [false, false, true]);
        assert!(is_known("waits"), "no message took it");
    }

    #[test]
    fn what_no_message_took_is_removed_after_its_time() {
        let (_home, media) = home();
        let now = millis(SystemTime::UNIX_EPOCH.elapsed().unwrap());
        uploaded(&media, "a---1.txt", now);
        let life = millis(LIFE + GRACE);
        assert_eq!(media.uploads().tidy(now).unwrap(), Stock { count: 1, bytes: 10 });
        assert_eq!(media.uploads().tidy(now + life - 60_000).unwrap().count, 1);
        assert_eq!(media.uploads().tidy(now + life + 60_000).unwrap(), Stock::default());
        assert!(files(&media).is_empty());
    }
}
