//! `session_status`: which model answers here, and what it has used.

use serde_json::{Value, json};

use crate::providers::ToolSpec;
use crate::support::BoxFuture;

use super::{Tool, ToolContext, ToolKind, ToolOutput};

/// The tool.
pub struct SessionStatus;

impl Tool for SessionStatus {
    fn name(&self) -> &'static str {
        "session_status"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Reads
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name().into(),
            description: "Show the current session: key, model, thinking level, tokens used."
                .into(),
            parameters: json!({"type": "object", "properties": {}, "additionalProperties": false}),
        }
    }

    fn call<'a>(&'a self, cx: &'a ToolContext, _: &'a Value) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let parts = cx.parts();
            let entry = match parts.sessions.entry(&cx.key).await {
                Ok(entry) => entry,
                Err(error) => {
                    return ToolOutput::failed(
                        self.name(),
                        format!("session not readable: {error}"),
                    );
                }
            };
            let model = parts.models.of_session(&cx.key, entry.as_ref());
            let (entry, window) = (entry.unwrap_or_default(), model.context_window());
            let (used, window) =
                (entry.total_tokens.unwrap_or_default(), window.unwrap_or_default());
            let name = model.name;
            let details = json!({
                "sessionKey": cx.key.as_str(),
                "sessionId": entry.session_id,
                "model": name.to_string(),
                "thinkingLevel": entry.thinking_level.as_deref().unwrap_or("off"),
                "totalTokens": used,
                "contextTokens": window,
            });
            let text =
                format!("Session {} on {name}: {used} of {window} context tokens used.", cx.key);
            ToolOutput { details: Some(details), ..ToolOutput::text(text) }
        })
    }
}
