//! What goes into the session service and what comes out of it.

use std::path::PathBuf;

use super::{KeyRules, TranscriptFormat};
use crate::config::ResetSettings;
use crate::protocol::message::AgentMessage;
use crate::store::SessionEntry;

/// What the service needs to know.
#[derive(Debug, Clone)]
pub struct SessionsOptions {
    /// The state folder, such as `~/.openclaw`.
    pub state_dir: PathBuf,
    /// How keys become canonical.
    pub rules: KeyRules,
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
    /// Written into the message; a second append of the same key yields the
    /// first message instead.
    pub idempotency_key: Option<String>,
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
    /// The summary.
    pub summary: String,
    /// Id of the first entry that the model still reads in full.
    pub first_kept_entry_id: Option<String>,
    /// Size of the context before.
    pub tokens_before: u64,
}

/// A session that is no more.
#[derive(Debug, Clone, PartialEq)]
pub struct DeletedSession {
    /// What the index knew.
    pub entry: SessionEntry,
    /// Where its transcript went.
    pub archived: Vec<PathBuf>,
}
