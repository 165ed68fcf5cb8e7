//! The stream of an answer.
//!
//! Owns: what each line means. Must not: keep the answer; `Answer` does.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::super::answer::Answer;
use super::super::error::{ErrorStyle, ProviderError};
use super::super::json::piece;
use super::super::reader::{Flow, Reader};
use super::super::sse::SseEvent;
use super::integers::quoted;
use crate::protocol::message::{StopReason, Usage};

#[derive(Deserialize)]
struct Chunk {
    message: Option<Message>,
    #[serde(default)]
    done: bool,
    done_reason: Option<String>,
    prompt_eval_count: Option<u64>,
    eval_count: Option<u64>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<String>,
    thinking: Option<String>,
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    /// As it stands, for the sake of large integers.
    arguments: Option<Box<RawValue>>,
}

/// Reads lines.
#[derive(Default)]
pub struct Chunks {
    finish: Option<StopReason>,
}

impl Reader for Chunks {
    fn read(&mut self, event: &SseEvent, answer: &mut Answer<'_>) -> Result<Flow, ProviderError> {
        let chunk: Chunk = piece("a line", &event.data)?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            let data = crate::support::json!({"error": error});
            return Err(ProviderError::from_event(ErrorStyle::Ollama, &data));
        }
        if let Some(message) = chunk.message {
            if let Some(text) = message.thinking.filter(|text| !text.is_empty()) {
                answer.thinking(&text);
            }
            if let Some(text) = message.content.filter(|text| !text.is_empty()) {
                answer.text(&text);
            }
            for call in message.tool_calls.iter().flatten() {
                begin_call(&call.function, answer);
            }
        }
        if !chunk.done {
            return Ok(Flow::More);
        }
        answer.set_usage(Usage {
            input: chunk.prompt_eval_count.unwrap_or(0),
            output: chunk.eval_count.unwrap_or(0),
            ..Usage::default()
        });
        let length = chunk.done_reason.as_deref() == Some("length");
        self.finish = Some(if length { StopReason::Length } else { StopReason::Stop });
        Ok(Flow::End)
    }

    fn outcome(&self) -> Option<Result<StopReason, ProviderError>> {
        self.finish.map(Ok)
    }
}

/// Calls come whole and without ids.
fn begin_call(function: &Function, answer: &mut Answer<'_>) {
    let block = answer.tool_call(&format!("ollama_call_{}", Uuid::new_v4()), &function.name);
    let arguments = function.arguments.as_deref().map_or("{}", RawValue::get);
    answer.tool_arguments(block, &quoted(arguments));
    answer.end_block();
}

#[cfg(test)]
mod tests;
