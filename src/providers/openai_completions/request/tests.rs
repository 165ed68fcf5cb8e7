#![allow(clippy::needless_pass_by_value)] // `json!(…)` reads best in place

use super::*;
use crate::providers::testing::{message, model, request, request_to, user};

fn mock(messages: Value) -> Vec<AgentMessage> {
    messages.as_array().unwrap().iter().cloned().map(message).collect()
}

fn answer(content: Value) -> Value {
    json!({
        "role": "assistant", "content": content, "api": "openai-completions", "provider": "mock",
        "model": "mock-1", "usage": {}, "stopReason": "stop", "timestamp": 1,
    })
}

fn wire(messages: Value) -> Value {
    body(&request(mock(messages)))["messages"].clone()
}

#[test]
fn a_plain_request_has_every_field_of_the_original() {
    let mut request = request(vec![user("hi")]);
    request.system = Some("be nice".into());
    request.tools = vec![ToolSpec {
        name: "read".into(),
        description: "Reads a file.".into(),
        parameters: json!({"type": "object"}),
    }];
    assert_eq!(
        body(&request),
        json!({
            "model": "mock-1",
            "messages": [
                {"role": "system", "content": "be nice"},
                {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            ],
            "stream": true,
            "stream_options": {"include_usage": true},
            "store": false,
            "max_completion_tokens": 8192,
            "tools": [{"type": "function", "function": {
                "name": "read", "description": "Reads a file.", "parameters": {"type": "object"},
                "strict": false,
            }}],
        })
    );
}

#[test]
fn calls_and_results_take_their_places() {
    let messages = json!([
        {"role": "user", "content": "plain", "timestamp": 1},
        answer(json!([
            {"type": "thinking", "thinking": "hm", "thinkingSignature": "reasoning_content"},
            {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "n"},
             "thoughtSignature": "{\"type\":\"reasoning.encrypted\",\"id\":\"c1\",\"data\":\"x\"}"},
            {"type": "toolCall", "id": "c2", "name": "shot", "arguments": {},
             "thoughtSignature": "{\"google\":{\"thought_signature\":\"g\"}}"},
        ])),
        {"role": "toolResult", "toolCallId": "c1", "toolName": "read", "content": []},
        {"role": "toolResult", "toolCallId": "c2", "toolName": "shot",
         "content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}]},
        answer(json!([{"type": "thinking", "thinking": "only a thought"}])),
        answer(json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])),
    ]);
    assert_eq!(
        wire(messages.clone()),
        json!([
            {"role": "user", "content": "plain"},
            {
                "role": "assistant", "content": null, "reasoning_content": "hm",
                "tool_calls": [
                    {"id": "c1", "type": "function",
                     "function": {"name": "read", "arguments": "{\"path\":\"n\"}"}},
                    {"id": "c2", "type": "function", "function": {"name": "shot", "arguments": "{}"},
                     "extra_content": {"google": {"thought_signature": "g"}}},
                ],
                "reasoning_details": [{"type": "reasoning.encrypted", "id": "c1", "data": "x"}],
            },
            {"role": "tool", "content": "(no output)", "tool_call_id": "c1"},
            {"role": "tool", "content": "(see attached image)", "tool_call_id": "c2"},
            {"role": "user", "content": [
                {"type": "text", "text": "Attached image(s) from tool result:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
            ]},
            {"role": "assistant", "content": "ab"},
        ])
    );
    // Without tools of its own, the request still has to admit those of the past.
    assert_eq!(body(&request(mock(messages)))["tools"], json!([]));
}

fn thinking_body(provider: &str, id: &str, level: ThinkingLevel) -> Value {
    let mut model = model("openai-completions");
    model.provider = provider.into();
    model.id = id.into();
    model.reasoning = true;
    let mut request = request_to(model, vec![user("hi")]);
    request.system = Some("s".into());
    request.thinking = level;
    body(&request)
}

#[test]
fn thinking_is_asked_for_as_each_server_wants_it() {
    use ThinkingLevel::{Low, Off, XHigh};
    let openai = thinking_body("openai", "gpt-5.1", XHigh);
    assert_eq!(openai["reasoning_effort"], json!("high"));
    assert_eq!(openai["messages"][0]["role"], json!("developer"));
    assert_eq!(thinking_body("openai", "gpt-5.2", XHigh)["reasoning_effort"], json!("xhigh"));
    assert_eq!(thinking_body("openai", "gpt-5.2", Off).get("reasoning_effort"), None);
    assert_eq!(thinking_body("xai", "grok", Low).get("reasoning_effort"), None);
    assert_eq!(thinking_body("zai", "glm", Low)["enable_thinking"], json!(true));
    assert_eq!(thinking_body("qwen", "qwen3", Off)["enable_thinking"], json!(false));
    let openrouter = thinking_body("openrouter", "x/y", Low);
    assert_eq!(openrouter["reasoning"], json!({"effort": "low"}));
}

#[test]
fn servers_get_no_fields_that_they_refuse() {
    for provider in
        ["mistral", "cerebras", "xai", "chutes", "deepseek", "zai", "opencode", "google"]
    {
        let body = thinking_body(provider, "m", ThinkingLevel::Off);
        assert_eq!(body.get("store"), None, "{provider}");
        assert_eq!(body["messages"][0]["role"], json!("system"), "{provider}");
    }
    assert_eq!(thinking_body("mistral", "m", ThinkingLevel::Off)["max_tokens"], json!(8192));
    let google = thinking_body("google", "m", ThinkingLevel::Off);
    assert_eq!(google["max_completion_tokens"], json!(8192));
}

#[test]
fn the_prompt_cache_of_openrouter_is_marked_for_anthropic() {
    let body = thinking_body("openrouter", "anthropic/claude", ThinkingLevel::Off);
    let part = json!({"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}});
    assert_eq!(body["messages"][1]["content"], json!([part]));
}

#[test]
fn an_answer_is_never_asked_to_be_longer_than_needed() {
    let mut model = model("openai-completions");
    model.max_tokens = 128_000;
    assert_eq!(body(&request_to(model, vec![]))["max_completion_tokens"], json!(32_000));
}
