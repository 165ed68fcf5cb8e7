//! The stream of an answer.
//!
//! Owns: what each chunk means. Must not: keep the answer; `Answer` does.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::answer::Answer;
use super::super::compose::fit;
use super::super::error::{ErrorStyle, ProviderError, ProviderErrorKind};
use super::super::json::piece;
use super::super::reader::{Flow, Reader};
use super::super::sse::SseEvent;
use crate::protocol::message::{StopReason, Usage};

/// So much of its name is in the id of a call: with the time and a number behind it, that has
/// no more than the 64 characters that every API takes.
const NAME_IN_ID: usize = 40;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk {
    candidates: Option<Vec<Candidate>>,
    usage_metadata: Option<WireUsage>,
    prompt_feedback: Option<Feedback>,
    response_id: Option<String>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<Content>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    parts: Option<Vec<Part>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    thought_signature: Option<String>,
    function_call: Option<FunctionCall>,
}

#[derive(Deserialize)]
struct FunctionCall {
    id: Option<String>,
    name: Option<String>,
    args: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<String>,
}

#[derive(Deserialize)]
struct WireUsage {
    #[serde(rename = "promptTokenCount")]
    prompt: Option<u64>,
    #[serde(rename = "candidatesTokenCount")]
    candidates: Option<u64>,
    #[serde(rename = "thoughtsTokenCount")]
    thoughts: Option<u64>,
    #[serde(rename = "cachedContentTokenCount")]
    cached: Option<u64>,
    #[serde(rename = "totalTokenCount")]
    total: Option<u64>,
}

/// Reads chunks.
pub struct Chunks {
    /// When the answer began, for ids of calls: the API gives none.
    began: u64,
    calls: usize,
    finish: Option<String>,
    /// What the API says about that.
    message: Option<String>,
}

impl Chunks {
    /// For an answer that began at this time.
    pub const fn new(began: u64) -> Self {
        Self { began, calls: 0, finish: None, message: None }
    }

    fn part(&mut self, part: Part, answer: &mut Answer<'_>) {
        let signature = part.thought_signature.unwrap_or_default();
        if let Some(text) = &part.text {
            if part.thought {
                answer.thinking(text);
            } else {
                answer.text(text);
            }
            answer.set_signature(signature.clone());
        }
        if let Some(call) = part.function_call {
            self.call(call, signature, answer);
        }
    }

    /// Calls come whole.
    fn call(&mut self, call: FunctionCall, signature: String, answer: &mut Answer<'_>) {
        self.calls += 1;
        let name = call.name.unwrap_or_default();
        let given = call.id.filter(|id| !id.is_empty() && answer.find_tool_call(id).is_none());
        let own = || format!("{}_{}_{}", fit(&name, NAME_IN_ID), self.began, self.calls);
        let id = given.unwrap_or_else(own);
        let block = answer.tool_call(&id, &name);
        answer.tool_arguments(block, &Value::Object(call.args.unwrap_or_default()).to_string());
        if !signature.is_empty() {
            answer.sign_tool_call(block, signature);
        }
        answer.end_block();
    }
}

impl Reader for Chunks {
    fn read(&mut self, event: &SseEvent, answer: &mut Answer<'_>) -> Result<Flow, ProviderError> {
        let chunk: Chunk = piece("a chunk", &event.data)?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            let data = crate::support::json!({"error": error});
            return Err(ProviderError::from_event(ErrorStyle::Google, &data));
        }
        answer.set_response_id(chunk.response_id.as_deref().unwrap_or_default());
        if let Some(candidate) = chunk.candidates.into_iter().flatten().next() {
            for part in candidate.content.and_then(|it| it.parts).into_iter().flatten() {
                self.part(part, answer);
            }
            if let Some(reason) = candidate.finish_reason.filter(|reason| !reason.is_empty()) {
                self.finish = Some(reason);
                self.message = candidate.finish_message;
            }
        }
        if let Some(reason) = chunk.prompt_feedback.and_then(|feedback| feedback.block_reason) {
            self.finish = Some(reason);
        }
        if let Some(usage) = &chunk.usage_metadata {
            answer.set_counted_usage(usage.read(), 1.0);
        }
        Ok(Flow::More)
    }

    fn outcome(&self) -> Option<Result<StopReason, ProviderError>> {
        let reason = self.finish.as_deref()?;
        Some(match reason {
            // Whole calls are worth running, whatever came after them.
            _ if self.calls > 0 => Ok(StopReason::ToolUse),
            "STOP" => Ok(StopReason::Stop),
            "MAX_TOKENS" => Ok(StopReason::Length),
            _ => Err(self.refusal(reason)),
        })
    }
}

impl Chunks {
    fn refusal(&self, reason: &str) -> ProviderError {
        let kind = match reason {
            "MALFORMED_FUNCTION_CALL" | "MALFORMED_RESPONSE" | "UNEXPECTED_TOOL_CALL" | "OTHER" => {
                ProviderErrorKind::Server
            }
            _ => ProviderErrorKind::Refusal,
        };
        let text = match &self.message {
            Some(message) => format!("The model declined to answer ({reason}): {message}"),
            None => format!("The model declined to answer ({reason})"),
        };
        ProviderError::new(kind, text)
    }
}

impl WireUsage {
    /// What was cached is part of the prompt already.
    fn read(&self) -> Usage {
        let prompt = self.prompt.unwrap_or(0);
        let cache_read = self.cached.unwrap_or(0).min(prompt);
        let thoughts = self.thoughts.unwrap_or(0);
        Usage {
            input: prompt - cache_read,
            output: self.candidates.unwrap_or(0).saturating_add(thoughts),
            cache_read,
            total_tokens: self.total.unwrap_or(0),
            ..Usage::default()
        }
    }
}

#[cfg(test)]
mod tests;
