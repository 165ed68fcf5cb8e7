//! The one thread that writes transcripts.
//!
//! Owns: every open transcript. Promises: an answer comes after the sync of
//! the file it is about; what waits is synced together, once for each file.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use serde_json::{Map, Value};
use tempfile::TempPath;
use tokio::sync::{mpsc, oneshot};

use super::file::OpenTranscript;
use super::health::{PART, WriterHealth};
use super::sync::Syncs;
use super::{Position, TranscriptFormat};
use crate::sessions::error::{At, TranscriptError};
use crate::store::atomic::sync_dir;
use crate::support::{descriptors, trouble};

/// Most requests that share a sync.
const GROUP_MAX: usize = 256;

/// Requests that may wait; beyond it callers wait for a place.
const QUEUE_MAX: usize = 256;

/// Files kept open: the conversations that are busy at the moment. As many as one group
/// may be about, or those that are written in turn are opened anew for each line. Fewer where
/// the system gives few descriptors.
const OPEN_MAX: usize = GROUP_MAX;

/// Which file, what it begins with, and what is known of it.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub path: PathBuf,
    pub birth: Birth,
    pub known: Position,
}

/// What a new file begins with.
#[derive(Debug, Clone)]
pub(crate) struct Birth {
    pub format: TranscriptFormat,
    pub session_id: String,
    pub session_key: String,
    pub cwd: String,
    pub timestamp: String,
    /// The transcript that it was branched off.
    pub parent: Option<String>,
    /// Bytes behind the header that were copied from there.
    pub copied: Option<u64>,
}

/// An entry to append.
#[derive(Debug)]
pub(crate) struct NewEntry {
    pub id: String,
    pub timestamp: String,
    pub kind: NewKind,
}

/// What it holds; every kind has a number.
#[derive(Debug)]
pub(crate) enum NewKind {
    /// A message as JSON text.
    Message { json: String, idempotency_key: Option<String> },
    /// The members of a compaction.
    Compaction { members: Map<String, Value> },
}

impl NewKind {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Message { .. } => "message",
            Self::Compaction { .. } => "compaction",
        }
    }
}

/// Where an entry went.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub id: String,
    /// The entry before it.
    pub parent: Option<String>,
    /// `messages` is the number of the entry.
    pub position: Position,
    /// The message that was there already under the same idempotency key.
    pub repeated: Option<Value>,
}

type Reply<T> = oneshot::Sender<Result<T, TranscriptError>>;

enum Request {
    Begin { place: Place, reply: Reply<()> },
    Append { place: Place, entry: NewEntry, reply: Reply<Placed> },
    Archive { from: PathBuf, to: PathBuf, reply: Reply<bool> },
    Replace { path: PathBuf, length: u64, by: TempPath, backup: PathBuf, reply: Reply<bool> },
    Try { reply: Reply<()> },
}

/// Handle to the thread; clones share it. Dropping the last one waits for what
/// is queued.
#[derive(Clone)]
pub(crate) struct Writer {
    inner: Arc<Inner>,
}

struct Inner {
    /// `None` only while dropping: closing the channel ends the thread.
    requests: Option<mpsc::Sender<Request>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread.
    pub(crate) fn start() -> Result<Self, TranscriptError> {
        let (requests, queue) = mpsc::channel(QUEUE_MAX);
        let thread = thread::Builder::new()
            .name("transcripts".into())
            .spawn(move || Files::default().serve(queue))
            .at("start the writer of", Path::new("transcripts"))?;
        Ok(Self { inner: Arc::new(Inner { requests: Some(requests), thread: Some(thread) }) })
    }

    /// Makes sure that the file exists and has its header.
    pub(crate) async fn begin(&self, place: Place) -> Result<(), TranscriptError> {
        self.ask(|reply| Request::Begin { place, reply }).await
    }

    /// Appends an entry durably.
    pub(crate) async fn append(
        &self,
        place: Place,
        entry: NewEntry,
    ) -> Result<Placed, TranscriptError> {
        self.ask(|reply| Request::Append { place, entry, reply }).await
    }

    /// Renames a file within its folder; false when there is none.
    pub(crate) async fn archive(
        &self,
        from: PathBuf,
        to: PathBuf,
    ) -> Result<bool, TranscriptError> {
        self.ask(|reply| Request::Archive { from, to, reply }).await
    }

    /// Puts a file in the place of a transcript and keeps the old one as
    /// `backup`; false when the old one is no longer of this length.
    pub(crate) async fn replace(
        &self,
        path: PathBuf,
        length: u64,
        by: TempPath,
        backup: PathBuf,
    ) -> Result<bool, TranscriptError> {
        self.ask(|reply| Request::Replace { path, length, by, backup, reply }).await
    }

    /// Looks whether files can be written where the last one could not.
    pub(crate) async fn look_again(&self) -> Result<(), TranscriptError> {
        self.ask(|reply| Request::Try { reply }).await
    }

    async fn ask<T>(
        &self,
        request: impl FnOnce(Reply<T>) -> Request,
    ) -> Result<T, TranscriptError> {
        let (reply, answer) = oneshot::channel();
        let requests = self.inner.requests.as_ref().ok_or(TranscriptError::Stopped)?;
        requests.send(request(reply)).await.map_err(|_| TranscriptError::Stopped)?;
        answer.await.unwrap_or(Err(TranscriptError::Stopped))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // Whoever waited for a panicked thread was told "stopped".
            let _ = thread.join();
        }
    }
}

/// An answer that waits for the sync of a file.
type Settle = Box<dyn FnOnce(Result<(), TranscriptError>)>;

/// Those of a group, with the files that they wait for.
type Waiting = Vec<(PathBuf, Settle)>;

/// State of the thread.
#[derive(Default)]
struct Files {
    open: HashMap<PathBuf, (OpenTranscript, u64)>,
    /// Those that failed since the last sync: what they wrote before is to be synced, too.
    failed: HashMap<PathBuf, OpenTranscript>,
    /// Counts uses, to tell which file was idle longest.
    clock: u64,
    syncs: Syncs,
    health: WriterHealth,
}

impl Files {
    fn serve(mut self, mut queue: mpsc::Receiver<Request>) {
        let (mut group, most) = (Vec::new(), descriptors::share(OPEN_MAX));
        while let Some(first) = queue.blocking_recv() {
            group.push(first);
            while group.len() < GROUP_MAX {
                let Ok(next) = queue.try_recv() else { break };
                group.push(next);
            }
            trouble::watched(PART, || self.handle(&mut group));
            self.close_idle(most);
        }
    }

    fn handle(&mut self, group: &mut Vec<Request>) {
        let mut waiting = Waiting::new();
        for request in group.drain(..) {
            match request {
                Request::Begin { place, reply } => {
                    let begun = self.with(&place, &mut waiting, |file| file.begin(&place));
                    self.health.note(begun.as_ref().err());
                    waiting.push((place.path, settle(begun, reply)));
                }
                Request::Append { place, entry, reply } => {
                    let placed =
                        self.with(&place, &mut waiting, |file| file.append(&place, &entry));
                    self.health.note(placed.as_ref().err());
                    waiting.push((place.path, settle(placed, reply)));
                }
                Request::Archive { from, to, reply } => {
                    // What was appended before goes along, synced first.
                    self.sync(&mut waiting);
                    self.open.remove(&from);
                    let _ = reply.send(archive(&from, &to).at("archive", &from));
                }
                Request::Replace { path, length, by, backup, reply } => {
                    self.sync(&mut waiting);
                    self.open.remove(&path);
                    let _ = reply.send(replace(&path, length, by, &backup).at("replace", &path));
                }
                Request::Try { reply } => {
                    let _ = reply.send(self.health.look_again());
                }
            }
        }
        self.sync(&mut waiting);
        self.health.tell();
    }

    fn with<T>(
        &mut self,
        place: &Place,
        waiting: &mut Waiting,
        work: impl FnOnce(&mut OpenTranscript) -> io::Result<T>,
    ) -> Result<T, TranscriptError> {
        self.clock = self.clock.saturating_add(1);
        let mut file = match self.open.remove(&place.path) {
            Some((file, _)) => file,
            None => self.opened(place, waiting).at("open", &place.path)?,
        };
        let result = work(&mut file).at("append to", &place.path);
        if result.is_ok() {
            self.open.insert(place.path.clone(), (file, self.clock));
        } else {
            // Not put back: what it holds is looked at anew.
            self.failed.insert(place.path.clone(), file);
        }
        result
    }

    /// Opens it. Where descriptors are short, those that were only kept open give theirs back.
    fn opened(&mut self, place: &Place, waiting: &mut Waiting) -> io::Result<OpenTranscript> {
        let mut file = match OpenTranscript::open(place) {
            Ok(file) if self.open.is_empty() || !file.is_spare() => file,
            Err(error) if !descriptors::is_lack(&error) => return Err(error),
            _ => {
                self.sync(waiting);
                self.open.clear();
                OpenTranscript::open(place)?
            }
        };
        if let Some(failed) = self.failed.get(&place.path) {
            file.go_on_from(failed);
        }
        Ok(file)
    }

    /// Syncs each file once and tells all who wait.
    fn sync(&mut self, waiting: &mut Waiting) {
        let touched: BTreeSet<&Path> = waiting.iter().map(|(path, _)| path.as_path()).collect();
        let files: Vec<_> = touched
            .into_iter()
            // What could not be opened has no handle, as all were told who wait for it.
            .filter_map(|path| Some((path, written(&self.open, &self.failed, path)?)))
            .collect();
        let failed = self.syncs.all(&files);
        let synced: Vec<_> = files.iter().map(|(path, _)| path.to_path_buf()).collect();
        for path in synced {
            match failed.get(&path) {
                None => {
                    self.health.note_synced();
                    self.open.entry(path).and_modify(|(file, _)| file.note_synced());
                }
                Some(error) => {
                    self.health.note(Some(error));
                    if let Some(file) = written(&self.open, &self.failed, &path) {
                        file.take_back();
                    }
                    self.open.remove(&path);
                }
            }
        }
        self.failed.clear();
        for (path, settle) in waiting.drain(..) {
            settle(failed.get(&path).map_or(Ok(()), |error| Err(error.clone())));
        }
    }

    fn close_idle(&mut self, most: usize) {
        while self.open.len() > most {
            let idle = self.open.iter().min_by_key(|(_, (_, used))| *used);
            let Some(path) = idle.map(|(path, _)| path.clone()) else { return };
            self.open.remove(&path);
        }
    }
}

/// The handle that was the last to write to a file since that was synced.
fn written<'f>(
    open: &'f HashMap<PathBuf, (OpenTranscript, u64)>,
    failed: &'f HashMap<PathBuf, OpenTranscript>,
    path: &Path,
) -> Option<&'f OpenTranscript> {
    open.get(path).map(|(file, _)| file).or_else(|| failed.get(path))
}

fn settle<T: 'static>(result: Result<T, TranscriptError>, reply: Reply<T>) -> Settle {
    Box::new(move |synced| {
        // Nobody may be waiting any more; the line counts all the same.
        let _ = reply.send(result.and_then(|value| synced.map(|()| value)));
    })
}

/// The transcript is there at every moment, the old one or the new one.
fn replace(path: &Path, length: u64, by: TempPath, backup: &Path) -> io::Result<bool> {
    if fs::metadata(path)?.len() != length {
        return Ok(false);
    }
    match fs::hard_link(path, backup) {
        Ok(()) => {}
        // What an earlier cut has put there is in no other file.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
        Err(_) => {
            fs::copy(path, backup)?;
            File::open(backup)?.sync_all()?;
        }
    }
    by.persist(path)?;
    if let Some(folder) = path.parent() {
        sync_dir(folder)?;
    }
    Ok(true)
}

fn archive(from: &Path, to: &Path) -> io::Result<bool> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        renamed => renamed?,
    }
    if let Some(folder) = from.parent() {
        sync_dir(folder)?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{entry, place, said};
    use super::*;

    fn append(files: &mut Files, place: &Place, text: &str) -> Result<Placed, TranscriptError> {
        let entry = entry(1, said(text));
        files.with(place, &mut Waiting::new(), |file| file.append(place, &entry))
    }

    #[test]
    fn a_transcript_that_is_cut_overwrites_none_that_was_put_away() {
        let home = tempfile::tempdir().unwrap();
        let [path, backup] = ["s.jsonl", "s.jsonl.bak"].map(|name| home.path().join(name));
        let cut = |by: &str, length| {
            let staged = tempfile::NamedTempFile::new_in(home.path()).unwrap();
            fs::write(staged.path(), by).unwrap();
            replace(&path, length, staged.into_temp_path(), &backup)
        };
        fs::write(&path, "first").unwrap();
        assert!(cut("second", 5).unwrap());
        let error = cut("third", 6).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        let said = [&path, &backup].map(|it| fs::read_to_string(it).unwrap());
        assert_eq!(said, ["second", "first"]);
    }

    #[test]
    fn what_was_written_before_another_line_failed_is_synced_or_taken_back() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("sessions");
        let path = folder.join("s.jsonl");
        let place = place(&path, TranscriptFormat::OpenClaw, Position::default());
        let mut files = Files::default();
        append(&mut files, &place, "first").unwrap();
        // A file is where the folder was.
        let aside = home.path().join("aside");
        fs::rename(&folder, &aside).unwrap();
        fs::write(&folder, "").unwrap();
        append(&mut files, &place, "second").unwrap_err();
        fs::remove_file(&folder).unwrap();
        fs::rename(&aside, &folder).unwrap();
        append(&mut files, &place, "third").unwrap();
        files.open[&path].0.take_back();
        assert_eq!(fs::metadata(&path).unwrap().len(), 0, "none of them was synced");

        append(&mut files, &place, "fourth").unwrap();
        fs::rename(&folder, &aside).unwrap();
        fs::write(&folder, "").unwrap();
        append(&mut files, &place, "fifth").unwrap_err();
        let (told, answer) = std::sync::mpsc::channel();
        let settle: Settle = Box::new(move |synced| told.send(synced.is_ok()).unwrap());
        files.sync(&mut vec![(path, settle)]);
        let kept = fs::read_to_string(aside.join("s.jsonl")).unwrap();
        assert!(answer.recv().unwrap() && kept.contains("fourth"), "{kept}");
    }
}
