//! The stream of an answer.
//!
//! Owns: what each event means. Must not: keep the answer; `Answer` does.

use serde::Deserialize;
use serde_json::Value;

use super::super::answer::Answer;
use super::super::error::{ErrorStyle, ProviderError, ProviderErrorKind};
use super::super::json::{Members, event as parsed_event, parse};
use super::super::reader::{Flow, Reader};
use super::super::sse::SseEvent;
use crate::protocol::message::{StopReason, Usage};

enum Event {
    MessageStart {
        message: Start,
    },
    ContentBlockStart {
        content_block: Block,
    },
    ContentBlockDelta {
        delta: Delta,
    },
    ContentBlockStop,
    MessageDelta {
        delta: End,
        usage: Option<WireUsage>,
    },
    MessageStop,
    Error,
    /// `ping`, and what may come.
    Other,
}

impl Event {
    fn read(mut event: Members) -> Result<Self, serde_json::Error> {
        Ok(match event.text("type")?.as_str() {
            "message_start" => Self::MessageStart { message: event.read("message")? },
            "content_block_start" => {
                let block = event.inside("content_block")?;
                Self::ContentBlockStart { content_block: Block::read(block)? }
            }
            "content_block_delta" => {
                Self::ContentBlockDelta { delta: Delta::read(event.inside("delta")?)? }
            }
            "content_block_stop" => Self::ContentBlockStop,
            "message_delta" => {
                Self::MessageDelta { delta: event.read("delta")?, usage: event.maybe("usage")? }
            }
            "message_stop" => Self::MessageStop,
            "error" => Self::Error,
            _ => Self::Other,
        })
    }
}

#[derive(Deserialize)]
struct Start {
    id: Option<String>,
    usage: Option<WireUsage>,
}

enum Block {
    Text { text: String },
    Thinking { thinking: String, signature: String },
    RedactedThinking { data: String },
    ToolUse { id: String, name: String, input: Option<Value> },
    Other,
}

impl Block {
    fn read(mut block: Members) -> Result<Self, serde_json::Error> {
        Ok(match block.text("type")?.as_str() {
            "text" => Self::Text { text: block.text_or_empty("text")? },
            "thinking" => Self::Thinking {
                thinking: block.text_or_empty("thinking")?,
                signature: block.text_or_empty("signature")?,
            },
            "redacted_thinking" => Self::RedactedThinking { data: block.text_or_empty("data")? },
            "tool_use" => Self::ToolUse {
                id: block.text("id")?,
                name: block.text("name")?,
                input: block.maybe("input")?,
            },
            _ => Self::Other,
        })
    }
}

enum Delta {
    Text { text: String },
    Thinking { thinking: String },
    Signature { signature: String },
    InputJson { partial_json: String },
    Other,
}

impl Delta {
    fn read(mut delta: Members) -> Result<Self, serde_json::Error> {
        Ok(match delta.text("type")?.as_str() {
            "text_delta" => Self::Text { text: delta.text("text")? },
            "thinking_delta" => Self::Thinking { thinking: delta.text("thinking")? },
            "signature_delta" => Self::Signature { signature: delta.text("signature")? },
            "input_json_delta" => Self::InputJson { partial_json: delta.text("partial_json")? },
            _ => Self::Other,
        })
    }
}

#[derive(Deserialize)]
struct End {
    stop_reason: Option<String>,
}

/// Each member is absent where nothing has changed.
#[derive(Deserialize)]
struct WireUsage {
    #[serde(rename = "input_tokens")]
    input: Option<u64>,
    #[serde(rename = "output_tokens")]
    output: Option<u64>,
    #[serde(rename = "cache_read_input_tokens")]
    cache_read: Option<u64>,
    #[serde(rename = "cache_creation_input_tokens")]
    cache_write: Option<u64>,
}

/// The block that deltas go to; the API sends one after the other.
#[derive(Default)]
enum Open {
    #[default]
    None,
    Plain,
    /// A call. Its start may hold the whole input already; deltas replace it.
    Call {
        block: usize,
        input: Option<Value>,
        streamed: bool,
    },
}

/// Reads events.
#[derive(Default)]
pub struct Events {
    open: Open,
    stop: Option<String>,
    /// Whether it had said something by then.
    has_answer: bool,
}

impl Events {
    fn start(&mut self, block: Block, answer: &mut Answer<'_>) {
        self.end(answer);
        self.open = Open::Plain;
        match block {
            Block::Text { text } => answer.text(&text),
            Block::Thinking { thinking, signature } => {
                answer.thinking(&thinking);
                if !signature.is_empty() {
                    answer.sign_thinking(&signature);
                }
            }
            Block::RedactedThinking { data } => answer.redacted_thinking(data),
            Block::ToolUse { id, name, input } => {
                let block = answer.tool_call(&id, &name);
                self.open = Open::Call { block, input, streamed: false };
            }
            Block::Other => self.open = Open::None,
        }
    }

    fn delta(&mut self, delta: Delta, answer: &mut Answer<'_>) {
        match (delta, &mut self.open) {
            (Delta::Text { text }, Open::Plain) => answer.text(&text),
            (Delta::Thinking { thinking }, Open::Plain) => answer.thinking(&thinking),
            (Delta::Signature { signature }, Open::Plain) => answer.sign_thinking(&signature),
            (Delta::InputJson { partial_json }, Open::Call { block, streamed, .. }) => {
                *streamed |= !partial_json.is_empty();
                answer.tool_arguments(*block, &partial_json);
            }
            // Parts of blocks that we do not know.
            _ => {}
        }
    }

    fn end(&mut self, answer: &mut Answer<'_>) {
        self.take_input(answer);
        answer.end_block();
    }

    /// Nothing more comes of the open block: its start may have held the input of a call.
    fn take_input(&mut self, answer: &mut Answer<'_>) {
        let open = std::mem::take(&mut self.open);
        if let Open::Call { block, input: Some(input), streamed: false } = &open
            && input.as_object().is_some_and(|input| !input.is_empty())
        {
            answer.tool_arguments(*block, &input.to_string());
        }
    }

    /// The answer ends for a reason. Some servers leave out the end of the last block, and it
    /// has come whole unless the answer was cut. What nobody knows may be a cut as well, and
    /// the API ends the block then, too.
    fn stopped(&mut self, answer: &mut Answer<'_>) {
        match self.stop.as_deref().map(good_end) {
            Some(Some(StopReason::Stop | StopReason::ToolUse)) => self.end(answer),
            Some(None) => {
                self.take_input(answer);
                answer.doubt_last_call();
            }
            _ => {}
        }
    }
}

impl Reader for Events {
    fn read(&mut self, event: &SseEvent, answer: &mut Answer<'_>) -> Result<Flow, ProviderError> {
        // What speaks the API in the place of Anthropic may end as others do.
        if event.data.trim() == "[DONE]" {
            return Ok(Flow::End);
        }
        let parsed = parsed_event(ErrorStyle::Anthropic, &event.data, Event::read)?;
        match parsed {
            Event::MessageStart { message } => {
                answer.set_response_id(message.id.as_deref().unwrap_or_default());
                answer.set_usage(updated(answer.usage(), message.usage));
            }
            Event::ContentBlockStart { content_block } => self.start(content_block, answer),
            Event::ContentBlockDelta { delta } => self.delta(delta, answer),
            Event::ContentBlockStop => self.end(answer),
            Event::MessageDelta { delta, usage } => {
                answer.set_usage(updated(answer.usage(), usage));
                self.stop = delta.stop_reason.or_else(|| self.stop.take());
                self.has_answer = answer.says_something();
                self.stopped(answer);
            }
            Event::MessageStop => return Ok(Flow::End),
            Event::Error => {
                let data = parse(&event.data).unwrap_or(Value::Null);
                return Err(ProviderError::from_event(ErrorStyle::Anthropic, &data));
            }
            Event::Other => {}
        }
        Ok(Flow::More)
    }

    fn outcome(&self) -> Option<Result<StopReason, ProviderError>> {
        let reason = self.stop.as_deref()?;
        if let Some(stop) = good_end(reason) {
            return Some(Ok(stop));
        }
        Some(match reason {
            "refusal" | "sensitive" => Err(ProviderError::new(
                ProviderErrorKind::Refusal,
                format!("The model declined to answer ({reason})"),
            )),
            // What was said is worth more than a word that nobody knows.
            _ if self.has_answer => Ok(StopReason::Stop),
            _ => Err(ProviderError::new(
                ProviderErrorKind::Protocol,
                format!("Unhandled stop reason: {reason}"),
            )),
        })
    }
}

/// What a reason means with which an answer ends as it may: the API's words, and `OpenAI`'s,
/// which some servers pass on.
fn good_end(reason: &str) -> Option<StopReason> {
    Some(match reason {
        "end_turn" | "stop_sequence" | "pause_turn" | "stop" => StopReason::Stop,
        "max_tokens" | "model_context_window_exceeded" | "length" => StopReason::Length,
        "tool_use" | "tool_calls" => StopReason::ToolUse,
        _ => return None,
    })
}

fn updated(usage: &Usage, news: Option<WireUsage>) -> Usage {
    let Some(news) = news else { return usage.clone() };
    Usage {
        input: news.input.unwrap_or(usage.input),
        output: news.output.unwrap_or(usage.output),
        cache_read: news.cache_read.unwrap_or(usage.cache_read),
        cache_write: news.cache_write.unwrap_or(usage.cache_write),
        ..usage.clone()
    }
}

#[cfg(test)]
mod tests;
