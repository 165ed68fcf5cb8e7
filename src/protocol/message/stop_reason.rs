//! Why an answer of a model ended.

use serde::{Deserialize, Serialize};

/// Why an assistant message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    /// It was finished.
    Stop,
    /// The token limit was reached.
    Length,
    /// It waits for tools.
    ToolUse,
    /// It failed.
    Error,
    /// Somebody stopped it.
    Aborted,
}

impl StopReason {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolUse => "toolUse",
            Self::Error => "error",
            Self::Aborted => "aborted",
        }
    }

    /// Whether the message ended by itself: only then a mark that is open at the end of its
    /// text is a part of that text.
    pub const fn ended_by_itself(self) -> bool {
        matches!(self, Self::Stop)
    }

    /// Whether the message broke off, so that it is no answer.
    pub const fn has_failed(self) -> bool {
        matches!(self, Self::Error | Self::Aborted)
    }
}
