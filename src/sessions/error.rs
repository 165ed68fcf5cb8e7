//! What can go wrong with a session.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{MediaError, SessionKey};
use crate::store::StoreError;

/// A failure of the session service.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SessionError {
    /// There is no such session.
    #[error("session not found: {0}")]
    NotFound(SessionKey),
    /// Another session of the agent has this label.
    #[error("label already in use: {0}")]
    LabelTaken(String),
    /// A change that this session does not take.
    #[error("{0}")]
    Refused(String),
    /// It was reset or deleted while something was on its way; if that is written, it is
    /// in the transcript that was current before.
    #[error("session {0} was begun anew meanwhile")]
    Replaced(SessionKey),
    /// Its transcript id would leave the sessions folder.
    #[error("session {key} has an id that cannot name a file: {id:?}")]
    BadId {
        /// Whose.
        key: SessionKey,
        /// The id in the index.
        id: String,
    },
    /// It has no compaction with this id.
    #[error("checkpoint not found: {0}")]
    NoCheckpoint(String),
    /// What the checkpoint stands for is no longer on disk.
    #[error("the transcript of checkpoint {0} is gone")]
    CheckpointGone(String),
    /// Messages came faster than its transcript could be cut.
    #[error("session {0} is too busy to be cut; stop its run and try again")]
    Busy(SessionKey),
    /// A message could not be written as JSON.
    #[error("a message cannot be written as JSON: {0}")]
    Encode(Arc<serde_json::Error>),
    /// A transcript failed.
    #[error(transparent)]
    Transcript(#[from] TranscriptError),
    /// The files of a message failed.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// The index failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A failure of a transcript file. It can be cloned, because appends that are
/// synced together share its fate.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TranscriptError {
    /// The file system refused.
    #[error("cannot {operation} {}: {source}", .path.display())]
    Io {
        /// What was to be done.
        operation: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: Arc<io::Error>,
    },
    /// The writer has ended.
    #[error("the transcript writer has stopped")]
    Stopped,
}

/// Adds operation and path to an IO error.
pub(super) trait At<T> {
    fn at(self, operation: &'static str, path: &Path) -> Result<T, TranscriptError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, operation: &'static str, path: &Path) -> Result<T, TranscriptError> {
        self.map_err(|source| TranscriptError::Io {
            operation,
            path: path.to_owned(),
            source: Arc::new(source),
        })
    }
}
