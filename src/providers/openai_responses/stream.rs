//! The stream of an answer.
//!
//! Owns: what each event means. Promises: what is said of one item never goes to
//! another one. Must not: keep the answer; `Answer` does.

use serde::Deserialize;
use serde_json::Value;

use super::super::ModelInfo;
use super::super::answer::Answer;
use super::super::error::{ErrorStyle, ProviderError, ProviderErrorKind};
use super::super::json::{Members, event as parsed_event, parse};
use super::super::reader::{Flow, Reader};
use super::super::sse::SseEvent;
use crate::protocol::message::{StopReason, Usage};
use crate::support::json;

const INDEX: &str = "output_index";
const COMPLETED: &str = "completed";
const INCOMPLETE: &str = "incomplete";
/// Why an answer is incomplete that is not cut by its limit.
const FILTERED: &str = "content_filter";
/// Most items that are remembered: an answer has no more blocks either.
const MAX_ITEMS: usize = 1024;

enum Event {
    Created {
        response: Option<Response>,
    },
    Added {
        item: Value,
        output_index: Value,
    },
    Done {
        item: Value,
        output_index: Value,
    },
    Thought {
        delta: String,
        of: Of,
    },
    ThoughtPart {
        of: Of,
    },
    Text {
        delta: String,
        of: Of,
    },
    Arguments {
        delta: String,
        of: Of,
    },
    AllArguments {
        arguments: String,
        of: Of,
    },
    Completed {
        response: Option<Response>,
    },
    Incomplete {
        response: Option<Response>,
    },
    Failed {
        response: Option<Response>,
    },
    Error,
    /// What says nothing new, and what may come.
    Other,
}

impl Event {
    fn read(mut event: Members) -> Result<Self, serde_json::Error> {
        Ok(match event.text("type")?.as_str() {
            "response.created" => Self::Created { response: event.maybe("response")? },
            "response.output_item.added" => {
                Self::Added { item: event.needed("item")?, output_index: event.value(INDEX) }
            }
            "response.output_item.done" => {
                Self::Done { item: event.needed("item")?, output_index: event.value(INDEX) }
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                Self::Thought { delta: event.text("delta")?, of: Of::take(&mut event) }
            }
            "response.reasoning_summary_part.done" => {
                Self::ThoughtPart { of: Of::take(&mut event) }
            }
            "response.output_text.delta" | "response.refusal.delta" => {
                Self::Text { delta: event.text("delta")?, of: Of::take(&mut event) }
            }
            "response.function_call_arguments.delta" => {
                Self::Arguments { delta: event.text("delta")?, of: Of::take(&mut event) }
            }
            "response.function_call_arguments.done" => {
                Self::AllArguments { arguments: event.text("arguments")?, of: Of::take(&mut event) }
            }
            "response.completed" => Self::Completed { response: event.maybe("response")? },
            "response.incomplete" => Self::Incomplete { response: event.maybe("response")? },
            "response.failed" => Self::Failed { response: event.maybe("response")? },
            "error" => Self::Error,
            _ => Self::Other,
        })
    }
}

/// The item that an event is about. Servers leave out one or the other.
struct Of {
    item_id: Value,
    output_index: Value,
}

impl Of {
    fn take(event: &mut Members) -> Self {
        Self { item_id: event.value("item_id"), output_index: event.value(INDEX) }
    }
}

#[derive(Deserialize)]
struct Response {
    id: Option<String>,
    status: Option<String>,
    usage: Option<WireUsage>,
    service_tier: Option<String>,
    error: Option<Value>,
    incomplete_details: Option<Value>,
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

/// What an item is here, and its block; nothing once it is complete.
#[derive(Clone, Copy)]
enum Open {
    None,
    Thought(usize),
    Text(usize),
    Call(usize),
}

/// An item that has begun. The API sends one after the other, but some servers begin
/// several and complete them all at the end.
struct Item {
    id: String,
    /// Only calls have one.
    call_id: String,
    output_index: Value,
    open: Open,
}

impl Item {
    /// Some servers call an item by the id of its call.
    fn is_named(&self, name: &str) -> bool {
        !name.is_empty() && (self.id == name || self.call_id == name)
    }

    fn is_another_call(&self, call_id: &str) -> bool {
        !call_id.is_empty() && !self.call_id.is_empty() && self.call_id != call_id
    }
}

/// Reads events.
pub struct Events {
    /// The tier that was asked for; the answer may say another one.
    tier: Option<String>,
    items: Vec<Item>,
    status: Option<String>,
}

impl Events {
    /// For an answer of this model.
    pub fn new(model: &ModelInfo) -> Self {
        let tier = model.options.params.service_tier.clone();
        Self { tier, items: Vec::new(), status: None }
    }

    fn start(&mut self, item: &Value, output_index: Value, answer: &mut Answer<'_>) {
        let (id, call_id) = (text(item, "id"), text(item, "call_id"));
        let open = match text(item, "type") {
            "reasoning" => Open::Thought(answer.begin_thinking()),
            "message" => Open::Text(answer.begin_text()),
            "function_call" => {
                let block = answer.tool_call(&format!("{call_id}|{id}"), text(item, "name"));
                answer.settle_arguments(block, text(item, "arguments").to_owned());
                Open::Call(block)
            }
            _ => Open::None,
        };
        if self.items.len() == MAX_ITEMS {
            self.items.remove(0);
        }
        let (id, call_id) = (id.to_owned(), call_id.to_owned());
        self.items.push(Item { id, call_id, output_index, open });
    }

    /// The place of the item that is called so, else of the one with this index.
    fn place(&self, id: &str, call_id: &str, output_index: &Value) -> Option<usize> {
        let newest = |is_it: &dyn Fn(&Item) -> bool| {
            self.items.iter().rposition(|item| !item.is_another_call(call_id) && is_it(item))
        };
        let is_named = |item: &Item| item.is_named(call_id) || item.is_named(id);
        let has_index = |item: &Item| !output_index.is_null() && item.output_index == *output_index;
        // Two calls may have the same id. Without more to tell them apart they end in their order.
        let first_open = || {
            let is_it = |item: &Item| item.is_named(call_id) && !matches!(item.open, Open::None);
            self.items.iter().position(is_it)
        };
        newest(&|item| !id.is_empty() && item.id == id)
            .or_else(|| newest(&|item| is_named(item) && has_index(item)))
            .or_else(first_open)
            .or_else(|| newest(&is_named))
            .or_else(|| newest(&has_index))
    }

    /// What a piece goes to: the newest item, when it does not say or has an id of its own.
    fn open(&self, of: &Of) -> Open {
        let id = of.item_id.as_str().unwrap_or_default();
        let item = match self.place(id, "", &of.output_index) {
            Some(place) => self.items.get(place),
            None => self.items.last(),
        };
        item.map_or(Open::None, |item| item.open)
    }

    fn thought(&self, of: &Of, delta: &str, answer: &mut Answer<'_>) {
        if let Open::Thought(block) = self.open(of) {
            answer.thinking_in(block, delta);
        }
    }

    fn end(&mut self, item: &Value, output_index: &Value, answer: &mut Answer<'_>) {
        let kind = text(item, "type");
        let place = self.place(text(item, "id"), text(item, "call_id"), output_index);
        // Some servers name texts and thoughts nowhere. A call is run, so it is never guessed.
        let newest = || self.items.len().checked_sub(1).filter(|_| kind != "function_call");
        let Some(begun) = place.or_else(newest).and_then(|place| self.items.get_mut(place)) else {
            return;
        };
        let block = match (begun.open, kind) {
            (Open::Thought(block), "reasoning") => {
                answer.settle(block, thought(item));
                answer.sign(block, item.to_string());
                block
            }
            (Open::Text(block), "message") => {
                answer.settle(block, joined(item, "content", ""));
                answer.sign(block, signature(item));
                block
            }
            (Open::Call(block), "function_call") => {
                let arguments = text(item, "arguments");
                if !arguments.is_empty() {
                    answer.settle_arguments(block, arguments.to_owned());
                }
                block
            }
            _ => return,
        };
        begun.open = Open::None;
        answer.end(block);
    }

    /// The answer ends, with this status unless the response has one of its own.
    fn finish(&mut self, status: &str, response: Option<Response>, answer: &mut Answer<'_>) {
        let own = response.as_ref().and_then(|response| response.status.clone());
        let details = response.as_ref().and_then(|response| response.incomplete_details.as_ref());
        self.status = Some(match details {
            Some(details) if text(details, "reason") == FILTERED => FILTERED.to_owned(),
            _ => own.unwrap_or_else(|| status.to_owned()),
        });
        if matches!(self.outcome(), Some(Ok(StopReason::Stop))) {
            answer.complete_calls();
        }
        let Some(response) = response else { return };
        answer.set_response_id(response.id.as_deref().unwrap_or_default());
        self.count(&response, answer);
    }

    /// What the response has used, if it says so.
    fn count(&self, response: &Response, answer: &mut Answer<'_>) {
        let Some(usage) = &response.usage else { return };
        let factor = match response.service_tier.as_deref().or(self.tier.as_deref()) {
            Some("flex") => 0.5,
            Some("priority") => 2.0,
            _ => 1.0,
        };
        answer.set_counted_usage(usage.read(), factor);
    }
}

impl Reader for Events {
    fn read(&mut self, event: &SseEvent, answer: &mut Answer<'_>) -> Result<Flow, ProviderError> {
        if event.data.trim() == "[DONE]" {
            return Ok(Flow::End);
        }
        let parsed = parsed_event(ErrorStyle::OpenAi, &event.data, Event::read)?;
        match parsed {
            Event::Created { response } => {
                let id = response.and_then(|response| response.id);
                answer.set_response_id(id.as_deref().unwrap_or_default());
            }
            Event::Added { item, output_index } => self.start(&item, output_index, answer),
            Event::Done { item, output_index } => self.end(&item, &output_index, answer),
            Event::Thought { delta, of } => self.thought(&of, &delta, answer),
            Event::ThoughtPart { of } => self.thought(&of, "\n\n", answer),
            Event::Text { delta, of } => {
                if let Open::Text(block) = self.open(&of) {
                    answer.text_in(block, &delta);
                }
            }
            Event::Arguments { delta, of } => {
                if let Open::Call(block) = self.open(&of) {
                    answer.tool_arguments(block, &delta);
                }
            }
            Event::AllArguments { arguments, of } => {
                if let Open::Call(block) = self.open(&of) {
                    // Some servers repeat nothing here, and what has come stays.
                    if !arguments.is_empty() {
                        answer.settle_arguments(block, arguments);
                    }
                    answer.complete_call(block);
                }
            }
            Event::Completed { response } => {
                self.finish(COMPLETED, response, answer);
                return Ok(Flow::End);
            }
            Event::Incomplete { response } => {
                self.finish(INCOMPLETE, response, answer);
                return Ok(Flow::End);
            }
            Event::Failed { response } => {
                if let Some(response) = &response {
                    self.count(response, answer);
                }
                let error = response.and_then(|response| response.error);
                return Err(failure(&error.unwrap_or_else(|| json!({}))));
            }
            Event::Error => return Err(failure(&parse(&event.data).unwrap_or_default())),
            Event::Other => {}
        }
        Ok(Flow::More)
    }

    fn outcome(&self) -> Option<Result<StopReason, ProviderError>> {
        let status = self.status.as_deref()?;
        Some(match status {
            COMPLETED | "in_progress" | "queued" => Ok(StopReason::Stop),
            INCOMPLETE => Ok(StopReason::Length),
            FILTERED => Err(ProviderError::new(
                ProviderErrorKind::Refusal,
                format!("The model declined to answer ({FILTERED})"),
            )),
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

/// What an item has thought: in short, or else in full, as servers of open models tell it.
fn thought(item: &Value) -> String {
    let texts = ["summary", "content"].map(|member| joined(item, member, "\n\n"));
    texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
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

/// `error` events have code and message themselves or inside, failed responses inside.
fn failure(error: &Value) -> ProviderError {
    let error = error.get("error").filter(|inner| inner.is_object()).unwrap_or(error);
    let (code, message) = (text(error, "code"), text(error, "message"));
    let kind = if code.is_empty() { text(error, "type") } else { code };
    let message = match (code, message) {
        ("", "") => "An unknown error occurred".to_owned(),
        ("", message) => message.to_owned(),
        (code, message) => format!("Error Code {code}: {message}"),
    };
    let data = json!({"error": {"type": kind, "code": error.get("code"), "message": message}});
    ProviderError::from_event(ErrorStyle::OpenAi, &data)
}

#[cfg(test)]
mod tests;
