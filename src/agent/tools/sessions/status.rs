//! `session_status`: the gateway and a session, on a page.

use serde_json::Value;

use super::super::{Tool, ToolContext, ToolKind, ToolOutput};
use super::reach::{self, Doing};
use super::{refused, session_key, text};
use crate::agent::status;
use crate::providers::ToolSpec;
use crate::sessions::SessionError;
use crate::support::{BoxFuture, json};

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
            description: "Show a session, this one unless another is named: its model, tokens \
                          and price, how full its context is, its settings, and the time the \
                          gateway is up."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {"sessionKey": {"type": "string"}},
                "additionalProperties": false,
            }),
        }
    }

    fn call<'a>(&'a self, cx: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            show(cx, arguments).await.unwrap_or_else(|error| {
                ToolOutput::failed(self.name(), format!("session not readable: {error}"))
            })
        })
    }
}

async fn show(cx: &ToolContext, arguments: &Value) -> Result<ToolOutput, SessionError> {
    let key = match text(arguments, "sessionKey") {
        None | Some("current") => cx.key.clone(),
        Some(written) => session_key(cx, written),
    };
    if let Some(why) = reach::refusal(cx, &key, Doing::Status).await? {
        return Ok(refused("forbidden", why));
    }
    let entry = cx.parts().sessions.entry(&key).await?;
    if entry.is_none() && key != cx.key {
        return Ok(refused("error", format!("No session found: {key}")));
    }
    let text = status::text(&cx.runs, &key, entry, None);
    let details = json!({"ok": true, "sessionKey": key.as_str(), "changedModel": false,
        "statusText": text});
    Ok(ToolOutput { details: Some(details), ..ToolOutput::text(text) })
}
