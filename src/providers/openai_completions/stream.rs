//! The stream of an answer.
//!
//! Owns: what each chunk means. Promises: a call is told when its name is known,
//! or with the end of the answer. Must not: keep the answer; `Answer` does.

use serde::Deserialize;
use serde_json::Value;

use super::super::answer::Answer;
use super::super::error::{ErrorStyle, ProviderError, ProviderErrorKind};
use super::super::json::{parse, piece};
use super::super::reader::{Flow, Reader};
use super::super::sse::SseEvent;
use crate::protocol::message::{StopReason, Usage};

/// Fields that servers put thoughts into; the first one that is filled counts.
pub const THINKING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];
/// Bytes that wait for the names of their calls, which come with the first pieces.
const MAX_WAITING: usize = 64 * 1024;
/// What a call counts there at least, so that their number is bounded, too.
const MIN_WAITING: usize = 64;

#[derive(Deserialize)]
struct Chunk {
    id: Option<String>,
    object: Option<Value>,
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
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// `DeepSeek`'s word for it.
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
    /// `OpenRouter` counts these among the cached ones, too.
    cache_write_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

/// A call as the server names it.
#[derive(Default)]
struct KnownCall {
    index: Option<u64>,
    id: String,
    name: String,
    /// `None` until it is told; what has come of it then waits in the next two.
    block: Option<usize>,
    arguments: String,
    signature: Option<String>,
}

impl KnownCall {
    /// Takes what the call is named by. The first word counts.
    fn learn(&mut self, id: &str, name: &str) {
        for (known, new) in [(&mut self.id, id), (&mut self.name, name)] {
            if known.is_empty() {
                new.clone_into(known);
            }
        }
    }

    /// More of its arguments.
    fn more(&mut self, arguments: &str, answer: &mut Answer<'_>) {
        match self.block {
            Some(block) => answer.tool_arguments(block, arguments),
            None => self.arguments.push_str(arguments),
        }
    }

    /// What of it waits to be told, in bytes.
    fn waiting(&self) -> usize {
        if self.block.is_some() { 0 } else { self.arguments.len().max(MIN_WAITING) }
    }

    fn sign(&mut self, signature: String, answer: &mut Answer<'_>) {
        match self.block {
            Some(block) => answer.sign_tool_call(block, signature),
            None => self.signature = Some(signature),
        }
    }

    /// Tells it, unless that is done.
    fn begin(&mut self, answer: &mut Answer<'_>) {
        if self.block.is_some() {
            return;
        }
        let block = answer.tool_call(&self.id, &self.name);
        self.block = Some(block);
        answer.tool_arguments(block, &std::mem::take(&mut self.arguments));
        if let Some(signature) = self.signature.take() {
            answer.sign_tool_call(block, signature);
        }
    }
}

/// Reads chunks.
#[derive(Default)]
pub struct Chunks {
    calls: Vec<KnownCall>,
    finish: Option<String>,
    /// Whether it had said something by then.
    has_answer: bool,
    done: bool,
}

impl Chunks {
    fn delta(&mut self, delta: &Delta, answer: &mut Answer<'_>) {
        match &delta.content {
            Some(Value::Array(parts)) => parts.iter().for_each(|part| said(part, answer)),
            text => answer_text(text.as_ref(), answer),
        }
        answer_text(delta.refusal.as_ref(), answer);
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
            self.sign(detail, answer);
        }
    }

    fn call(&mut self, delta: &CallDelta, answer: &mut Answer<'_>) {
        let id = delta.id.as_deref().unwrap_or_default();
        let function = delta.function.as_ref();
        let name = function.and_then(|function| function.name.as_deref()).unwrap_or_default();
        let place = self.known(delta.index, id, name).unwrap_or_else(|| {
            self.calls.push(KnownCall { index: delta.index, ..KnownCall::default() });
            self.calls.len() - 1
        });
        let Some(call) = self.calls.get_mut(place) else { return };
        call.learn(id, name);
        if !call.name.is_empty() {
            call.begin(answer);
        }
        let made;
        let arguments: &str = match function.and_then(|function| function.arguments.as_ref()) {
            Some(Value::String(text)) => text,
            // Some servers send the object itself.
            Some(object @ Value::Object(_)) => {
                made = object.to_string();
                &made
            }
            _ => "",
        };
        call.more(arguments, answer);
        // Google wants its signature back (`messages::tool_call`).
        if let Some(extra) = delta.extra_content.as_ref().filter(|extra| extra.is_object()) {
            call.sign(extra.to_string(), answer);
        }
        if self.calls.iter().map(KnownCall::waiting).sum::<usize>() > MAX_WAITING {
            self.begin_all(answer);
        }
    }

    /// The place of the call that this delta goes on with: the same index, unless the
    /// id says otherwise; without index the same id, without id the last one. An id
    /// may come late, but one that comes with a name of its own begins a call.
    fn known(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let is_late = |call: &KnownCall| {
            call.id.is_empty() && (index.is_some() || call.name.is_empty() || name.is_empty())
        };
        let same_id = |call: &KnownCall| id.is_empty() || call.id == id || is_late(call);
        let newest = |is_it: &dyn Fn(&KnownCall) -> bool| self.calls.iter().rposition(is_it);
        if index.is_none() {
            let named = newest(&|call| !id.is_empty() && call.id == id);
            return named.or_else(|| newest(&same_id));
        }
        let place = newest(&|call| call.index == index)?;
        self.calls.get(place).is_some_and(same_id).then_some(place)
    }

    /// Tells the calls whose names have not come.
    fn begin_all(&mut self, answer: &mut Answer<'_>) {
        for call in &mut self.calls {
            call.begin(answer);
        }
    }

    /// The answer ends, and its calls with it, unless it was cut, or ends for a reason that
    /// nobody knows: that may be a cut as well.
    fn end_all(&mut self, answer: &mut Answer<'_>) {
        self.begin_all(answer);
        let may_be_cut =
            |reason: &str| good_end(reason).is_none_or(|end| end == StopReason::Length);
        let is_cut = self.finish.as_deref().is_some_and(may_be_cut);
        if !is_cut {
            answer.complete_calls();
        }
    }

    /// Encrypted reasoning belongs to the call whose id it has.
    fn sign(&mut self, detail: &Value, answer: &mut Answer<'_>) {
        let text = |name: &str| detail.get(name).and_then(Value::as_str).unwrap_or_default();
        if text("type") == "reasoning.encrypted"
            && !text("data").is_empty()
            && !text("id").is_empty()
            && let Some(call) = self.calls.iter_mut().find(|call| call.id == text("id"))
        {
            call.sign(detail.to_string(), answer);
        }
    }
}

impl Reader for Chunks {
    fn read(&mut self, event: &SseEvent, answer: &mut Answer<'_>) -> Result<Flow, ProviderError> {
        if event.data.trim() == "[DONE]" {
            self.done = true;
            self.end_all(answer);
            return Ok(Flow::End);
        }
        let chunk: Chunk = piece("a chunk", &event.data)?;
        let inner = chunk.error.filter(|error| !error.is_null());
        let whole = inner.map(|error| crate::support::json!({"error": error}));
        // Older servers of vLLM have no `error` around it.
        let is_error = event.event == "error" || chunk.object.is_some_and(|it| it == "error");
        let bare = || is_error.then(|| parse(&event.data).unwrap_or_default());
        if let Some(data) = whole.or_else(bare) {
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
                self.end_all(answer);
                self.has_answer = answer.says_something();
            }
        }
        Ok(Flow::More)
    }

    fn outcome(&self) -> Option<Result<StopReason, ProviderError>> {
        let Some(reason) = &self.finish else {
            // Some servers forget the reason, but not to say that they are done.
            return self.done.then_some(Ok(StopReason::Stop));
        };
        if let Some(stop) = good_end(reason) {
            return Some(Ok(stop));
        }
        let kind = match reason.as_str() {
            "content_filter" | "sensitive" => ProviderErrorKind::Refusal,
            // z.ai, of a conversation that is too long.
            "model_context_window_exceeded" => ProviderErrorKind::ContextLength,
            // z.ai and OpenRouter, and DeepSeek: the server has given up, and may do better.
            "network_error" | "error" | "insufficient_system_resource" => ProviderErrorKind::Server,
            // What was said is worth more than a word that nobody knows.
            _ if self.has_answer => return Some(Ok(StopReason::Stop)),
            _ => ProviderErrorKind::Protocol,
        };
        Some(Err(ProviderError::new(kind, format!("Provider finish_reason: {reason}"))))
    }
}

impl WireUsage {
    /// Tokens of thought are part of `completion_tokens`, but not xAI's: there only the
    /// total holds them.
    fn output(&self) -> u64 {
        let said = self.completion_tokens.unwrap_or(0);
        let details = self.completion_tokens_details.as_ref();
        let thought = details.and_then(|it| it.reasoning_tokens).unwrap_or(0);
        let counted = self.prompt_tokens.unwrap_or(0).saturating_add(said);
        let beside = self.total_tokens.unwrap_or(0).saturating_sub(counted);
        said.saturating_add(thought.min(beside))
    }

    fn read(&self) -> Usage {
        let prompt = self.prompt_tokens.unwrap_or(0);
        let details = self.prompt_tokens_details.as_ref();
        let cached = details.and_then(|it| it.cached_tokens).or(self.prompt_cache_hit_tokens);
        let cached = cached.unwrap_or(0).min(prompt);
        let written = details.and_then(|it| it.cache_write_tokens).unwrap_or(0);
        let cache_read = cached.saturating_sub(written);
        Usage {
            input: prompt.saturating_sub(cache_read).saturating_sub(written),
            output: self.output(),
            cache_read,
            cache_write: written,
            ..Usage::default()
        }
    }
}

/// What a reason means with which an answer ends as it may: `OpenAI`'s words, those of servers
/// of one's own, and Anthropic's, which some servers pass on.
fn good_end(reason: &str) -> Option<StopReason> {
    Some(match reason.to_ascii_lowercase().as_str() {
        "stop" | "end" | "eos" | "end_turn" | "stop_sequence" => StopReason::Stop,
        // Longer than it may be, or than the model can read.
        "length" | "model_length" | "max_tokens" => StopReason::Length,
        "tool_calls" | "tool_call" | "function_call" | "tool_use" => StopReason::ToolUse,
        _ => return None,
    })
}

fn filled(value: Option<&Value>) -> Option<&str> {
    value?.as_str().filter(|text| !text.is_empty())
}

fn answer_text(value: Option<&Value>, answer: &mut Answer<'_>) {
    if let Some(text) = filled(value) {
        answer.text(text);
    }
}

/// A part of a content that is a list, as `Mistral` writes what is not text alone.
fn said(part: &Value, answer: &mut Answer<'_>) {
    match part.get("type").and_then(Value::as_str) {
        Some("text") => answer_text(part.get("text"), answer),
        Some("refusal") => answer_text(part.get("refusal"), answer),
        Some("thinking") => {
            let thought = part.get("thinking");
            let parts = thought.and_then(Value::as_array).into_iter().flatten();
            // It is such a list itself, or a text.
            let texts = parts.map(|part| part.get("text")).chain([thought]);
            texts.filter_map(filled).for_each(|text| answer.thinking(text));
        }
        // References to sources, and what may come.
        _ => {}
    }
}

#[cfg(test)]
mod tests;
