//! Entries of a transcript as lines.

use std::sync::Arc;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::blocks::{block, result_content};
use super::errors::{INTERRUPTED, INTERRUPTED_TOOL, error_class, error_text};
use super::facts::{CLAUDE_CODE_VERSION, SessionFacts};
use super::ids::Ids;
use super::names::{tool_name, tool_use_id};
use super::results::{told_as_data, tool_use_result};
use super::usage::{stop_reason, usage_at_end, usage_at_start, usage_of_none};
use crate::agent::CUT_CALL;
use crate::protocol::message::{
    AgentMessage, AssistantMessage, ContentBlock, StopReason, ToolResultMessage, UserContent,
    UserMessage, text_of,
};
use crate::sessions::{EntryBody, TranscriptEntry, iso_time};
use crate::support::json;

/// What Claude Code calls a message that no model has written.
const SYNTHETIC: &str = "<synthetic>";
/// What a failure without words is called.
const NO_WORDS: &str = "An unknown error occurred";

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its `uuid`; lines about the session as a whole have none.
    pub uuid: Option<Uuid>,
    /// The line.
    pub value: Value,
}

/// A call that waits for its result.
#[derive(Debug, Clone)]
struct Call {
    id: String,
    name: String,
    arguments: Value,
    entry_id: String,
    /// Calls with the same id before it in its answer.
    number: usize,
    /// The line that it is in.
    line: Uuid,
    /// When it was made, in milliseconds since the epoch.
    at: u64,
}

/// Writes the lines of one session, entry by entry.
#[derive(Debug, Clone)]
pub struct Format {
    facts: Arc<SessionFacts>,
    ids: Ids,
    last: Option<Uuid>,
    calls: Vec<Call>,
    /// The answer whose calls somebody has stopped, until that is said.
    stopped: Option<String>,
}

impl Format {
    /// Begins behind the line `last`, or at the beginning.
    pub fn new(facts: Arc<SessionFacts>, last: Option<Uuid>) -> Self {
        let own = facts.sidechain.as_ref().map_or(&facts.session_id, |side| &side.own_session_id);
        let ids = Ids::new(own.as_str());
        Self { facts, ids, last, calls: Vec::new(), stopped: None }
    }

    /// The ids of the session.
    pub const fn ids(&self) -> &Ids {
        &self.ids
    }

    /// The last line, which the next one follows.
    pub const fn last(&self) -> Option<Uuid> {
        self.last
    }

    /// Whether calls wait for their results. Where none does, [`Self::last`] is
    /// all that is to be known to go on.
    pub const fn is_inside_calls(&self) -> bool {
        !self.calls.is_empty() || self.stopped.is_some()
    }

    /// Whether several calls of the answer have this id. Which of them a result is
    /// of is known by the order in which results are stored.
    pub fn is_repeated(&self, tool_call_id: &str) -> bool {
        self.calls.iter().any(|call| call.id == tool_call_id && call.number > 0)
    }

    /// The lines of the next entry; none for one that says nothing.
    pub fn push(&mut self, entry: &TranscriptEntry) -> Vec<Line> {
        let mut lines = Vec::new();
        let is_result = matches!(&entry.body, EntryBody::Message(AgentMessage::ToolResult(_)));
        if !is_result {
            lines.extend(self.stopped_calls(entry.timestamp));
        }
        match &entry.body {
            EntryBody::Message(AgentMessage::User(message)) => {
                lines.extend(self.user(entry, message));
            }
            EntryBody::Message(AgentMessage::Assistant(message)) => {
                // What the gateway says meanwhile is no answer that ends the calls.
                if !message.is_from_gateway() {
                    self.calls.clear();
                }
                self.assistant(&mut lines, entry, message);
            }
            EntryBody::Message(AgentMessage::ToolResult(message)) => {
                lines.push(self.result(entry, message));
                if self.calls.is_empty() {
                    lines.extend(self.stopped_calls(entry.timestamp));
                }
            }
            EntryBody::Compaction { summary, tokens_before } => {
                self.compaction(&mut lines, entry, summary, *tokens_before);
            }
        }
        lines
    }

    fn user(&mut self, entry: &TranscriptEntry, message: &UserMessage) -> Option<Line> {
        let content = user_content(&message.content)?;
        let uuid = self.ids.user(&entry.id);
        let message = json!({"role": "user", "content": content});
        let mut line = self.begin();
        line.extend(members([
            ("type", "user".into()),
            ("message", message),
            ("uuid", uuid.to_string().into()),
            ("timestamp", iso_time(entry.timestamp).into()),
        ]));
        if self.facts.sidechain.is_none() {
            line.insert("permissionMode".into(), self.facts.permission_mode.as_str().into());
        }
        Some(self.end(uuid, line))
    }

    fn assistant(
        &mut self,
        lines: &mut Vec<Line>,
        entry: &TranscriptEntry,
        message: &AssistantMessage,
    ) {
        let has_failed = message.stop_reason.has_failed();
        let shown: Vec<_> = message
            .content
            .iter()
            .enumerate()
            // Calls of an answer that did not end were never made.
            .filter(|(_, block)| !has_failed || !matches!(block, ContentBlock::ToolCall(_)))
            .filter(|(_, block)| !matches!(block, ContentBlock::Image(_)))
            .filter_map(|(index, content)| Some((index, content, block(content, &message.api)?)))
            .filter(|(_, _, value)| !(self.facts.is_to_go_on && value["signature"] == ""))
            .collect();
        let count = shown.len();
        for (number, (index, content, value)) in shown.into_iter().enumerate() {
            let is_end = !has_failed && number + 1 == count;
            let uuid = self.ids.block(&entry.id, index);
            lines.push(self.block(entry, message, (uuid, value), is_end));
            if let ContentBlock::ToolCall(call) = content {
                let number = self.calls.iter().filter(|it| it.id == call.id).count();
                self.calls.push(Call {
                    id: call.id.clone(),
                    name: call.name.clone(),
                    arguments: call.arguments.clone(),
                    entry_id: entry.id.clone(),
                    number,
                    line: uuid,
                    at: entry.timestamp,
                });
            }
        }
        match message.stop_reason {
            StopReason::Error => lines.push(self.failure(entry, message)),
            StopReason::Aborted => {
                lines.push(self.interruption(&entry.id, entry.timestamp, INTERRUPTED));
            }
            _ => {}
        }
    }

    fn block(
        &mut self,
        entry: &TranscriptEntry,
        message: &AssistantMessage,
        (uuid, value): (Uuid, Value),
        is_end: bool,
    ) -> Line {
        let model = if message.is_from_gateway() { SYNTHETIC } else { message.model.as_str() };
        let usage = &message.usage;
        let mut line = self.begin();
        line.extend(members([
            (
                "message",
                json!({
                    "id": self.ids.message(&entry.id),
                    "type": "message",
                    "role": "assistant",
                    "model": model,
                    "content": [value],
                    "stop_reason": stop_reason(message.stop_reason).filter(|_| is_end),
                    "stop_sequence": null,
                    "usage": if is_end { usage_at_end(usage) } else { usage_at_start(usage) },
                }),
            ),
            ("requestId", self.ids.request(&entry.id).into()),
            ("type", "assistant".into()),
            ("uuid", uuid.to_string().into()),
            ("timestamp", iso_time(entry.timestamp).into()),
        ]));
        self.end(uuid, line)
    }

    fn failure(&mut self, entry: &TranscriptEntry, message: &AssistantMessage) -> Line {
        let said = message.error_message.as_deref().unwrap_or(NO_WORDS);
        let uuid = self.ids.failure(&entry.id);
        let mut line = self.begin();
        line.extend(members([
            ("type", "assistant".into()),
            ("uuid", uuid.to_string().into()),
            ("timestamp", iso_time(entry.timestamp).into()),
            ("message", synthetic(uuid, &error_text(said))),
            ("error", error_class(said).into()),
            ("isApiErrorMessage", true.into()),
        ]));
        self.end(uuid, line)
    }

    fn result(&mut self, entry: &TranscriptEntry, message: &ToolResultMessage) -> Line {
        let place = self.calls.iter().position(|call| call.id == message.tool_call_id);
        let call = place.map(|place| self.calls.remove(place));
        let (name, arguments) = call.as_ref().map_or_else(
            || (message.tool_name.as_str(), &Value::Null),
            |call| (call.name.as_str(), &call.arguments),
        );
        let took = call.as_ref().map_or(0, |call| entry.timestamp.saturating_sub(call.at));
        let of = call.as_ref().map_or(&entry.id, |call| &call.entry_id);
        let number = call.as_ref().map_or(0, |call| call.number);
        let uuid = self.ids.tool_result(of, &message.tool_call_id, number);
        if message.is_error && text_of(&message.content).contains(CUT_CALL) {
            self.stopped = Some(of.clone());
        }
        let told = tool_use_result(name, arguments, message, took);
        let content = json!([result_block(name, message)]);
        let mut line = self.begin();
        line.extend(members([
            ("type", "user".into()),
            ("message", json!({"role": "user", "content": content})),
            ("uuid", uuid.to_string().into()),
            ("timestamp", iso_time(entry.timestamp).into()),
            ("toolUseResult", told),
        ]));
        if let Some(call) = &call {
            line.insert("sourceToolAssistantUUID".into(), call.line.to_string().into());
        }
        self.end(uuid, line)
    }

    /// Says that somebody stopped calls, if somebody did.
    fn stopped_calls(&mut self, at: u64) -> Option<Line> {
        let entry_id = self.stopped.take()?;
        self.calls.clear();
        Some(self.interruption(&entry_id, at, INTERRUPTED_TOOL))
    }

    fn interruption(&mut self, entry_id: &str, at: u64, text: &str) -> Line {
        let uuid = self.ids.interrupt(entry_id);
        let content = json!([{"type": "text", "text": text}]);
        let mut line = self.begin();
        line.extend(members([
            ("type", "user".into()),
            ("message", json!({"role": "user", "content": content})),
            ("uuid", uuid.to_string().into()),
            ("timestamp", iso_time(at).into()),
        ]));
        self.end(uuid, line)
    }

    /// The conversation begins anew, with the summary of what was before.
    fn compaction(
        &mut self,
        lines: &mut Vec<Line>,
        entry: &TranscriptEntry,
        summary: &str,
        tokens_before: u64,
    ) {
        let is_manual = self.facts.manual_compactions.contains(&entry.id);
        let logical = self.last.take().map(|uuid| uuid.to_string());
        let (boundary, uuid) = (self.ids.boundary(&entry.id), self.ids.summary(&entry.id));
        let mut line = self.begin();
        line.shift_insert(1, "logicalParentUuid".into(), logical.into());
        line.extend(members([
            ("type", "system".into()),
            ("subtype", "compact_boundary".into()),
            ("content", "Conversation compacted".into()),
            ("isMeta", false.into()),
            ("timestamp", iso_time(entry.timestamp).into()),
            ("uuid", boundary.to_string().into()),
            ("level", "info".into()),
            (
                "compactMetadata",
                json!({
                    "trigger": if is_manual { "manual" } else { "auto" },
                    "preTokens": tokens_before,
                }),
            ),
        ]));
        lines.push(self.end(boundary, line));
        let text = format!("What was said before was summed up:\n\n{summary}");
        let mut line = self.begin();
        line.extend(members([
            ("type", "user".into()),
            ("message", json!({"role": "user", "content": text})),
            ("isVisibleInTranscriptOnly", true.into()),
            ("isCompactSummary", true.into()),
            ("uuid", uuid.to_string().into()),
            ("timestamp", iso_time(entry.timestamp).into()),
        ]));
        lines.push(self.end(uuid, line));
    }

    /// The members that all lines begin with.
    fn begin(&self) -> Map<String, Value> {
        let facts = &self.facts;
        let mut line: Map<_, _> = members([
            ("parentUuid", self.last.map(|uuid| uuid.to_string()).into()),
            ("isSidechain", facts.sidechain.is_some().into()),
            ("userType", "external".into()),
            ("cwd", facts.cwd.as_str().into()),
            ("sessionId", facts.session_id.as_str().into()),
            ("version", CLAUDE_CODE_VERSION.into()),
            ("gitBranch", facts.git_branch.as_str().into()),
        ])
        .collect();
        if let Some(side) = &facts.sidechain {
            line.insert("agentId".into(), side.agent_id.as_str().into());
        }
        line
    }

    fn end(&mut self, uuid: Uuid, line: Map<String, Value>) -> Line {
        self.last = Some(uuid);
        Line { uuid: Some(uuid), value: Value::Object(line) }
    }
}

/// A message that no model has written.
fn synthetic(id: Uuid, text: &str) -> Value {
    json!({
        "id": id.to_string(),
        "container": null,
        "model": SYNTHETIC,
        "role": "assistant",
        "stop_reason": "stop_sequence",
        "stop_sequence": "",
        "type": "message",
        "usage": usage_of_none(),
        "content": [{"type": "text", "text": text}],
        "context_management": null,
    })
}

/// The `tool_result` of a call of the tool `name` (ours).
fn result_block(name: &str, message: &ToolResultMessage) -> Value {
    let (id, content) = (tool_use_id(&message.tool_call_id), result_content(&message.content));
    let tool = tool_name(name);
    let error = told_as_data(message);
    if message.is_error || error.is_some() {
        let content = error.map_or(content, Value::from);
        return json!({"type": "tool_result", "content": content, "is_error": true,
            "tool_use_id": id});
    }
    // What a sub-agent is given is blocks.
    let content = match content {
        Value::String(text) if tool == "Task" => json!([{"type": "text", "text": text}]),
        content => content,
    };
    let mut block = json!({"tool_use_id": id, "type": "tool_result", "content": content});
    if tool == "Bash" {
        block["is_error"] = false.into();
    }
    block
}

/// Typed text is a text; with pictures it is blocks. `None` when nothing was
/// said.
fn user_content(content: &UserContent) -> Option<Value> {
    let blocks = match content {
        UserContent::Text(text) => return (!text.is_empty()).then(|| text.as_str().into()),
        UserContent::Blocks(blocks) => blocks,
    };
    let shown: Vec<_> = blocks
        .iter()
        .filter(|block| matches!(block, ContentBlock::Text(_) | ContentBlock::Image(_)))
        .filter_map(|content| block(content, ""))
        .collect();
    match shown.as_slice() {
        [] => None,
        [only] if only["type"] == "text" => Some(only["text"].clone()),
        _ => Some(shown.into()),
    }
}

fn members<const N: usize>(
    members: [(&'static str, Value); N],
) -> impl Iterator<Item = (String, Value)> {
    members.into_iter().map(|(name, value)| (name.to_owned(), value))
}
