//! What the session index keeps of a compaction.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::support::reading;

/// A compaction that can be gone back behind (`SessionCompactionCheckpoint`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactionCheckpoint {
    /// Its id.
    pub checkpoint_id: String,
    /// Canonical key of the session.
    pub session_key: String,
    /// Id of the transcript that was summed up.
    pub session_id: String,
    /// Milliseconds since the epoch.
    pub created_at: u64,
    /// Why the session was compacted.
    pub reason: CompactionReason,
    /// Tokens of the context before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_before: Option<u64>,
    /// Tokens of the context after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_after: Option<u64>,
    /// The summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The first entry that the model still reads in full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_kept_entry_id: Option<String>,
    /// The transcript before.
    pub pre_compaction: CheckpointPlace,
    /// The transcript after.
    pub post_compaction: CheckpointPlace,
}

/// Why a session was compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CompactionReason {
    /// Somebody asked for it.
    Manual,
    /// The context became long.
    AutoThreshold,
    /// The model refused the context as too long.
    OverflowRetry,
    /// The model took too long.
    TimeoutRetry,
}

/// A place in a transcript.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointPlace {
    /// Id of the transcript.
    pub session_id: String,
    /// Its file; only the name is trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_file: Option<String>,
    /// The last entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaf_id: Option<String>,
    /// The entry of the summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry_id: Option<String>,
}

/// Checkpoints that can be read; others are left out, not the entry with them.
pub(super) fn readable<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<CompactionCheckpoint>, D::Error> {
    let found = Option::<Vec<Value>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(found.iter().filter_map(|value| reading::of(value).ok()).collect())
}
