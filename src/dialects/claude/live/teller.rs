//! What happens in the runs of a session, as frames.
//!
//! Owns: the turn that goes on, the answer that comes, the calls that are open.
//! Promises: what becomes a line of the transcript has the uuid of that line, so
//! a client that sees it twice knows; what of a message was not told when it came
//! is told when it is stored. Must not: know who listens.

mod ends;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::answer::{Answer, Of};
use super::frame::{self, Frame};
use super::history;
use super::turn::Turn;
use crate::agent::feed::{RunNews, Told};
use crate::agent::tools::{ToolKind, ToolOutput};
use crate::agent::{ActiveRun, Card};
use crate::dialects::claude::format::{
    Format, INTERRUPTED, INTERRUPTED_TOOL, Line, SessionFacts, echo, live, strip, tool_input,
    tool_name, tool_use_id,
};
use crate::protocol::message::{
    AgentMessage, AssistantMessage, INJECTED, StopReason, ToolResultMessage,
};
use crate::providers::StreamEvent;
use crate::sessions::{CompactionReason, EntryBody, StoredMessage, TranscriptEntry};
use crate::support::{Ids, json};

pub use ends::idle;

/// Progress of one call is told so often at most, as by the real software.
const PROGRESS_EVERY_MS: u64 = 1000;
/// Of a longer output the end is told while it grows; the result has all of it.
const PROGRESS_MAX: usize = 16 * 1024;
/// Frames of results that are longer lose what is heavy in them; clients read
/// the rest of it in the file that it is of.
const LIGHT_MAX: usize = 32 * 1024;

/// Turns news into frames.
pub struct Teller {
    of: Of,
    facts: Arc<SessionFacts>,
    format: Format,
    /// Entries that were read out of the transcript, of which news may still come.
    read: HashSet<String>,
    turn: Option<Turn>,
    answer: Option<Answer>,
    /// What the gateway has answered a command. Whoever sent that is told first
    /// that it was taken.
    noted: Vec<Frame>,
    /// When progress of the open calls was told.
    calls: HashMap<String, Option<u64>>,
    /// What the answers of the session have cost, in US dollars.
    spent: f64,
    /// Where uuids come from that nothing else has.
    ids: Arc<dyn Ids>,
}

impl Teller {
    /// Goes on behind what was read of the transcript.
    pub fn new(facts: Arc<SessionFacts>, ids: Arc<dyn Ids>, end: history::End) -> Self {
        let history::End { format, recent: read, spent } = end;
        let of = Of {
            session_id: facts.session_id.as_str().into(),
            ids: format.ids().clone(),
            parent_tool_use_id: None,
        };
        Self {
            of,
            facts,
            format,
            read,
            turn: None,
            answer: None,
            noted: Vec::new(),
            calls: HashMap::new(),
            spent,
            ids,
        }
    }

    /// A turn goes on that began before.
    pub fn resume(&mut self, run: Arc<ActiveRun>, now_ms: u64) {
        self.turn = Some(Turn::new(run, now_ms));
    }

    /// Whether a turn goes on.
    pub const fn is_working(&self) -> bool {
        self.turn.is_some()
    }

    /// The lines of an answer that is not in the transcript.
    pub fn unfinished(&self) -> HashSet<Uuid> {
        self.answer.as_ref().map(|answer| answer.lines().clone()).unwrap_or_default()
    }

    /// The frames for a piece of news of the session itself.
    pub fn hear(&mut self, told: &Told, now_ms: u64) -> Vec<Frame> {
        let mut out = std::mem::take(&mut self.noted);
        match &told.news {
            RunNews::Begins => {
                self.turn = told.run.clone().map(|run| Turn::new(run, now_ms));
            }
            RunNews::Asks { entry_id, model } => {
                if let Some(turn) = &mut self.turn {
                    turn.asks(model, now_ms);
                }
                let (of, last) = (self.of.clone(), self.format.last());
                self.answer = Some(Answer::new(of, entry_id.clone(), Arc::clone(model), last));
            }
            RunNews::Stream(event) => self.stream(event, now_ms, &mut out),
            RunNews::Stored(stored) => self.stored(stored, now_ms, &mut out),
            RunNews::ToolBegins(card) => {
                self.calls.insert(card.call.id.clone(), None);
                if let Some(turn) = &mut self.turn {
                    turn.is_at_tools = true;
                }
            }
            RunNews::ToolShows(card, output) => out.extend(self.shows(card, output, now_ms)),
            RunNews::ToolAsks(card, data) => self.asked(card, data),
            RunNews::ToolEnds(card, output) => out.extend(self.tool_ends(card, output, now_ms)),
            RunNews::Compacts(_) => out.push(self.status(Some("compacting"))),
            RunNews::Compacted(reason, done) => {
                out.push(self.status(None));
                if let Some(done) = done {
                    let body = EntryBody::Compaction {
                        summary: done.compaction.summary.clone(),
                        tokens_before: done.compaction.tokens_before,
                    };
                    let id = done.entry_id.clone();
                    self.compacted(
                        *reason,
                        &TranscriptEntry { id, timestamp: now_ms, body },
                        &mut out,
                    );
                }
            }
            RunNews::Ends(ending) => self.ends(told, ending, now_ms, &mut out),
            RunNews::Noted { run_id, answer } => {
                let text = answer.message.text();
                self.noted(run_id, &text, now_ms, &mut out);
            }
            // What becomes of a call that is judged, its end tells.
            RunNews::Says(_) | RunNews::ToolGuarded(..) => {}
        }
        out
    }

    fn stream(&mut self, event: &StreamEvent, now_ms: u64, out: &mut Vec<Frame>) {
        if let Some(answer) = &mut self.answer {
            answer.hear(event, now_ms, out);
        }
        if let StreamEvent::Retry(notice) = event {
            let uuid = self.other_uuid();
            let notice = frame::api_error(&self.of.session_id, notice, &uuid);
            out.push(Frame::passing(&notice));
        }
    }

    fn stored(&mut self, stored: &StoredMessage, now_ms: u64, out: &mut Vec<Frame>) {
        if stored.session.session_id != *self.of.session_id || self.read.remove(&stored.id) {
            return;
        }
        let entry = TranscriptEntry::of_stored(stored);
        let lines = entry.as_ref().map(|entry| self.format.push(entry)).unwrap_or_default();
        match &stored.message {
            AgentMessage::User(message) => {
                let echoed = lines.into_iter().map(|line| self.echo(&line, message.timestamp));
                out.extend(echoed.collect::<Vec<_>>());
            }
            AgentMessage::Assistant(message) => {
                self.answer_stored(&stored.id, message, &lines, now_ms, out);
            }
            AgentMessage::ToolResult(_) => {
                let frames: Vec<_> = lines.iter().map(|line| self.line(line)).collect();
                self.note_interruption(&lines);
                out.extend(frames);
            }
        }
    }

    /// What a user said. Clients of the older protocol want to know behind what.
    fn echo(&self, line: &Line, timestamp: u64) -> Frame {
        let uuid = line.uuid.unwrap_or_default();
        let content = &line.value["message"]["content"];
        let mut frame = echo(&self.of.session_id, uuid, timestamp, content);
        frame["parentUuid"] = line.value["parentUuid"].clone();
        Frame::line(Some(uuid), &frame)
    }

    fn line(&self, line: &Line) -> Frame {
        let mut frame = live(line, &self.facts);
        lighten(&mut frame);
        Frame::line(line.uuid, &frame)
    }

    fn answer_stored(
        &mut self,
        id: &str,
        message: &AssistantMessage,
        lines: &[Line],
        now_ms: u64,
        out: &mut Vec<Frame>,
    ) {
        self.spent += message.usage.cost.total;
        self.note_interruption(lines);
        // What the gateway says by the way is no answer of the turn.
        if let Some(turn) = self.turn.as_mut().filter(|_| !message.is_from_gateway()) {
            turn.answered(message, text_of(lines), now_ms);
            turn.has_failed |= message.stop_reason == StopReason::Error;
        }
        let values = lines.iter().map(|line| (line.uuid, live(line, &self.facts)));
        let values: Vec<_> = values.collect();
        let is_it = |answer: &mut Answer| answer.entry_id == id;
        if let Some(mut answer) = self.answer.take_if(is_it) {
            answer.finish(message, &values, out);
            return;
        }
        let frames = values.iter().map(|(uuid, value)| Frame::line(*uuid, value));
        // Of its copies of what was sent elsewhere nothing more is heard.
        let is_note = message.is_from_gateway() && message.model == INJECTED;
        let later = if is_note { &mut self.noted } else { out };
        later.extend(frames);
    }

    fn note_interruption(&mut self, lines: &[Line]) {
        let is_note = |line: &Line| {
            let text = line.value["message"]["content"][0]["text"].as_str();
            text.is_some_and(|text| [INTERRUPTED, INTERRUPTED_TOOL].contains(&text))
        };
        if let Some(turn) = &mut self.turn {
            turn.is_interrupted |= lines.iter().any(is_note);
        }
    }

    /// What a call has to show already, not too often.
    fn shows(&mut self, card: &Card, output: &ToolOutput, now_ms: u64) -> Option<Frame> {
        let told_at = self.calls.get_mut(&card.call.id)?;
        if told_at.is_some_and(|at| now_ms < at + PROGRESS_EVERY_MS) {
            return None;
        }
        *told_at = Some(now_ms);
        let text = output.to_text();
        let data = if card.kind == ToolKind::Command {
            let start = text.len().saturating_sub(PROGRESS_MAX);
            let start = text.ceil_char_boundary(start);
            let shown = text.get(start..).unwrap_or_default();
            // The command's own: its call began before, and may have waited for a yes.
            let began = output.details.as_ref().and_then(|details| details["startedAt"].as_u64());
            let seconds = now_ms.saturating_sub(began.unwrap_or(card.started_at)) / 1000;
            json!({"type": "bash_progress", "output": shown, "fullOutput": shown,
                "elapsedTimeSeconds": seconds, "totalLines": text.lines().count()})
        } else {
            json!({"type": "tool_progress", "message": text.chars().take(500).collect::<String>()})
        };
        let (id, uuid) = (tool_use_id(&card.call.id), self.other_uuid());
        Some(Frame::passing(&frame::progress(&data, &id, &uuid, now_ms)))
    }

    fn asked(&mut self, card: &Card, data: &Value) {
        if let Some(turn) = &mut self.turn
            && data["status"] == "denied"
        {
            turn.denials.push(json!({
                "tool_name": tool_name(&card.call.name),
                "tool_use_id": tool_use_id(&card.call.id),
                "tool_input": tool_input(&card.call.name, &card.call.arguments),
            }));
        }
    }

    /// The result of a call, before those of the calls beside it are stored too.
    fn tool_ends(&mut self, card: &Card, output: &ToolOutput, now_ms: u64) -> Option<Frame> {
        self.calls.remove(&card.call.id);
        // Which of several it is of is known when it is stored; it is told then.
        if self.format.is_repeated(&card.call.id) {
            return None;
        }
        let body = EntryBody::Message(AgentMessage::ToolResult(result_of(card, output, now_ms)));
        let entry = TranscriptEntry { id: String::new(), timestamp: now_ms, body };
        // A copy: the line itself is written when the result is stored.
        let lines = self.format.clone().push(&entry);
        lines.first().map(|line| self.line(line))
    }

    fn status(&self, status: Option<&str>) -> Frame {
        let uuid = self.other_uuid();
        Frame::passing(&frame::status(&self.of.session_id, status, &uuid))
    }

    fn compacted(
        &mut self,
        reason: CompactionReason,
        entry: &TranscriptEntry,
        out: &mut Vec<Frame>,
    ) {
        for line in self.format.push(entry) {
            let mut frame = live(&line, &self.facts);
            if let Some(about) = frame.get_mut("compact_metadata")
                && reason == CompactionReason::Manual
            {
                about["trigger"] = "manual".into();
            }
            out.push(Frame::line(line.uuid, &frame));
        }
    }

    fn other_uuid(&self) -> String {
        self.ids.uuid()
    }
}

/// What a call has brought, as the transcript will have it.
pub fn result_of(card: &Card, output: &ToolOutput, now_ms: u64) -> ToolResultMessage {
    ToolResultMessage {
        tool_call_id: card.call.id.clone(),
        tool_name: card.call.name.clone(),
        is_error: output.is_error_in_transcript(),
        content: output.content.clone(),
        details: output.details.clone(),
        timestamp: now_ms,
        extra: Map::new(),
    }
}

/// Takes out of a long result what clients do not need.
pub fn lighten(frame: &mut Value) {
    if frame["type"] == "user" && frame.to_string().len() > LIGHT_MAX {
        strip(frame);
    }
}

/// The texts of an answer.
fn text_of(lines: &[Line]) -> String {
    let said = lines.iter().filter(|line| line.value["type"] == "assistant");
    let texts = said.filter_map(|line| line.value["message"]["content"][0]["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::message::ToolCall;
    use crate::support::RandomIds;

    #[test]
    fn a_command_is_as_old_as_itself_and_not_as_the_call_that_waited_for_a_yes() {
        let facts = Arc::new(SessionFacts::new("s", "/w"));
        let format = Format::new(Arc::clone(&facts), None);
        let end = history::End { format, recent: HashSet::new(), spent: 0.0 };
        let mut teller = Teller::new(facts, Arc::new(RandomIds), end);
        teller.calls.insert("c".into(), None);
        let call = json!({"type": "toolCall", "id": "c", "name": "exec", "arguments": {}});
        let call: ToolCall = serde_json::from_value(call).unwrap();
        let card = Card { call, meta: None, kind: ToolKind::Command, started_at: 1000 };
        let details = Some(json!({"status": "running", "startedAt": 61_000}));
        let output = ToolOutput { details, ..ToolOutput::text("x") };
        let told = teller.shows(&card, &output, 63_500).unwrap();
        assert!(told.text.contains(r#""elapsedTimeSeconds":2,"#), "{}", told.text);
    }
}
