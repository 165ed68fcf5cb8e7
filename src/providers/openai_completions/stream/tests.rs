#![allow(clippy::needless_pass_by_value)] // `json!(…)` reads best in place

use super::*;
use crate::protocol::message::{AssistantMessage, Cost};
use crate::providers::StreamEvent;
use crate::providers::testing::{model, replay, streamed_text};
use crate::support::json;

type Outcome = (Result<AssistantMessage, ProviderError>, Vec<StreamEvent>);

fn read(chunks: &[Value]) -> Outcome {
    let texts: Vec<_> = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    read_text(&texts.concat())
}

fn read_text(text: &str) -> Outcome {
    replay(Chunks::new(5), &model("openai-completions"), text)
}

fn delta(delta: Value) -> Value {
    json!({
        "id": "chatcmpl-mock-1", "object": "chat.completion.chunk", "created": 1, "model": "mock-1",
        "choices": [{"index": 0, "delta": delta, "finish_reason": null}],
    })
}

fn finish(reason: &str) -> Value {
    json!({"id": "chatcmpl-mock-1", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn content(message: &AssistantMessage) -> Value {
    serde_json::to_value(&message.content).unwrap()
}

#[test]
fn text_and_usage_are_read_as_recorded() {
    let usage = json!({
        "prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010,
        "prompt_tokens_details": {"cached_tokens": 400},
        "completion_tokens_details": {"reasoning_tokens": 6},
    });
    let (message, events) = read(&[
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"content": "Hello "})),
        delta(json!({"content": "wörld 🦀"})),
        finish("stop"),
        json!({"id": "chatcmpl-mock-1", "choices": [], "usage": usage}),
    ]);
    let message = message.unwrap();
    assert_eq!(content(&message), json!([{"type": "text", "text": "Hello wörld 🦀"}]));
    assert_eq!(
        events,
        [
            StreamEvent::TextStart { index: 0 },
            StreamEvent::TextDelta { index: 0, delta: "Hello ".into() },
            StreamEvent::TextDelta { index: 0, delta: "wörld 🦀".into() },
            StreamEvent::BlockEnd { index: 0 },
        ]
    );
    assert_eq!(message.response_id.as_deref(), Some("chatcmpl-mock-1"));
    assert_eq!((message.stop_reason, message.timestamp), (StopReason::Stop, 5));
    let dollars = |tokens: f64, per_million: f64| per_million / 1e6 * tokens;
    let (input, output) = (dollars(600.0, 1.0), dollars(10.0, 2.0));
    let cost = Cost { input, output, cache_read: dollars(400.0, 0.1), ..Cost::default() };
    let total = cost.input + cost.output + cost.cache_read;
    assert_eq!(
        message.usage,
        Usage {
            input: 600,
            output: 10,
            cache_read: 400,
            cache_write: 0,
            total_tokens: 1010,
            cost: Cost { total, ..cost },
            ..Usage::default()
        }
    );
}

#[test]
fn the_first_field_with_a_thought_counts() {
    let (message, events) = read(&[
        delta(json!({"reasoning_content": "", "reasoning": "w1 ", "reasoning_text": "no"})),
        delta(json!({"reasoning": "w2"})),
        delta(json!({"content": "After."})),
        finish("stop"),
    ]);
    let expected = json!([
        {"type": "thinking", "thinking": "w1 w2", "thinkingSignature": "reasoning"},
        {"type": "text", "text": "After."},
    ]);
    assert_eq!(content(&message.unwrap()), expected);
    assert_eq!(events[0], StreamEvent::ThinkingStart { index: 0 });
    assert_eq!(streamed_text(&events), "After.");
}

#[test]
fn calls_are_told_apart_by_index_and_by_id() {
    let call = |index: Option<u64>, id: &str, name: &str, arguments: &str| {
        let mut call = json!({"function": {"arguments": arguments}});
        if let Some(index) = index {
            call["index"] = json!(index);
        }
        if !id.is_empty() {
            call["id"] = json!(id);
            call["function"]["name"] = json!(name);
        }
        delta(json!({"tool_calls": [call]}))
    };
    let expected = json!([
        {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"a": 1}},
        {"type": "toolCall", "id": "c2", "name": "list", "arguments": {"b": 2}},
    ]);
    for index in [|n| Some(n), |_| None] {
        let (message, _) = read(&[
            call(index(0), "c1", "read", ""),
            call(index(0), "", "", "{\"a\":"),
            call(index(0), "", "", "1}"),
            call(index(1), "c2", "list", "{\"b\":2}"),
            finish("tool_calls"),
        ]);
        let message = message.unwrap();
        assert_eq!(content(&message), expected);
        assert_eq!(message.stop_reason, StopReason::ToolUse);
    }
    // The same index with another id is another call.
    let (message, _) = read(&[
        call(Some(0), "c1", "read", "{\"a\":1}"),
        call(Some(0), "c2", "list", "{\"b\":2}"),
        finish("stop"),
    ]);
    let message = message.unwrap();
    assert_eq!(content(&message), expected);
    assert_eq!(message.stop_reason, StopReason::ToolUse, "whatever the server says");
}

#[test]
fn a_call_without_id_gets_one_and_broken_arguments_become_empty() {
    let call = json!({"index": 0, "function": {"name": "read", "arguments": "{\"a\":"}});
    let (message, _) = read(&[delta(json!({"tool_calls": [call]})), finish("length")]);
    let message = message.unwrap();
    let expected = json!([{"type": "toolCall", "id": "call_5_0", "name": "read", "arguments": {}}]);
    assert_eq!(content(&message), expected);
    assert_eq!(message.stop_reason, StopReason::Length);
}

#[test]
fn signatures_of_calls_are_kept() {
    let extra = json!({"google": {"thought_signature": "g"}});
    let detail = json!({"type": "reasoning.encrypted", "id": "c2", "data": "x"});
    let (message, _) = read(&[
        delta(json!({"tool_calls": [
            {"index": 0, "id": "c1", "function": {"name": "a", "arguments": "{}"}, "extra_content": extra},
            {"index": 1, "id": "c2", "function": {"name": "b", "arguments": {"k": 1}}},
        ]})),
        delta(json!({"reasoning_details": [detail]})),
        finish("tool_calls"),
    ]);
    let message = message.unwrap();
    let signatures: Vec<_> =
        message.tool_calls().map(|call| call.thought_signature.clone().unwrap()).collect();
    assert_eq!(signatures, [extra.to_string(), detail.to_string()]);
    assert_eq!(message.tool_calls().last().unwrap().arguments, json!({"k": 1}));
}

#[test]
fn every_reason_to_stop_has_its_meaning() {
    let outcome = |reason: &str| {
        let (result, _) = read(&[delta(json!({"content": "x"})), finish(reason)]);
        result.map(|message| message.stop_reason).map_err(|error| (error.kind, error.message))
    };
    assert_eq!(outcome("stop"), Ok(StopReason::Stop));
    assert_eq!(outcome("end"), Ok(StopReason::Stop));
    assert_eq!(outcome("length"), Ok(StopReason::Length));
    assert_eq!(outcome("tool_calls"), Ok(StopReason::ToolUse));
    assert_eq!(outcome("function_call"), Ok(StopReason::ToolUse));
    let failed = |kind, reason| Err((kind, format!("Provider finish_reason: {reason}")));
    assert_eq!(outcome("content_filter"), failed(ProviderErrorKind::Refusal, "content_filter"));
    assert_eq!(outcome("strange"), failed(ProviderErrorKind::Protocol, "strange"));
}

#[test]
fn an_error_in_the_middle_keeps_what_had_arrived() {
    let error = json!({"error": {"message": "overloaded", "type": "server_error", "code": null}});
    let (result, _) = read(&[delta(json!({"content": "half"})), error]);
    let error = result.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ProviderErrorKind::Server, "overloaded"));
    let partial = error.partial.unwrap();
    assert_eq!(content(&partial), json!([{"type": "text", "text": "half"}]));
    assert_eq!(partial.error_message.as_deref(), Some("overloaded"));
}

#[test]
fn a_stream_that_ends_early_is_cut_unless_it_said_that_it_is_done() {
    let (result, _) = read(&[delta(json!({"content": "half"}))]);
    let error = result.unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Cut);
    assert_eq!(content(&error.partial.unwrap()), json!([{"type": "text", "text": "half"}]));
    let chunk = delta(json!({"content": "whole"}));
    let (result, _) = read_text(&format!("data: {chunk}\n\ndata: [DONE]\n\ndata: junk\n\n"));
    assert_eq!(result.unwrap().stop_reason, StopReason::Stop);
}

#[test]
fn a_chunk_that_is_no_json_is_said() {
    let (result, _) = read_text("data: <html>\n\n");
    let error = result.unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Protocol);
    assert!(error.message.starts_with("the provider sent a chunk that is no JSON"), "{error}");
}
