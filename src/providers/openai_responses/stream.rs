//! The stream of an answer.
//!
//! Owns: what each event means. Must not: keep the answer; `Answer` does.

use serde::Deserialize;
use serde_json::Value;

use super::super::ModelInfo;
use super::super::answer::Answer;
use super::super::error::{ErrorStyle, ProviderError, ProviderErrorKind};
use super::super::json::{parse, piece};
use super::super::reader::{Flow, Reader};
use super::super::sse::SseEvent;
use crate::protocol::message::{StopReason, Usage};
use crate::support::json;

const COMPLETED: &str = "completed";

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Event {
    #[serde(rename = "response.created")]
    Created { response: Option<Response> },
    #[serde(rename = "response.output_item.added")]
    Added { item: Value },
    #[serde(rename = "response.output_item.done")]
    Done { item: Value },
    #[serde(rename = "response.reasoning_summary_text.delta")]
    Thought { delta: String },
    #[serde(rename = "response.reasoning_summary_part.done")]
    ThoughtPart,
    #[serde(rename = "response.output_text.delta", alias = "response.refusal.delta")]
    Text { delta: String },
    #[serde(rename = "response.function_call_arguments.delta")]
    Arguments { delta: String },
    #[serde(rename = "response.function_call_arguments.done")]
    AllArguments { arguments: String },
    #[serde(rename = "response.completed", alias = "response.incomplete")]
    Completed { response: Option<Response> },
    #[serde(rename = "response.failed")]
    Failed { response: Option<Response> },
    #[serde(rename = "error")]
    Error,
    /// What says nothing new, and what may come.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Response {
    id: Option<String>,
    status: Option<String>,
    usage: Option<WireUsage>,
    service_tier: Option<String>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct WireUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    total_tokens: Option<u64>,
    input_tokens_details: Option<InputDetails>,
}

#[derive(Deserialize)]
struct InputDetails {
    cached_tokens: Option<u64>,
}

/// The item that deltas go to; the API sends one after the other.
#[derive(Default, Clone, Copy, PartialEq)]
enum Open {
    #[default]
    None,
    Thought,
    Text,
    Call(usize),
}

/// Reads events.
pub struct Events {
    /// The tier that was asked for; the answer may say another one.
    tier: Option<String>,
    open: Open,
    status: Option<String>,
}

impl Events {
    /// For an answer of this model.
    pub fn new(model: &ModelInfo) -> Self {
        let tier = model.options.params.service_tier.clone();
        Self { tier, open: Open::None, status: None }
    }

    fn start(&mut self, item: &Value, answer: &mut Answer<'_>) {
        self.open = match text(item, "type") {
            "reasoning" => {
                answer.end_block();
                answer.thinking("");
                Open::Thought
            }
            "message" => {
                answer.end_block();
                answer.text("");
                Open::Text
            }
            "function_call" => {
                let id = format!("{}|{}", text(item, "call_id"), text(item, "id"));
                let block = answer.tool_call(&id, text(item, "name"));
                answer.settle_arguments(block, text(item, "arguments").to_owned());
                Open::Call(block)
            }
            _ => Open::None,
        };
    }

    fn end(&mut self, item: &Value, answer: &mut Answer<'_>) {
        match (std::mem::take(&mut self.open), text(item, "type")) {
            (Open::Thought, "reasoning") => {
                answer.settle(joined(item, "summary", "\n\n"));
                answer.set_signature(item.to_string());
            }
            (Open::Text, "message") => {
                answer.settle(joined(item, "content", ""));
                answer.set_signature(signature(item));
            }
            (Open::Call(block), "function_call") => {
                let arguments = text(item, "arguments");
                if !arguments.is_empty() {
                    answer.settle_arguments(block, arguments.to_owned());
                }
            }
            _ => {}
        }
        answer.end_block();
    }

    fn finish(&mut self, response: Option<Response>, answer: &mut Answer<'_>) {
        let Some(response) = response else {
            self.status = Some(COMPLETED.into());
            return;
        };
        answer.set_response_id(response.id.as_deref().unwrap_or_default());
        if let Some(usage) = &response.usage {
            let factor = match response.service_tier.as_deref().or(self.tier.as_deref()) {
                Some("flex") => 0.5,
                Some("priority") => 2.0,
                _ => 1.0,
            };
            answer.set_counted_usage(usage.read(), factor);
        }
        self.status = Some(response.status.unwrap_or_else(|| COMPLETED.into()));
    }
}

impl Reader for Events {
    fn read(&mut self, event: &SseEvent, answer: &mut Answer<'_>) -> Result<Flow, ProviderError> {
        if event.data.trim() == "[DONE]" {
            return Ok(Flow::End);
        }
        let parsed: Event = piece("an event", &event.data)?;
        match (parsed, self.open) {
            (Event::Created { response }, _) => {
                let id = response.and_then(|response| response.id);
                answer.set_response_id(id.as_deref().unwrap_or_default());
            }
            (Event::Added { item }, _) => self.start(&item, answer),
            (Event::Done { item }, _) => self.end(&item, answer),
            (Event::Thought { delta }, Open::Thought) => answer.thinking(&delta),
            (Event::ThoughtPart, Open::Thought) => answer.thinking("\n\n"),
            (Event::Text { delta }, Open::Text) => answer.text(&delta),
            (Event::Arguments { delta }, Open::Call(block)) => answer.tool_arguments(block, &delta),
            (Event::AllArguments { arguments }, Open::Call(block)) => {
                answer.settle_arguments(block, arguments);
            }
            (Event::Completed { response }, _) => {
                self.finish(response, answer);
                return Ok(Flow::End);
            }
            (Event::Failed { response }, _) => {
                let error = response.and_then(|response| response.error);
                return Err(failure(&error.unwrap_or_else(|| json!({}))));
            }
            (Event::Error, _) => return Err(failure(&parse(&event.data).unwrap_or_default())),
            _ => {}
        }
        Ok(Flow::More)
    }

    fn outcome(&self) -> Option<Result<StopReason, ProviderError>> {
        let status = self.status.as_deref()?;
        Some(match status {
            COMPLETED | "in_progress" | "queued" => Ok(StopReason::Stop),
            "incomplete" => Ok(StopReason::Length),
            _ => Err(ProviderError::new(
                ProviderErrorKind::Server,
                format!("the provider ended the response with status {status}"),
            )),
        })
    }
}

impl WireUsage {
    fn read(&self) -> Usage {
        let prompt = self.input_tokens.unwrap_or(0);
        let cached = self.input_tokens_details.as_ref().and_then(|it| it.cached_tokens);
        let cache_read = cached.unwrap_or(0).min(prompt);
        Usage {
            input: prompt - cache_read,
            output: self.output_tokens.unwrap_or(0),
            cache_read,
            total_tokens: self.total_tokens.unwrap_or(0),
            ..Usage::default()
        }
    }
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// Texts and refusals of the parts of an item.
fn joined(item: &Value, member: &str, between: &str) -> String {
    let parts = item.get(member).and_then(Value::as_array).into_iter().flatten();
    let texts = parts.map(|part| match text(part, "type") {
        "refusal" => text(part, "refusal"),
        _ => text(part, "text"),
    });
    texts.collect::<Vec<_>>().join(between)
}

/// What has to come back with this text: its id, and where it belongs if the
/// provider says so.
fn signature(item: &Value) -> String {
    let id = text(item, "id");
    match text(item, "phase") {
        "" => id.to_owned(),
        phase => json!({"v": 1, "id": id, "phase": phase}).to_string(),
    }
}

/// `error` events have code and message themselves, failed responses inside.
fn failure(error: &Value) -> ProviderError {
    let (code, message) = (text(error, "code"), text(error, "message"));
    let message = match (code, message) {
        ("", "") => "An unknown error occurred".to_owned(),
        ("", message) => message.to_owned(),
        (code, message) => format!("Error Code {code}: {message}"),
    };
    let data = json!({"error": {"type": code, "message": message}});
    ProviderError::from_event(ErrorStyle::OpenAi, &data)
}

#[cfg(test)]
mod tests;
