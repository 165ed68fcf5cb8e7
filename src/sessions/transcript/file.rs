//! One transcript file, open for appending.
//!
//! Owns: the file handle and where its end is. Promises: bytes that are there
//! are never changed; a line that was torn by a crash is closed by a newline
//! and left to the reader to skip; one that could not be written or synced is
//! taken away again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::super::paths;
use super::writer::{Birth, NewEntry, NewKind, Place, Placed};
use super::{Backward, Body, Line, Position, TranscriptFormat, head, position};
use crate::store::atomic::{create_private_dir, open_private, sync_dir};
use crate::support::{descriptors, json};

/// How far back an append looks for a line with its idempotency key. A retry
/// follows its first attempt closely.
const RETRY_LINES: usize = 256;
const RETRY_BYTES: u64 = 4 * 1024 * 1024;

/// The member of a header that says how many bytes behind it are copied. Ours:
/// the original keeps what it does not know.
pub(super) const COPIED: &str = "copiedBytes";

/// A transcript that is open.
pub(super) struct OpenTranscript {
    path: PathBuf,
    file: File,
    format: TranscriptFormat,
    /// Whether its first line is still to be written.
    wants_header: bool,
    position: Position,
    /// Length on disk when we looked last; beyond `position.bytes` is a torn line.
    length: u64,
    /// Up to here it was there before us, or is synced.
    synced: u64,
}

impl OpenTranscript {
    /// Opens the file, or creates it with its folders; `known` saves counting.
    pub(super) fn open(place: &Place) -> io::Result<Self> {
        let path = &place.path;
        let file = match open_existing(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => create(path)?,
            opened => opened?,
        };
        let length = file.metadata()?.len();
        if length == 0 {
            // Its entry in the folder has to be there after a power cut, also when the
            // one who made it could not see to that.
            sync_dir(folder_of(path))?;
        }
        let found = head(&file)?;
        let format = found.as_ref().map_or(place.birth.format, |(format, _)| *format);
        let wants_header = found.is_none() && format == TranscriptFormat::OpenClaw;
        let position = position(&file, length, &place.known)?;
        let path = path.clone();
        Ok(Self { path, file, format, wants_header, position, length, synced: length })
    }

    /// Whether it has one of the descriptors that are left to the work under way.
    pub(super) fn is_spare(&self) -> bool {
        descriptors::is_spare(&self.file)
    }

    /// Goes on where another handle of the file has failed: what that wrote is not synced yet,
    /// and is taken back with what comes now.
    pub(super) fn go_on_from(&mut self, failed: &Self) {
        if let (Ok(ours), Ok(theirs)) = (self.file.metadata(), failed.file.metadata())
            && is_same(&ours, &theirs)
        {
            self.synced = self.synced.min(failed.synced);
        }
    }

    /// Makes sure that the file is there and has its header.
    pub(super) fn begin(&mut self, place: &Place) -> io::Result<()> {
        self.catch_up(place)?;
        self.write_header(&place.birth)
    }

    fn write_header(&mut self, birth: &Birth) -> io::Result<()> {
        if !self.wants_header {
            return Ok(());
        }
        self.write_line(&header(birth))?;
        self.wants_header = false;
        Ok(())
    }

    /// Appends an entry, unless one with its idempotency key is there already.
    pub(super) fn append(&mut self, place: &Place, new: &NewEntry) -> io::Result<Placed> {
        self.catch_up(place)?;
        if let Some(placed) = self.find_retry(new)? {
            return Ok(placed);
        }
        self.write_header(&place.birth)?;
        let seq = self.position.messages.saturating_add(1);
        let id = match self.format {
            TranscriptFormat::OpenClaw => new.id.clone(),
            TranscriptFormat::Messages => bare_id(seq),
        };
        let line = self.encode(&id, new);
        let parent = self.last_id();
        self.write_line(&line)?;
        self.position.messages = seq;
        let is_bare = self.format == TranscriptFormat::Messages;
        if !(is_bare && matches!(new.kind, NewKind::Message { .. })) {
            self.position.leaf = Some(id.clone());
        }
        Ok(Placed { id, parent, position: self.position.clone(), repeated: None })
    }

    /// Id of the last entry.
    fn last_id(&self) -> Option<String> {
        let last_bare = || (self.position.messages > 0).then(|| bare_id(self.position.messages));
        match self.format {
            TranscriptFormat::OpenClaw => self.position.leaf.clone(),
            TranscriptFormat::Messages => last_bare(),
        }
    }

    /// Makes what was written durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// What was written is durable.
    pub(super) const fn note_synced(&mut self) {
        self.synced = self.length;
    }

    /// Takes back what was written and could not be synced: its senders are told that
    /// it is not there, and what another sync says of the same bytes is worth nothing.
    pub(super) fn take_back(&self) {
        self.cut(self.synced, self.length);
    }

    /// Makes it shorter again, if nobody else has written.
    fn cut(&self, to: u64, at_most: u64) {
        let is_ours = |found: fs::Metadata| (to..=at_most).contains(&found.len());
        if self.file.metadata().is_ok_and(is_ours)
            && let Err(error) = self.file.set_len(to)
        {
            tracing::error!(path = %self.path.display(), %error, "what was refused is still there");
        }
    }

    /// Somebody else may have appended, or put another file in this place.
    fn catch_up(&mut self, place: &Place) -> io::Result<()> {
        let ours = self.file.metadata()?;
        // What a link leads to is not there, be it this file.
        let there = match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            found => Some(found?),
        };
        if !there.is_some_and(|there| is_same(&there, &ours)) {
            *self = Self::open(place)?;
        } else if ours.len() != self.length {
            let is_ahead = place.known.bytes > self.position.bytes;
            let known = if is_ahead { &place.known } else { &self.position };
            self.position = position(&self.file, ours.len(), known)?;
            self.length = ours.len();
            self.synced = self.length;
        }
        Ok(())
    }

    fn write_line(&mut self, line: &str) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(line.len().saturating_add(2));
        if self.ends_inside_a_line()? {
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let end = self.length.saturating_add(size);
        if let Err(error) = self.file.write_all(&bytes) {
            // A full disk must not get fuller by what nobody will read.
            self.cut(self.length, end);
            return Err(error);
        }
        self.length = end;
        self.position.bytes = self.length;
        Ok(())
    }

    fn ends_inside_a_line(&self) -> io::Result<bool> {
        let Some(last) = self.length.checked_sub(1) else { return Ok(false) };
        let mut byte = [0];
        self.file.read_exact_at(&mut byte, last)?;
        Ok(byte != *b"\n")
    }

    fn encode(&self, id: &str, new: &NewEntry) -> String {
        let mut entry = Map::new();
        entry.insert("type".into(), new.kind.name().into());
        entry.insert("id".into(), id.into());
        // Entries of the oldest files have no ids to hang on: there, as in bare
        // files, each follows the one before it.
        let hangs = self.position.leaf.is_some() || self.position.messages == 0;
        if self.format == TranscriptFormat::OpenClaw && hangs {
            entry.insert("parentId".into(), self.position.leaf.clone().into());
        }
        entry.insert("timestamp".into(), new.timestamp.as_str().into());
        match &new.kind {
            NewKind::Message { json, .. } if self.format == TranscriptFormat::Messages => {
                json.clone()
            }
            NewKind::Message { json, .. } => {
                // The message is JSON text already; it goes in as it is.
                let mut line = Value::Object(entry).to_string();
                line.pop();
                line.push_str(",\"message\":");
                line.push_str(json);
                line.push('}');
                line
            }
            NewKind::Compaction { members } => {
                entry.extend(members.clone());
                Value::Object(entry).to_string()
            }
        }
    }

    fn find_retry(&self, new: &NewEntry) -> io::Result<Option<Placed>> {
        let NewKind::Message { idempotency_key: Some(key), json } = &new.kind else {
            return Ok(None);
        };
        let parse = |json: &str| serde_json::from_str::<Value>(json).unwrap_or_default();
        let mut seq = self.position.messages;
        let mut lines = Backward::new(&self.file, self.position.bytes);
        for _ in 0..RETRY_LINES {
            if lines.consumed() > RETRY_BYTES {
                break;
            }
            // The next one ends where the one behind it begins.
            let ends = lines.begins();
            let Some(line) = lines.next()? else { break };
            let Some(Line::Entry(entry)) = Line::parse(line) else { continue };
            if let Body::Message(text) = entry.body
                && text.contains("idempotencyKey")
            {
                let message = parse(text);
                // The key of a stopped run may be used again, for a message of
                // a later time.
                let is_same = message.get("idempotencyKey").and_then(Value::as_str) == Some(key)
                    && message.get("timestamp") == parse(json).get("timestamp");
                if is_same {
                    let leaf = entry.id.clone();
                    let id = entry.id.unwrap_or_else(|| bare_id(seq));
                    let repeated = Some(message);
                    let position = Position { bytes: ends, messages: seq, leaf };
                    return Ok(Some(Placed { id, parent: None, position, repeated }));
                }
            }
            if entry.body.is_counted() {
                seq = seq.saturating_sub(1);
            }
        }
        Ok(None)
    }
}

/// The first line of a tree.
pub(crate) fn header(birth: &Birth) -> String {
    let mut header = json!({
        "type": "session", "version": 3, "id": birth.session_id,
        "timestamp": birth.timestamp, "cwd": birth.cwd,
    });
    if let Some(parent) = &birth.parent {
        header["parentSession"] = parent.as_str().into();
    }
    if let Some(copied) = birth.copied {
        header[COPIED] = copied.into();
    }
    header["sessionKey"] = birth.session_key.as_str().into();
    header.to_string()
}

/// The id of a message in a file that has none: its number, in the same form.
pub(crate) fn bare_id(seq: u64) -> String {
    format!("{seq:08x}")
}

fn open_existing(path: &Path) -> io::Result<File> {
    paths::open_by(OpenOptions::new().read(true).append(true), path)
}

/// Creates the file and its folders; those are there after a power cut.
fn create(path: &Path) -> io::Result<File> {
    let folder = folder_of(path);
    create_private_dir(folder).map_err(io::Error::other)?;
    // Somebody may have put a link there by now.
    let flags = paths::FLAGS.bits().cast_signed();
    open_private(OpenOptions::new().read(true).append(true).custom_flags(flags), path, folder)
}

fn is_same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}
