#![allow(clippy::needless_pass_by_value)] // `json!(…)` reads best in place

use super::*;
use crate::protocol::message::AgentMessage;
use crate::providers::ThinkingLevel;
use crate::providers::testing::{message, model, read_tool, request_to, user};
use std::sync::Arc;

fn answer(content: Value) -> Value {
    json!({
        "role": "assistant", "content": content, "api": "anthropic-messages", "provider": "mock",
        "model": "mock-1", "usage": {}, "stopReason": "stop", "timestamp": 1,
    })
}

fn request(messages: Vec<AgentMessage>) -> ModelRequest {
    request_to(model("anthropic-messages"), messages)
}

fn wire(messages: &Value) -> Value {
    let messages = messages.as_array().unwrap().iter().cloned().map(message).collect();
    body(&request(messages))["messages"].clone()
}

#[test]
fn a_plain_request_has_every_field_of_the_original() {
    let mut request = request(vec![user("hi")]);
    request.system = Some("be nice".into());
    request.thinking = ThinkingLevel::High; // the model cannot think
    request.tools = vec![
        read_tool(json!({
            "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"],
            "additionalProperties": false,
        })),
        ToolSpec { name: "now".into(), description: String::new(), parameters: Value::Null },
    ];
    let mark = json!({"type": "ephemeral"});
    assert_eq!(
        body(&request),
        json!({
            "model": "mock-1",
            "max_tokens": 8192,
            "stream": true,
            "system": [{"type": "text", "text": "be nice", "cache_control": mark}],
            "messages": [{"role": "user", "content": [
                {"type": "text", "text": "hi", "cache_control": mark},
            ]}],
            "tools": [
                {"name": "read", "description": "Reads a file.", "input_schema": {
                    "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"],
                }},
                {"name": "now", "description": "", "input_schema": {
                    "type": "object", "properties": {}, "required": [],
                }},
            ],
        })
    );
}

#[test]
fn a_tool_keeps_the_schemas_that_its_properties_refer_to() {
    let mut request = request(vec![user("hi")]);
    let point = json!({"type": "object", "properties": {"x": {"type": "number"}}});
    let properties = json!({"at": {"$ref": "#/$defs/point"}, "to": {"$ref": "#/definitions/p"}});
    request.tools = vec![read_tool(json!({
        "type": "object", "properties": properties, "$defs": {"point": point},
        "definitions": {"p": point}, "anyOf": [{"required": ["at"]}], "$schema": "x",
    }))];
    assert_eq!(
        body(&request)["tools"][0]["input_schema"],
        json!({
            "type": "object", "properties": properties, "required": [],
            "$defs": {"point": point}, "definitions": {"p": point},
        })
    );
}

#[test]
fn thoughts_calls_and_results_take_their_places() {
    let messages = json!([
        {"role": "user", "content": "plain", "timestamp": 1},
        answer(json!([
            {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"},
            {"type": "thinking", "thinking": "[Reasoning redacted]", "thinkingSignature": "data", "redacted": true},
            {"type": "thinking", "thinking": "unsigned"},
            {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "n"}},
            {"type": "toolCall", "id": "c2", "name": "shot", "arguments": {}},
        ])),
        {"role": "toolResult", "toolCallId": "c1", "toolName": "read",
         "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "isError": true},
        {"role": "toolResult", "toolCallId": "c2", "toolName": "shot",
         "content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}]},
    ]);
    let image = json!({
        "type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="},
    });
    assert_eq!(
        wire(&messages),
        json!([
            {"role": "user", "content": "plain"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "redacted_thinking", "data": "data"},
                {"type": "text", "text": "unsigned"},
                {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "n"}},
                {"type": "tool_use", "id": "c2", "name": "shot", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "a\nb", "is_error": true},
                {"type": "tool_result", "tool_use_id": "c2", "is_error": false,
                 "content": [{"type": "text", "text": "(see attached image)"}, image],
                 "cache_control": {"type": "ephemeral"}},
            ]},
        ])
    );
}

#[test]
fn a_conversation_that_begins_with_a_note_gets_a_beginning() {
    let messages = json!([answer(json!([{"type": "text", "text": "note"}])), user("hi")]);
    let mark = json!({"type": "ephemeral"});
    assert_eq!(
        wire(&messages),
        json!([
            {"role": "user", "content": "(beginning of the conversation)"},
            {"role": "assistant", "content": [{"type": "text", "text": "note"}]},
            {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": mark}]},
        ])
    );
}

#[test]
fn ids_of_other_apis_are_made_to_fit() {
    let long = format!("call.1|{}", "f".repeat(90));
    let mut other =
        answer(json!([{"type": "toolCall", "id": long, "name": "read", "arguments": {}}]));
    other["api"] = json!("openai-completions");
    let messages = json!([user("hi"), other]);
    let wire = wire(&messages);
    let id = wire[1]["content"][0]["id"].as_str().unwrap();
    assert_eq!(id, format!("call_1_{}", "f".repeat(57)));
    assert_eq!(wire[2]["content"][0]["tool_use_id"], json!(id));
}

fn with_params(params: Value, level: ThinkingLevel) -> Value {
    let mut model = model("anthropic-messages");
    model.base_url = "https://api.anthropic.com".into();
    model.reasoning = true;
    Arc::make_mut(&mut model.options).params = serde_json::from_value(params).unwrap();
    let mut request = request_to(model, vec![user("hi")]);
    request.system = Some("s".into());
    request.thinking = level;
    body(&request)
}

#[test]
fn the_prompt_is_kept_in_the_cache_as_long_as_configured() {
    let marks = |retention: &str| {
        let sent = with_params(json!({"cacheRetention": retention}), ThinkingLevel::Off);
        let part = &sent["messages"][0]["content"][0];
        assert_eq!(sent["system"][0].get("cache_control"), part.get("cache_control"));
        part.get("cache_control").cloned()
    };
    assert_eq!(marks("none"), None);
    assert_eq!(marks("short"), Some(json!({"type": "ephemeral"})));
    assert_eq!(marks("long"), Some(json!({"type": "ephemeral", "ttl": "1h"})));
}

#[test]
fn temperature_is_sent_only_without_thought() {
    let params = || json!({"temperature": 0.5});
    assert_eq!(with_params(params(), ThinkingLevel::Off)["temperature"], json!(0.5));
    assert_eq!(with_params(params(), ThinkingLevel::Low).get("temperature"), None);
}

#[test]
fn calls_that_began_without_a_thought_go_on_without() {
    let sent = |first: Value, last: &str| {
        let mut model = model("anthropic-messages");
        model.reasoning = true;
        let called = json!({"type": "toolCall", "id": "c", "name": "t", "arguments": {}});
        let mut messages: Vec<_> = [
            json!({"role": "user", "content": "go", "timestamp": 1}),
            answer(json!([first, called])),
            json!({"role": "toolResult", "toolCallId": "c", "toolName": "t", "content": []}),
        ]
        .map(message)
        .into();
        messages.extend((!last.is_empty()).then(|| user(last)));
        let mut request = request_to(model, messages);
        request.thinking = ThinkingLevel::Low;
        body(&request).get("thinking").is_some()
    };
    let thought = || json!({"type": "thinking", "thinking": "hm", "thinkingSignature": "s"});
    let said = || json!({"type": "text", "text": "so"});
    assert!(sent(thought(), ""));
    assert!(!sent(said(), ""));
    assert!(sent(said(), "next"));
}
