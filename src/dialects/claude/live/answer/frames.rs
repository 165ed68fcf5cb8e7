//! The frames that an answer is told in.
//!
//! Owns: what a frame says, its uuid, and the block that waits for what comes next. Must not:
//! know what is open.

use serde_json::Value;
use uuid::Uuid;

use super::Answer;
use crate::dialects::claude::format::{block, usage_at_start};
use crate::dialects::claude::live::frame::Frame;
use crate::protocol::message::{ContentBlock, Usage};
use crate::sessions::iso_time;
use crate::support::json;

/// A block that is complete, and waits for what comes next: the last one of an answer tells
/// what the answer has used, as its line does, and that is known at the end.
#[derive(Debug)]
pub(super) struct Ended {
    uuid: Uuid,
    frame: Value,
    /// The index under which its end is told, unless more is to come of that.
    pub(super) stop: Option<usize>,
}

impl Answer {
    /// Tells the block that waits, with this usage if it is the last one.
    pub fn release(&mut self, usage: Option<Value>, out: &mut Vec<Frame>) {
        let Some(Ended { uuid, mut frame, stop }) = self.ended.take() else { return };
        if let Some(usage) = usage {
            frame["message"]["usage"] = usage;
        }
        out.push(Frame::line(Some(uuid), &frame));
        if let Some(index) = stop {
            self.piece(&json!({"type": "content_block_stop", "index": index}), out);
        }
    }

    /// A block that came at once: its line, told as if it had come in pieces.
    pub(super) fn whole_block(
        &mut self,
        index: usize,
        uuid: Option<Uuid>,
        line: &Value,
        out: &mut Vec<Frame>,
    ) {
        let block = &line["message"]["content"][0];
        let text = |name: &str| block[name].as_str().unwrap_or_default();
        let (start, delta) = match text("type") {
            "text" => (
                json!({"type": "text", "text": ""}),
                json!({"type": "text_delta", "text": text("text")}),
            ),
            "thinking" => (
                json!({"type": "thinking", "thinking": "", "signature": ""}),
                json!({"type": "thinking_delta", "thinking": text("thinking")}),
            ),
            "tool_use" => (
                json!({"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}),
                json!({"type": "input_json_delta", "partial_json": block["input"].to_string()}),
            ),
            _ => return out.push(Frame::line(uuid, line)),
        };
        self.begin_block(index, &start, out);
        self.delta(index, &delta, out);
        out.push(Frame::line(uuid, line));
        self.piece(&json!({"type": "content_block_stop", "index": index}), out);
    }

    /// The blocks as clients see them, with their places.
    pub(super) fn values(&self, blocks: &[ContentBlock]) -> Vec<(usize, Value)> {
        let api = self.model.api.as_str();
        let shown = blocks.iter().enumerate();
        shown.filter_map(|(number, content)| Some((number, block(content, api)?))).collect()
    }

    /// A block is whole: the one before it is told.
    pub(super) fn block(&mut self, index: usize, value: Value, now_ms: u64, out: &mut Vec<Frame>) {
        let uuid = self.of.ids.block(&self.entry_id, index);
        let mut message = self.message(&[value]);
        message["context_management"] = Value::Null;
        let parent = self.last.map(|uuid| uuid.to_string());
        let frame = json!({
            "type": "assistant",
            "message": message,
            "parent_tool_use_id": self.of.parent_tool_use_id,
            "session_id": self.of.session_id,
            "uuid": uuid.to_string(),
            "parentUuid": parent,
            "timestamp": iso_time(now_ms),
        });
        self.last = Some(uuid);
        self.lines.insert(uuid);
        self.release(None, out);
        self.ended = Some(Ended { uuid, frame, stop: None });
    }

    fn message(&self, content: &[Value]) -> Value {
        json!({
            "id": self.of.ids.message(&self.entry_id),
            "type": "message",
            "role": "assistant",
            "model": self.name,
            "content": content,
            "stop_reason": null,
            "stop_sequence": null,
            "usage": usage_at_start(&Usage::default()),
        })
    }

    /// A block begins, and the answer with the first one.
    pub(super) fn begin_block(&mut self, index: usize, start: &Value, out: &mut Vec<Frame>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            let message = self.message(&[]);
            self.piece(&json!({"type": "message_start", "message": message}), out);
        }
        let event = json!({"type": "content_block_start", "index": index, "content_block": start});
        self.piece(&event, out);
    }

    /// More of a block.
    pub(super) fn delta(&mut self, index: usize, delta: &Value, out: &mut Vec<Frame>) {
        self.piece(&json!({"type": "content_block_delta", "index": index, "delta": delta}), out);
    }

    /// An event of the Anthropic API, behind the block that waits.
    pub(super) fn piece(&mut self, event: &Value, out: &mut Vec<Frame>) {
        self.release(None, out);
        let uuid = self.of.ids.other("piece", &self.entry_id, self.pieces);
        self.pieces += 1;
        out.push(Frame::piece(&json!({
            "type": "stream_event",
            "event": event,
            "session_id": self.of.session_id,
            "parent_tool_use_id": self.of.parent_tool_use_id,
            "uuid": uuid.to_string(),
        })));
    }
}
