//! `session_status`: which model answers here, and what it has used.

use serde_json::{Value, json};

use crate::providers::ToolSpec;
use crate::support::BoxFuture;

use super::{Tool, ToolContext, ToolOutput};

/// The tool.
pub struct SessionStatus;

impl Tool for SessionStatus {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "session_status".into(),
            description: "Show the current session: key, model, thinking level, tokens used."
                .into(),
            parameters: json!({"type": "object", "properties": {}, "additionalProperties": false}),
        }
    }

    fn call<'a>(&'a self, cx: &'a ToolContext, _: &'a Value) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let entry = match cx.sessions.entry(&cx.key).await {
                Ok(entry) => entry.unwrap_or_default(),
                Err(error) => return ToolOutput::error(format!("Session not readable: {error}")),
            };
            let details = json!({
                "sessionKey": cx.key.as_str(),
                "sessionId": entry.session_id,
                "model": format!("{}/{}", cx.model.provider, cx.model.id),
                "thinkingLevel": entry.thinking_level.as_deref().unwrap_or("off"),
                "totalTokens": entry.total_tokens.unwrap_or_default(),
                "contextTokens": cx.model.context_window,
            });
            let text = format!(
                "Session {} on {}/{}: {} of {} context tokens used.",
                cx.key,
                cx.model.provider,
                cx.model.id,
                entry.total_tokens.unwrap_or_default(),
                cx.model.context_window
            );
            ToolOutput { details: Some(details), ..ToolOutput::text(text) }
        })
    }
}
