//! Cases of the Responses API.

use serde_json::{Value, json};

use super::case::{Answer, Case, answer, call, case, foreign_history, with_results};

const API: &str = "openai-responses";

fn added(item: &Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": 0, "item": item})
}

fn done(item: &Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": 0, "item": item})
}

fn delta(kind: &str, text: &str) -> Value {
    json!({"type": format!("response.{kind}.delta"), "delta": text, "output_index": 0})
}

fn completed(status: &str, tier: &Value) -> Value {
    json!({"type": "response.completed", "response": {
        "id": "resp_1", "status": status, "service_tier": tier,
        "usage": {"input_tokens": 101, "output_tokens": 19, "total_tokens": 121,
                  "input_tokens_details": {"cached_tokens": 33}},
    }})
}

fn message(parts: &[&str]) -> Vec<Value> {
    let mut events = vec![
        added(&json!({"type": "message", "id": "msg_1", "role": "assistant", "content": []})),
        json!({"type": "response.content_part.added", "part": {"type": "output_text", "text": ""}}),
    ];
    events.extend(parts.iter().map(|part| delta("output_text", part)));
    events.push(done(&json!({"type": "message", "id": "msg_1", "role": "assistant",
        "content": [{"type": "output_text", "text": parts.concat()}]})));
    events
}

fn stream(events: &[Value], status: &str) -> Answer {
    let created = json!({"type": "response.created", "response": {"id": "resp_1"}});
    let last = completed(status, &Value::Null);
    Answer::events(&[&[created], events, &[last]].concat())
}

fn plain() -> Case {
    let answer = stream(&message(&["Hé", "llo ", "😀 wörld"]), "completed");
    case(API, "openai", "/v1", answer)
}

fn everything() -> Answer {
    let part = json!({"type": "response.reasoning_summary_part.added", "part": {"type": "summary_text", "text": ""}});
    let part_done = json!({"type": "response.reasoning_summary_part.done"});
    let function = |n: usize, arguments: &str| {
        json!({"type": "function_call", "id": format!("fc_{n}"), "call_id": format!("call_{n}"),
               "name": "read", "arguments": arguments})
    };
    let mut events = vec![
        added(&json!({"type": "reasoning", "id": "rs_1", "summary": []})),
        part.clone(),
        delta("reasoning_summary_text", "h"),
        delta("reasoning_summary_text", "mé"),
        part_done.clone(),
        part,
        delta("reasoning_summary_text", "more"),
        part_done,
        done(&json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "enc", "summary": [
            {"type": "summary_text", "text": "hmé"}, {"type": "summary_text", "text": "more"},
        ]})),
    ];
    events.extend(message(&["so"]));
    events.extend([
        added(&function(1, "")),
        delta("function_call_arguments", "{\"path\":"),
        delta("function_call_arguments", "\"ü\"}"),
        json!({"type": "response.function_call_arguments.done", "arguments": "{\"path\":\"ü\"}"}),
        done(&function(1, "{\"path\":\"ü\"}")),
        added(&function(2, "")),
        delta("function_call_arguments", "{}"),
        done(&function(2, "{}")),
    ]);
    stream(&events, "completed")
}

fn refusal() -> Answer {
    let events = [
        added(&json!({"type": "message", "id": "msg_1", "content": []})),
        json!({"type": "response.content_part.added", "part": {"type": "refusal", "refusal": ""}}),
        delta("refusal", "I will not"),
        done(
            &json!({"type": "message", "id": "msg_1", "content": [{"type": "refusal", "refusal": "I will not"}]}),
        ),
    ];
    stream(&events, "completed")
}

fn history(model: &str) -> Value {
    let item = r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}"#;
    let content = json!([
        {"type": "thinking", "thinking": "hm", "thinkingSignature": item},
        {"type": "text", "text": "so", "textSignature": "msg_1"},
        {"type": "text", "text": "long", "textSignature": "m".repeat(80)},
        {"type": "text", "text": "bare"},
        call("call_1|fc_1", &json!({})),
        call("call_2|fc_2", &json!({})),
    ]);
    with_results(answer([API, "openai", model], "toolUse", content), ["call_1|fc_1", "call_2|fc_2"])
}

fn failure(status: u16) -> Answer {
    Answer::error(status, &json!({"error": {"message": "böse", "type": "x", "code": null}}))
}

pub fn cases() -> Vec<Case> {
    let half = message(&["half"]);
    let mut cases = vec![
        plain(),
        plain().named("everything").answers([everything()]),
        plain().named("refusal").answers([refusal()]),
        plain().named("history").context(history("mock-1")),
        plain().named("history of another model").context(history("mock-2")),
        plain().named("foreign history").context(foreign_history()),
        plain().named("foreign history elsewhere").context(foreign_history()).model(&json!({"provider": "lmstudio"})),
        plain().named("blind").context(history("mock-1")).model(&json!({"input": ["text"]})),
        plain().named("sampling").options(json!({"temperature": 0.25, "maxTokens": 77, "sessionId": "s"})),
        plain().named("no cache").options(json!({"cacheRetention": "none", "sessionId": "s"})),
        plain().named("error 400").answers([failure(400)]),
        plain().named("error 500").answers([failure(500)]),
        plain().named("error 429 once").answers([failure(429), stream(&half, "completed")]),
        plain().named("error in the stream").answers([Answer::events(&[
            half.as_slice(),
            &[json!({"type": "error", "code": "server_error", "message": "böse"})],
        ].concat())]),
        plain().named("failed").answers([Answer::events(&[half.as_slice(), &[
            json!({"type": "response.failed", "response": {"status": "failed",
                "error": {"code": "server_error", "message": "böse"}}}),
        ]].concat())]),
        plain().named("incomplete event").answers([Answer::events(&[half.as_slice(), &[
            json!({"type": "response.incomplete", "response": {"id": "r", "status": "incomplete",
                "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}}}),
        ]].concat())]),
        plain().named("no end").answers([Answer::events(&half)]),
    ];
    for status in ["completed", "incomplete", "failed", "cancelled", "queued"] {
        let answer = stream(&half, status);
        cases.push(plain().named(&format!("status {status}")).answers([answer]));
    }
    for tier in ["flex", "priority", "default"] {
        let answer =
            Answer::events(&[half.as_slice(), &[completed("completed", &json!(tier))]].concat());
        cases.push(plain().named(&format!("tier {tier}")).answers([answer]));
    }
    for (id, level) in [
        ("gpt-5.1", "minimal"),
        ("gpt-5.1", "medium"),
        ("gpt-5.1", "xhigh"),
        ("gpt-5.2", "xhigh"),
        ("gpt-5.1", "off"),
    ] {
        let case = plain().named(&format!("thinking {id} {level}"));
        let case = case.model(&json!({"id": id, "name": id, "reasoning": true}));
        let options = if level == "off" { json!({}) } else { json!({"reasoning": level}) };
        cases.push(case.options(options));
    }
    cases
}
