//! The tool calls of an answer.
//!
//! Owns: what their arguments are. Promises: a call that the provider has not told to its
//! end is none without arguments; every call has an id, and no other one of the conversation
//! has the same.

use serde_json::{Map, Value};

use super::Answer;
use crate::protocol::message::{AgentMessage, ContentBlock};
use crate::providers::StreamEvent;
use crate::providers::compose::call_of;
use crate::providers::halves::{append, whole};
use crate::support::json_of_javascript;

/// What is wrong with a call of which nothing but the name has come.
const CUT: &str = "it broke off before them";

/// The arguments of a call, as they come.
pub(super) struct Arguments {
    block: usize,
    json: String,
    /// Whether the provider has said that this is all of them.
    is_whole: bool,
}

impl Arguments {
    /// Whether there may be more of them that have not come. Of those that have begun, the
    /// JSON tells.
    fn is_cut(&self) -> bool {
        !self.is_whole && self.json.trim().is_empty()
    }

    /// Their members, or why they cannot be read. None at all are an empty object.
    fn read(&self) -> Result<Map<String, Value>, String> {
        if self.is_cut() {
            return Err(CUT.into());
        }
        if self.json.trim().is_empty() {
            return Ok(Map::new());
        }
        // A half that is escaped in this JSON is none of the stream's.
        let read = json_of_javascript(&whole(self.json.clone()))
            .and_then(serde_json::from_value::<Option<Map<String, Value>>>);
        read.map(Option::unwrap_or_default).map_err(|error| error.to_string())
    }
}

impl Answer<'_> {
    /// The same in this conversation.
    #[must_use]
    pub fn among(mut self, messages: &[AgentMessage]) -> Self {
        for message in messages {
            if let AgentMessage::Assistant(answer) = message {
                self.ids.extend(answer.tool_calls().map(|call| call_of(&call.id)));
            }
        }
        self
    }

    /// This id, or one like it when another call has it: some servers name the first call
    /// of each answer the same. A call without one is named by its place in the answer: the
    /// model would never be told what came of it.
    fn free_id(&mut self, id: &str) -> String {
        let (began, mut place) = (self.message.timestamp, self.message.content.len());
        let id = if call_of(id).is_empty() {
            format!("call_{began}_{}{id}", self.arguments.len())
        } else {
            id.to_owned()
        };
        let mut free = id.clone();
        while !self.ids.insert(call_of(&free)) {
            // Numbers first, so that shortening cannot cut them off.
            free = format!("n{began}x{place}x{id}");
            place += 1;
        }
        free
    }

    /// A call begins. Gives its block.
    pub fn tool_call(&mut self, id: &str, name: &str) -> usize {
        let (id, name) = (self.free_id(&whole(id.to_owned())), whole(name.to_owned()));
        let block = self.begin(ContentBlock::tool_call(&id, &name, Value::Object(Map::new())));
        self.arguments.push(Arguments { block, json: String::new(), is_whole: false });
        (self.events)(StreamEvent::ToolCallStart { index: block, id, name });
        block
    }

    /// More of the arguments of the call in this block, open or not: some
    /// providers write several calls at a time.
    pub fn tool_arguments(&mut self, index: usize, delta: &str) {
        if delta.is_empty() {
            return;
        }
        self.bytes += delta.len();
        let Some(arguments) = self.arguments_of(index) else { return };
        let delta = append(&mut arguments.json, delta);
        if !delta.is_empty() {
            (self.events)(StreamEvent::ToolCallDelta { index, delta });
        }
    }

    /// What the arguments of the call in this block are as a whole; no event.
    pub fn settle_arguments(&mut self, index: usize, whole: String) {
        if let Some(arguments) = self.arguments_of(index) {
            arguments.json = whole;
        }
    }

    /// The provider has said that there are no more arguments of the call in this block,
    /// which may have ended already, when another block began.
    pub fn complete_call(&mut self, index: usize) {
        if let Some(arguments) = self.arguments_of(index) {
            arguments.is_whole = true;
        }
    }

    /// The same of all calls so far.
    pub fn complete_calls(&mut self) {
        for arguments in &mut self.arguments {
            arguments.is_whole = true;
        }
    }

    /// The answer may have been cut: when it ends with a call of which nothing but the name
    /// has come, that is none without arguments, though its block has ended.
    pub fn doubt_last_call(&mut self) {
        let last = self.message.content.len().checked_sub(1);
        if let Some(arguments) = last.and_then(|last| self.arguments_of(last)) {
            arguments.is_whole = false;
        }
    }

    /// What the provider wants back with this call.
    pub fn sign_tool_call(&mut self, index: usize, signature: String) {
        if let Some(ContentBlock::ToolCall(call)) = self.message.content.get_mut(index) {
            call.thought_signature = Some(whole(signature));
        }
    }

    /// The call with this id.
    pub fn find_tool_call(&self, id: &str) -> Option<usize> {
        self.message
            .content
            .iter()
            .position(|block| matches!(block, ContentBlock::ToolCall(call) if call.id == id))
    }

    /// Whether the block holds a call of which nothing but the name has come.
    pub(super) fn is_cut_call(&self, index: usize) -> bool {
        let arguments = self.arguments.iter().find(|arguments| arguments.block == index);
        arguments.is_some_and(Arguments::is_cut)
    }

    /// Puts what has come of the arguments into the call, and what is wrong with them.
    pub(super) fn parse_arguments(&mut self, index: usize) {
        let Some(arguments) = self.arguments.iter().find(|arguments| arguments.block == index)
        else {
            return;
        };
        if let Some(ContentBlock::ToolCall(call)) = self.message.content.get_mut(index) {
            let read = arguments.read();
            call.fault = read.as_ref().err().cloned();
            call.arguments = Value::Object(read.unwrap_or_default());
        }
    }

    fn arguments_of(&mut self, index: usize) -> Option<&mut Arguments> {
        self.arguments.iter_mut().find(|arguments| arguments.block == index)
    }
}
