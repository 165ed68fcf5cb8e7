//! What is answered.

use std::sync::Arc;

use serde_json::Value;

use crate::http::openai::outcome::{Answered, Cut, Failed, input_tokens};
use crate::http::openai::sse::{DONE, Pieces, data};
use crate::protocol::message::{ToolCall, Usage};
use crate::support::{Clock, json};

/// An answer that is being made.
pub struct Completion {
    /// Its id, which the run has as well.
    pub id: String,
    /// `model`, as it was asked for.
    pub model: String,
    /// What tells when pieces are made.
    pub clock: Arc<dyn Clock>,
    /// Whether the last piece says what was used.
    pub tells_usage: bool,
}

impl Completion {
    /// The whole of it.
    pub fn whole(&self, answered: &Answered) -> Value {
        let calls: Vec<_> = answered.calls.iter().map(call).collect();
        let mut message = json!({"role": "assistant", "content": answered.text});
        if !calls.is_empty() {
            if answered.text.is_empty() {
                message["content"] = Value::Null;
            }
            message["tool_calls"] = json!(calls);
        }
        let mut whole = self.frame("chat.completion");
        whole["choices"] =
            json!([{"index": 0, "message": message, "finish_reason": reason(answered)}]);
        whole["usage"] = usage(&answered.used);
        whole
    }

    fn frame(&self, object: &str) -> Value {
        json!({"id": self.id, "object": object, "created": self.clock.now_ms() / 1000,
            "model": self.model})
    }

    fn piece(&self, delta: &Value, reason: Option<&str>) -> String {
        let mut piece = self.frame("chat.completion.chunk");
        piece["choices"] = json!([{"index": 0, "delta": delta, "finish_reason": reason}]);
        data(&piece)
    }
}

impl Pieces for Completion {
    fn begin(&mut self) -> Vec<String> {
        vec![self.piece(&json!({"role": "assistant"}), None)]
    }

    fn says(&mut self, text: &str) -> Vec<String> {
        vec![self.piece(&json!({"content": text}), None)]
    }

    fn between(&mut self) -> Vec<String> {
        // The original puts nothing there.
        Vec::new()
    }

    fn over(&mut self, end: Result<Answered, Failed>) -> Vec<String> {
        let answered = match end {
            Ok(answered) => answered,
            Err(failed) => return vec![data(&json!({"error": failed.error()})), DONE.to_owned()],
        };
        let mut lines = Vec::new();
        for (index, made) in answered.calls.iter().enumerate() {
            let mut call = call(made);
            call["index"] = json!(index);
            lines.push(self.piece(&json!({"tool_calls": [call]}), None));
        }
        lines.push(self.piece(&json!({}), Some(reason(&answered))));
        if self.tells_usage {
            let mut last = self.frame("chat.completion.chunk");
            last["choices"] = json!([]);
            last["usage"] = usage(&answered.used);
            lines.push(data(&last));
        }
        lines.push(DONE.to_owned());
        lines
    }
}

fn call(call: &ToolCall) -> Value {
    json!({"id": call.id, "type": "function",
        "function": {"name": call.name, "arguments": call.arguments.to_string()}})
}

const fn reason(answered: &Answered) -> &'static str {
    match answered.cut {
        _ if !answered.calls.is_empty() => "tool_calls",
        Some(Cut::Length) => "length",
        Some(Cut::Filter) => "content_filter",
        None => "stop",
    }
}

fn usage(used: &Usage) -> Value {
    let input = input_tokens(used);
    json!({"prompt_tokens": input, "prompt_tokens_details": {"cached_tokens": used.cache_read},
        "completion_tokens": used.output, "total_tokens": input + used.output})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cache_gave_is_told_as_part_of_what_went_in() {
        let used = Usage { input: 3, output: 5, cache_read: 40, ..Usage::default() };
        let told = json!({"prompt_tokens": 43, "prompt_tokens_details": {"cached_tokens": 40},
            "completion_tokens": 5, "total_tokens": 48});
        assert_eq!(usage(&used), told);
    }
}
