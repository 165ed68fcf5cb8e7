//! `chat.*`.

use serde_json::Value;

use crate::protocol::decode::{
    Fields, Params, any, boolean, integer_from, list, non_empty, object, one_of, text,
};

/// Longest session key that `chat.send` takes, in characters.
const SESSION_KEY_MAX: usize = 512;
/// Longest label of an injected note, in characters.
const LABEL_MAX: usize = 100;
/// Most messages of one history page.
pub const HISTORY_LIMIT_MAX: u64 = 1000;
/// Most characters per text that a history may be asked for.
const HISTORY_CHARS_MAX: u64 = 500_000;

/// `systemInputProvenance` of `chat.send`; checked, for admins only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provenance;

impl Params for Provenance {
    fn read(f: &mut Fields) -> Self {
        f.required("kind", one_of(&["external_user", "inter_session", "internal_system"]));
        for name in ["originSessionId", "sourceSessionKey", "sourceChannel", "sourceTool"] {
            f.optional(name, text());
        }
        Self
    }
}

/// Params of `chat.send`.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatSendParams {
    /// As the client wrote it.
    pub session_key: String,
    /// What the user says.
    pub message: String,
    /// Thinking level for this run.
    pub thinking: Option<String>,
    /// Pictures and files.
    pub attachments: Vec<Value>,
    /// Milliseconds after which a stuck run may be swept.
    pub timeout_ms: Option<u64>,
    /// Whether `originating…` members are there.
    pub has_route: bool,
    /// `originatingTo`, which the other route members need.
    pub originating_to: Option<String>,
    /// `originatingChannel`, which the other route members need.
    pub originating_channel: Option<String>,
    /// Whether `system…` members are there.
    pub has_provenance: bool,
    /// The run's id as well.
    pub idempotency_key: String,
}

impl Params for ChatSendParams {
    fn read(f: &mut Fields) -> Self {
        let route =
            ["originatingChannel", "originatingTo", "originatingAccountId", "originatingThreadId"];
        let has_route = route.iter().any(|name| f.has(name));
        let has_provenance = f.has("systemInputProvenance") || f.has("systemProvenanceReceipt");
        let session_key = f.required("sessionKey", non_empty().max(SESSION_KEY_MAX));
        f.optional("sessionId", non_empty());
        let message = f.required("message", text());
        let thinking = f.optional("thinking", text());
        f.optional("deliver", boolean());
        let originating_channel = f.optional("originatingChannel", text());
        let originating_to = f.optional("originatingTo", text());
        f.optional("originatingAccountId", text());
        f.optional("originatingThreadId", text());
        let attachments = f.optional("attachments", list(any())).unwrap_or_default();
        let timeout_ms = f.optional("timeoutMs", integer_from(0));
        f.optional("systemInputProvenance", object::<Provenance>());
        f.optional("systemProvenanceReceipt", text());
        let idempotency_key = f.required("idempotencyKey", non_empty());
        Self {
            session_key,
            message,
            thinking,
            attachments,
            timeout_ms,
            has_route,
            originating_to,
            originating_channel,
            has_provenance,
            idempotency_key,
        }
    }
}

/// Params of `chat.history`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatHistoryParams {
    /// As the client wrote it.
    pub session_key: String,
    /// Most messages to answer.
    pub limit: Option<u64>,
    /// Most characters per text block.
    pub max_chars: Option<u64>,
}

impl Params for ChatHistoryParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            session_key: f.required("sessionKey", non_empty()),
            limit: f.optional("limit", integer_from(1).max(HISTORY_LIMIT_MAX)),
            max_chars: f.optional("maxChars", integer_from(1).max(HISTORY_CHARS_MAX)),
        }
    }
}

/// Params of `chat.abort`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatAbortParams {
    /// As the client wrote it.
    pub session_key: String,
    /// Only this run.
    pub run_id: Option<String>,
}

impl Params for ChatAbortParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            session_key: f.required("sessionKey", non_empty()),
            run_id: f.optional("runId", non_empty()),
        }
    }
}

/// Params of `chat.inject`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatInjectParams {
    /// As the client wrote it.
    pub session_key: String,
    /// The note.
    pub message: String,
    /// Put in brackets above the note.
    pub label: Option<String>,
}

impl Params for ChatInjectParams {
    fn read(f: &mut Fields) -> Self {
        Self {
            session_key: f.required("sessionKey", non_empty()),
            message: f.required("message", non_empty()),
            label: f.optional("label", text().max(LABEL_MAX)),
        }
    }
}
