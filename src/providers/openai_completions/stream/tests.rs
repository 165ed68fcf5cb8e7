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
    replay(Chunks::default(), &model("openai-completions"), text)
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
fn tokens_of_thought_count_once_wherever_the_server_counts_them() {
    let output = |total: Value| {
        let usage = json!({
            "prompt_tokens": 10_120, "completion_tokens": 1499, "total_tokens": total,
            "completion_tokens_details": {"reasoning_tokens": 2809},
        });
        let (message, _) = read(&[
            delta(json!({"content": "x"})),
            finish("stop"),
            json!({"choices": [], "usage": usage}),
        ]);
        message.unwrap().usage.output
    };
    // As xAI writes it, and as everybody else does.
    assert_eq!(output(json!(14_428)), 4308);
    assert_eq!(output(json!(11_619)), 1499);
    assert_eq!(output(Value::Null), 1499);
    assert_eq!(output(json!(99_999)), 4308, "no more than was thought");
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
fn a_content_that_is_a_list_of_parts_is_read_in_order() {
    // As Mistral writes it: lists while it thinks, and where there are references.
    let thought =
        |text: &str| json!({"type": "thinking", "thinking": [{"type": "text", "text": text}]});
    let (message, events) = read(&[
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"content": [thought("Okay, ")]})),
        delta(json!({"content": [thought("done."), {"type": "text", "text": "Do NOT "}]})),
        delta(json!({"content": "delete "})),
        delta(json!({"content": [
            {"type": "text", "text": "the files"},
            {"type": "reference", "reference_ids": [1]},
            {"type": "refusal", "refusal": "."},
        ]})),
        delta(json!({"content": [{"type": "thinking", "thinking": "hm"}]})),
        finish("stop"),
    ]);
    let expected = json!([
        {"type": "thinking", "thinking": "Okay, done."},
        {"type": "text", "text": "Do NOT delete the files."},
        {"type": "thinking", "thinking": "hm"},
    ]);
    assert_eq!(content(&message.unwrap()), expected);
    assert_eq!(streamed_text(&events), "Do NOT delete the files.");
}

/// Pieces of calls with these members.
fn calls(calls: Value) -> Value {
    delta(json!({"tool_calls": calls}))
}

#[test]
fn a_name_or_an_id_that_comes_late_belongs_to_the_call_that_waits_for_it() {
    let named = json!({"name": "read", "arguments": ""});
    let more = json!({"arguments": "{\"a\":1}"});
    for (pieces, id) in [
        // The id, then the name, by index and without one.
        ([json!({"index": 0, "id": "c1"}), json!({"index": 0, "function": named})], "c1"),
        ([json!({"id": "c1"}), json!({"function": named})], "c1"),
        // Nothing, then both.
        ([json!({"index": 0}), json!({"index": 0, "id": "c1", "function": named})], "c1"),
        ([json!({}), json!({"id": "c1", "function": named})], "c1"),
        // The name, then an id when the call has been told.
        ([json!({"index": 0, "function": named}), json!({"index": 0, "id": "c1"})], "call_5_0"),
        ([json!({"function": named}), json!({"id": "c1"})], "call_5_0"),
    ] {
        let last = match pieces[0].get("index") {
            Some(_) => json!({"index": 0, "function": more}),
            None => json!({"id": "c1", "function": more}),
        };
        let (message, events) = read(&[
            calls(json!([pieces[0]])),
            calls(json!([pieces[1]])),
            calls(json!([last])),
            finish("tool_calls"),
        ]);
        let expected =
            json!([{"type": "toolCall", "id": id, "name": "read", "arguments": {"a": 1}}]);
        assert_eq!(content(&message.unwrap()), expected, "{pieces:?}");
        let begun = StreamEvent::ToolCallStart { index: 0, id: id.into(), name: "read".into() };
        assert_eq!(events[0], begun, "{pieces:?}");
    }
}

#[test]
fn what_comes_before_the_name_of_a_call_waits_for_it() {
    let detail = json!({"type": "reasoning.encrypted", "id": "c1", "data": "x"});
    let (message, events) = read(&[
        calls(json!([{"index": 0, "id": "c1", "function": {"arguments": "{\"a\":"}}])),
        delta(json!({"reasoning_details": [detail]})),
        calls(json!([{"index": 1, "id": "c2", "function": {"name": "list", "arguments": "{}"}}])),
        calls(json!([{"index": 0, "function": {"name": "read", "arguments": "1}"}}])),
        finish("tool_calls"),
    ]);
    let expected = json!([
        {"type": "toolCall", "id": "c2", "name": "list", "arguments": {}},
        {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"a": 1},
         "thoughtSignature": detail.to_string()},
    ]);
    assert_eq!(content(&message.unwrap()), expected);
    let names: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::ToolCallStart { name, .. } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["list", "read"]);
}

#[test]
fn a_call_whose_name_never_comes_is_told_at_the_end_and_waits_for_no_more_than_there_is_room() {
    let nameless = |arguments: &str| {
        calls(json!([{"index": 0, "id": "c1", "function": {"arguments": arguments}}]))
    };
    let ends = [
        read(&[nameless("{\"a\":1}"), finish("tool_calls")]).0,
        read_text(&format!("data: {}\n\ndata: [DONE]\n\n", nameless("{\"a\":1}"))).0,
    ];
    for message in ends {
        let expected = json!([{"type": "toolCall", "id": "c1", "name": "", "arguments": {"a": 1}}]);
        assert_eq!(content(&message.unwrap()), expected);
    }
    let begins = |chunks: &[Value]| {
        let (_, events) = read(chunks);
        events.iter().filter(|event| matches!(event, StreamEvent::ToolCallStart { .. })).count()
    };
    assert_eq!(begins(&[nameless(&"x".repeat(MAX_WAITING))]), 0);
    assert_eq!(begins(&[nameless(&"x".repeat(MAX_WAITING + 1))]), 1);
    let empty: Vec<_> =
        (0..=MAX_WAITING / MIN_WAITING).map(|index| calls(json!([{"index": index}]))).collect();
    assert_eq!(begins(&empty[1..]), 0);
    assert_eq!(begins(&empty), empty.len());
}

#[test]
fn a_call_without_arguments_is_whole_unless_the_answer_was_cut() {
    let call = calls(json!([{"index": 0, "id": "c1", "function": {"name": "list"}}]));
    for (reason, is_cut) in [
        ("tool_calls", false),
        ("tool_use", false),
        ("TOOL_CALLS", false),
        ("eos", false),
        ("length", true),
        ("model_length", true),
        ("max_tokens", true),
        ("strange", true),
    ] {
        let chunks = format!("data: {call}\n\ndata: {}\n\ndata: [DONE]\n\n", finish(reason));
        let message = read_text(&chunks).0.unwrap();
        let faults: Vec<_> = message.tool_calls().map(|call| call.fault.is_some()).collect();
        assert_eq!(faults, [is_cut], "{reason}");
    }
    // Nobody knows why it ended, but the arguments are there.
    let arguments = calls(json!([{"index": 0, "function": {"arguments": "{\"a\":1}"}}]));
    let message = read(&[call.clone(), arguments, finish("strange")]).0.unwrap();
    assert_eq!(message.stop_reason, StopReason::ToolUse);
    assert!(message.tool_calls().all(|call| call.fault.is_none()));
    let half = calls(json!([{"index": 0, "function": {"arguments": "{\"a\":"}}]));
    let message = read(&[call.clone(), half, finish("strange")]).0.unwrap();
    assert!(message.tool_calls().all(|call| call.fault.is_some()));
    let done = format!("data: {call}\n\ndata: [DONE]\n\n");
    let message = read_text(&done).0.unwrap();
    assert!(message.tool_calls().all(|call| call.fault.is_none()));
}

#[test]
fn a_whole_call_after_one_without_id_is_another_one() {
    let (message, _) = read(&[
        calls(json!([{"function": {"name": "read", "arguments": "{\"a\":1}"}}])),
        calls(json!([{"id": "c2", "function": {"name": "list", "arguments": "{\"b\":2}"}}])),
        finish("tool_call"),
    ]);
    let message = message.unwrap();
    let expected = json!([
        {"type": "toolCall", "id": "call_5_0", "name": "read", "arguments": {"a": 1}},
        {"type": "toolCall", "id": "c2", "name": "list", "arguments": {"b": 2}},
    ]);
    assert_eq!(content(&message), expected);
    assert_eq!(message.stop_reason, StopReason::ToolUse);
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
    // The last one nobody knows, but the answer is there.
    for reason in ["stop", "end", "eos", "strange"] {
        assert_eq!(outcome(reason), Ok(StopReason::Stop), "{reason}");
    }
    for reason in ["length", "model_length", "max_tokens"] {
        assert_eq!(outcome(reason), Ok(StopReason::Length), "{reason}");
    }
    assert_eq!(outcome("tool_calls"), Ok(StopReason::ToolUse));
    assert_eq!(outcome("tool_call"), Ok(StopReason::ToolUse));
    assert_eq!(outcome("function_call"), Ok(StopReason::ToolUse));
    let failed = |kind, reason| Err((kind, format!("Provider finish_reason: {reason}")));
    for reason in ["content_filter", "sensitive"] {
        assert_eq!(outcome(reason), failed(ProviderErrorKind::Refusal, reason));
    }
    let too_long = "model_context_window_exceeded";
    assert_eq!(outcome(too_long), failed(ProviderErrorKind::ContextLength, too_long));
    let thought = delta(json!({"reasoning": "hm"}));
    let error = read(&[thought, finish("strange")]).0.unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Protocol);
    assert_eq!(error.message, "Provider finish_reason: strange");
    for reason in ["network_error", "error", "insufficient_system_resource"] {
        assert_eq!(outcome(reason), failed(ProviderErrorKind::Server, reason));
    }
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
fn an_error_without_anything_around_it_is_no_end_of_the_answer() {
    let error = json!({"object": "error", "message": "too hot", "type": "BadRequestError",
        "param": null, "code": 400});
    for text in [
        format!("data: {error}\n\ndata: [DONE]\n\n"),
        "event: error\ndata: {\"message\": \"too hot\", \"code\": \"400\"}\n\n".to_owned(),
    ] {
        let error = read_text(&text).0.unwrap_err();
        let told = (error.kind, error.message.as_str());
        assert_eq!(told, (ProviderErrorKind::BadRequest, "too hot"), "{text}");
    }
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
