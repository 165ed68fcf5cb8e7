#![allow(clippy::needless_pass_by_value)] // `json!(…)` reads best in place

use super::*;
use crate::providers::testing::{message, model, read_tool, request_to, user};
use std::sync::Arc;

#[test]
fn a_plain_request_has_every_field_of_the_original() {
    let mut model = model("ollama");
    model.context_window = 40_000;
    Arc::make_mut(&mut model.options).params.temperature = Some(0.5);
    let mut request = request_to(model, vec![user("hi")]);
    request.system = Some("be nice".into());
    request.thinking = ThinkingLevel::High;
    request.tools = vec![read_tool(json!({"type": "object"}))];
    assert_eq!(
        body(&request),
        json!({
            "model": "mock-1",
            "messages": [
                {"role": "system", "content": "be nice"},
                {"role": "user", "content": "hi"},
            ],
            "stream": true,
            "tools": [{"type": "function", "function": {
                "name": "read", "description": "Reads a file.", "parameters": {"type": "object"},
            }}],
            "options": {"num_ctx": 40_000, "temperature": 0.5, "num_predict": 8192},
        })
    );
}

#[test]
fn only_a_model_that_thinks_is_told_whether_to() {
    for (id, reasoning, level, expected) in [
        ("qwen3", true, ThinkingLevel::Low, json!(true)),
        ("qwen3", true, ThinkingLevel::Off, json!(false)),
        ("qwen3", false, ThinkingLevel::Low, Value::Null),
        ("gpt-oss:20b", true, ThinkingLevel::Minimal, json!("low")),
        ("gpt-oss:20b", true, ThinkingLevel::XHigh, json!("high")),
        ("gpt-oss:20b", true, ThinkingLevel::Off, json!(false)),
    ] {
        let mut model = model("ollama");
        (model.id, model.reasoning) = (id.into(), reasoning);
        let mut request = request_to(model, vec![]);
        request.thinking = level;
        assert_eq!(body(&request)["think"], expected);
    }
}

#[test]
fn pictures_calls_and_results_take_their_places() {
    let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
    let messages = [
        json!({"role": "user", "content": [{"type": "text", "text": "look"}, image], "timestamp": 1}),
        json!({
            "role": "assistant", "api": "ollama", "provider": "mock", "model": "mock-1", "usage": {},
            "stopReason": "toolUse", "content": [
                {"type": "thinking", "thinking": "hm"},
                {"type": "text", "text": "ok"},
                {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"n": 1}},
                {"type": "toolCall", "id": "c2", "name": "shot", "arguments": {}},
            ],
        }),
        json!({"role": "toolResult", "toolCallId": "c1", "toolName": "read",
               "content": [{"type": "text", "text": "alpha"}]}),
        json!({"role": "toolResult", "toolCallId": "c2", "toolName": "shot", "content": [image]}),
    ];
    let request = request_to(model("ollama"), messages.map(message).into());
    assert_eq!(
        body(&request)["messages"],
        json!([
            {"role": "user", "content": "look", "images": ["AA=="]},
            {"role": "assistant", "content": "ok", "tool_calls": [
                {"function": {"name": "read", "arguments": {"n": 1}}},
                {"function": {"name": "shot", "arguments": {}}},
            ]},
            {"role": "tool", "content": "alpha", "tool_name": "read"},
            {"role": "tool", "content": "(see attached image)", "tool_name": "shot"},
            {"role": "user", "content": "Attached image(s) from tool result:", "images": ["AA=="]},
        ])
    );
}
