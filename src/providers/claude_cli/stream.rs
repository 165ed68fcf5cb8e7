//! What the CLI says.
//!
//! Owns: what each line means. Promises: whatever it asks to be allowed is
//! denied, since nobody is there to ask; what its own tools do is not shown as
//! calls of ours. Must not: know the process.

use serde::Deserialize;
use serde_json::Value;

use super::super::answer::Answer;
use super::super::anthropic::Events;
use super::super::error::{ProviderError, ProviderErrorKind};
use super::super::overflow::is_overflow;
use super::super::reader::Reader as _;
use super::super::sse::SseEvent;
use crate::protocol::message::{StopReason, Usage};
use crate::support::json;

const DENIED: &str = "Nobody can be asked for permission here";

/// What a line was.
pub enum Said {
    /// Part of the answer, or nothing that concerns us.
    Nothing,
    /// A question; this is the reply.
    Question(Value),
    /// The end of the answer.
    End(Result<StopReason, ProviderError>),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line {
    StreamEvent {
        event: Value,
        parent_tool_use_id: Option<String>,
    },
    Assistant {
        message: Whole,
        parent_tool_use_id: Option<String>,
        error: Option<String>,
    },
    ControlRequest {
        request_id: String,
        request: Value,
    },
    Result(End),
    /// `system`, `user`, `keep_alive`, and what may come.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Whole {
    #[serde(default)]
    content: Vec<Value>,
}

#[derive(Deserialize)]
struct End {
    #[serde(default)]
    subtype: String,
    #[serde(default)]
    is_error: bool,
    result: Option<String>,
    #[serde(default)]
    errors: Vec<String>,
    usage: Option<EndUsage>,
}

/// The sum over all calls of the turn.
#[derive(Default, Deserialize)]
#[serde(default)]
struct EndUsage {
    #[serde(rename = "input_tokens")]
    input: u64,
    #[serde(rename = "output_tokens")]
    output: u64,
    #[serde(rename = "cache_read_input_tokens")]
    cache_read: u64,
    #[serde(rename = "cache_creation_input_tokens")]
    cache_write: u64,
}

/// Reads lines.
#[derive(Default)]
pub struct Turn {
    events: Events,
    /// The block that is streamed is none of the answer.
    hidden: bool,
    /// Answers come in pieces; then the whole ones say nothing new.
    streamed: bool,
    /// Its word for why the API failed.
    failure: Option<String>,
}

impl Turn {
    /// Takes the next line. One that is no JSON is a warning for people.
    pub fn read(&mut self, line: &str, answer: &mut Answer<'_>) -> Result<Said, ProviderError> {
        let Ok(line) = serde_json::from_str::<Line>(line) else { return Ok(Said::Nothing) };
        match line {
            // Those of its subagents are its own affair.
            Line::StreamEvent { event, parent_tool_use_id: None } => self.event(&event, answer)?,
            Line::Assistant { error: Some(error), .. } => self.failure = Some(error),
            Line::Assistant { message, parent_tool_use_id: None, .. } if !self.streamed => {
                message.content.iter().for_each(|block| whole(block, answer));
            }
            Line::ControlRequest { request_id, request } => {
                return Ok(Said::Question(reply(&request_id, &request)));
            }
            Line::Result(end) => return Ok(Said::End(self.end(end, answer))),
            Line::StreamEvent { .. } | Line::Assistant { .. } | Line::Other => {}
        }
        Ok(Said::Nothing)
    }

    fn event(&mut self, event: &Value, answer: &mut Answer<'_>) -> Result<(), ProviderError> {
        self.streamed = true;
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        match kind {
            "content_block_start" => {
                let block = event.pointer("/content_block/type").and_then(Value::as_str);
                self.hidden = !matches!(block, Some("text" | "thinking" | "redacted_thinking"));
            }
            "message_start" => self.hidden = false,
            _ => {}
        }
        if !(self.hidden && kind.starts_with("content_block_")) {
            let event = SseEvent { event: String::new(), data: event.to_string() };
            self.events.read(&event, answer)?;
        }
        Ok(())
    }

    fn end(&self, end: End, answer: &mut Answer<'_>) -> Result<StopReason, ProviderError> {
        if let Some(usage) = end.usage {
            answer.set_usage(Usage {
                input: usage.input,
                output: usage.output,
                cache_read: usage.cache_read,
                cache_write: usage.cache_write,
                ..Usage::default()
            });
        }
        if end.is_error || end.subtype != "success" {
            let text = end.result.filter(|text| !text.is_empty());
            let text = text.unwrap_or_else(|| end.errors.join("; "));
            let kind = kind_of(self.failure.as_deref(), &text);
            let text = if text.is_empty() { end.subtype } else { text };
            let kind = kind.unwrap_or(ProviderErrorKind::Server);
            return Err(ProviderError::new(kind, format!("claude-cli: {text}")));
        }
        match self.events.outcome() {
            // The tools were its own, and are done.
            None | Some(Ok(StopReason::ToolUse)) => Ok(StopReason::Stop),
            Some(outcome) => outcome,
        }
    }
}

/// A block that came in one piece.
fn whole(block: &Value, answer: &mut Answer<'_>) {
    let text = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
    match text("type") {
        "text" => answer.text(text("text")),
        "thinking" => {
            answer.thinking(text("thinking"));
            answer.sign_thinking(text("signature"));
        }
        _ => return,
    }
    answer.end_block();
}

fn reply(id: &str, request: &Value) -> Value {
    let subtype = request.get("subtype").and_then(Value::as_str).unwrap_or_default();
    let response = if subtype == "can_use_tool" {
        let denial = json!({"behavior": "deny", "message": DENIED});
        json!({"subtype": "success", "request_id": id, "response": denial})
    } else {
        let error = format!("Unsupported control request subtype: {subtype}");
        json!({"subtype": "error", "request_id": id, "error": error})
    };
    json!({"type": "control_response", "response": response})
}

/// What kind of failure it was, by the CLI's word for it or its text.
pub fn kind_of(word: Option<&str>, text: &str) -> Option<ProviderErrorKind> {
    use ProviderErrorKind as Kind;
    if is_overflow(text) {
        return Some(Kind::ContextLength);
    }
    let says = |words: &str| text.contains(words);
    match word {
        Some("authentication_failed") => Some(Kind::Auth),
        Some("billing_error" | "rate_limit") => Some(Kind::RateLimit),
        Some("invalid_request") => Some(Kind::BadRequest),
        Some("server_error") => Some(Kind::Server),
        _ if says("/login") || says("Invalid API key") => Some(Kind::Auth),
        _ if says("Overloaded") || says("overloaded_error") => Some(Kind::Overloaded),
        _ if says("usage limit reached") => Some(Kind::RateLimit),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
