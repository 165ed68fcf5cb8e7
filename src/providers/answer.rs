//! An answer while it is being streamed.
//!
//! Owns: the growing message and the events that report it, in the same order
//! for every API. Promises: each block that starts also ends; arguments of a
//! tool call are an object, `{}` when the model's JSON is broken, and then the call
//! says so; whoever reads can tell that an answer is longer than any model's. Must not:
//! know how an API writes its stream.

use serde_json::{Map, Value};

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
    /// JSON text of the arguments, by block.
    arguments: Vec<(usize, String)>,
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
        Self { model, events, message, open: None, arguments: Vec::new(), bytes: 0 }
    }

    /// The provider's own id of this answer. The first one counts.
    pub fn set_response_id(&mut self, id: &str) {
        if !id.is_empty() && self.message.response_id.is_none() {
            self.message.response_id = Some(id.to_owned());
        }
    }

    /// Tokens so far; total and price are worked out here.
    pub fn set_usage(&mut self, usage: Usage) {
        self.message.usage = self.model.priced(usage);
    }

    /// Tokens so far, with the provider's own total; the price is multiplied
    /// by `factor`.
    pub fn set_counted_usage(&mut self, usage: Usage, factor: f64) {
        let cost = self.model.priced(usage.clone()).cost;
        let mut cost = Cost {
            input: cost.input * factor,
            output: cost.output * factor,
            cache_read: cost.cache_read * factor,
            cache_write: cost.cache_write * factor,
            ..Cost::default()
        };
        cost.total = cost.input + cost.output + cost.cache_read + cost.cache_write;
        self.message.usage = Usage { cost, ..usage };
    }

    /// Tokens as last reported.
    pub const fn usage(&self) -> &Usage {
        &self.message.usage
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
        if let Some(ContentBlock::Text(block)) = self.message.content.get_mut(index)
            && !delta.is_empty()
        {
            block.text.push_str(delta);
            (self.events)(StreamEvent::TextDelta { index, delta: delta.to_owned() });
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
        if let Some(ContentBlock::Thinking(block)) = self.message.content.get_mut(index)
            && !delta.is_empty()
        {
            block.thinking.push_str(delta);
            (self.events)(StreamEvent::ThinkingDelta { index, delta: delta.to_owned() });
        }
    }

    /// More of the signature of the open thought; no event.
    pub fn sign_thinking(&mut self, more: &str) {
        self.bytes += more.len();
        if let Some((_, ContentBlock::Thinking(block))) = self.open_block() {
            block.thinking_signature.get_or_insert_default().push_str(more);
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
        match self.message.content.get_mut(index) {
            Some(ContentBlock::Text(block)) => block.text_signature = Some(signature),
            Some(ContentBlock::Thinking(block)) => block.thinking_signature = Some(signature),
            _ => {}
        }
    }

    /// What the text or thought in this block is as a whole, now that the provider
    /// has said so; no event.
    pub fn settle(&mut self, index: usize, whole: String) {
        match self.message.content.get_mut(index) {
            Some(ContentBlock::Text(block)) => block.text = whole,
            Some(ContentBlock::Thinking(block)) => block.thinking = whole,
            _ => {}
        }
    }

    /// A thought that the provider hides; there is nothing to stream of it.
    pub fn redacted_thinking(&mut self, payload: String) {
        self.end_block();
        self.thinking("");
        if let Some((_, ContentBlock::Thinking(block))) = self.open_block() {
            block.thinking = REDACTED.into();
            block.redacted = Some(true);
            block.thinking_signature = Some(payload);
        }
        self.end_block();
    }

    /// A call begins. Gives its block.
    pub fn tool_call(&mut self, id: &str, name: &str) -> usize {
        let index = self.begin(ContentBlock::tool_call(id, name, Value::Object(Map::new())));
        self.arguments.push((index, String::new()));
        (self.events)(StreamEvent::ToolCallStart { index, id: id.into(), name: name.into() });
        index
    }

    /// More of the arguments of the call in this block, open or not: some
    /// providers write several calls at a time.
    pub fn tool_arguments(&mut self, index: usize, delta: &str) {
        if delta.is_empty() {
            return;
        }
        self.bytes += delta.len();
        if let Some((_, text)) = self.arguments.iter_mut().find(|(block, _)| *block == index) {
            text.push_str(delta);
            (self.events)(StreamEvent::ToolCallDelta { index, delta: delta.to_owned() });
        }
    }

    /// What the arguments of the call in this block are as a whole; no event.
    pub fn settle_arguments(&mut self, index: usize, whole: String) {
        if let Some((_, text)) = self.arguments.iter_mut().find(|(block, _)| *block == index) {
            *text = whole;
        }
    }

    /// What the provider wants back with this call.
    pub fn sign_tool_call(&mut self, index: usize, signature: String) {
        if let Some(ContentBlock::ToolCall(call)) = self.message.content.get_mut(index) {
            call.thought_signature = Some(signature);
        }
    }

    /// The call with this id.
    pub fn find_tool_call(&self, id: &str) -> Option<usize> {
        self.message
            .content
            .iter()
            .position(|block| matches!(block, ContentBlock::ToolCall(call) if call.id == id))
    }

    /// This block is complete. It may have ended already, when another one began.
    pub fn end(&mut self, index: usize) {
        if self.open == Some(index) {
            self.end_block();
        }
    }

    /// The open block is complete.
    pub fn end_block(&mut self) {
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
        error.message = scrub(&error.message, self.model);
        error.with_partial(self.message)
    }

    fn close(&mut self) {
        self.end_block();
        for index in 0..self.message.content.len() {
            self.parse_arguments(index);
        }
    }

    fn begin(&mut self, block: ContentBlock) -> usize {
        self.end_block();
        let index = self.message.content.len();
        self.message.content.push(block);
        self.open = Some(index);
        index
    }

    fn open_block(&mut self) -> Option<(usize, &mut ContentBlock)> {
        let index = self.open?;
        Some((index, self.message.content.get_mut(index)?))
    }

    fn parse_arguments(&mut self, index: usize) {
        let Some((_, text)) = self.arguments.iter().find(|(block, _)| *block == index) else {
            return;
        };
        if let Some(ContentBlock::ToolCall(call)) = self.message.content.get_mut(index) {
            let parsed: serde_json::Result<Option<Map<String, Value>>> =
                if text.trim().is_empty() { Ok(None) } else { serde_json::from_str(text) };
            call.fault = parsed.as_ref().err().map(ToString::to_string);
            call.arguments = Value::Object(parsed.ok().flatten().unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::testing::model;
    use crate::support::json;

    #[test]
    fn a_switch_of_kind_ends_the_block_and_starts_another() {
        let model = model("openai-completions");
        let mut events = Vec::new();
        let mut sink = |event| events.push(event);
        let mut answer = Answer::new(&model, &mut sink, 5);
        answer.thinking("hm");
        answer.text("a");
        answer.text("b");
        let call = answer.tool_call("c1", "read");
        answer.tool_arguments(call, "{\"path\":");
        answer.tool_arguments(call, "\"n\"}");
        let message = answer.finish(StopReason::Stop);
        assert_eq!(message.stop_reason, StopReason::ToolUse);
        assert_eq!(
            serde_json::to_value(&message.content).unwrap(),
            json!([
                {"type": "thinking", "thinking": "hm"},
                {"type": "text", "text": "ab"},
                {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "n"}},
            ])
        );
        assert_eq!(
            events,
            [
                StreamEvent::ThinkingStart { index: 0 },
                StreamEvent::ThinkingDelta { index: 0, delta: "hm".into() },
                StreamEvent::BlockEnd { index: 0 },
                StreamEvent::TextStart { index: 1 },
                StreamEvent::TextDelta { index: 1, delta: "a".into() },
                StreamEvent::TextDelta { index: 1, delta: "b".into() },
                StreamEvent::BlockEnd { index: 1 },
                StreamEvent::ToolCallStart { index: 2, id: "c1".into(), name: "read".into() },
                StreamEvent::ToolCallDelta { index: 2, delta: "{\"path\":".into() },
                StreamEvent::ToolCallDelta { index: 2, delta: "\"n\"}".into() },
                StreamEvent::BlockEnd { index: 2 },
            ]
        );
    }

    #[test]
    fn broken_arguments_become_an_empty_object_and_interleaved_ones_are_kept_apart() {
        let model = model("openai-completions");
        let mut sink = |_| {};
        let mut answer = Answer::new(&model, &mut sink, 5);
        let first = answer.tool_call("c1", "read");
        let second = answer.tool_call("c2", "read");
        answer.tool_arguments(first, "{\"a\":1}");
        answer.tool_arguments(second, "{\"b\":");
        let message = answer.finish(StopReason::ToolUse);
        let arguments: Vec<_> = message.tool_calls().map(|call| call.arguments.clone()).collect();
        assert_eq!(arguments, [json!({"a": 1}), json!({})]);
    }

    #[test]
    fn a_call_whose_arguments_are_no_json_tells_where_they_break_and_nobody_stores_it() {
        let model = model("openai-completions");
        let mut sink = |_| {};
        let mut answer = Answer::new(&model, &mut sink, 5);
        for (id, written) in
            ["", "{}", "null", "{\"path\": \"a", "[1]", "{\"path\": "].iter().enumerate()
        {
            let index = answer.tool_call(&id.to_string(), "read");
            answer.tool_arguments(index, written);
            // What the provider says in the end is what counts, also without a piece.
            if id == 5 {
                answer.settle_arguments(index, "{\"path\": \"a\"}".into());
            }
        }
        let message = answer.finish(StopReason::Stop);
        let faults: Vec<_> = message.tool_calls().map(|call| call.fault.as_deref()).collect();
        let is_broken: Vec<_> = faults.iter().map(Option::is_some).collect();
        assert_eq!(is_broken, [false, false, false, true, true, false]);
        let fault = faults[3].unwrap();
        assert!(fault.starts_with("EOF while parsing a string"), "{fault}");
        let stored = serde_json::to_value(&message.content[3]).unwrap();
        let expected = json!({"type": "toolCall", "id": "3", "name": "read", "arguments": {}});
        assert_eq!(stored, expected);
    }

    #[test]
    fn a_failure_keeps_what_has_arrived_and_hides_the_key() {
        let model = model("openai-completions");
        let mut sink = |_| {};
        let mut answer = Answer::new(&model, &mut sink, 5);
        answer.text("half");
        let error = answer.fail(ProviderError::new(ProviderErrorKind::Server, "bad mock-key"));
        assert_eq!(error.message, "bad ***");
        let partial = error.partial.unwrap();
        assert_eq!(partial.content, [ContentBlock::text("half")]);
        assert_eq!(partial.stop_reason, StopReason::Error);
        assert_eq!(partial.error_message.as_deref(), Some("bad ***"));
    }

    #[test]
    fn an_answer_without_end_is_told_from_a_long_one() {
        let model = model("openai-completions");
        let mut sink = |_| {};
        let mut answer = Answer::new(&model, &mut sink, 5);
        answer.text(&"x".repeat(MAX_BYTES - 2));
        answer.thinking("y");
        let call = answer.tool_call("c", "read");
        answer.tool_arguments(call, "z");
        assert_eq!(answer.too_long(), None);
        answer.tool_arguments(call, "z");
        assert_eq!(answer.too_long().unwrap().kind, ProviderErrorKind::Protocol);

        let mut sink = |_| {};
        let mut answer = Answer::new(&model, &mut sink, 5);
        for index in 0..MAX_BLOCKS {
            assert_eq!(answer.too_long(), None);
            answer.tool_call(&index.to_string(), "read");
        }
        answer.text("one more");
        assert_eq!(answer.too_long().unwrap().kind, ProviderErrorKind::Protocol);
    }
}
