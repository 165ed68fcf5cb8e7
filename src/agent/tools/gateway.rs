//! `gateway`: how the gateway is; nothing changes by it.

use serde_json::Value;

use super::{Tool, ToolContext, ToolKind, ToolOutput};
use crate::providers::ToolSpec;
use crate::support::{BoxFuture, json};

/// The tool.
pub struct GatewayStatus;

impl Tool for GatewayStatus {
    fn name(&self) -> &'static str {
        "gateway"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Reads
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name().into(),
            description: "Show how the gateway is: version, time it is up, what runs, where its \
                          config file is. It can only be looked at."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {"action": {"type": "string", "enum": ["status"]}},
                "additionalProperties": false,
            }),
        }
    }

    fn call<'a>(&'a self, cx: &'a ToolContext, _: &'a Value) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let parts = cx.parts();
            let sessions = parts.store.count_sessions(None).await;
            let now = parts.clock.now_ms();
            let panics = parts.tasks.panics();
            ToolOutput::json(json!({
                "ok": true,
                "version": env!("CARGO_PKG_VERSION"),
                "uptimeMs": now.saturating_sub(cx.runs.started_at()),
                "model": parts.models.default_choice().model.reference().to_string(),
                "configPath": parts.settings.now().file.path.display().to_string(),
                "health": {
                    "ok": sessions.is_ok() && panics.is_empty(),
                    "sessions": sessions.ok(),
                    "taskPanics": panics,
                    "tasks": cx.runs.tasks(),
                },
            }))
        })
    }
}
