//! `sessions.compact` and `sessions.compaction.*`.

use crate::protocol::decode::{Fields, Params, integer_from, non_empty};

/// Longest instructions for a summary, in characters; they are sent with each
/// piece of the conversation.
const INSTRUCTIONS_MAX: usize = 4000;

/// Params of `sessions.compact`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionsCompactParams {
    /// As the client wrote it.
    pub key: String,
    /// Cuts the transcript to so many lines; a summary when absent.
    pub max_lines: Option<u64>,
    /// What the summary should heed. The original has no such member.
    pub instructions: Option<String>,
}

impl Params for SessionsCompactParams {
    fn read(f: &mut Fields) -> Self {
        f.simple_alias("key", "sessionKey");
        Self {
            key: f.required("key", non_empty()),
            max_lines: f.optional("maxLines", integer_from(1)),
            instructions: f.optional("instructions", non_empty().max(INSTRUCTIONS_MAX)),
        }
    }
}

/// Params of `sessions.compaction.get`, `.branch` and `.restore`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionsCheckpointParams {
    /// As the client wrote it.
    pub key: String,
    /// Which compaction.
    pub checkpoint_id: String,
}

impl Params for SessionsCheckpointParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            key: f.required("key", non_empty()),
            checkpoint_id: f.required("checkpointId", non_empty()),
        }
    }
}
