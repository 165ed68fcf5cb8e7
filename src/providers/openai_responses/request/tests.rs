#![allow(clippy::needless_pass_by_value)] // `json!(…)` reads best in place

use super::*;
use crate::providers::testing::{message, model, read_tool, request_to, user};
use crate::providers::{InputKind, ModelInfo, ThinkingLevel};
use std::sync::Arc;

fn openai() -> ModelInfo {
    ModelInfo { provider: "openai".into(), ..model("openai-responses") }
}

fn wire(model: ModelInfo, messages: Value) -> Value {
    let messages = messages.as_array().unwrap().iter().cloned().map(message).collect();
    body(&request_to(model, messages))["input"].clone()
}

fn answer(model: &str, content: Value) -> Value {
    json!({
        "role": "assistant", "content": content, "api": "openai-responses", "provider": "openai",
        "model": model, "usage": {}, "stopReason": "toolUse", "timestamp": 1,
    })
}

fn call(id: &str) -> Value {
    json!({"type": "toolCall", "id": id, "name": "read", "arguments": {"path": "n"}})
}

fn result(id: &str, content: Value) -> Value {
    json!({"role": "toolResult", "toolCallId": id, "toolName": "read", "content": content})
}

#[test]
fn a_plain_request_has_every_field_of_the_original() {
    let mut request = request_to(openai(), vec![user("hi")]);
    request.system = Some("be nice".into());
    request.tools = vec![read_tool(json!({"type": "object"}))];
    assert_eq!(
        body(&request),
        json!({
            "model": "mock-1",
            "input": [
                {"role": "system", "content": "be nice"},
                {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            ],
            "stream": true,
            "prompt_cache_key": "s",
            "store": false,
            "max_output_tokens": 8192,
            "tools": [{
                "type": "function", "name": "read", "description": "Reads a file.",
                "parameters": {"type": "object"}, "strict": false,
            }],
        })
    );
}

#[test]
fn params_of_the_configuration_are_sent() {
    let mut model = openai();
    model.base_url = "https://api.openai.com/v1".into();
    Arc::make_mut(&mut model.options).params = serde_json::from_value(json!({
        "temperature": 0.5, "maxTokens": 77, "cacheRetention": "long", "serviceTier": "flex",
    }))
    .unwrap();
    let sent = body(&request_to(model.clone(), vec![user("hi")]));
    for (name, value) in [
        ("temperature", json!(0.5)),
        ("max_output_tokens", json!(77)),
        ("prompt_cache_key", json!("s")),
        ("prompt_cache_retention", json!("24h")),
        ("service_tier", json!("flex")),
    ] {
        assert_eq!(sent[name], value, "{name}");
    }
    Arc::make_mut(&mut model.options).params =
        serde_json::from_value(json!({"cacheRetention": "none"})).unwrap();
    let sent = body(&request_to(model, vec![user("hi")]));
    assert_eq!((sent.get("prompt_cache_key"), sent.get("prompt_cache_retention")), (None, None));
}

#[test]
fn thinking_is_asked_for_with_its_content_to_keep() {
    let ask = |id: &str, level| {
        let name = id.to_uppercase();
        let model = ModelInfo { id: id.into(), name, reasoning: true, ..openai() };
        let mut request = request_to(model, vec![user("hi")]);
        request.system = Some("s".into());
        request.thinking = level;
        body(&request)
    };
    let sent = ask("gpt-5.2", ThinkingLevel::XHigh);
    assert_eq!(sent["reasoning"], json!({"effort": "xhigh", "summary": "auto"}));
    let content = json!(["reasoning.encrypted_content"]);
    assert_eq!(sent["include"], content);
    assert_eq!(sent["input"][0], json!({"role": "developer", "content": "s"}));
    let sent = ask("gpt-5.2", ThinkingLevel::Off);
    assert_eq!((sent.get("reasoning"), &sent["include"]), (None, &content));
    let juice = json!([{"type": "input_text", "text": "# Juice: 0 !important"}]);
    assert_eq!(sent["input"][2], json!({"role": "developer", "content": juice}));
    assert_eq!(ask("o4-mini", ThinkingLevel::Off)["input"].as_array().unwrap().len(), 2);
}

#[test]
fn calls_with_the_same_call_id_go_back_with_ids_of_their_own() {
    let said = |text: &str| json!([{"type": "text", "text": text}]);
    let messages = json!([
        answer("mock-1", json!([call("c|fc_1"), call("c|fc_2")])),
        result("c|fc_1", said("one")),
        result("c|fc_2", said("two")),
    ]);
    let sent = wire(openai(), messages);
    let told: Vec<_> = sent
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (item["call_id"].as_str().unwrap(), item["output"].as_str()))
        .collect();
    let expected = [("c", None), ("n2xc", None), ("c", Some("one")), ("n2xc", Some("two"))];
    assert_eq!(told, expected, "{sent}");
}

#[test]
fn an_answer_of_this_model_goes_back_item_by_item() {
    let thought = r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"}"#;
    let messages = json!([
        {"role": "user", "content": "plain", "timestamp": 1},
        answer("mock-1", json!([
            {"type": "thinking", "thinking": "", "thinkingSignature": thought},
            {"type": "thinking", "thinking": "broken", "thinkingSignature": "not json"},
            {"type": "text", "text": "signed", "textSignature": "msg_9"},
            {"type": "text", "text": "later", "textSignature": "{\"v\":1,\"id\":\"msg_8\",\"phase\":\"final_answer\"}"},
            {"type": "text", "text": "bare"},
            {"type": "text", "text": "again"},
            call("call_1|fc_1"),
            call("call_2|fc_2"),
        ])),
        result("call_1|fc_1", json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])),
        result("call_2|fc_2", json!([{"type": "image", "data": "AA==", "mimeType": "image/png"}])),
    ]);
    let text = |text: &str, id: &str| {
        json!({
            "type": "message", "role": "assistant", "status": "completed", "id": id,
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        })
    };
    let function = |call: &str, item: &str| {
        json!({
            "type": "function_call", "id": item, "call_id": call, "name": "read",
            "arguments": "{\"path\":\"n\"}",
        })
    };
    let mut later = text("later", "msg_8");
    later["phase"] = json!("final_answer");
    assert_eq!(
        wire(openai(), messages),
        json!([
            {"role": "user", "content": [{"type": "input_text", "text": "plain"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
            text("signed", "msg_9"),
            later,
            text("bare", "msg_1_3"),
            text("again", "msg_1_4"),
            function("call_1", "fc_1"),
            function("call_2", "fc_2"),
            {"type": "function_call_output", "call_id": "call_1", "output": "a\nb"},
            {"type": "function_call_output", "call_id": "call_2", "output": "(see attached image)"},
            {"role": "user", "content": [
                {"type": "input_text", "text": "Attached image(s) from tool result:"},
                {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AA=="},
            ]},
        ])
    );
}

#[test]
fn pictures_of_results_and_texts_behind_calls_do_not_part_calls_and_results() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let shown = json!([{"type": "image", "data": "AA==", "mimeType": "image/png"}]);
    let mut foreign =
        answer("claude", json!([call("c.1"), text("so"), call("c.2"), call(&"r".repeat(90))]));
    foreign["api"] = json!("anthropic-messages");
    foreign["provider"] = json!("anthropic");
    let messages = json!([
        foreign,
        result("c.1", shown.clone()),
        result("c.2", json!([text("two")])),
        result(&"r".repeat(90), shown),
        {"role": "user", "content": "and?", "timestamp": 1},
    ]);
    for provider in ["openai", "lmstudio"] {
        let sent = wire(ModelInfo { provider: provider.into(), ..openai() }, messages.clone());
        let kinds: Vec<_> = sent
            .as_array()
            .unwrap()
            .iter()
            .map(|item| {
                let kind = item.get("type").unwrap_or(&item["role"]).as_str().unwrap();
                (kind, item["call_id"].as_str().unwrap_or_default())
            })
            .collect();
        let long = "r".repeat(64);
        let long = long.as_str();
        let (called, told) = ("function_call", "function_call_output");
        let expected = [
            ("message", ""),
            (called, "c_1"),
            (called, "c_2"),
            (called, long),
            (told, "c_1"),
            (told, "c_2"),
            (told, long),
            ("user", ""),
            ("user", ""),
        ];
        assert_eq!(kinds, expected, "{provider}");
        assert_eq!(sent[7]["content"].as_array().unwrap().len(), 3, "{sent}");
    }
    // Where they came so, they stay so.
    let own = answer("mock-1", json!([call("call_1|fc_1"), text("so")]));
    let sent = wire(openai(), json!([own, result("call_1|fc_1", json!([]))]));
    assert_eq!((&sent[0]["type"], &sent[1]["type"]), (&json!("function_call"), &json!("message")));
}

#[test]
fn a_thought_that_is_only_named_goes_and_the_ids_of_its_answer_with_it() {
    let bare = r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":""}"#;
    let open = json!({"type": "reasoning", "id": "rs_2", "summary": [], "content": [
        {"type": "reasoning_text", "text": "hm"},
    ]});
    let said = |thought: &str, number: usize| {
        answer(
            "mock-1",
            json!([
                {"type": "thinking", "thinking": "", "thinkingSignature": thought},
                {"type": "text", "text": "so", "textSignature": format!("msg_{number}")},
                call(&format!("call_{number}|fc_{number}")),
            ]),
        )
    };
    let messages = json!([
        said(bare, 1),
        result("call_1|fc_1", json!([])),
        said(&open.to_string(), 2),
        result("call_2|fc_2", json!([])),
    ]);
    let text = |id: &str| {
        json!({
            "type": "message", "role": "assistant", "status": "completed", "id": id,
            "content": [{"type": "output_text", "text": "so", "annotations": []}],
        })
    };
    let function = |call: &str| {
        json!({
            "type": "function_call", "call_id": call, "name": "read",
            "arguments": "{\"path\":\"n\"}",
        })
    };
    let output = |call: &str| json!({"type": "function_call_output", "call_id": call, "output": "(no output)"});
    let mut known = function("call_2");
    known["id"] = json!("fc_2");
    let first = [text("msg_0"), function("call_1"), output("call_1")];
    let second = [open, text("msg_2"), known, output("call_2")];
    let expected = [first.as_slice(), &second].concat();
    assert_eq!(wire(openai(), messages), json!(expected));
}

#[test]
fn another_model_of_the_provider_keeps_the_call_and_loses_the_item() {
    let messages =
        json!([answer("other", json!([call("call_1|fc_1")])), result("call_1|fc_1", json!([]))]);
    let function = json!({
        "type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{\"path\":\"n\"}",
    });
    let output =
        json!({"type": "function_call_output", "call_id": "call_1", "output": "(no output)"});
    assert_eq!(wire(openai(), messages), json!([function, output]));
}

#[test]
fn a_call_without_result_gets_one() {
    let sent = wire(openai(), json!([answer("mock-1", json!([call("call_1|fc_1")]))]));
    let output = json!({"type": "function_call_output", "call_id": "call_1", "output": "No result provided"});
    assert_eq!(sent[1], output);
}

#[test]
fn a_server_that_lacks_something_is_not_sent_it() {
    let mut model = ModelInfo { reasoning: true, input: vec![InputKind::Text], ..openai() };
    Arc::make_mut(&mut model.options).compat = serde_json::from_value(json!({
        "supportsStore": false, "supportsDeveloperRole": false, "supportsReasoningEffort": false,
        "supportsTools": false, "supportsPromptCacheKey": false, "supportsTemperature": false,
    }))
    .unwrap();
    Arc::make_mut(&mut model.options).params.temperature = Some(1.0);
    let mut request = request_to(model, vec![user("hi")]);
    request.system = Some("s".into());
    request.thinking = ThinkingLevel::High;
    request.tools =
        vec![ToolSpec { name: "t".into(), description: String::new(), parameters: json!({}) }];
    let sent = body(&request);
    let names: Vec<_> = sent.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["model", "input", "stream", "max_output_tokens"]);
    assert_eq!(sent["input"][0]["role"], json!("system"));
}
