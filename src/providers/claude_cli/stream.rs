//! What the CLI says.
//!
//! Owns: what each line means. Promises: whatever it asks to be allowed is
//! denied, since nobody is there to ask; what its own tools do is not shown as
//! calls of ours; the text of a message that it has to begin again is told once, or
//! the call fails. Must not: know the process.

use serde::Deserialize;
use serde_json::Value;

use super::super::answer::Answer;
use super::super::anthropic::Events;
use super::super::error::{ProviderError, ProviderErrorKind};
use super::super::halves::append;
use super::super::json::Members;
use super::super::overflow::is_overflow;
use super::super::reader::Reader as _;
use super::super::sse::SseEvent;
use crate::protocol::message::{StopReason, Usage};
use crate::support::json;

/// The model of what the CLI says itself, such as that the API failed; its result says so too.
const SYNTHETIC: &str = "<synthetic>";
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
    Result(Value),
    /// `system`, `user`, `keep_alive`, and what may come.
    Other,
}

impl Line {
    fn read(mut line: Members) -> Result<Self, serde_json::Error> {
        const PARENT: &str = "parent_tool_use_id";
        Ok(match line.text("type")?.as_str() {
            "stream_event" => Self::StreamEvent {
                event: line.needed("event")?,
                parent_tool_use_id: line.maybe(PARENT)?,
            },
            "assistant" => Self::Assistant {
                message: line.read("message")?,
                parent_tool_use_id: line.maybe(PARENT)?,
                error: line.maybe("error")?,
            },
            "control_request" => Self::ControlRequest {
                request_id: line.text("request_id")?,
                request: line.needed("request")?,
            },
            "result" => Self::Result(line.rest()),
            _ => Self::Other,
        })
    }
}

#[derive(Deserialize)]
struct Whole {
    id: Option<String>,
    #[serde(default)]
    model: String,
    #[serde(default)]
    content: Vec<Value>,
}

/// How the last message has come.
#[derive(Default, PartialEq)]
enum Last {
    /// As whole lines, one for each block.
    #[default]
    Whole,
    /// In pieces, and there may be more.
    Begun,
    /// In pieces, to its end.
    Streamed,
}

/// What becomes of the pieces of a block.
#[derive(Default, PartialEq)]
enum Block {
    #[default]
    Shown,
    /// Its text counts, from where it says more than what was told before.
    Again,
    /// It is none of the answer.
    Hidden,
}

/// Reads lines.
#[derive(Default)]
pub struct Turn {
    events: Events,
    block: Block,
    last: Last,
    /// Id of the last message.
    id: String,
    /// Text of the last message. One that broke off is begun again, by the CLI's
    /// own retry or as a whole, and its text stays here.
    told: String,
    /// How much of `told` the message has said; less than all while it repeats it.
    said: usize,
    /// Half a character at the end of what it has said, while the other half may come.
    heard: String,
    /// Whether any message has said something.
    has_text: bool,
    /// Its word for why the API failed.
    failure: Option<String>,
}

impl Turn {
    /// Takes the next line. One that is no JSON is a warning for people.
    pub fn read(&mut self, line: &str, answer: &mut Answer<'_>) -> Result<Said, ProviderError> {
        let Ok(line) = Members::parse(line).and_then(Line::read) else {
            return Ok(Said::Nothing);
        };
        match line {
            // Those of its subagents are its own affair.
            Line::StreamEvent { event, parent_tool_use_id: None } => self.event(&event, answer)?,
            Line::Assistant { error: Some(error), .. } => self.failure = Some(error),
            Line::Assistant { message, parent_tool_use_id: None, .. } => {
                self.whole(&message, answer)?;
            }
            Line::ControlRequest { request_id, request } => {
                return Ok(Said::Question(reply(&request_id, &request)));
            }
            Line::Result(end) => return Ok(Said::End(self.end(&end, answer))),
            Line::StreamEvent { .. } | Line::Assistant { .. } | Line::Other => {}
        }
        Ok(Said::Nothing)
    }

    fn event(&mut self, event: &Value, answer: &mut Answer<'_>) -> Result<(), ProviderError> {
        let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let kind = text("/type");
        match kind {
            "message_start" => {
                self.begin(text("/message/id"))?;
                self.last = Last::Begun;
                self.block = Block::Shown;
            }
            "content_block_start" => {
                self.block = match text("/content_block/type") {
                    "text" | "thinking" | "redacted_thinking" if self.repeats() => Block::Again,
                    "text" | "thinking" | "redacted_thinking" => Block::Shown,
                    _ => Block::Hidden,
                };
            }
            "content_block_delta"
                if self.block != Block::Hidden && text("/delta/type") == "text_delta" =>
            {
                return self.say(text("/delta/text"), answer);
            }
            "message_stop" => {
                self.check_repeated()?;
                self.last = Last::Streamed;
            }
            _ => {}
        }
        if self.block == Block::Shown || !kind.starts_with("content_block_") {
            let event = SseEvent { event: String::new(), data: event.to_string() };
            self.events.read(&event, answer)?;
        }
        Ok(())
    }

    /// Another message begins. After one that broke off it is the same once more.
    fn begin(&mut self, id: &str) -> Result<(), ProviderError> {
        if self.last != Last::Begun {
            self.check_repeated()?;
            self.told.clear();
        }
        self.say_anew();
        id.clone_into(&mut self.id);
        Ok(())
    }

    /// Takes a line that holds blocks of a message, unless that is told by pieces.
    fn whole(&mut self, message: &Whole, answer: &mut Answer<'_>) -> Result<(), ProviderError> {
        if message.model == SYNTHETIC {
            return Ok(());
        }
        let id = message.id.as_deref().unwrap_or_default();
        let is_same = id.is_empty() || id == self.id;
        if is_same && self.last != Last::Whole {
            return Ok(());
        }
        if !is_same {
            self.begin(id)?;
            self.last = Last::Whole;
        }
        for block in &message.content {
            let text = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
            match text("type") {
                "text" => self.say(text("text"), answer)?,
                "thinking" if !self.repeats() => {
                    answer.thinking(text("thinking"));
                    answer.sign_thinking(text("signature"));
                }
                _ => continue,
            }
            if !self.repeats() {
                answer.end_block();
            }
        }
        Ok(())
    }

    /// What comes next is the begin of the message.
    fn say_anew(&mut self) {
        self.said = 0;
        self.heard.clear();
    }

    /// More text of the message. What was told before it broke off is not told again. Pieces
    /// are compared once their characters are whole: it may be cut elsewhere than before.
    fn say(&mut self, text: &str, answer: &mut Answer<'_>) -> Result<(), ProviderError> {
        let text = append(&mut self.heard, text);
        self.heard.drain(..text.len());
        let rest = self.told.get(self.said..).unwrap_or_default();
        if rest.starts_with(&text) {
            self.said += text.len();
            return Ok(());
        }
        let new = text.strip_prefix(rest).ok_or_else(says_otherwise)?;
        answer.text(new);
        self.has_text = true;
        self.told.push_str(new);
        self.said = self.told.len();
        Ok(())
    }

    const fn repeats(&self) -> bool {
        self.said < self.told.len()
    }

    /// The message is complete: it must have said all that was told of it.
    fn check_repeated(&self) -> Result<(), ProviderError> {
        if self.repeats() { Err(says_otherwise()) } else { Ok(()) }
    }

    /// The CLI's last word stands in for what never came of the answer.
    fn conclude(&mut self, result: &str, answer: &mut Answer<'_>) -> Result<(), ProviderError> {
        if !result.is_empty() && (self.last == Last::Begun || !self.has_text) {
            self.say_anew();
            self.say(result, answer)?;
        }
        self.check_repeated()
    }

    /// Whatever else it says, an answer that has come is one: what is not as it should be
    /// counts as absent.
    fn end(&mut self, end: &Value, answer: &mut Answer<'_>) -> Result<StopReason, ProviderError> {
        let text = |name: &str| end.get(name).and_then(Value::as_str).unwrap_or_default();
        if let Some(usage) = end.get("usage").filter(|usage| usage.is_object()) {
            // The sum over all calls of the turn.
            let count = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or_default();
            answer.set_usage(Usage {
                input: count("input_tokens"),
                output: count("output_tokens"),
                cache_read: count("cache_read_input_tokens"),
                cache_write: count("cache_creation_input_tokens"),
                ..Usage::default()
            });
        }
        let (subtype, result) = (text("subtype"), text("result"));
        let is_error = end.get("is_error").and_then(Value::as_bool).unwrap_or_default();
        if is_error || subtype != "success" {
            let errors = end.get("errors").and_then(Value::as_array).into_iter().flatten();
            let errors: Vec<_> = errors.filter_map(Value::as_str).collect();
            let said = if result.is_empty() { errors.join("; ") } else { result.to_owned() };
            let kind = kind_of(self.failure.as_deref(), &said);
            let said = if said.is_empty() { subtype } else { &said };
            let kind = kind.unwrap_or(ProviderErrorKind::Server);
            return Err(ProviderError::new(kind, format!("claude-cli: {said}")));
        }
        self.conclude(result, answer)?;
        match self.events.outcome() {
            // The tools were its own, and are done.
            None | Some(Ok(StopReason::ToolUse)) => Ok(StopReason::Stop),
            Some(outcome) => outcome,
        }
    }
}

/// What was told cannot be taken back, and the two texts are no answer together.
fn says_otherwise() -> ProviderError {
    let text = "claude-cli: its answer broke off, and then began with another text";
    ProviderError::new(ProviderErrorKind::Cut, text)
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
