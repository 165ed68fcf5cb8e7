use super::*;
use crate::protocol::message::AgentMessage;
use crate::providers::json::parse;
use crate::providers::testing::model;
use crate::support::json;

#[test]
fn a_switch_of_kind_ends_the_block_and_starts_another() {
    let model = model("openai-completions");
    let mut events = Vec::new();
    let mut sink = |event| events.push(event);
    let mut answer = Answer::new(&model, &mut sink, 5);
    answer.thinking("hm");
    answer.text("a");
    answer.text("b");
    let call = answer.tool_call("c1", "read");
    answer.tool_arguments(call, "{\"path\":");
    answer.tool_arguments(call, "\"n\"}");
    let message = answer.finish(StopReason::Stop);
    assert_eq!(message.stop_reason, StopReason::ToolUse);
    assert_eq!(
        serde_json::to_value(&message.content).unwrap(),
        json!([
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "ab"},
            {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "n"}},
        ])
    );
    assert_eq!(
        events,
        [
            StreamEvent::ThinkingStart { index: 0 },
            StreamEvent::ThinkingDelta { index: 0, delta: "hm".into() },
            StreamEvent::BlockEnd { index: 0 },
            StreamEvent::TextStart { index: 1 },
            StreamEvent::TextDelta { index: 1, delta: "a".into() },
            StreamEvent::TextDelta { index: 1, delta: "b".into() },
            StreamEvent::BlockEnd { index: 1 },
            StreamEvent::ToolCallStart { index: 2, id: "c1".into(), name: "read".into() },
            StreamEvent::ToolCallDelta { index: 2, delta: "{\"path\":".into() },
            StreamEvent::ToolCallDelta { index: 2, delta: "\"n\"}".into() },
            StreamEvent::BlockEnd { index: 2 },
        ]
    );
}

#[test]
fn broken_arguments_become_an_empty_object_and_interleaved_ones_are_kept_apart() {
    let model = model("openai-completions");
    let mut sink = |_| {};
    let mut answer = Answer::new(&model, &mut sink, 5);
    let first = answer.tool_call("c1", "read");
    let second = answer.tool_call("c2", "read");
    answer.tool_arguments(first, "{\"a\":1}");
    answer.tool_arguments(second, "{\"b\":");
    let message = answer.finish(StopReason::ToolUse);
    let arguments: Vec<_> = message.tool_calls().map(|call| call.arguments.clone()).collect();
    assert_eq!(arguments, [json!({"a": 1}), json!({})]);
}

#[test]
fn a_call_whose_arguments_are_no_json_tells_where_they_break_and_nobody_stores_it() {
    let model = model("openai-completions");
    let mut sink = |_| {};
    let mut answer = Answer::new(&model, &mut sink, 5);
    for (id, written) in
        ["", "{}", "null", "{\"path\": \"a", "[1]", "{\"path\": "].iter().enumerate()
    {
        let index = answer.tool_call(&id.to_string(), "read");
        answer.tool_arguments(index, written);
        // What the provider says in the end is what counts, also without a piece.
        if id == 5 {
            answer.settle_arguments(index, "{\"path\": \"a\"}".into());
        }
        answer.end(index);
    }
    let message = answer.finish(StopReason::Stop);
    let faults: Vec<_> = message.tool_calls().map(|call| call.fault.as_deref()).collect();
    let is_broken: Vec<_> = faults.iter().map(Option::is_some).collect();
    assert_eq!(is_broken, [false, false, false, true, true, false]);
    let fault = faults[3].unwrap();
    assert!(fault.starts_with("EOF while parsing a string"), "{fault}");
    let stored = serde_json::to_value(&message.content[3]).unwrap();
    let expected = json!({"type": "toolCall", "id": "3", "name": "read", "arguments": {}});
    assert_eq!(stored, expected);
}

#[test]
fn a_failure_keeps_what_has_arrived_and_hides_the_key() {
    let model = model("openai-completions");
    let mut sink = |_| {};
    let mut answer = Answer::new(&model, &mut sink, 5);
    answer.text("half");
    let error = answer.fail(ProviderError::new(ProviderErrorKind::Server, "bad mock-key"));
    assert_eq!(error.message, "bad ***");
    let partial = error.partial.unwrap();
    assert_eq!(partial.content, [ContentBlock::text("half")]);
    assert_eq!(partial.stop_reason, StopReason::Error);
    assert_eq!(partial.error_message.as_deref(), Some("bad ***"));
}

#[test]
fn an_answer_without_end_is_told_from_a_long_one() {
    let model = model("openai-completions");
    let mut sink = |_| {};
    let mut answer = Answer::new(&model, &mut sink, 5);
    answer.text(&"x".repeat(MAX_BYTES - 2));
    answer.thinking("y");
    let call = answer.tool_call("c", "read");
    answer.tool_arguments(call, "z");
    assert_eq!(answer.too_long(), None);
    answer.tool_arguments(call, "z");
    assert_eq!(answer.too_long().unwrap().kind, ProviderErrorKind::Protocol);

    let mut sink = |_| {};
    let mut answer = Answer::new(&model, &mut sink, 5);
    for index in 0..MAX_BLOCKS {
        assert_eq!(answer.too_long(), None);
        answer.tool_call(&index.to_string(), "read");
    }
    answer.text("one more");
    assert_eq!(answer.too_long().unwrap().kind, ProviderErrorKind::Protocol);
}

#[test]
fn a_call_that_breaks_off_before_its_arguments_is_none_without_arguments() {
    let model = model("anthropic-messages");
    let mut events = Vec::new();
    let mut sink = |event| events.push(event);
    let mut answer = Answer::new(&model, &mut sink, 5);
    let whole = answer.tool_call("c1", "read");
    // Another one begins before the first is known to be whole.
    answer.tool_call("c2", "read");
    answer.complete_call(whole);
    let message = answer.finish(StopReason::Stop);
    let is_broken: Vec<_> = message.tool_calls().map(|call| call.fault.is_some()).collect();
    assert_eq!(is_broken, [false, true]);
    assert_eq!(
        events[2..],
        [
            StreamEvent::ToolCallStart { index: 1, id: "c2".into(), name: "read".into() },
            StreamEvent::CallCut { index: 1 },
            StreamEvent::BlockEnd { index: 1 },
        ]
    );

    let mut sink = |_| {};
    let mut answer = Answer::new(&model, &mut sink, 5);
    answer.tool_call("c1", "read");
    answer.tool_call("c2", "read");
    answer.complete_calls();
    let message = answer.finish(StopReason::ToolUse);
    assert!(message.tool_calls().all(|call| call.fault.is_none()));
}

#[test]
fn halves_of_a_character_are_joined_in_their_block_alone() {
    let piece = |json: &str| parse::<String>(json).unwrap();
    let model = model("openai-completions");
    let mut deltas = Vec::new();
    let mut sink = |event| match event {
        StreamEvent::TextDelta { delta, .. }
        | StreamEvent::ThinkingDelta { delta, .. }
        | StreamEvent::ToolCallDelta { delta, .. } => deltas.push(delta),
        _ => {}
    };
    let mut answer = Answer::new(&model, &mut sink, 5);
    answer.thinking(&piece(r#""hm \ud83e""#));
    answer.thinking(&piece(r#""\udd14""#));
    answer.text(&piece(r#""a\ud83d""#));
    let first = answer.tool_call("c1", &piece(r#""write\ud83d""#));
    answer.tool_arguments(first, &piece(r#""{\"a\":\"\ud83d""#));
    let second = answer.tool_call("c2", "write");
    answer.tool_arguments(second, &piece(r#""{\"b\":\"\ud83c""#));
    answer.tool_arguments(first, &piece(r#""\ude00\"}""#));
    // What is escaped in the arguments themselves is joined, or not, when they are read.
    answer.tool_arguments(second, &piece(r#""\udf89 \\ud83d""#));
    answer.tool_arguments(second, r#"\ude00 \ud83d"}"#);
    let message = answer.finish(StopReason::ToolUse);
    assert_eq!(
        serde_json::to_value(&message.content).unwrap(),
        json!([
            {"type": "thinking", "thinking": "hm 🤔"},
            {"type": "text", "text": "a"},
            {"type": "toolCall", "id": "c1", "name": "write", "arguments": {"a": "😀"}},
            {"type": "toolCall", "id": "c2", "name": "write", "arguments": {"b": "🎉 😀 \u{fffd}"}},
        ])
    );
    assert!(message.tool_calls().all(|call| call.fault.is_none()));
    let told =
        ["hm ", "🤔", "a", r#"{"a":""#, r#"{"b":""#, r#"😀"}"#, r"🎉 \ud83d", r#"\ude00 \ud83d"}"#];
    assert_eq!(deltas, told);

    let mut sink = |_| {};
    let mut answer = Answer::new(&model, &mut sink, 5);
    answer.text(&piece(r#""\ud83d""#));
    answer.settle(0, piece(r#""half\ud83d""#));
    answer.sign(0, piece(r#""s\ude00""#));
    let text = piece(r#""bad \ud83dword""#);
    let error = answer.fail(ProviderError::new(ProviderErrorKind::Server, text));
    assert_eq!(error.message, "bad word");
    let content = serde_json::to_value(error.partial.unwrap().content).unwrap();
    assert_eq!(content, json!([{"type": "text", "text": "half", "textSignature": "s"}]));
}

#[test]
fn a_call_gets_another_id_where_it_has_none_or_one_of_the_conversation_has_its_own() {
    let model = model("openai-completions");
    let mut nowhere = |_| {};
    let mut before = Answer::new(&model, &mut nowhere, 5);
    before.tool_call("call_0", "read");
    let before = [AgentMessage::Assistant(before.finish(StopReason::ToolUse))];
    let mut events = Vec::new();
    let mut sink = |event| events.push(event);
    let mut answer = Answer::new(&model, &mut sink, 6).among(&before);
    for id in ["call_0", "call_1", "call_1", "", "|fc_1"] {
        answer.tool_call(id, "read");
    }
    let message = answer.finish(StopReason::ToolUse);
    let ids: Vec<_> = message.tool_calls().map(|call| call.id.as_str()).collect();
    let expected = ["n6x0xcall_0", "call_1", "n6x2xcall_1", "call_6_3", "call_6_4|fc_1"];
    assert_eq!(ids, expected);
    let told = events.iter().filter_map(|event| match event {
        StreamEvent::ToolCallStart { id, .. } => Some(id.as_str()),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), ids);
}
