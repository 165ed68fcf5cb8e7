//! The answer of a model while it comes, as events of the Anthropic API.
//!
//! Owns: which blocks are open. Promises: a block is told whole in a frame
//! before it ends; what people do not see (thoughts in a text, directives) is in
//! no delta; a block has the index and the uuid that it has in the transcript. A text
//! whose end tells whether there is a thought in it ends when that is known, and the last
//! block when it is known what the answer has used.
//! Must not: know runs or tools.

mod frames;

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;
use uuid::Uuid;

use super::frame::Frame;
use super::open::{Open, unsaid};
use crate::agent::{Visible, part_thoughts};
use crate::dialects::claude::format::{
    self, Ids, tool_input, tool_name, tool_use_id, usage_at_end, usage_at_start,
};
use crate::protocol::message::{AssistantMessage, ContentBlock};
use crate::providers::{FallbackNotice, ModelInfo, StreamEvent};
use crate::sessions::directives;
use crate::support::{Few, json};
use frames::Ended;

/// Tools whose arguments have other names here: clients get them in one piece,
/// so that what they put together is what the block says.
const RENAMED: [&str; 6] = ["exec", "bash", "read", "write", "edit", "sessions_spawn"];

/// What all frames of a session say of it.
#[derive(Debug, Clone)]
pub struct Of {
    /// The session.
    pub session_id: Arc<str>,
    /// Its ids.
    pub ids: Ids,
    /// The call that began it, for a sub-agent.
    pub parent_tool_use_id: Option<Arc<str>>,
}

/// An answer that comes.
#[derive(Debug)]
pub struct Answer {
    /// Id that it will have in the transcript.
    pub entry_id: String,
    /// Who answers.
    pub model: Arc<ModelInfo>,
    /// Its name, or that of the one that is asked in its place.
    name: String,
    of: Of,
    /// The line before the next one.
    last: Option<Uuid>,
    /// Its lines so far.
    lines: HashSet<Uuid>,
    /// Whether clients have been told that it begins.
    has_begun: bool,
    /// Pieces told so far.
    pieces: usize,
    /// Blocks that the transcript will have more than the stream has.
    shift: usize,
    open: Few<usize, Open>,
    ended: Option<Ended>,
}

impl Answer {
    /// An answer of which nothing has come, behind the line `last`.
    pub fn new(of: Of, entry_id: String, model: Arc<ModelInfo>, last: Option<Uuid>) -> Self {
        let name = model.id.clone();
        Self {
            entry_id,
            model,
            name,
            of,
            last,
            lines: HashSet::new(),
            has_begun: false,
            pieces: 0,
            shift: 0,
            open: Few::new(),
            ended: None,
        }
    }

    /// More of it, at this time.
    pub fn hear(&mut self, event: &StreamEvent, now_ms: u64, out: &mut Vec<Frame>) {
        if matches!(
            event,
            StreamEvent::TextStart { .. }
                | StreamEvent::ThinkingStart { .. }
                | StreamEvent::ToolCallStart { .. }
        ) {
            self.end_doubts(false, now_ms, out);
        }
        match event {
            StreamEvent::TextStart { index } => {
                let open = Open::Text { raw: String::new(), seen: Visible::new(), told: 0 };
                self.open.insert(*index, open);
            }
            StreamEvent::TextDelta { index, delta } => self.text(*index, delta, out),
            StreamEvent::ThinkingStart { index } => {
                let (text, signature) = (String::new(), None);
                self.open.insert(*index, Open::Thinking { text, signature, is_told: false });
            }
            StreamEvent::ThinkingDelta { index, delta } => self.thinking(*index, delta, out),
            StreamEvent::ThinkingSigned { index, signature: new } => {
                if let Some(Open::Thinking { signature, .. }) = self.open.get_mut(index) {
                    *signature = Some(new.clone());
                }
            }
            StreamEvent::ToolCallStart { index, id, name } => {
                let start = json!({"type": "tool_use", "id": tool_use_id(id),
                    "name": tool_name(name), "input": {}});
                self.begin_block(*index, &start, out);
                let (id, name) = (id.clone(), name.clone());
                let arguments = String::new();
                self.open.insert(*index, Open::Call { id, name, arguments, is_cut: false });
            }
            StreamEvent::ToolCallDelta { index, delta } => self.arguments(*index, delta, out),
            StreamEvent::CallCut { index } => {
                if let Some(Open::Call { is_cut, .. }) = self.open.get_mut(index) {
                    *is_cut = true;
                }
            }
            StreamEvent::BlockEnd { index } => self.end_block(*index, now_ms, out),
            StreamEvent::Fallback(FallbackNotice::Step { to: Some(to), .. }) => {
                self.name.clone_from(&to.model);
            }
            // One that begins anew is another answer, with an id of its own.
            StreamEvent::Retry(_) | StreamEvent::Anew => self.release(None, out),
            StreamEvent::Fallback(_) | StreamEvent::Used(_) => {}
        }
    }

    /// Its lines so far.
    pub const fn lines(&self) -> &HashSet<Uuid> {
        &self.lines
    }

    /// The message is in the transcript, with these lines: what was not told of
    /// it is told, then its end.
    pub fn finish(
        &mut self,
        message: &AssistantMessage,
        lines: &[(Option<Uuid>, Value)],
        out: &mut Vec<Frame>,
    ) {
        let reason = format::stop_reason(message.stop_reason);
        self.settle(message, out);
        // One that came without any piece is told in the same way.
        let is_whole = !self.has_begun && reason.is_some();
        for (index, (uuid, line)) in lines.iter().enumerate() {
            if is_whole {
                self.whole_block(index, *uuid, line, out);
            } else {
                out.push(Frame::line(*uuid, line));
            }
        }
        let Some(reason) = reason.filter(|_| self.has_begun) else { return };
        let delta = json!({"stop_reason": reason, "stop_sequence": null});
        let usage = usage_at_end(&message.usage);
        self.piece(&json!({"type": "message_delta", "delta": delta, "usage": usage}), out);
        self.piece(&json!({"type": "message_stop"}), out);
    }

    /// Tells the calls of the stored message that could not be told as they came.
    pub fn tell_calls(&mut self, message: &AssistantMessage, out: &mut Vec<Frame>) {
        for (index, value) in self.values(&message.content) {
            let uuid = self.of.ids.block(&self.entry_id, index);
            if value["type"] == "tool_use" && !self.lines.contains(&uuid) {
                self.block(index, value, message.timestamp, out);
            }
        }
    }

    /// The message is in the transcript, which tells what is in a text that waited, and
    /// what the answer has used.
    pub fn settle(&mut self, message: &AssistantMessage, out: &mut Vec<Frame>) {
        let usage = if format::stop_reason(message.stop_reason).is_some() {
            self.end_doubts(message.stop_reason.ended_by_itself(), message.timestamp, out);
            usage_at_end(&message.usage)
        } else {
            // Of one that was stopped no block that is open has ended.
            usage_at_start(&message.usage)
        };
        self.release(Some(usage), out);
    }

    fn text(&mut self, index: usize, delta: &str, out: &mut Vec<Frame>) {
        let Some(Open::Text { raw, seen, told }) = self.open.get_mut(&index) else { return };
        raw.push_str(delta);
        seen.push(delta);
        if directives::may_become_silent(seen.text()) {
            return;
        }
        let (is_first, new) = (*told == 0, unsaid(seen, told));
        self.say(index, is_first, new, out);
    }

    fn say(&mut self, index: usize, is_first: bool, new: Option<String>, out: &mut Vec<Frame>) {
        let Some(new) = new else { return };
        if is_first {
            self.begin_block(index, &json!({"type": "text", "text": ""}), out);
        }
        self.delta(index, &json!({"type": "text_delta", "text": new}), out);
    }

    fn thinking(&mut self, index: usize, delta: &str, out: &mut Vec<Frame>) {
        let Some(Open::Thinking { text, is_told, .. }) = self.open.get_mut(&index) else { return };
        text.push_str(delta);
        if !std::mem::replace(is_told, true) {
            let start = json!({"type": "thinking", "thinking": "", "signature": ""});
            self.begin_block(index, &start, out);
        }
        self.delta(index, &json!({"type": "thinking_delta", "thinking": delta}), out);
    }

    fn arguments(&mut self, index: usize, delta: &str, out: &mut Vec<Frame>) {
        let Some(Open::Call { name, arguments, .. }) = self.open.get_mut(&index) else { return };
        arguments.push_str(delta);
        if !RENAMED.contains(&name.as_str()) {
            self.delta(index, &json!({"type": "input_json_delta", "partial_json": delta}), out);
        }
    }

    /// A block is complete, unless what comes next has to tell what is in it.
    fn end_block(&mut self, index: usize, now_ms: u64, out: &mut Vec<Frame>) {
        if !self.open.get(&index).is_some_and(Open::is_in_doubt) {
            self.close_block(index, false, now_ms, out);
        }
    }

    /// The same for those that waited: the answer ends with them by itself, or does not.
    fn end_doubts(&mut self, is_whole: bool, now_ms: u64, out: &mut Vec<Frame>) {
        let waiting: Vec<_> =
            self.open.iter().filter(|(_, open)| open.is_in_doubt()).map(|(at, _)| *at).collect();
        for index in waiting {
            self.close_block(index, is_whole, now_ms, out);
        }
    }

    /// What is left of a block, the whole, its end.
    fn close_block(&mut self, index: usize, is_whole: bool, now_ms: u64, out: &mut Vec<Frame>) {
        let Some(open) = self.open.remove(&index) else { return };
        let (blocks, is_told) = match open {
            Open::Text { raw, mut seen, told } => {
                seen.finish(is_whole);
                let blocks = part_thoughts(vec![ContentBlock::text(raw)], is_whole);
                self.end_text(index, blocks, &seen, told, out)
            }
            Open::Thinking { text, signature, is_told } => {
                let mut block = ContentBlock::thinking(text);
                if let ContentBlock::Thinking(block) = &mut block {
                    block.thinking_signature = signature;
                }
                (vec![block], is_told)
            }
            Open::Call { id, name, arguments, is_cut } => {
                // One that was cut is no whole call; if it is kept, it comes with the message.
                let arguments: Option<Value> = match arguments.trim() {
                    "" => (!is_cut).then(|| json!({})),
                    text => serde_json::from_str(text).ok(),
                };
                if let Some(arguments) = &arguments
                    && RENAMED.contains(&name.as_str())
                {
                    let input = tool_input(&name, arguments).to_string();
                    let delta = json!({"type": "input_json_delta", "partial_json": input});
                    self.delta(index, &delta, out);
                }
                let block = arguments.map(|it| ContentBlock::tool_call(id, name, it));
                (block.into_iter().collect(), true)
            }
        };
        // What is not shown yet is not to be seen, or comes with the message.
        let shown: Vec<_> = if is_told { self.values(&blocks) } else { Vec::new() };
        let is_shown = !shown.is_empty();
        let first = index + self.shift;
        self.shift += blocks.len().saturating_sub(1);
        for (number, value) in shown {
            if let Some(signature) = value["signature"].as_str().filter(|it| !it.is_empty()) {
                let delta = json!({"type": "signature_delta", "signature": signature});
                self.delta(index, &delta, out);
            }
            self.block(first + number, value, now_ms, out);
        }
        if is_shown && let Some(ended) = &mut self.ended {
            ended.stop = Some(index);
        } else if is_told {
            self.piece(&json!({"type": "content_block_stop", "index": index}), out);
        }
    }

    /// The rest of a text, and the blocks that the transcript makes of it.
    fn end_text(
        &mut self,
        index: usize,
        mut blocks: Vec<ContentBlock>,
        seen: &Visible,
        mut told: usize,
        out: &mut Vec<Frame>,
    ) -> (Vec<ContentBlock>, bool) {
        let (is_first, rest) = (told == 0, unsaid(seen, &mut told));
        self.say(index, is_first, rest, out);
        for block in &mut blocks {
            if let ContentBlock::Text(block) = block
                && block.text.contains("[[")
            {
                block.text = directives::strip(&block.text);
            }
        }
        (blocks, told > 0)
    }
}
