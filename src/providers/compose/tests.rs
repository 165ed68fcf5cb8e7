#![allow(clippy::needless_pass_by_value)] // `json!(…)` reads best in place

use super::*;
use crate::providers::InputKind;
use crate::providers::testing::{message, model, user};
use crate::support::json;
use proptest::prelude::*;
use serde_json::Value;

fn dots_to_dashes(id: &str) -> String {
    id.replace('.', "-").chars().take(8).collect()
}

fn composed_for(model: &ModelInfo, messages: &[Value]) -> Vec<Value> {
    let messages: Vec<_> = messages.iter().cloned().map(message).collect();
    let composed = compose(&messages, model, dots_to_dashes);
    composed.into_iter().map(|message| serde_json::to_value(message).unwrap()).collect()
}

fn composed(messages: &[Value]) -> Vec<Value> {
    composed_for(&model("openai-completions"), messages)
}

fn said(text: &str) -> Value {
    serde_json::to_value(user(text)).unwrap()
}

fn answer_of(model: &str, stop: &str, content: Value) -> Value {
    json!({
        "role": "assistant", "content": content, "api": "openai-completions", "provider": "mock",
        "model": model, "usage": crate::protocol::message::Usage::default(), "stopReason": stop,
        "timestamp": 7,
    })
}

fn answer(content: Value) -> Value {
    answer_of("mock-1", "stop", content)
}

fn call(id: &str) -> Value {
    json!({"type": "toolCall", "id": id, "name": "read", "arguments": {}})
}

fn result(id: &str, text: &str) -> Value {
    json!({
        "role": "toolResult", "toolCallId": id, "toolName": "read",
        "content": [{"type": "text", "text": text}], "isError": false, "timestamp": 8,
    })
}

fn no_result(id: &str) -> Value {
    json!({
        "role": "toolResult", "toolCallId": id, "toolName": "read",
        "content": [{"type": "text", "text": "No result provided"}], "isError": true, "timestamp": 7,
    })
}

#[test]
fn failed_and_aborted_answers_are_dropped_with_their_results() {
    let messages = [
        said("a"),
        answer_of("mock-1", "error", json!([{"type": "text", "text": "half"}, call("c1")])),
        result("c1", "late"),
        answer_of("mock-1", "aborted", json!([{"type": "text", "text": "half"}])),
        said("b"),
    ];
    assert_eq!(composed(&messages), [said("a"), said("b")]);
}

#[test]
fn a_call_without_result_gets_one_and_a_result_without_call_goes() {
    let calls = answer(json!([call("c1"), call("c2")]));
    let messages = [result("c0", "?"), calls.clone(), result("c2", "two"), said("go on")];
    let expected = [calls.clone(), no_result("c1"), result("c2", "two"), said("go on")];
    assert_eq!(composed(&messages), expected);
    assert_eq!(composed(std::slice::from_ref(&calls)), [calls, no_result("c1"), no_result("c2")]);
}

#[test]
fn displaced_results_move_to_their_call_and_second_ones_go() {
    let calls = answer(json!([call("c1")]));
    let messages = [calls.clone(), said("wait"), result("c1", "one"), result("c1", "again")];
    assert_eq!(composed(&messages), [calls, result("c1", "one"), said("wait")]);
}

#[test]
fn an_id_that_is_used_again_becomes_another_one() {
    let calls = answer(json!([call("c1")]));
    let messages = [calls.clone(), result("c1", "one"), calls.clone(), result("c1", "two")];
    let second = answer(json!([call("n2xc1")]));
    let expected = [calls, result("c1", "one"), second, result("n2xc1", "two")];
    assert_eq!(composed(&messages), expected);
}

#[test]
fn an_id_of_which_an_api_takes_nothing_becomes_another_one() {
    let calls = answer(json!([call("|fc_1")]));
    let expected = [answer(json!([call("n2x|fc_1")])), result("n2x|fc_1", "one")];
    assert_eq!(composed(&[calls, result("|fc_1", "one")]), expected);
}

#[test]
fn calls_that_lack_something_are_dropped() {
    let messages = [answer(json!([
        call(""),
        {"type": "toolCall", "id": "c", "name": "", "arguments": {}},
        {"type": "toolCall", "id": "c", "name": "read", "arguments": null},
    ]))];
    assert_eq!(composed(&messages), Vec::<Value>::new());
}

#[test]
fn a_name_that_a_model_made_up_is_one_that_every_api_takes() {
    let long = "n".repeat(70);
    for (name, expected) in [
        ("functions.read", "functions_read"),
        ("read<|channel|>é", "read__channel___"),
        (long.as_str(), &long[..64]),
        ("mcp__a-b", "mcp__a-b"),
    ] {
        let named = |name: &str| {
            let mut call = call("c1");
            call["name"] = json!(name);
            let mut result = result("c1", "Tool not found");
            result["toolName"] = json!(name);
            [answer(json!([call])), result]
        };
        assert_eq!(composed(&named(name)), named(expected), "{name}");
    }
}

#[test]
fn thoughts_of_the_same_model_stay_as_they_are() {
    let content = json!([
        {"type": "thinking", "thinking": "", "thinkingSignature": "s"},
        {"type": "thinking", "thinking": "hm"},
        {"type": "thinking", "thinking": "", "thinkingSignature": "x", "redacted": true},
        {"type": "text", "text": "t", "textSignature": "ts"},
    ]);
    let same = answer(content);
    assert_eq!(composed(std::slice::from_ref(&same)), [same]);
    let empty = answer(json!([{"type": "thinking", "thinking": "  "}]));
    assert_eq!(composed(&[empty]), Vec::<Value>::new());
}

#[test]
fn thoughts_of_another_model_become_text_and_signatures_go() {
    let content = json!([
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "s"},
        {"type": "thinking", "thinking": "", "thinkingSignature": "s"},
        {"type": "thinking", "thinking": "[hidden]", "thinkingSignature": "x", "redacted": true},
        {"type": "text", "text": "t", "textSignature": "ts"},
        {"type": "toolCall", "id": "c.1.23456789", "name": "read", "arguments": {}, "thoughtSignature": "z"},
    ]);
    let messages = [answer_of("other", "toolUse", content), result("c.1.23456789", "one")];
    let expected = answer_of(
        "other",
        "toolUse",
        json!([{"type": "text", "text": "hm"}, {"type": "text", "text": "t"}, call("c-1-2345")]),
    );
    assert_eq!(composed(&messages), [expected, result("c-1-2345", "one")]);
}

#[test]
fn pictures_reach_only_models_that_see() {
    let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
    let with_image = |content: Value| json!({"role": "user", "content": content, "timestamp": 1});
    let mixed = with_image(json!([{"type": "text", "text": "look"}, image]));
    let alone = with_image(json!([image]));
    let mut shot = result("c1", "");
    shot["content"] = json!([image]);
    let calls = answer(json!([call("c1")]));
    let messages = [mixed.clone(), alone.clone(), calls.clone(), shot.clone()];
    assert_eq!(composed(&messages), [mixed, alone, calls.clone(), shot]);

    let mut blind = model("openai-completions");
    blind.input = vec![InputKind::Text];
    let words = json!({"type": "text", "text": IMAGE_LEFT_OUT});
    let expected = [
        with_image(json!([{"type": "text", "text": "look"}, words])),
        with_image(json!([words])),
        calls,
        result("c1", IMAGE_LEFT_OUT),
    ];
    assert_eq!(composed_for(&blind, &messages), expected);
}

#[test]
fn messages_that_say_nothing_and_details_for_people_are_left_out() {
    let empty = json!({"role": "user", "content": "", "timestamp": 1});
    let blank = answer(json!([{"type": "text", "text": " \n"}, {"type": "newfangled"}]));
    let calls = answer(json!([call("c1")]));
    let mut detailed = result("c1", "one");
    detailed["details"] = json!({"exitCode": 0});
    assert_eq!(composed(&[empty, blank, calls.clone(), detailed]), [calls, result("c1", "one")]);
}

fn any_message() -> impl Strategy<Value = Value> {
    let id =
        prop::sample::select(vec!["a", "b", "c.d", "c-d", "long.long.long.1", "long.long.long.2"]);
    let stop = prop::sample::select(vec!["stop", "toolUse", "error", "aborted"]);
    let model = prop::sample::select(vec!["mock-1", "other"]);
    prop_oneof![
        "[a-z]{0,3}".prop_map(|text| said(&text)),
        id.clone().prop_map(|id| result(id, "r")),
        (model, stop, prop::collection::vec(id, 0..4)).prop_map(|(model, stop, ids)| {
            answer_of(model, stop, ids.into_iter().map(call).collect())
        }),
    ]
}

proptest! {
    #[test]
    fn each_call_has_exactly_one_result_directly_after_it(
        messages in prop::collection::vec(any_message(), 0..12),
    ) {
        let messages: Vec<_> = messages.into_iter().map(message).collect();
        let composed = compose(&messages, &model("openai-completions"), dots_to_dashes);
        let mut seen = HashSet::new();
        let mut waiting: Vec<String> = Vec::new();
        for message in &composed {
            match message {
                AgentMessage::ToolResult(result) => {
                    prop_assert!(!waiting.is_empty(), "a result without call");
                    prop_assert_eq!(&result.tool_call_id, &waiting.remove(0));
                }
                other => {
                    prop_assert!(waiting.is_empty(), "a call without result");
                    if let AgentMessage::Assistant(answer) = other {
                        waiting = answer.tool_calls().map(|call| call.id.clone()).collect();
                        for id in &waiting {
                            prop_assert!(seen.insert(id.clone()), "the id {} twice", id);
                        }
                    }
                }
            }
        }
        prop_assert!(waiting.is_empty(), "a call without result at the end");
    }
}
