//! Cases of the Messages API.

use serde_json::{Value, json};

use super::case::{Answer, Case, answer, call, case, foreign_history, text, user, with_results};

const API: &str = "anthropic-messages";

fn stream(blocks: &[Value], stop: &str) -> Answer {
    let mut events = vec![json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "mock-1",
        "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 101, "output_tokens": 1, "cache_read_input_tokens": 33,
                  "cache_creation_input_tokens": 17},
    }})];
    events.extend(blocks.iter().cloned());
    events.push(json!({
        "type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
        "usage": {"input_tokens": null, "output_tokens": 19},
    }));
    events.push(json!({"type": "message_stop"}));
    Answer::events(&events)
}

fn block(index: usize, start: &Value, deltas: &[Value]) -> Vec<Value> {
    let mut events =
        vec![json!({"type": "content_block_start", "index": index, "content_block": start})];
    events.extend(
        deltas
            .iter()
            .map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
    );
    events.push(json!({"type": "content_block_stop", "index": index}));
    events
}

fn said(parts: &[&str]) -> Vec<Value> {
    let deltas: Vec<_> =
        parts.iter().map(|part| json!({"type": "text_delta", "text": part})).collect();
    block(0, &json!({"type": "text", "text": ""}), &deltas)
}

fn plain() -> Case {
    case(API, "anthropic", "", stream(&said(&["Hé", "llo ", "😀 wörld"]), "end_turn"))
}

fn everything() -> Answer {
    let thought = |text: &str| json!({"type": "thinking_delta", "thinking": text});
    let signed = |text: &str| json!({"type": "signature_delta", "signature": text});
    let json_part = |text: &str| json!({"type": "input_json_delta", "partial_json": text});
    let use_tool = |id: &str| json!({"type": "tool_use", "id": id, "name": "read", "input": {}});
    let thinking = json!({"type": "thinking", "thinking": "", "signature": ""});
    let blocks = [
        block(0, &thinking, &[thought("h"), thought("mé"), signed("c2"), signed("ln")]),
        block(1, &json!({"type": "redacted_thinking", "data": "hidden"}), &[]),
        block(
            2,
            &json!({"type": "text", "text": ""}),
            &[json!({"type": "text_delta", "text": "so"})],
        ),
        block(
            3,
            &use_tool("toolu_1"),
            &[json_part(""), json_part("{\"path\":"), json_part("\"ü\"}")],
        ),
        block(4, &use_tool("toolu_2"), &[]),
    ]
    .concat();
    stream(&blocks, "tool_use")
}

fn history() -> Value {
    let own = [API, "anthropic", "mock-1"];
    let content = json!([
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2ln"},
        {"type": "thinking", "thinking": "[Reasoning redacted]", "thinkingSignature": "x", "redacted": true},
        {"type": "thinking", "thinking": "unsigned"},
        {"type": "text", "text": "so"},
        {"type": "text", "text": "  "},
        call("toolu_1", &json!({})),
        call("toolu_2", &json!({})),
    ]);
    with_results(answer(own, "toolUse", content), ["toolu_1", "toolu_2"])
}

fn failure(status: u16) -> Answer {
    let body = json!({"type": "error", "error": {"type": "api_error", "message": "böse"}});
    Answer::error(status, &body)
}

pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        plain(),
        plain().named("everything").answers([everything()]),
        plain().named("history").context(history()),
        plain().named("foreign history").context(foreign_history()),
        plain().named("blind").context(history()).model(&json!({"input": ["text"]})),
        plain().named("sampling").options(json!({"temperature": 0.25, "maxTokens": 77})),
        plain().named("metadata").options(json!({"metadata": {"user_id": "û-1", "other": 1}})),
        plain().named("no cache").options(json!({"cacheRetention": "none"})),
        plain().named("texts").context(json!({"messages": [
            user(json!("one")), user(json!([text(""), text("two")])), user(json!("  ")),
        ]})),
        plain().named("error 400").answers([failure(400)]),
        plain().named("error 401").answers([failure(401)]),
        plain().named("error 500").answers([failure(500)]),
        plain().named("error 529 once").answers([failure(529), stream(&said(&["a"]), "end_turn")]),
        plain().named("error in the stream").answers([Answer::events(&[
            json!({"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 5, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "half"}}),
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        ])]),
    ];
    let named = json!({"type": "tool", "name": "read"});
    for choice in [json!("auto"), json!("any"), json!("none"), named] {
        let case = plain().named(&format!("tool choice {choice}"));
        cases.push(case.options(json!({"toolChoice": choice, "maxTokens": 77})));
    }
    let case = plain().named("choice without tools").context(foreign_history());
    cases.push(case.options(json!({"toolChoice": "auto", "maxTokens": 77})));
    for stop in
        ["end_turn", "stop_sequence", "pause_turn", "max_tokens", "refusal", "sensitive", "new"]
    {
        let answer = stream(&said(&["a"]), stop);
        cases.push(plain().named(&format!("stop {stop}")).answers([answer]));
    }
    for (id, limit) in [
        ("claude-opus-4-6", 128_000),
        ("claude-sonnet-4-6", 64_000),
        ("claude-haiku-4-5", 64_000),
        ("claude-3-7", 9000),
    ] {
        for level in ["minimal", "low", "medium", "high", "xhigh"] {
            let more = json!({"id": id, "reasoning": true, "maxTokens": limit});
            let case = plain().named(&format!("thinking {id} {level}")).model(&more);
            cases.push(case.options(json!({"reasoning": level, "temperature": 0.5})));
        }
    }
    cases
}
