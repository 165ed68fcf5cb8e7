//! The stream of an answer.
//!
//! Owns: what each chunk means. Must not: keep the answer; `Answer` does.

use serde::Deserialize;
use serde_json::Value;

use super::super::answer::Answer;
use super::super::error::{ErrorStyle, ProviderError, ProviderErrorKind};
use super::super::json::piece;
use super::super::reader::{Flow, Reader};
use super::super::sse::SseEvent;
use crate::protocol::message::{StopReason, Usage};

/// Fields that servers put thoughts into; the first one that is filled counts.
pub const THINKING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];

#[derive(Deserialize)]
struct Chunk {
    id: Option<String>,
    choices: Option<Vec<Choice>>,
    usage: Option<WireUsage>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Delta>,
    finish_reason: Option<String>,
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<Value>,
    refusal: Option<Value>,
    reasoning_content: Option<Value>,
    reasoning: Option<Value>,
    reasoning_text: Option<Value>,
    tool_calls: Option<Vec<CallDelta>>,
    reasoning_details: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionDelta>,
    extra_content: Option<Value>,
}

#[derive(Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<Value>,
}

#[derive(Deserialize)]
struct WireUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    /// `DeepSeek`'s word for it.
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
    /// `OpenRouter` counts these among the cached ones, too.
    cache_write_tokens: Option<u64>,
}

/// A call as the server names it.
struct KnownCall {
    index: Option<u64>,
    id: String,
    block: usize,
}

/// Reads chunks.
pub struct Chunks {
    /// When the answer began, for ids of calls that the server gives none.
    began: u64,
    calls: Vec<KnownCall>,
    finish: Option<String>,
    done: bool,
}

impl Chunks {
    /// For an answer that began at this time.
    pub const fn new(began: u64) -> Self {
        Self { began, calls: Vec::new(), finish: None, done: false }
    }

    fn delta(&mut self, delta: &Delta, answer: &mut Answer<'_>) {
        for text in [&delta.content, &delta.refusal] {
            if let Some(text) = filled(text.as_ref()) {
                answer.text(text);
            }
        }
        let thoughts = [&delta.reasoning_content, &delta.reasoning, &delta.reasoning_text];
        let thought = THINKING_FIELDS
            .iter()
            .zip(thoughts)
            .find_map(|(field, value)| Some((field, filled(value.as_ref())?)));
        if let Some((field, text)) = thought {
            answer.thinking(text);
            answer.sign_thinking_once(field);
        }
        for call in delta.tool_calls.iter().flatten() {
            self.call(call, answer);
        }
        for detail in delta.reasoning_details.iter().flatten() {
            sign_call(detail, answer);
        }
    }

    fn call(&mut self, delta: &CallDelta, answer: &mut Answer<'_>) {
        let id = delta.id.as_deref().unwrap_or_default();
        let block = match self.known(delta.index, id) {
            Some(block) => block,
            None => self.begin(delta, id, answer),
        };
        let arguments = delta.function.as_ref().and_then(|function| function.arguments.as_ref());
        match arguments {
            Some(Value::String(text)) => answer.tool_arguments(block, text),
            // Some servers send the object itself.
            Some(object @ Value::Object(_)) => answer.tool_arguments(block, &object.to_string()),
            _ => {}
        }
        // Google wants its signature back (`messages::tool_call`).
        if let Some(extra) = delta.extra_content.as_ref().filter(|extra| extra.is_object()) {
            answer.sign_tool_call(block, extra.to_string());
        }
    }

    /// The call that this delta goes on with: the same index, unless the id
    /// says otherwise; without index the same id, without id the last one.
    fn known(&self, index: Option<u64>, id: &str) -> Option<usize> {
        let same_id = |call: &&KnownCall| id.is_empty() || call.id == id;
        let mut newest_first = self.calls.iter().rev();
        let found = match index {
            Some(_) => newest_first.find(|call| call.index == index).filter(same_id),
            None => newest_first.find(same_id),
        };
        found.map(|call| call.block)
    }

    fn begin(&mut self, delta: &CallDelta, id: &str, answer: &mut Answer<'_>) -> usize {
        let name = delta.function.as_ref().and_then(|function| function.name.as_deref());
        let made;
        let wire_id = if id.is_empty() {
            made = format!("call_{}_{}", self.began, self.calls.len());
            &made
        } else {
            id
        };
        let block = answer.tool_call(wire_id, name.unwrap_or_default());
        self.calls.push(KnownCall { index: delta.index, id: id.to_owned(), block });
        block
    }
}

impl Reader for Chunks {
    fn read(&mut self, event: &SseEvent, answer: &mut Answer<'_>) -> Result<Flow, ProviderError> {
        if event.data.trim() == "[DONE]" {
            self.done = true;
            return Ok(Flow::End);
        }
        let chunk: Chunk = piece("a chunk", &event.data)?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            let data = crate::support::json!({"error": error});
            return Err(ProviderError::from_event(ErrorStyle::OpenAi, &data));
        }
        answer.set_response_id(chunk.id.as_deref().unwrap_or_default());
        if let Some(usage) = &chunk.usage {
            answer.set_usage(usage.read());
        }
        if let Some(choice) = chunk.choices.as_ref().and_then(|choices| choices.first()) {
            if let (Some(usage), None) = (&choice.usage, &chunk.usage) {
                answer.set_usage(usage.read());
            }
            if let Some(delta) = &choice.delta {
                self.delta(delta, answer);
            }
            if let Some(reason) = choice.finish_reason.as_ref().filter(|reason| !reason.is_empty())
            {
                self.finish = Some(reason.clone());
            }
        }
        Ok(Flow::More)
    }

    fn outcome(&self) -> Option<Result<StopReason, ProviderError>> {
        let Some(reason) = &self.finish else {
            // Some servers forget the reason, but not to say that they are done.
            return self.done.then_some(Ok(StopReason::Stop));
        };
        let kind = match reason.as_str() {
            "stop" | "end" => return Some(Ok(StopReason::Stop)),
            "length" => return Some(Ok(StopReason::Length)),
            "tool_calls" | "function_call" => return Some(Ok(StopReason::ToolUse)),
            "content_filter" => ProviderErrorKind::Refusal,
            _ => ProviderErrorKind::Protocol,
        };
        Some(Err(ProviderError::new(kind, format!("Provider finish_reason: {reason}"))))
    }
}

impl WireUsage {
    /// Tokens of thought are part of `completion_tokens` already.
    fn read(&self) -> Usage {
        let prompt = self.prompt_tokens.unwrap_or(0);
        let details = self.prompt_tokens_details.as_ref();
        let cached = details.and_then(|it| it.cached_tokens).or(self.prompt_cache_hit_tokens);
        let cached = cached.unwrap_or(0).min(prompt);
        let written = details.and_then(|it| it.cache_write_tokens).unwrap_or(0);
        let cache_read = cached.saturating_sub(written);
        Usage {
            input: prompt.saturating_sub(cache_read).saturating_sub(written),
            output: self.completion_tokens.unwrap_or(0),
            cache_read,
            cache_write: written,
            ..Usage::default()
        }
    }
}

fn filled(value: Option<&Value>) -> Option<&str> {
    value?.as_str().filter(|text| !text.is_empty())
}

/// Encrypted reasoning belongs to the call whose id it has.
fn sign_call(detail: &Value, answer: &mut Answer<'_>) {
    let text = |name: &str| detail.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("type") == "reasoning.encrypted"
        && !text("data").is_empty()
        && let Some(block) = answer.find_tool_call(text("id"))
    {
        answer.sign_tool_call(block, detail.to_string());
    }
}

#[cfg(test)]
mod tests;
