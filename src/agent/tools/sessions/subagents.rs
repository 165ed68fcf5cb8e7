//! `subagents`: what a session does with the sub-agents that it has begun.

use serde_json::Value;

use super::super::{Tool, ToolContext, ToolOutput};
use super::{number, refused, text};
use crate::agent::subagents::manage::{Overview, RECENT_MINUTES, status};
use crate::agent::subagents::{Said, TargetError};
use crate::providers::ToolSpec;
use crate::store::{StoreError, SubagentRow};
use crate::support::{BoxFuture, json, without_nulls};

/// Lines of a log when the model does not say how many.
const LOG_LINES: usize = 20;
/// Most lines of a log.
const LOG_LINES_MAX: usize = 100;

/// The tool.
pub struct SubagentsTool;

impl Tool for SubagentsTool {
    fn name(&self) -> &'static str {
        "subagents"
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name().into(),
            description: "Manage the sub-agents of this session: list them, stop one or all \
                          (kill), say something to one (send after what it does, steer in its \
                          place), read what it said (log). Not for waiting: results come by \
                          themselves."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "action": {"type": "string",
                        "enum": ["list", "kill", "send", "steer", "log"]},
                    "target": {"type": "string", "description": "Place in the list, label, run \
                        id, session key, last; or all, for kill."},
                    "message": {"type": "string", "description": "For send and steer."},
                    "limit": {"type": "number", "minimum": 1, "description": "For log."},
                    "includeTools": {"type": "boolean", "description": "For log."},
                    "recentMinutes": {"type": "number", "minimum": 1,
                        "description": "For list: how far back."},
                },
                "additionalProperties": false,
            }),
        }
    }

    fn meta(&self, arguments: &Value) -> Option<String> {
        let action = text(arguments, "action").unwrap_or("list");
        let target = text(arguments, "target").map(|target| format!(" {target}"));
        Some(format!("{action}{}", target.unwrap_or_default()))
    }

    fn call<'a>(&'a self, cx: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let done = match text(arguments, "action").unwrap_or("list") {
                "kill" => kill(cx, arguments).await,
                "send" => tell(cx, arguments, Said::Send).await,
                "steer" => tell(cx, arguments, Said::Steer).await,
                "log" => log(cx, arguments).await,
                _ => list(cx, arguments).await.map_err(TargetError::from),
            };
            done.unwrap_or_else(|error| refused("error", error.to_string()))
        })
    }
}

async fn list(cx: &ToolContext, arguments: &Value) -> Result<ToolOutput, StoreError> {
    let rows = cx.runs.subagents_of(&cx.key).await?;
    let now = cx.parts().clock.now_ms();
    let minutes = number(arguments, "recentMinutes").unwrap_or(RECENT_MINUTES);
    let overview = Overview::new(&rows, minutes, now);
    let all = |rows: &[(usize, &SubagentRow)]| {
        rows.iter().map(|(place, row)| shown(*place, row, now)).collect::<Vec<_>>()
    };
    let (active, recent) = (all(&overview.active), all(&overview.recent));
    let total = active.len() + recent.len();
    Ok(ToolOutput::json(json!({"status": "ok", "action": "list", "total": total,
        "active": active, "recent": recent, "text": overview.text()})))
}

fn shown(place: usize, row: &SubagentRow, now_ms: u64) -> Value {
    without_nulls(json!({
        "index": place,
        "runId": row.run_id,
        "sessionKey": row.child_key,
        "label": row.label,
        "task": row.task.chars().take(200).collect::<String>(),
        "status": status(row),
        "runtimeMs": row.ended_at.unwrap_or(now_ms).saturating_sub(row.created_at),
        "startedAt": row.created_at,
        "endedAt": row.ended_at,
    }))
}

async fn kill(cx: &ToolContext, arguments: &Value) -> Result<ToolOutput, TargetError> {
    let Some(target) = text(arguments, "target") else {
        return Ok(refused("error", "target required"));
    };
    let one = Some(target).filter(|target| !["all", "*"].contains(target));
    let killed = cx.runs.kill_subagents(&cx.key, one, None).await?;
    let labels: Vec<_> =
        killed.iter().map(|row| row.label.as_ref().unwrap_or(&row.run_id)).collect();
    let text = match killed.len() {
        0 => "nothing to stop: done already".to_owned(),
        count => format!("stopped {count} (nothing of it will be announced)"),
    };
    Ok(ToolOutput::json(json!({"status": "ok", "action": "kill", "target": target,
        "killed": killed.len(), "labels": labels, "text": text})))
}

async fn tell(cx: &ToolContext, arguments: &Value, said: Said) -> Result<ToolOutput, TargetError> {
    let (Some(target), Some(message)) = (text(arguments, "target"), text(arguments, "message"))
    else {
        return Ok(refused("error", "target and message required"));
    };
    let row = cx.runs.find_subagent(&cx.key, target).await?;
    Ok(match cx.runs.tell_subagent(&row, message, said, (cx.owner(), cx.run.clone())).await {
        Ok(run_id) => ToolOutput::json(json!({"status": "accepted", "target": target,
            "runId": run_id, "sessionKey": row.child_key,
            "text": "its result comes by itself"})),
        Err(error) => refused("error", error.to_string()),
    })
}

async fn log(cx: &ToolContext, arguments: &Value) -> Result<ToolOutput, TargetError> {
    let Some(target) = text(arguments, "target") else {
        return Ok(refused("error", "target required"));
    };
    let row = cx.runs.find_subagent(&cx.key, target).await?;
    let limit = number(arguments, "limit").and_then(|limit| usize::try_from(limit).ok());
    let limit = limit.unwrap_or(LOG_LINES).clamp(1, LOG_LINES_MAX);
    let has_tools = arguments["includeTools"] == true;
    Ok(match cx.runs.subagent_log(&row, limit, has_tools).await {
        Ok(log) => ToolOutput::json(json!({"status": "ok", "action": "log",
            "sessionKey": row.child_key, "text": log})),
        Err(error) => refused("error", error.to_string()),
    })
}
