#![allow(clippy::needless_pass_by_value)] // `json!(…)` reads best in place

use super::*;
use crate::protocol::message::AssistantMessage;
use crate::providers::StreamEvent;
use crate::providers::testing::{model, replay};
use std::sync::Arc;

type Outcome = (Result<AssistantMessage, ProviderError>, Vec<StreamEvent>);

fn read(events: &[Value]) -> Outcome {
    read_with(&model("openai-responses"), events)
}

fn read_with(model: &ModelInfo, events: &[Value]) -> Outcome {
    let texts: Vec<_> = events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect();
    replay(Events::new(model), model, &texts.concat())
}

fn added(item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": 0, "item": item})
}

fn done(item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": 0, "item": item})
}

fn delta(kind: &str, text: &str) -> Value {
    json!({"type": format!("response.{kind}.delta"), "delta": text})
}

fn completed(status: &str, more: Value) -> Value {
    let mut response = json!({
        "id": "resp_1", "status": status,
        "usage": {"input_tokens": 100, "output_tokens": 10, "total_tokens": 111,
                  "input_tokens_details": {"cached_tokens": 40}},
    });
    for (name, value) in more.as_object().unwrap() {
        response[name] = value.clone();
    }
    let kind = if status == "incomplete" { "incomplete" } else { "completed" };
    json!({"type": format!("response.{kind}"), "response": response})
}

fn text_item(text: &str) -> [Value; 3] {
    [
        added(json!({"type": "message", "id": "msg_1", "content": []})),
        delta("output_text", text),
        done(json!({"type": "message", "id": "msg_1",
            "content": [{"type": "output_text", "text": text}]})),
    ]
}

#[test]
fn thought_text_and_calls_become_blocks_with_their_signatures() {
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "enc",
        "summary": [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}]});
    let mut events = vec![
        json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}),
        added(json!({"type": "reasoning", "id": "rs_1", "summary": []})),
        json!({"type": "response.reasoning_summary_part.added", "part": {"type": "summary_text", "text": ""}}),
        delta("reasoning_summary_text", "one"),
        json!({"type": "response.reasoning_summary_part.done"}),
        delta("reasoning_summary_text", "two"),
        json!({"type": "response.reasoning_summary_part.done"}),
        done(reasoning.clone()),
    ];
    events.extend(text_item("Hé"));
    for n in [1, 2] {
        events.extend([
            added(json!({"type": "function_call", "id": format!("fc_{n}"), "call_id": format!("call_{n}"),
                "name": "read", "arguments": ""})),
            delta("function_call_arguments", "{\"n\":"),
            delta("function_call_arguments", &format!("{n}}}")),
            json!({"type": "response.function_call_arguments.done", "arguments": format!("{{\"n\":{n}}}")}),
            done(json!({"type": "function_call", "id": format!("fc_{n}"), "call_id": format!("call_{n}"),
                "name": "read", "arguments": format!("{{\"n\":{n}}}")})),
        ]);
    }
    events.push(completed("completed", json!({})));
    let (message, events) = read(&events);
    let message = message.unwrap();
    assert_eq!(
        serde_json::to_value(&message.content).unwrap(),
        json!([
            {"type": "thinking", "thinking": "one\n\ntwo", "thinkingSignature": reasoning.to_string()},
            {"type": "text", "text": "Hé", "textSignature": "msg_1"},
            {"type": "toolCall", "id": "call_1|fc_1", "name": "read", "arguments": {"n": 1}},
            {"type": "toolCall", "id": "call_2|fc_2", "name": "read", "arguments": {"n": 2}},
        ])
    );
    assert_eq!(message.stop_reason, StopReason::ToolUse);
    assert_eq!(message.response_id.as_deref(), Some("resp_1"));
    let deltas =
        |index: usize, text: &str| StreamEvent::ToolCallDelta { index, delta: text.into() };
    let begun = |index: usize, id: &str| StreamEvent::ToolCallStart {
        index,
        id: id.into(),
        name: "read".into(),
    };
    // As the transcript has it: it goes back to the provider.
    let signature = reasoning.to_string();
    let thought = |text: &str| StreamEvent::ThinkingDelta { index: 0, delta: text.into() };
    assert_eq!(
        events,
        [
            StreamEvent::ThinkingStart { index: 0 },
            thought("one"),
            thought("\n\n"),
            thought("two"),
            thought("\n\n"),
            StreamEvent::ThinkingSigned { index: 0, signature },
            StreamEvent::BlockEnd { index: 0 },
            StreamEvent::TextStart { index: 1 },
            StreamEvent::TextDelta { index: 1, delta: "Hé".into() },
            StreamEvent::BlockEnd { index: 1 },
            begun(2, "call_1|fc_1"),
            deltas(2, "{\"n\":"),
            deltas(2, "1}"),
            StreamEvent::BlockEnd { index: 2 },
            begun(3, "call_2|fc_2"),
            deltas(3, "{\"n\":"),
            deltas(3, "2}"),
            StreamEvent::BlockEnd { index: 3 },
        ]
    );
}

/// A call with this number; without `arguments` it has just begun.
fn function(n: usize, arguments: &str) -> Value {
    json!({"type": "function_call", "call_id": format!("call_{n}"), "name": "write",
        "arguments": arguments})
}

/// Two calls, `{"n":0}` and `{"n":1}`, with these ids.
fn two_calls(ids: [&str; 2]) -> Value {
    let call = |n: usize| json!({"type": "toolCall", "id": ids[n], "name": "write", "arguments": {"n": n}});
    json!([call(0), call(1)])
}

#[test]
fn items_that_are_complete_at_the_end_keep_what_is_their_own() {
    // As llama.cpp writes them: calls have no id, nothing has an index.
    let event = |kind: &str, item: Value| json!({"type": format!("response.{kind}"), "item": item});
    let piece = |kind: &str, id: &str, text: &str| json!({"type": format!("response.{kind}.delta"), "item_id": id, "delta": text});
    let thought = json!({"type": "reasoning", "id": "rs_1", "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}]});
    let text = json!({"type": "message", "id": "msg_1",
        "content": [{"type": "output_text", "text": "Both."}]});
    let arguments = "function_call_arguments";
    let (message, events) = read(&[
        event("output_item.added", json!({"type": "reasoning", "id": "rs_1", "summary": []})),
        event("output_item.added", json!({"type": "message", "id": "msg_1", "content": []})),
        piece("output_text", "msg_1", "Bo"),
        event("output_item.added", function(0, "")),
        piece(arguments, "call_0", "{\"n\":"),
        piece(arguments, "call_0", "0}"),
        event("output_item.added", function(1, "")),
        piece(arguments, "call_1", "{\"n\":1}"),
        event("output_item.done", thought.clone()),
        event("output_item.done", text),
        event("output_item.done", function(0, "{\"n\":0}")),
        event("output_item.done", function(1, "{\"n\":1}")),
        completed("completed", json!({})),
    ]);
    let calls = two_calls(["call_0|", "call_1|"]);
    assert_eq!(
        serde_json::to_value(message.unwrap().content).unwrap(),
        json!([
            {"type": "thinking", "thinking": "hm", "thinkingSignature": thought.to_string()},
            {"type": "text", "text": "Both.", "textSignature": "msg_1"},
            calls[0],
            calls[1],
        ])
    );
    let ends: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::BlockEnd { index } => Some(*index),
            _ => None,
        })
        .collect();
    assert_eq!(ends, [0, 1, 2, 3]);
}

#[test]
fn pieces_of_calls_that_are_written_at_the_same_time_are_told_apart() {
    // By id and index, by id, and by index alone: some servers change the ids on the way.
    for (has_id, has_index) in [(true, true), (true, false), (false, true)] {
        let about = |n: usize, kind: &str, member: &str, value: Value| {
            let mut event = json!({"type": format!("response.{kind}")});
            event[member] = value;
            event["item_id"] = json!(if has_id { format!("fc_{n}") } else { "other".into() });
            if has_index {
                event["output_index"] = json!(n);
            }
            event
        };
        let item = |n: usize, arguments: &str| {
            let mut item = function(n, arguments);
            item["id"] = json!(format!("fc_{n}"));
            item
        };
        let arguments = "function_call_arguments";
        let piece =
            |n: usize, text: &str| about(n, &format!("{arguments}.delta"), "delta", json!(text));
        let (message, events) = read(&[
            about(0, "output_item.added", "item", item(0, "")),
            about(1, "output_item.added", "item", item(1, "")),
            piece(0, "{\"n\""),
            piece(1, "{\"n\":1}"),
            piece(0, ":0}"),
            about(0, &format!("{arguments}.done"), "arguments", json!("{\"n\":0}")),
            about(0, "output_item.done", "item", item(0, "")),
            // It is complete.
            piece(0, "more"),
            about(1, "output_item.done", "item", item(1, "")),
            completed("completed", json!({})),
        ]);
        let message = message.unwrap();
        assert_eq!(
            serde_json::to_value(message.content).unwrap(),
            two_calls(["call_0|fc_0", "call_1|fc_1"]),
            "{has_id} {has_index}"
        );
        let delta =
            |index: usize, text: &str| StreamEvent::ToolCallDelta { index, delta: text.into() };
        let deltas: Vec<_> = events
            .into_iter()
            .filter(|event| matches!(event, StreamEvent::ToolCallDelta { .. }))
            .collect();
        assert_eq!(deltas, [delta(0, "{\"n\""), delta(1, "{\"n\":1}"), delta(0, ":0}")]);
    }
}

#[test]
fn two_calls_with_the_same_call_id_keep_their_own_arguments() {
    // With ids of their items, with their places alone, and with neither.
    for (has_id, has_index) in [(true, false), (false, true), (false, false)] {
        let event = |n: usize, kind: &str, arguments: &str| {
            let mut item = function(7, arguments);
            if has_id {
                item["id"] = json!(format!("fc_{n}"));
            }
            let mut event = json!({"type": format!("response.output_item.{kind}"), "item": item});
            if has_index {
                event["output_index"] = json!(n);
            }
            event
        };
        let (message, _) = read(&[
            event(0, "added", ""),
            event(1, "added", ""),
            event(0, "done", "{\"n\":0}"),
            event(1, "done", "{\"n\":1}"),
            completed("completed", json!({})),
        ]);
        let message = message.unwrap();
        let arguments: Vec<_> = message.tool_calls().map(|call| call.arguments.clone()).collect();
        assert_eq!(arguments, [json!({"n": 0}), json!({"n": 1})], "{has_id} {has_index}");
    }
}

#[test]
fn a_call_that_never_began_gives_its_arguments_to_no_other() {
    let (message, _) = read(&[
        added(function(1, "{\"n\":1}")),
        done(function(0, "{\"n\":0}")),
        completed("completed", json!({})),
    ]);
    let message = message.unwrap();
    let arguments: Vec<_> = message.tool_calls().map(|call| call.arguments.clone()).collect();
    assert_eq!(arguments, [json!({"n": 1})]);
}

#[test]
fn a_call_is_whole_when_the_provider_says_so_of_it_or_of_the_answer() {
    let done = json!({"type": "response.function_call_arguments.done", "arguments": ""});
    for (rest, is_cut, stop) in [
        (vec![completed("completed", json!({}))], false, StopReason::ToolUse),
        (vec![completed("in_progress", json!({}))], false, StopReason::ToolUse),
        (vec![completed("queued", json!({}))], false, StopReason::ToolUse),
        (vec![done, completed("incomplete", json!({}))], false, StopReason::Length),
        (vec![completed("incomplete", json!({}))], true, StopReason::Length),
        (vec![json!({"type": "response.incomplete"})], true, StopReason::Length),
    ] {
        let begun = [added(function(1, ""))];
        let message = read(&[&begun[..], &rest[..]].concat()).0.unwrap();
        let faults: Vec<_> = message.tool_calls().map(|call| call.fault.is_some()).collect();
        assert_eq!((faults, message.stop_reason), (vec![is_cut], stop), "{rest:?}");
    }
}

#[test]
fn the_end_of_arguments_that_repeats_none_of_them_takes_none_away() {
    let end = json!({"type": "response.function_call_arguments.done", "arguments": ""});
    let more = delta("function_call_arguments", "{\"a\":1}");
    let (message, _) =
        read(&[added(function(1, "")), more, end, completed("completed", json!({}))]);
    let message = message.unwrap();
    let arguments: Vec<_> = message.tool_calls().map(|call| call.arguments.clone()).collect();
    assert_eq!(arguments, [json!({"a": 1})]);
}

#[test]
fn every_status_has_its_stop_reason() {
    let outcome = |status: &str| {
        let events = [text_item("a").as_slice(), &[completed(status, json!({}))]].concat();
        read(&events).0.map(|message| message.stop_reason)
    };
    assert_eq!(outcome("completed").unwrap(), StopReason::Stop);
    assert_eq!(outcome("incomplete").unwrap(), StopReason::Length);
    for status in ["failed", "cancelled", "newfangled"] {
        let error = outcome(status).unwrap_err();
        assert_eq!(error.message, format!("the provider ended the response with status {status}"));
        assert_eq!(error.partial.unwrap().content.len(), 1);
    }
}

#[test]
fn an_answer_that_a_filter_has_ended_is_not_cut_by_its_limit() {
    let outcome = |reason: &str| {
        let details = json!({"incomplete_details": {"reason": reason}});
        let events = [text_item("a").as_slice(), &[completed("incomplete", details)]].concat();
        read(&events).0.map(|message| message.stop_reason).map_err(|error| error.kind)
    };
    assert_eq!(outcome("max_output_tokens"), Ok(StopReason::Length));
    assert_eq!(outcome("content_filter"), Err(ProviderErrorKind::Refusal));
}

#[test]
fn a_total_that_the_provider_leaves_out_is_the_sum() {
    let usage = json!({"input_tokens": 7, "output_tokens": 2});
    let message = read(&[completed("completed", json!({"usage": usage}))]).0.unwrap();
    assert_eq!(message.usage.total_tokens, 9);
}

#[test]
fn cached_tokens_are_no_input_and_the_tier_changes_the_price() {
    let usage = |more: Value| {
        let message = read(&[completed("completed", more)]).0.unwrap();
        let price = message.usage.cost.total;
        (message.usage, price)
    };
    let (counted, price) = usage(json!({}));
    let tokens = (counted.input, counted.output, counted.cache_read, counted.total_tokens);
    assert_eq!(tokens, (60, 10, 40, 111));
    assert!((price - (60.0 + 20.0 + 4.0) / 1e6).abs() < 1e-12, "{price}");
    assert!((usage(json!({"service_tier": "flex"})).1 - price * 0.5).abs() < 1e-12);
    assert!((usage(json!({"service_tier": "priority"})).1 - price * 2.0).abs() < 1e-12);
    let mut model = model("openai-responses");
    Arc::make_mut(&mut model.options).params.service_tier = Some("priority".into());
    let asked = read_with(&model, &[completed("completed", json!({}))]).0.unwrap();
    assert!((asked.usage.cost.total - price * 2.0).abs() < 1e-12);
}

#[test]
fn what_the_provider_says_at_the_end_of_an_item_counts() {
    let item = json!({"type": "message", "id": "msg_1", "phase": "commentary",
        "content": [{"type": "output_text", "text": "whole"}, {"type": "refusal", "refusal": "!"}]});
    let events = [
        added(json!({"type": "message", "id": "msg_1", "content": []})),
        delta("output_text", "wh"),
        delta("refusal", "x"),
        done(item),
        added(json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read"})),
        done(json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read",
            "arguments": "{\"a\":1}"})),
        added(json!({"type": "web_search_call", "id": "ws_1"})),
        delta("output_text", "lost"),
        done(json!({"type": "web_search_call", "id": "ws_1"})),
        completed("completed", json!({})),
    ];
    let content = serde_json::to_value(read(&events).0.unwrap().content).unwrap();
    assert_eq!(
        content,
        json!([
            {"type": "text", "text": "whole!",
             "textSignature": "{\"v\":1,\"id\":\"msg_1\",\"phase\":\"commentary\"}"},
            {"type": "toolCall", "id": "call_1|fc_1", "name": "read", "arguments": {"a": 1}},
        ])
    );
}

#[test]
fn an_item_that_says_nothing_at_its_end_keeps_what_has_come() {
    let message = json!({"type": "message", "id": "msg_1", "content": []});
    let thought = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let events = [
        added(thought.clone()),
        delta("reasoning_summary_text", "hm"),
        done(thought),
        added(message.clone()),
        delta("output_text", "said"),
        done(message),
        completed("completed", json!({})),
    ];
    let content = serde_json::to_value(read(&events).0.unwrap().content).unwrap();
    assert_eq!(content[0]["thinking"], "hm");
    assert_eq!(content[1]["text"], "said");
}

#[test]
fn a_thought_that_is_told_in_full_is_read_as_it_comes() {
    let begun = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let part = |text: &str| json!({"type": "reasoning_text", "text": text});
    let whole = json!({"type": "reasoning", "id": "rs_1", "summary": [],
        "content": [part("hmm"), part("so")]});
    for (done_item, expected) in [(begun.clone(), "hmm"), (whole, "hmm\n\nso")] {
        let mut events = vec![
            added(begun.clone()),
            delta("reasoning_text", "hm"),
            delta("reasoning_text", "m"),
            done(done_item),
        ];
        events.extend(text_item("said"));
        events.push(completed("completed", json!({})));
        let (message, events) = read(&events);
        let content = serde_json::to_value(message.unwrap().content).unwrap();
        assert_eq!(content[0]["thinking"], expected);
        assert_eq!(content[1]["text"], "said");
        let told =
            ["hm", "m"].map(|text| StreamEvent::ThinkingDelta { index: 0, delta: text.into() });
        assert_eq!(events[1..3], told);
    }
}

#[test]
fn errors_keep_what_had_arrived() {
    let failing = |last: Value| {
        let events = [text_item("half").as_slice(), &[last]].concat();
        let error = read(&events).0.unwrap_err();
        assert_eq!(error.partial.as_ref().unwrap().content.len(), 1);
        (error.kind, error.message)
    };
    let limited = json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow down"});
    let text = "Error Code rate_limit_exceeded: slow down".to_owned();
    assert_eq!(failing(limited), (ProviderErrorKind::RateLimit, text));
    let failed = json!({"type": "response.failed", "response": {"id": "r", "status": "failed",
        "error": {"code": "context_length_exceeded", "message": "too long"}}});
    let text = "Error Code context_length_exceeded: too long".to_owned();
    assert_eq!(failing(failed), (ProviderErrorKind::ContextLength, text));
    let inside = |kind: &str, code: Value, message: &str| {
        let error = json!({"type": kind, "code": code, "message": message, "param": "input"});
        failing(json!({"type": "error", "sequence_number": 2, "error": error}))
    };
    let text = "Your input exceeds the context window of this model.";
    let told = inside("invalid_request_error", json!("context_length_exceeded"), text);
    let text = format!("Error Code context_length_exceeded: {text}");
    assert_eq!(told, (ProviderErrorKind::ContextLength, text));
    let told = inside("invalid_request_error", Value::Null, "no");
    assert_eq!(told, (ProviderErrorKind::BadRequest, "no".to_owned()));
    // It would be refused once more.
    let told = inside("invalid_request_error", json!("invalid_prompt"), "flagged");
    assert_eq!(told.0, ProviderErrorKind::BadRequest);
    // The status counts where there is one, and whatever stands around it.
    let told = inside("api_error", json!(429), "slow down");
    assert_eq!(told, (ProviderErrorKind::RateLimit, "slow down".to_owned()));
    let model = model("openai-responses");
    let text = "data: {\"error\": {\"message\": \"slow down\", \"code\": 429}}\n\n";
    let error = replay(Events::new(&model), &model, text).0.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ProviderErrorKind::RateLimit, "slow down"));
    let bare = json!({"type": "response.failed"});
    assert_eq!(failing(bare).1, "An unknown error occurred");
    let counted = json!({"type": "response.failed", "response": {"usage": {"input_tokens": 7}}});
    assert_eq!(read(&[counted]).0.unwrap_err().usage().input, 7);
}

#[test]
fn an_answer_that_is_cut_off_is_none_and_garbage_is_said() {
    assert_eq!(read(&text_item("half")).0.unwrap_err().kind, ProviderErrorKind::Cut);
    let model = model("openai-responses");
    let (message, _) = replay(Events::new(&model), &model, "data: {\n\n");
    assert_eq!(message.unwrap_err().kind, ProviderErrorKind::Protocol);
}
