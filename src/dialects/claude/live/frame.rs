//! Frames that are made when something happens, and belong to no line of a
//! transcript.
//!
//! Owns: their members. Must not: know who gets them.

use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use crate::sessions::iso_time;
use crate::support::json;

/// What becomes of a frame for those who come later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// It is a line of the transcript, or will be one when the transcript has it.
    Line,
    /// What a user said, who waits for his turn; it counts until the transcript has it,
    /// or it is known that it never will.
    Echo,
    /// A piece of an answer that comes; it counts until the next line.
    Piece,
    /// The end of such pieces; nothing to whoever is told their line instead.
    End,
    /// Said once.
    Nothing,
}

/// A frame on its way.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The frame as JSON.
    pub text: Arc<str>,
    /// Its uuid, when the same frame may come twice.
    pub uuid: Option<Uuid>,
    /// What becomes of it.
    pub keep: Keep,
}

impl Frame {
    /// A frame for those who are there.
    pub fn passing(value: &Value) -> Self {
        Self { text: value.to_string().into(), uuid: None, keep: Keep::Nothing }
    }

    /// A piece of an answer: an event of the Anthropic API.
    pub fn piece(value: &Value) -> Self {
        let kind = value["event"]["type"].as_str().unwrap_or_default();
        let is_end = ["content_block_stop", "message_delta", "message_stop"].contains(&kind);
        let keep = if is_end { Keep::End } else { Keep::Piece };
        Self { keep, ..Self::passing(value) }
    }

    /// A line of the transcript.
    pub fn line(uuid: Option<Uuid>, value: &Value) -> Self {
        Self { uuid, keep: Keep::Line, ..Self::passing(value) }
    }

    /// What a user said.
    pub fn echo(uuid: Uuid, value: &Value) -> Self {
        Self { uuid: Some(uuid), keep: Keep::Echo, ..Self::passing(value) }
    }
}

/// `session_info`, the first frame of a connection.
pub fn session_info(total_pages: usize, lowest: usize) -> Value {
    json!({"type": "session_info", "totalPages": total_pages, "lowestBurstPage": lowest})
}

/// `error`; `message` says why.
pub fn error(error: &str, message: &str) -> Value {
    json!({"type": "error", "error": error, "message": message})
}

/// Why nothing more is said of a conversation; `session_id` is that of the one that
/// goes on.
pub fn begun_anew(session_id: &str) -> String {
    format!("the conversation was begun anew; it is session {session_id} now")
}

/// The state of a session: `compacting`, or nothing in particular.
pub fn status(session_id: &str, status: Option<&str>, uuid: &str) -> Value {
    json!({"type": "system", "subtype": "status", "status": status, "session_id": session_id,
        "uuid": uuid})
}

/// The provider failed and is asked again.
pub fn api_error(session_id: &str, notice: &crate::providers::RetryNotice, uuid: &str) -> Value {
    json!({"type": "system", "subtype": "api_error", "level": "error",
        "error": {"message": notice.message},
        "retryInMs": crate::support::millis(notice.delay),
        "retryAttempt": notice.attempt, "maxRetries": notice.max_attempts,
        "session_id": session_id, "uuid": uuid})
}

/// The provider wants less of us, and did not say until when.
pub fn rate_limit(session_id: &str, uuid: &str) -> Value {
    json!({"type": "rate_limit_event", "rate_limit_info": {"status": "rejected"},
        "uuid": uuid, "session_id": session_id})
}

/// The end of a turn: the gateway takes the next message. Clients of the older
/// protocol are idle from here on.
pub fn dequeue(session_id: &str, now_ms: u64) -> Value {
    json!({"type": "queue-operation", "operation": "dequeue", "timestamp": iso_time(now_ms),
        "sessionId": session_id})
}

/// What a call of a tool has to show already.
pub fn progress(data: &Value, tool_use_id: &str, uuid: &str, now_ms: u64) -> Value {
    json!({"type": "progress", "data": data, "toolUseID": tool_use_id,
        "parentToolUseID": tool_use_id, "uuid": uuid, "timestamp": iso_time(now_ms)})
}

/// Somebody has answered a question, in the form that is told to all.
pub fn answered(request_id: &str, behavior: &str) -> Value {
    json!({"type": "control_response", "request_id": request_id, "behavior": behavior})
}

/// A question needs no answer any more.
pub fn cancelled(request_id: &str) -> Value {
    json!({"type": "control_cancel_request", "request_id": request_id})
}

/// An answer that no model has written and no transcript has.
pub fn said_by_gateway(session_id: &str, text: &str, uuid: &str, now_ms: u64) -> Value {
    json!({
        "type": "assistant",
        "message": {
            "id": uuid,
            "type": "message",
            "role": "assistant",
            "model": "<synthetic>",
            "content": [{"type": "text", "text": text}],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": {"input_tokens": 0, "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0, "output_tokens": 0},
            "context_management": null,
        },
        "parent_tool_use_id": null,
        "session_id": session_id,
        "uuid": uuid,
        "timestamp": iso_time(now_ms),
    })
}
