//! An answer while it is being streamed.
//!
//! Owns: the growing message and the events that report it, in the same order
//! for every API. Promises: each block that starts also ends; arguments of a
//! tool call are an object, `{}` when the model's JSON is broken, and then the call
//! says so; whoever reads can tell that an answer is longer than any model's; halves of a
//! character in two pieces of a block are one there. Must not: know how an API writes its
//! stream.

mod calls;

use std::collections::HashSet;

use serde_json::Map;

use calls::Arguments;

use super::halves::{append, whole};
use super::scrub::scrub;
use super::{EventSink, ModelInfo, ProviderError, ProviderErrorKind, StreamEvent};
use crate::protocol::message::{AssistantMessage, ContentBlock, Cost, StopReason, Usage};

/// What stands in for a thought that the provider hides.
const REDACTED: &str = "[Reasoning redacted]";
/// Longest answer in bytes, thoughts and arguments included: several times what any
/// model may say at once. A delta has the whole text, and must fit into a frame.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Most blocks of an answer. A model calls some dozens of tools at once.
const MAX_BLOCKS: usize = 1024;

/// A message in the making.
pub struct Answer<'a> {
    model: &'a ModelInfo,
    events: EventSink<'a>,
    message: AssistantMessage,
    /// The last block, while it may still grow.
    open: Option<usize>,
    /// Those of its calls.
    arguments: Vec<Arguments>,
    /// What calls of the conversation are told apart by, these among them.
    ids: HashSet<String>,
    /// Bytes that have come.
    bytes: usize,
}

impl<'a> Answer<'a> {
    /// An empty answer of `model`.
    pub fn new(model: &'a ModelInfo, events: EventSink<'a>, timestamp: u64) -> Self {
        let message = AssistantMessage {
            content: Vec::new(),
            api: model.api.as_str().into(),
            provider: model.provider.clone(),
            model: model.id.clone(),
            usage: Usage::default(),
            stop_reason: StopReason::Stop,
            error_message: None,
            timestamp,
            response_id: None,
            extra: Map::new(),
        };
        let (arguments, ids) = (Vec::new(), HashSet::new());
        Self { model, events, message, open: None, arguments, ids, bytes: 0 }
    }

    /// The provider's own id of this answer. The first one counts.
    pub fn set_response_id(&mut self, id: &str) {
        if !id.is_empty() && self.message.response_id.is_none() {
            self.message.response_id = Some(whole(id.to_owned()));
        }
    }

    /// Tokens so far; total and price are worked out here.
    pub fn set_usage(&mut self, usage: Usage) {
        self.take_usage(self.model.priced(usage));
    }

    /// Tokens so far, with the provider's own total if it has one; the price is multiplied
    /// by `factor`.
    pub fn set_counted_usage(&mut self, usage: Usage, factor: f64) {
        let Usage { total_tokens, cost, .. } = self.model.priced(usage.clone());
        let total_tokens = if usage.total_tokens == 0 { total_tokens } else { usage.total_tokens };
        let mut cost = Cost {
            input: cost.input * factor,
            output: cost.output * factor,
            cache_read: cost.cache_read * factor,
            cache_write: cost.cache_write * factor,
            ..Cost::default()
        };
        cost.total = cost.input + cost.output + cost.cache_read + cost.cache_write;
        self.take_usage(Usage { total_tokens, cost, ..usage });
    }

    fn take_usage(&mut self, usage: Usage) {
        self.message.usage = usage.clone();
        (self.events)(StreamEvent::Used(usage));
    }

    /// Tokens as last reported.
    pub const fn usage(&self) -> &Usage {
        &self.message.usage
    }

    /// Whether there is more than thoughts: a text, or a call.
    pub fn says_something(&self) -> bool {
        self.message.content.iter().any(|block| match block {
            ContentBlock::Text(block) => !block.text.trim().is_empty(),
            block => matches!(block, ContentBlock::ToolCall(_)),
        })
    }

    /// What is wrong with an answer that goes on and on.
    pub fn too_long(&self) -> Option<ProviderError> {
        let text = if self.bytes > MAX_BYTES {
            format!("the model's answer is longer than {MAX_BYTES} bytes")
        } else if self.message.content.len() > MAX_BLOCKS {
            format!("the model's answer has more than {MAX_BLOCKS} parts")
        } else {
            return None;
        };
        Some(ProviderError::new(ProviderErrorKind::Protocol, text))
    }

    /// More text, in a new block unless one is open.
    pub fn text(&mut self, delta: &str) {
        let index = match self.open_block() {
            Some((index, ContentBlock::Text(_))) => index,
            _ => self.begin_text(),
        };
        self.text_in(index, delta);
    }

    /// A text begins. Gives its block.
    pub fn begin_text(&mut self) -> usize {
        let index = self.begin(ContentBlock::text(""));
        (self.events)(StreamEvent::TextStart { index });
        index
    }

    /// More of the text in this block, open or not.
    pub fn text_in(&mut self, index: usize, delta: &str) {
        self.bytes += delta.len();
        if let Some(ContentBlock::Text(block)) = self.message.content.get_mut(index) {
            let delta = append(&mut block.text, delta);
            if !delta.is_empty() {
                (self.events)(StreamEvent::TextDelta { index, delta });
            }
        }
    }

    /// More thought, in a new block unless one is open.
    pub fn thinking(&mut self, delta: &str) {
        let index = match self.open_block() {
            Some((index, ContentBlock::Thinking(_))) => index,
            _ => self.begin_thinking(),
        };
        self.thinking_in(index, delta);
    }

    /// A thought begins. Gives its block.
    pub fn begin_thinking(&mut self) -> usize {
        let index = self.begin(ContentBlock::thinking(""));
        (self.events)(StreamEvent::ThinkingStart { index });
        index
    }

    /// More of the thought in this block, open or not.
    pub fn thinking_in(&mut self, index: usize, delta: &str) {
        self.bytes += delta.len();
        if let Some(ContentBlock::Thinking(block)) = self.message.content.get_mut(index) {
            let delta = append(&mut block.thinking, delta);
            if !delta.is_empty() {
                (self.events)(StreamEvent::ThinkingDelta { index, delta });
            }
        }
    }

    /// More of the signature of the open thought; no event.
    pub fn sign_thinking(&mut self, more: &str) {
        self.bytes += more.len();
        if let Some((_, ContentBlock::Thinking(block))) = self.open_block() {
            let signature = block.thinking_signature.get_or_insert_default();
            signature.push_str(&whole(more.to_owned()));
        }
    }

    /// The signature of the open thought, when it is the same for all of it.
    pub fn sign_thinking_once(&mut self, signature: &str) {
        if let Some((_, ContentBlock::Thinking(block))) = self.open_block() {
            block.thinking_signature.get_or_insert_with(|| signature.to_owned());
        }
    }

    /// The signature of the open text or thought; a later one counts.
    pub fn set_signature(&mut self, signature: String) {
        if let Some(index) = self.open {
            self.sign(index, signature);
        }
    }

    /// The signature of the text or thought in this block, open or not.
    pub fn sign(&mut self, index: usize, signature: String) {
        if signature.is_empty() {
            return;
        }
        let signature = whole(signature);
        match self.message.content.get_mut(index) {
            Some(ContentBlock::Text(block)) => block.text_signature = Some(signature),
            Some(ContentBlock::Thinking(block)) => block.thinking_signature = Some(signature),
            _ => {}
        }
    }

    /// What the text or thought in this block is as a whole, now that the provider
    /// has said so; no event. Some servers say nothing then, and what has come stays.
    pub fn settle(&mut self, index: usize, whole: String) {
        let said = self.message.content.get_mut(index).and_then(said);
        if let Some(said) = said.filter(|_| !whole.is_empty()) {
            *said = whole;
        }
    }

    /// A thought that the provider hides; there is nothing to stream of it.
    pub fn redacted_thinking(&mut self, payload: String) {
        self.end_block();
        self.thinking("");
        if let Some((_, ContentBlock::Thinking(block))) = self.open_block() {
            block.thinking = REDACTED.into();
            block.redacted = Some(true);
            block.thinking_signature = Some(whole(payload));
        }
        self.end_block();
    }

    /// This block is complete. It may have ended already, when another one began.
    pub fn end(&mut self, index: usize) {
        self.complete_call(index);
        if self.open == Some(index) {
            self.end_open();
        }
    }

    /// The open block is complete.
    pub fn end_block(&mut self) {
        if let Some(index) = self.open {
            self.end(index);
        }
    }

    /// Nothing more comes of the open block, be it complete or not.
    fn end_open(&mut self) {
        if let Some(index) = self.open.take() {
            self.parse_arguments(index);
            if let Some(ContentBlock::Thinking(block)) = self.message.content.get(index)
                && let Some(signature) = block.thinking_signature.clone()
                && block.redacted != Some(true)
            {
                (self.events)(StreamEvent::ThinkingSigned { index, signature });
            }
            (self.events)(StreamEvent::BlockEnd { index });
        }
    }

    /// The answer is complete.
    pub fn finish(mut self, stop: StopReason) -> AssistantMessage {
        self.close();
        let calls = self.message.tool_calls().next().is_some();
        // Some providers say "stop" although they want tools to be run.
        self.message.stop_reason =
            if calls && stop == StopReason::Stop { StopReason::ToolUse } else { stop };
        self.message
    }

    /// The answer ends with an error; what has arrived stays with it.
    pub fn fail(mut self, mut error: ProviderError) -> ProviderError {
        self.close();
        error.message = scrub(&whole(error.message), self.model);
        error.with_partial(self.message)
    }

    fn close(&mut self) {
        if let Some(index) = self.open.filter(|index| self.is_cut_call(*index)) {
            (self.events)(StreamEvent::CallCut { index });
        }
        self.end_open();
        for index in 0..self.message.content.len() {
            self.parse_arguments(index);
        }
        for said in self.message.content.iter_mut().filter_map(said) {
            *said = whole(std::mem::take(said));
        }
    }

    fn begin(&mut self, block: ContentBlock) -> usize {
        self.end_open();
        let index = self.message.content.len();
        self.message.content.push(block);
        self.open = Some(index);
        index
    }

    fn open_block(&mut self) -> Option<(usize, &mut ContentBlock)> {
        let index = self.open?;
        Some((index, self.message.content.get_mut(index)?))
    }
}

/// What a text or a thought says.
fn said(block: &mut ContentBlock) -> Option<&mut String> {
    match block {
        ContentBlock::Text(block) => Some(&mut block.text),
        ContentBlock::Thinking(block) => Some(&mut block.thinking),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
