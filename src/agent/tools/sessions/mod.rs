//! Tools for sessions: see them, read them, speak to them, begin sub-agents.
//!
//! Promises: what a session does not see it cannot read, write to, or learn
//! that it is there. Must not: decide which session has which tool.

mod agents;
mod history;
mod list;
mod reach;
mod send;
mod spawn;
mod status;
mod subagents;

use std::sync::Arc;

use serde_json::Value;

use super::{Tool, ToolContext, ToolOutput};
use crate::sessions::SessionKey;
use crate::support::json;

/// All of them.
pub fn all() -> [Arc<dyn Tool>; 7] {
    [
        Arc::new(agents::AgentsList),
        Arc::new(list::SessionsList),
        Arc::new(history::SessionsHistory),
        Arc::new(send::SessionsSend),
        Arc::new(spawn::SessionsSpawn),
        Arc::new(subagents::SubagentsTool),
        Arc::new(status::SessionStatus),
    ]
}

/// What a tool refuses, as the original tells it: data with `status`.
fn refused(status: &str, error: impl Into<String>) -> ToolOutput {
    let error: String = error.into();
    ToolOutput::json(json!({"status": status, "error": error}))
}

/// A text among the arguments that says something.
fn text<'a>(arguments: &'a Value, name: &str) -> Option<&'a str> {
    arguments[name].as_str().map(str::trim).filter(|text| !text.is_empty())
}

/// A number among the arguments, not below 0.
fn number(arguments: &Value, name: &str) -> Option<u64> {
    let number = arguments[name].as_f64()?;
    // A model's number is small, and cut where it is not.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    (number >= 0.0).then_some(number as u64)
}

/// The session that a model means by a key; keys that name no agent are of its
/// own.
fn session_key(cx: &ToolContext, written: &str) -> SessionKey {
    let keys = &cx.parts().keys.now();
    SessionKey::parse_for(written, &cx.key.agent(keys), keys)
}
