//! A sub-agent, as whoever looks at the session that began it sees it.
//!
//! Promises: its frames name the call that began it, and none of them streams: a
//! client that shows one text at a time shows that of the session itself.

use std::sync::Arc;

use serde_json::Value;

use super::answer::{Answer, Of};
use super::frame::{Frame, Keep};
use super::teller::{lighten, result_of};
use crate::agent::feed::{RunNews, Told};
use crate::agent::{ActiveRun, Card};
use crate::dialects::claude::format::{Format, Ids, SessionFacts, Sidechain, live};
use crate::protocol::message::{AgentMessage, AssistantMessage, ContentBlock, ToolResultMessage};
use crate::sessions::{EntryBody, TranscriptEntry};
use crate::support::json;

/// A sub-agent.
pub struct Side {
    of: Of,
    facts: Arc<SessionFacts>,
    answer: Option<Answer>,
    /// The answer that called tools, and its calls.
    asked: (String, Vec<Card>),
    /// What was stored of their results.
    stored: Vec<ToolResultMessage>,
}

impl Side {
    /// The sub-agent with the transcript `own_id` and the session `key`, begun by
    /// the call `call_id` in the session of `facts`.
    pub fn new(facts: &SessionFacts, own_id: &str, key: &str, call_id: Option<String>) -> Self {
        let of = Of {
            session_id: facts.session_id.as_str().into(),
            ids: Ids::new(own_id),
            parent_tool_use_id: call_id.as_deref().map(Into::into),
        };
        let side = Sidechain {
            own_session_id: own_id.to_owned(),
            agent_id: Ids::agent(key),
            parent_tool_use_id: call_id,
        };
        let facts = Arc::new(SessionFacts { sidechain: Some(side), ..facts.clone() });
        Self { of, facts, answer: None, asked: (String::new(), Vec::new()), stored: Vec::new() }
    }

    /// The frames for a piece of its news.
    pub fn hear(&mut self, told: &Told, now_ms: u64) -> Vec<Frame> {
        let mut out = Vec::new();
        match &told.news {
            RunNews::Begins => out.extend(told.run.as_deref().map(|run| self.prompt(run))),
            RunNews::Asks { entry_id, model } => {
                self.asked = (entry_id.clone(), Vec::new());
                self.stored.clear();
                let (of, model) = (self.of.clone(), Arc::clone(model));
                self.answer = Some(Answer::new(of, entry_id.clone(), model, None));
            }
            RunNews::Stream(event) => {
                if let Some(answer) = &mut self.answer {
                    answer.hear(event, now_ms, &mut out);
                }
            }
            RunNews::ToolBegins(card) => self.asked.1.push(card.clone()),
            RunNews::ToolEnds(card, output) if !self.is_repeated(&card.call.id) => {
                let result = result_of(card, output, now_ms);
                out.extend(self.result(&result, card.started_at, now_ms));
            }
            RunNews::Stored(stored) => {
                if let AgentMessage::Assistant(message) = &stored.message
                    && let Some(answer) = &mut self.answer
                    && answer.entry_id == stored.id
                {
                    if !message.stop_reason.has_failed() {
                        answer.tell_calls(message, &mut out);
                    }
                    answer.settle(message, &mut out);
                }
                if let AgentMessage::ToolResult(result) = &stored.message {
                    // Only now it is known which of the calls it is of.
                    if self.is_repeated(&result.tool_call_id) {
                        out.extend(self.result(result, now_ms, now_ms));
                    }
                    self.stored.push(result.clone());
                }
            }
            // Of an answer that broke off nothing may be stored.
            RunNews::Ends(_) => {
                if let Some(answer) = &mut self.answer {
                    answer.release(None, &mut out);
                }
            }
            _ => {}
        }
        out.retain(|frame| !matches!(frame.keep, Keep::Piece | Keep::End));
        // In the transcript of the session there is none of them.
        for frame in &mut out {
            frame.keep = Keep::Nothing;
        }
        out
    }

    fn prompt(&self, run: &ActiveRun) -> Frame {
        let uuid = self.of.ids.user(&run.message_id);
        let value = json!({
            "type": "user",
            "message": {"role": "user", "content": [{"type": "text",
                "text": run.message.content.text()}]},
            "parent_tool_use_id": self.of.parent_tool_use_id,
            "session_id": self.of.session_id,
            "uuid": uuid.to_string(),
        });
        Frame::line(Some(uuid), &value)
    }

    /// Whether several calls of the answer have this id.
    fn is_repeated(&self, call_id: &str) -> bool {
        self.asked.1.iter().filter(|card| card.call.id == call_id).count() > 1
    }

    fn result(&self, result: &ToolResultMessage, called_at: u64, now_ms: u64) -> Option<Frame> {
        let (entry_id, cards) = &self.asked;
        let mut format = Format::new(Arc::clone(&self.facts), None);
        let mut calls = AssistantMessage::from_gateway(String::new(), now_ms);
        calls.content =
            cards.iter().map(|card| ContentBlock::ToolCall(card.call.clone())).collect();
        format.push(&entry(entry_id, AgentMessage::Assistant(calls), called_at));
        for before in self.stored.iter().filter(|it| it.tool_call_id == result.tool_call_id) {
            format.push(&entry("", AgentMessage::ToolResult(before.clone()), now_ms));
        }
        let lines = format.push(&entry("", AgentMessage::ToolResult(result.clone()), now_ms));
        let line = lines.first()?;
        let mut value: Value = live(line, &self.facts);
        lighten(&mut value);
        Some(Frame::line(line.uuid, &value))
    }
}

fn entry(id: &str, message: AgentMessage, timestamp: u64) -> TranscriptEntry {
    TranscriptEntry { id: id.to_owned(), timestamp, body: EntryBody::Message(message) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tools::{ToolKind, ToolOutput};
    use crate::protocol::message::StopReason;
    use crate::providers::{StreamEvent, testing};
    use crate::sessions::{SessionEntry, SessionKey, StoredMessage};

    #[test]
    fn a_call_whose_arguments_cannot_be_read_is_told_before_its_result() {
        let key = SessionKey::from_canonical("agent:main:subagent:x");
        let facts = SessionFacts::new("session", "/w");
        let mut side = Side::new(&facts, "own", key.as_str(), Some("call".into()));
        let model = testing::model("openai-completions");
        let call = ContentBlock::tool_call("c1", "ls", json!({}));
        let mut message = testing::answer(&model);
        (message.stop_reason, message.content) = (StopReason::ToolUse, vec![call]);
        let call = message.tool_calls().next().unwrap().clone();
        let card = Card { call, meta: None, kind: ToolKind::Reads, started_at: 1 };
        let stored = StoredMessage {
            id: "e1".into(),
            seq: 2,
            message: AgentMessage::Assistant(message),
            session: SessionEntry::default(),
            is_repeated: false,
        };
        let (id, name, delta) = ("c1".into(), "ls".into(), "{\"path\": ".into());
        let news = [
            RunNews::Asks { entry_id: "e1".into(), model: Arc::new(model) },
            RunNews::Stream(StreamEvent::ToolCallStart { index: 0, id, name }),
            RunNews::Stream(StreamEvent::ToolCallDelta { index: 0, delta }),
            RunNews::Stream(StreamEvent::BlockEnd { index: 0 }),
            RunNews::ToolBegins(card.clone()),
            RunNews::Stored(stored),
            RunNews::ToolEnds(card, ToolOutput::error("not made")),
        ];
        let frames = news
            .into_iter()
            .flat_map(|news| side.hear(&Told { key: key.clone(), run: None, news }, 1));
        let told: Vec<Value> =
            frames.map(|frame| serde_json::from_str(&frame.text).unwrap()).collect();
        let blocks: Vec<_> = told.iter().map(|it| &it["message"]["content"][0]).collect();
        assert_eq!(blocks.len(), 2, "{told:?}");
        assert_eq!(
            (&blocks[0]["type"], &blocks[1]["type"]),
            (&json!("tool_use"), &json!("tool_result"))
        );
        assert_eq!(blocks[0]["id"], blocks[1]["tool_use_id"]);
    }
}
