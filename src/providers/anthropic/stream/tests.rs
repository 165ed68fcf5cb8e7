#![allow(clippy::needless_pass_by_value)] // `json!(…)` reads best in place

use super::*;
use crate::protocol::message::{AgentMessage, AssistantMessage};
use crate::providers::StreamEvent;
use crate::providers::testing::{message as read_back, model, replay, wire};
use crate::support::json;

type Outcome = (Result<AssistantMessage, ProviderError>, Vec<StreamEvent>);

fn read(events: &[Value]) -> Outcome {
    let texts: Vec<_> = events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect();
    let text = texts.concat();
    replay(Events::default(), &model("anthropic-messages"), &text)
}

fn start() -> Value {
    json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "mock-1",
        "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 100, "output_tokens": 1, "cache_read_input_tokens": 30,
                  "cache_creation_input_tokens": 20},
    }})
}

fn block(block: Value) -> Value {
    json!({"type": "content_block_start", "index": 0, "content_block": block})
}

fn delta(delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": 0, "delta": delta})
}

fn text(text: &str) -> Value {
    delta(json!({"type": "text_delta", "text": text}))
}

fn stop() -> Value {
    json!({"type": "content_block_stop", "index": 0})
}

fn end(reason: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
               "usage": {"input_tokens": null, "output_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]
}

fn whole(blocks: &[Value], reason: &str) -> Outcome {
    let events: Vec<Value> = [start(), json!({"type": "ping"})]
        .into_iter()
        .chain(blocks.iter().cloned())
        .chain(end(reason))
        .collect();
    read(&events)
}

fn content(message: &AssistantMessage) -> Value {
    serde_json::to_value(&message.content).unwrap()
}

#[test]
fn text_and_usage_are_read_as_recorded() {
    let empty = block(json!({"type": "text", "text": ""}));
    let (message, events) = whole(&[empty, text("Hello "), text("wörld 🦀"), stop()], "end_turn");
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
    assert_eq!(message.response_id.as_deref(), Some("msg_1"));
    let usage = message.usage;
    assert_eq!((usage.input, usage.output, usage.total_tokens), (100, 9, 159));
    assert_eq!((usage.cache_read, usage.cache_write), (30, 20));
    let total = (100.0 + 9.0 * 2.0 + 30.0 * 0.1 + 20.0 * 0.2) / 1e6;
    assert!((usage.cost.total - total).abs() < 1e-12, "{:?}", usage.cost);
}

#[test]
fn thoughts_carry_their_signature_and_hidden_ones_are_silent() {
    let (message, events) = whole(
        &[
            block(json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(json!({"type": "thinking_delta", "thinking": "w1 "})),
            delta(json!({"type": "thinking_delta", "thinking": "w2"})),
            delta(json!({"type": "signature_delta", "signature": "mock-"})),
            delta(json!({"type": "signature_delta", "signature": "sig"})),
            stop(),
            block(json!({"type": "redacted_thinking", "data": "secret"})),
            stop(),
        ],
        "end_turn",
    );
    let expected = json!([
        {"type": "thinking", "thinking": "w1 w2", "thinkingSignature": "mock-sig"},
        {"type": "thinking", "thinking": "[Reasoning redacted]", "thinkingSignature": "secret", "redacted": true},
    ]);
    assert_eq!(content(&message.unwrap()), expected);
    let ends = events.iter().filter(|event| matches!(event, StreamEvent::BlockEnd { .. }));
    // Of a hidden thought there is nothing to stream.
    assert_eq!((events.len(), ends.count()), (7, 2));
    let signed = StreamEvent::ThinkingSigned { index: 0, signature: "mock-sig".into() };
    assert!(events.contains(&signed), "{events:?}");
}

#[test]
fn calls_are_put_together_from_their_pieces() {
    let piece = |json: &str| delta(json!({"type": "input_json_delta", "partial_json": json}));
    let (message, _) = whole(
        &[
            call("t1", json!({})),
            piece(""),
            piece("{\"path\":"),
            piece("\"n\"}"),
            stop(),
            call("t2", json!({"whole": 1})),
            stop(),
            call("t3", json!({})),
            piece("{\"broken"),
            stop(),
        ],
        "tool_use",
    );
    let message = message.unwrap();
    let arguments: Vec<_> = message.tool_calls().map(|call| call.arguments.clone()).collect();
    assert_eq!(arguments, [json!({"path": "n"}), json!({"whole": 1}), json!({})]);
    assert_eq!(message.stop_reason, StopReason::ToolUse);
}

fn call(id: &str, input: Value) -> Value {
    block(json!({"type": "tool_use", "id": id, "name": "read", "input": input}))
}

#[test]
fn a_call_without_an_id_goes_back_with_one_and_its_result_too() {
    let (message, _) = whole(&[call("", json!({})), stop()], "tool_use");
    let message = message.unwrap();
    let id = message.tool_calls().next().unwrap().id.clone();
    let result = json!({"role": "toolResult", "toolCallId": id, "toolName": "read", "content": []});
    let sent = wire("anthropic-messages", &[AgentMessage::Assistant(message), read_back(result)]);
    assert_eq!((id.as_str(), &sent[1]["content"][0]["id"]), ("call_5_0", &json!("call_5_0")));
    assert_eq!(sent[2]["content"][0]["tool_use_id"], "call_5_0");
}

fn broken(message: &AssistantMessage) -> Vec<bool> {
    message.tool_calls().map(|call| call.fault.is_some()).collect()
}

#[test]
fn a_call_whose_block_does_not_end_is_not_whole_unless_the_answer_is() {
    let events = [call("t1", json!({})), stop(), call("t2", json!({}))];
    for (reason, is_broken) in [
        ("max_tokens", true),
        ("tool_use", false),
        ("end_turn", false),
        ("pause_turn", false),
        // OpenAI's words.
        ("length", true),
        ("tool_calls", false),
        ("stop", false),
    ] {
        let message = whole(&events, reason).0.unwrap();
        assert_eq!(broken(&message), [false, is_broken], "{reason}");
    }
    let [first, second, third] = events;
    let (result, _) = read(&[start(), first, second, third]);
    assert_eq!(broken(&result.unwrap_err().partial.unwrap()), [false, true]);
}

#[test]
fn a_call_at_the_end_of_an_answer_is_not_whole_when_nobody_knows_why_it_ended() {
    let events = [call("t1", json!({})), stop(), call("t2", json!({})), stop()];
    for blocks in [&events[..], &events[..3]] {
        let (message, told) = whole(blocks, "strange");
        assert_eq!(broken(&message.unwrap()), [false, true]);
        let is_told = told.contains(&StreamEvent::CallCut { index: 1 });
        assert_eq!(is_told, blocks.len() == 3, "{told:?}");
    }
    // What has come is read.
    let input = json!({"path": "n"});
    let begun = call("t1", json!({}));
    let json = |text: &str| delta(json!({"type": "input_json_delta", "partial_json": text}));
    for blocks in [
        vec![call("t1", input.clone())],
        vec![begun.clone(), json("{\"path\":"), json("\"n\"}")],
        vec![begun.clone(), json("{\"path\":\"n\"}"), stop()],
    ] {
        let message = whole(&blocks, "strange").0.unwrap();
        assert_eq!((broken(&message), message.stop_reason), (vec![false], StopReason::ToolUse));
        let arguments: Vec<_> = message.tool_calls().map(|call| call.arguments.clone()).collect();
        assert_eq!(arguments, std::slice::from_ref(&input));
    }
    let half = whole(&[begun, json("{\"path\":"), stop()], "strange").0.unwrap();
    assert_eq!(broken(&half), [true]);
}

#[test]
fn the_input_of_a_call_whose_block_does_not_end_is_read_all_the_same() {
    let input = json!({"path": "n"});
    let message = whole(&[call("t1", input.clone())], "tool_use").0.unwrap();
    let arguments: Vec<_> = message.tool_calls().map(|call| call.arguments.clone()).collect();
    assert_eq!(arguments, [input]);
}

#[test]
fn every_reason_to_stop_has_its_meaning() {
    let outcome = |reason: &str| {
        let (result, _) = whole(&[block(json!({"type": "text", "text": "x"})), stop()], reason);
        result.map(|message| message.stop_reason).map_err(|error| error.kind)
    };
    for reason in ["end_turn", "stop_sequence", "pause_turn"] {
        assert_eq!(outcome(reason), Ok(StopReason::Stop), "{reason}");
    }
    for reason in ["max_tokens", "model_context_window_exceeded"] {
        assert_eq!(outcome(reason), Ok(StopReason::Length), "{reason}");
    }
    assert_eq!(outcome("tool_use"), Ok(StopReason::ToolUse));
    for reason in ["refusal", "sensitive"] {
        assert_eq!(outcome(reason), Err(ProviderErrorKind::Refusal), "{reason}");
    }
    // Nobody knows it, but the answer is there.
    assert_eq!(outcome("strange"), Ok(StopReason::Stop));
    let thought = [block(json!({"type": "thinking", "thinking": "hm"})), stop()];
    for blocks in [thought.as_slice(), &[]] {
        let error = whole(blocks, "strange").0.unwrap_err();
        assert_eq!(error.kind, ProviderErrorKind::Protocol);
    }
}

#[test]
fn an_error_event_keeps_what_had_arrived() {
    let error =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let text_block = block(json!({"type": "text", "text": ""}));
    let (result, _) = read(&[start(), text_block, text("half"), error.clone()]);
    let failed = result.unwrap_err();
    assert_eq!((failed.kind, failed.message), (ProviderErrorKind::Overloaded, error.to_string()));
    let partial = failed.partial.unwrap();
    assert_eq!(content(&partial), json!([{"type": "text", "text": "half"}]));
    assert_eq!(partial.usage.input, 100);
}

#[test]
fn a_stream_that_ends_early_is_cut_unless_the_reason_was_given() {
    let text_block = block(json!({"type": "text", "text": "half"}));
    let (result, _) = read(&[start(), text_block.clone()]);
    assert_eq!(result.unwrap_err().kind, ProviderErrorKind::Cut);
    let [reason, _] = end("end_turn");
    let (result, _) = read(&[start(), text_block, stop(), reason]);
    assert_eq!(result.unwrap().stop_reason, StopReason::Stop);
}

#[test]
fn what_we_do_not_know_is_skipped_and_garbage_is_said() {
    let (message, _) = whole(
        &[
            block(json!({"type": "server_tool_use", "id": "x"})),
            delta(json!({"type": "newfangled_delta"})),
            text("not for anyone"),
            stop(),
            block(json!({"type": "text", "text": "ok"})),
            stop(),
        ],
        "end_turn",
    );
    assert_eq!(content(&message.unwrap()), json!([{"type": "text", "text": "ok"}]));
    let (result, _) = replay(Events::default(), &model("anthropic-messages"), "data: {oops\n\n");
    assert_eq!(result.unwrap_err().kind, ProviderErrorKind::Protocol);
}

#[test]
fn what_stands_before_the_provider_may_have_words_of_its_own() {
    let replayed = |text: &str| replay(Events::default(), &model("anthropic-messages"), text).0;
    let busy = replayed("data: {\"error\": {\"message\": \"busy\", \"code\": \"503\"}}\n\n");
    let busy = busy.unwrap_err();
    assert!(busy.kind == ProviderErrorKind::Server && busy.message.contains("busy"), "{busy:?}");
    let [reason, _] = end("end_turn");
    let text = format!("data: {}\n\ndata: {reason}\n\ndata: [DONE]\n\n", start());
    assert_eq!(replayed(&text).unwrap().stop_reason, StopReason::Stop);
    assert_eq!(replayed("data: [DONE]\n\n").unwrap_err().kind, ProviderErrorKind::Cut);
}
