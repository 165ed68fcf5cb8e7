//! `sessions_spawn`: begins a sub-agent.

use serde_json::Value;

use super::super::{Tool, ToolContext, ToolKind, ToolOutput};
use super::{number, refused, text};
use crate::agent::subagents::{SpawnError, SpawnRequest};
use crate::providers::ToolSpec;
use crate::support::{BoxFuture, json};

/// Most characters of the task on a card.
const META_CHARS: usize = 120;

/// What the model reads beside a sub-agent that was accepted: the original's
/// words, which clients show, without its tool for ending a turn.
const NOTE: &str = "Auto-announce is push-based. After spawning children, do NOT call \
    sessions_list, sessions_history, exec sleep, or any polling tool. Track expected child \
    session keys. If any required child completion has not arrived yet, end your turn and wait \
    for completion events as user messages. Only send your final answer after ALL expected \
    completions arrive. If a child completion event arrives AFTER your final answer, reply ONLY \
    with NO_REPLY.";

/// The tool.
pub struct SessionsSpawn;

impl Tool for SessionsSpawn {
    fn name(&self) -> &'static str {
        "sessions_spawn"
    }

    /// Only its own session changes by it, as in the original.
    fn kind(&self) -> ToolKind {
        ToolKind::Reads
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name().into(),
            description: "Begin a sub-agent: a session of its own that does one task in the \
                          background. The call answers at once; the result comes later, by \
                          itself, as a message. Say in the task all that it needs to know: it \
                          does not see this conversation."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "task": {"type": "string", "minLength": 1, "description": "What to do."},
                    "label": {"type": "string", "description": "A short name for it."},
                    "runtime": {"type": "string", "enum": ["subagent"]},
                    "agentId": {"type": "string",
                        "description": "Another agent (see agents_list) that shall do it."},
                    "model": {"type": "string", "description": "Another model for it."},
                    "thinking": {"type": "string", "description": "How hard it thinks."},
                    "runTimeoutSeconds": {"type": "number", "minimum": 0,
                        "description": "Stop it after so long."},
                    "mode": {"type": "string", "enum": ["run"]},
                    "cleanup": {"type": "string", "enum": ["delete", "keep"],
                        "description": "Whether its session is kept after the result came."},
                },
                "required": ["task"],
                "additionalProperties": false,
            }),
        }
    }

    fn meta(&self, arguments: &Value) -> Option<String> {
        let label = text(arguments, "label").map(|label| format!("label {label}"));
        let task = text(arguments, "task")
            .map(|task| format!("task {}", task.chars().take(META_CHARS).collect::<String>()));
        let parts: Vec<_> = label.into_iter().chain(task).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    fn call<'a>(&'a self, cx: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move { spawn(cx, arguments).await })
    }
}

async fn spawn(cx: &ToolContext, arguments: &Value) -> ToolOutput {
    let owned = |name| text(arguments, name).map(str::to_owned);
    let request = SpawnRequest {
        task: owned("task").unwrap_or_default(),
        label: owned("label"),
        agent: owned("agentId"),
        model: owned("model"),
        thinking: owned("thinking"),
        timeout_seconds: number(arguments, "runTimeoutSeconds"),
        is_temporary: arguments["cleanup"] == "delete",
    };
    match cx.runs.spawn_subagent(&cx.key, cx.run.clone(), request).await {
        Ok(spawned) => ToolOutput::json(json!({
            "status": "accepted",
            "childSessionKey": spawned.child.as_str(),
            "runId": spawned.run_id,
            "mode": "run",
            "note": NOTE,
            "modelApplied": true,
        })),
        Err(error @ SpawnError::Forbidden(_)) => refused("forbidden", error.to_string()),
        Err(error) => refused("error", error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_says_what_is_spawned() {
        let meta = SessionsSpawn.meta(&json!({"task": "say hello", "label": "kid"}));
        assert_eq!(meta.as_deref(), Some("label kid, task say hello"));
        assert_eq!(SessionsSpawn.meta(&json!({"task": 5})), None);
    }
}
