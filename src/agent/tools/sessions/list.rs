//! `sessions_list`: the sessions that a session sees.

use serde_json::{Map, Value};

use super::super::{Tool, ToolContext, ToolKind, ToolOutput};
use super::history::{ANSWER_MAX, for_model, newest};
use super::reach::{self, Doing};
use super::{number, text};
use crate::agent::rows::SessionRow;
use crate::providers::ToolSpec;
use crate::sessions::{
    AgentId, HistoryOptions, SessionError, SessionKey, SessionQuery, SessionRow as Listed,
};
use crate::support::{BoxFuture, json};

const MINUTE_MS: u64 = 60_000;
/// Rows when the model does not say how many.
const DEFAULT_LIMIT: usize = 50;
/// Most rows: what is listed fills the model's context.
const LIMIT_MAX: usize = 200;
/// Most messages of each session.
const MESSAGES_MAX: usize = 20;
/// Characters of a listed message.
const MESSAGE_CHARS: usize = 2_000;
/// Sessions that are looked at for a list.
const LOOKED_AT_MAX: u32 = 1_000;

/// Members of a row that a model can use.
const MEMBERS: [&str; 17] = [
    "label",
    "displayName",
    "updatedAt",
    "sessionId",
    "model",
    "contextTokens",
    "totalTokens",
    "thinkingLevel",
    "status",
    "startedAt",
    "endedAt",
    "runtimeMs",
    "abortedLastRun",
    "lastChannel",
    "parentSessionKey",
    "childSessions",
    "subagentRunState",
];

/// What a client is told as well, as by the original; of no use to a model.
const CLIENT_MEMBERS: [&str; 13] = [
    "spawnedBy",
    "origin",
    "deliveryContext",
    "estimatedCostUsd",
    "fastMode",
    "verboseLevel",
    "reasoningLevel",
    "elevatedLevel",
    "responseUsage",
    "systemSent",
    "sendPolicy",
    "lastTo",
    "lastAccountId",
];

/// The tool.
pub struct SessionsList;

impl Tool for SessionsList {
    fn name(&self) -> &'static str {
        "sessions_list"
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Reads
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name().into(),
            description: "List the sessions you can see, the last used first; with messageLimit \
                          also their last messages. Do not call it over and over to wait for a \
                          sub-agent: results come by themselves."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "kinds": {"type": "array", "description": "Only these kinds.", "items": {
                        "type": "string",
                        "enum": ["main", "group", "cron", "hook", "node", "other"]}},
                    "limit": {"type": "number", "minimum": 1, "description": "At most so many."},
                    "activeMinutes": {"type": "number", "minimum": 1,
                        "description": "Only those used in so many minutes."},
                    "messageLimit": {"type": "number", "minimum": 0,
                        "description": "So many of the last messages of each."},
                    "label": {"type": "string", "description": "Only the one with this label."},
                    "agentId": {"type": "string", "description": "Only those of this agent."},
                    "search": {"type": "string",
                        "description": "Only those with this text in key, label or title."},
                },
                "additionalProperties": false,
            }),
        }
    }

    fn call<'a>(&'a self, cx: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            match list(cx, arguments).await {
                Ok(listed) => ToolOutput::json(listed),
                Err(error) => ToolOutput::failed(self.name(), error.to_string()),
            }
        })
    }
}

async fn list(cx: &ToolContext, arguments: &Value) -> Result<Value, SessionError> {
    let parts = cx.parts();
    let usize_of = |name| number(arguments, name).and_then(|n| usize::try_from(n).ok());
    let limit = usize_of("limit").unwrap_or(DEFAULT_LIMIT).clamp(1, LIMIT_MAX);
    let messages = usize_of("messageLimit").unwrap_or_default().min(MESSAGES_MAX);
    let kinds: Option<Vec<_>> = arguments["kinds"]
        .as_array()
        .map(|kinds| kinds.iter().filter_map(Value::as_str).collect())
        .filter(|kinds: &Vec<_>| !kinds.is_empty());
    let minutes = number(arguments, "activeMinutes");
    let page = parts
        .sessions
        .list(SessionQuery {
            hides_job_runs: true,
            limit: Some(LOOKED_AT_MAX),
            active_since_ms: minutes.map(|minutes| {
                parts.clock.now_ms().saturating_sub(minutes.saturating_mul(MINUTE_MS))
            }),
            agent: text(arguments, "agentId").map(|id| AgentId::normalize(id).to_string()),
            label: text(arguments, "label").map(str::to_owned),
            search: text(arguments, "search").map(str::to_owned),
            include_global: cx.key.as_str() == "global",
            ..SessionQuery::default()
        })
        .await?;
    let mut rows = Vec::new();
    let (mut room, mut cut) = (ANSWER_MAX, 0);
    for listed in page.entries {
        if rows.len() == limit {
            break;
        }
        let key = SessionKey::from_canonical(listed.key.as_str());
        let kind = kind(cx, &key);
        if kinds.as_ref().is_some_and(|kinds| !kinds.contains(&kind))
            || reach::refusal(cx, &key, Doing::List).await?.is_some()
        {
            continue;
        }
        let mut row = row(cx, &key, kind, &listed);
        if messages > 0 {
            let said = last_messages(cx, &key, messages).await?;
            let (said, is_cut) = newest(said, room);
            let said = json!(said);
            room = room.saturating_sub(said.to_string().len());
            cut += usize::from(is_cut);
            row.insert("messages".into(), said);
        }
        rows.push(Value::Object(row));
    }
    let mut answer = json!({"count": rows.len(), "sessions": rows});
    if cut > 0 {
        answer["truncated"] = json!(true);
        let note =
            format!("{cut} sessions have more messages than fit here; sessions_history has them.");
        answer["note"] = json!(note);
    }
    Ok(answer)
}

fn row(cx: &ToolContext, key: &SessionKey, kind: &str, listed: &Listed) -> Map<String, Value> {
    let mut full = SessionRow::new(key, &listed.entry, &cx.parts().models).with_subagent();
    full.child_sessions.clone_from(&listed.children);
    let full = serde_json::to_value(full).unwrap_or_default();
    let channel = listed.entry.channel.as_ref().or(listed.entry.last_channel.as_ref());
    let mut row = Map::new();
    row.insert("key".into(), json!(key.as_str()));
    row.insert("kind".into(), json!(kind));
    row.insert("channel".into(), json!(channel.map_or("unknown", String::as_str)));
    let is_client = cx.model.is_none();
    let of_client = CLIENT_MEMBERS.iter().filter(|_| is_client);
    for name in MEMBERS.iter().chain(of_client) {
        if let Some(value) = full.get(*name) {
            row.insert((*name).into(), value.clone());
        }
    }
    if is_client {
        let agent = key.agent(&cx.parts().keys.now());
        row.insert("agentId".into(), json!(agent.as_str()));
        row.extend(listed.entry.session_file.iter().map(|it| ("transcriptPath".into(), json!(it))));
    }
    row
}

/// What a session is for, as its key tells.
fn kind(cx: &ToolContext, key: &SessionKey) -> &'static str {
    let keys = &cx.parts().keys.now();
    if *key == SessionKey::main(&key.agent(keys), keys) {
        return "main";
    }
    let name = key.as_str().splitn(3, ':').nth(2).unwrap_or_default();
    let begins = |word: &str| name.starts_with(word);
    match key.kind() {
        "group" => "group",
        _ if begins("cron:") => "cron",
        _ if begins("hook:") => "hook",
        _ if begins("node:") || begins("node-") => "node",
        _ => "other",
    }
}

/// The last messages, without what no model needs of another conversation.
async fn last_messages(
    cx: &ToolContext,
    key: &SessionKey,
    limit: usize,
) -> Result<Vec<Value>, SessionError> {
    let options =
        HistoryOptions { limit: limit * 4, max_chars: MESSAGE_CHARS, ..HistoryOptions::default() };
    let page = cx.parts().sessions.history(key, options).await?;
    let shown = page.messages.into_iter().filter_map(|message| for_model(message, false));
    let mut messages: Vec<_> = shown.collect();
    let surplus = messages.len().saturating_sub(limit);
    messages.drain(..surplus);
    Ok(messages)
}
