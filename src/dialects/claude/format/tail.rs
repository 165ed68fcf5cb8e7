//! Lines about a session as a whole.

use serde_json::Value;
use uuid::Uuid;

use crate::support::json;

use super::lines::Line;

/// The name that a person gave the session.
pub fn title_line(session_id: &str, title: &str) -> Line {
    line(json!({"type": "custom-title", "customTitle": title, "sessionId": session_id}))
}

/// What a session is about; `leaf` is its last line.
pub fn summary_line(summary: &str, leaf: Uuid) -> Line {
    line(json!({"type": "summary", "summary": summary, "leafUuid": leaf.to_string()}))
}

const fn line(value: Value) -> Line {
    Line { uuid: None, value }
}
