//! How a turn ends, and what is told where none was.

use std::sync::Arc;

use super::{Teller, text_of};
use crate::agent::feed::{Ending, Told};
use crate::dialects::claude::format::{INTERRUPTED, INTERRUPTED_TOOL};
use crate::dialects::claude::live::answer::Answer;
use crate::dialects::claude::live::frame::{self, Frame};
use crate::dialects::claude::live::turn::{End, Turn};
use crate::protocol::message::{AgentMessage, AssistantMessage, StopReason};
use crate::sessions::{EntryBody, TranscriptEntry};
use crate::support::json;

/// `errorKind` of a provider that wants less of us.
const RATE_LIMIT: &str = "rate_limit";

impl Teller {
    /// The run has ended: what is left of its answer, and the result of its turn.
    pub(super) fn ends(&mut self, told: &Told, ending: &Ending, now_ms: u64, out: &mut Vec<Frame>) {
        let Some(run) = &told.run else { return };
        if matches!(ending, Ending::TakenInto(_)) {
            return;
        }
        let is_turns = self.turn.as_ref().is_some_and(|turn| Arc::ptr_eq(&turn.run, run));
        let turn = if is_turns { self.turn.take() } else { None };
        let is_idle = self.turn.is_none();
        // One that never began is told as a turn of its own.
        let mut turn = turn.unwrap_or_else(|| Turn::new(Arc::clone(run), now_ms));
        let mut answer = if is_turns { self.answer.take() } else { None };
        if let Some(answer) = &mut answer {
            answer.release(None, out);
        }
        let end = match ending {
            Ending::Answered { .. } | Ending::TakenInto(_) => End::Answered,
            Ending::Failed { message, kind, .. } => {
                if kind == RATE_LIMIT {
                    out.push(Frame::passing(&frame::rate_limit(
                        &self.of.session_id,
                        &self.ids.uuid(),
                    )));
                }
                turn.text = self.failure(&turn, message, now_ms, out);
                End::Failed
            }
            Ending::Aborted(_) => {
                if !turn.is_interrupted && is_turns {
                    out.push(self.interruption(&turn, answer.as_ref(), now_ms));
                }
                End::Stopped
            }
        };
        if is_turns {
            self.calls.clear();
        }
        if is_idle && !run.terms.is_heartbeat {
            let uuid = self.other_uuid();
            let result = turn.result(end, (&self.of.session_id, self.spent), &uuid, now_ms);
            out.push(Frame::passing(&result));
            out.push(Frame::passing(&frame::dequeue(&self.of.session_id, now_ms)));
        }
    }

    /// Tells how the provider failed, if the transcript does not; the text.
    fn failure(&self, turn: &Turn, said: &str, now_ms: u64, out: &mut Vec<Frame>) -> String {
        let mut message = AssistantMessage::from_gateway(String::new(), now_ms);
        message.content.clear();
        message.stop_reason = StopReason::Error;
        message.error_message = Some(said.to_owned());
        let body = EntryBody::Message(AgentMessage::Assistant(message));
        let entry = TranscriptEntry { id: turn.run.id.to_string(), timestamp: now_ms, body };
        let lines = self.format.clone().push(&entry);
        if !turn.has_failed {
            out.extend(lines.iter().map(|line| self.line(line)));
        }
        text_of(&lines)
    }

    /// Somebody has stopped the turn before there was anything to keep of it.
    fn interruption(&self, turn: &Turn, answer: Option<&Answer>, now_ms: u64) -> Frame {
        let text = if turn.is_at_tools || !turn.denials.is_empty() {
            INTERRUPTED_TOOL
        } else {
            INTERRUPTED
        };
        let of = answer.map_or(&*turn.run.id, |answer| answer.entry_id.as_str());
        let uuid = self.of.ids.interrupt(of);
        let parent = self.format.last().map(|uuid| uuid.to_string());
        let value = json!({
            "type": "user",
            "message": {"role": "user", "content": [{"type": "text", "text": text}]},
            "parent_tool_use_id": null,
            "session_id": self.of.session_id,
            "uuid": uuid.to_string(),
            "parentUuid": parent,
            "timestamp": crate::sessions::iso_time(now_ms),
        });
        Frame::line(Some(uuid), &value)
    }

    /// The gateway has answered a command itself. Its frame was told when it was
    /// stored; nothing goes on after it.
    pub(super) fn noted(&self, run_id: &str, text: &str, now_ms: u64, out: &mut Vec<Frame>) {
        if self.turn.is_some() {
            return;
        }
        let uuid = self.of.ids.other("noted", run_id, 0).to_string();
        out.extend(idle(&self.of.session_id, text, self.spent, &uuid, now_ms));
    }
}

/// The end of what was no turn: a `result` with this text, and that the next
/// message may come.
pub fn idle(session_id: &str, text: &str, spent: f64, uuid: &str, now_ms: u64) -> [Frame; 2] {
    let result = json!({
        "type": "result", "subtype": "success", "is_error": false, "duration_ms": 0,
        "duration_api_ms": 0, "num_turns": 0, "result": text, "stop_reason": null,
        "session_id": session_id, "total_cost_usd": spent,
        "usage": {"input_tokens": 0, "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0, "output_tokens": 0},
        "modelUsage": {}, "permission_denials": [], "uuid": uuid,
    });
    [Frame::passing(&result), Frame::passing(&frame::dequeue(session_id, now_ms))]
}
