//! What goes into the session service and what comes out of it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use super::{KeyRules, SessionKey, TranscriptFormat};
use crate::config::ResetSettings;
use crate::protocol::message::AgentMessage;
use crate::store::{CompactionCheckpoint, CompactionReason, SessionEntry};

/// What the service needs to know.
#[derive(Debug, Clone)]
pub struct SessionsOptions {
    /// The state folder, such as `~/.openclaw`.
    pub state_dir: PathBuf,
    /// How keys become canonical.
    pub rules: Arc<KeyRules>,
    /// Format of new transcripts.
    pub format: TranscriptFormat,
    /// When sessions begin anew by themselves.
    pub reset: ResetSettings,
}

/// How a message is appended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppendOptions {
    /// Id of the entry; a new one if absent. Bare transcripts have no ids, there
    /// the number of the message is used.
    pub id: Option<String>,
    /// Written into the message; a second append of the same key and time
    /// yields the first message instead.
    pub idempotency_key: Option<String>,
    /// Whether nobody need see it: it lifts its session in no list.
    pub is_quiet: bool,
}

/// A message that is on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredMessage {
    /// Id of its transcript entry.
    pub id: String,
    /// Its number in the transcript, from 1.
    pub seq: u64,
    /// The message.
    pub message: AgentMessage,
    /// The session after it.
    pub session: SessionEntry,
    /// Whether it was there already, under the same idempotency key.
    pub is_repeated: bool,
}

/// What a summary says of the messages that it stands for.
#[derive(Debug, Clone, PartialEq)]
pub struct Compaction {
    /// Why.
    pub reason: CompactionReason,
    /// The summary.
    pub summary: String,
    /// Id of the first entry that the model still reads in full.
    pub first_kept_entry_id: Option<String>,
    /// Tokens of the context before.
    pub tokens_before: u64,
    /// Tokens of the context after.
    pub tokens_after: u64,
    /// Files that tools have read or changed in what was summed up.
    pub files: CompactedFiles,
}

/// Files that tools have read or changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactedFiles {
    /// Only read.
    pub read_files: BTreeSet<String>,
    /// Changed.
    pub modified_files: BTreeSet<String>,
}

/// A session after a compaction.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactedSession {
    /// Id of the summary's entry.
    pub entry_id: String,
    /// How to go back behind it.
    pub checkpoint: CompactionCheckpoint,
    /// What the index knows now.
    pub entry: SessionEntry,
}

/// What became of a transcript that was to be cut.
#[derive(Debug, Clone, PartialEq)]
pub enum CutSession {
    /// It is not longer than that; so many lines.
    Short(usize),
    /// It was cut, and the old one is in this file.
    Cut {
        /// The old transcript.
        archived: PathBuf,
        /// What the index knows now.
        entry: Box<SessionEntry>,
    },
    /// It has no file.
    NoTranscript,
}

/// A session that continues from before a compaction.
#[derive(Debug, Clone, PartialEq)]
pub struct ForkedSession {
    /// Its key.
    pub key: SessionKey,
    /// Before which compaction.
    pub checkpoint: CompactionCheckpoint,
    /// What the index knows of it.
    pub entry: SessionEntry,
}

/// What becomes of the transcript of a session that is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remains {
    /// It is put away.
    PutAway,
    /// It stays where it is, and no import takes it for something new.
    Kept,
    /// It goes where the files of its agent go, which is removed: should they come back, so
    /// does it.
    WithAgent,
}

/// A session that is no more.
#[derive(Debug, Clone, PartialEq)]
pub struct DeletedSession {
    /// What the index knew.
    pub entry: SessionEntry,
    /// Where its transcript went.
    pub archived: Vec<PathBuf>,
}
