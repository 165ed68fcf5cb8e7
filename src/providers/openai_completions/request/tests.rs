#![allow(clippy::needless_pass_by_value)] // `json!(…)` reads best in place

use super::*;
use crate::providers::testing::{message, model, read_tool, request, request_to, user};
use std::sync::Arc;

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
    request.tools = vec![read_tool(json!({"type": "object"}))];
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
    let told = |provider: &str, level| {
        let sent = thinking_body(provider, "m", level);
        (sent["thinking"]["type"].clone(), sent.get("reasoning_effort").cloned())
    };
    assert_eq!(told("zai", Low), (json!("enabled"), None));
    assert_eq!(told("zai", Off), (json!("disabled"), None));
    assert_eq!(told("deepseek", Low), (json!("enabled"), Some(json!("low"))));
    assert_eq!(told("deepseek", Off), (json!("disabled"), None));
    assert_eq!(told("mistral", Low), (Value::Null, Some(json!("high"))));
    assert_eq!(told("mistral", Off), (Value::Null, None));
    assert_eq!(thinking_body("groq", "qwen/m", Low).get("reasoning_effort"), None);
    assert_eq!(thinking_body("qwen", "qwen3", Off)["enable_thinking"], json!(false));
    let openrouter = thinking_body("openrouter", "x/y", Low);
    assert_eq!(openrouter["reasoning"], json!({"effort": "low"}));
    let together = |id: &str, level| {
        let sent = thinking_body("together", id, level);
        (sent.get("reasoning").cloned(), sent.get("reasoning_effort").cloned())
    };
    assert_eq!(together("m", Low), (Some(json!({"enabled": true})), None));
    assert_eq!(together("m", Off), (Some(json!({"enabled": false})), None));
    assert_eq!(together("openai/gpt-oss-120b", Low), (None, Some(json!("low"))));
}

#[test]
fn servers_get_no_fields_that_they_refuse() {
    for provider in [
        "mistral", "cerebras", "xai", "chutes", "deepseek", "zai", "opencode", "google", "together",
    ] {
        let body = thinking_body(provider, "m", ThinkingLevel::Off);
        assert_eq!(body.get("store"), None, "{provider}");
        assert_eq!(body["messages"][0]["role"], json!("system"), "{provider}");
    }
    for provider in ["mistral", "together"] {
        let body = thinking_body(provider, "m", ThinkingLevel::Off);
        assert_eq!(body["max_tokens"], json!(8192), "{provider}");
    }
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

fn body_with(compat: Value, provider: &str) -> Value {
    let mut model = model("openai-completions");
    model.provider = provider.into();
    model.reasoning = true;
    Arc::make_mut(&mut model.options).compat = serde_json::from_value(compat).unwrap();
    let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
    let answer = |content: Value| {
        let mut answer = answer(content);
        answer["provider"] = json!(provider);
        answer
    };
    let mut request = request_to(
        model,
        mock(json!([
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            answer(json!([
                {"type": "thinking", "thinking": "hm", "thinkingSignature": "reasoning"},
                {"type": "toolCall", "id": "c1", "name": "read", "arguments": {}},
            ])),
            {"role": "toolResult", "toolCallId": "c1", "toolName": "read", "content": [image]},
            answer(json!([{"type": "thinking", "thinking": "so"}, {"type": "text", "text": "done"}])),
        ])),
    );
    request.thinking = ThinkingLevel::Low;
    request.tools = vec![ToolSpec {
        name: "t".into(),
        description: String::new(),
        parameters: json!({"type": "object", "format": "x"}),
    }];
    body(&request)
}

#[test]
fn mistral_wants_names_of_tools_and_thoughts_as_text() {
    let sent = body_with(json!({}), "mistral");
    let messages = sent["messages"].as_array().unwrap();
    assert_eq!((&messages[1]["content"], messages[1].get("reasoning")), (&json!("hm"), None));
    assert_eq!(messages[2]["name"], json!("read"));
    assert_eq!(messages[4]["content"], json!("so\n\ndone"));
}

#[test]
fn deepseek_gets_a_thought_with_every_answer() {
    let sent = body_with(json!({}), "deepseek");
    let thoughts: Vec<_> = sent["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "assistant")
        .map(|message| message["reasoning_content"].clone())
        .collect();
    assert_eq!(thoughts, [json!(""), json!("")]);
    let told = body_with(json!({"requiresReasoningContentOnAssistantMessages": false}), "deepseek");
    assert_eq!(told["messages"][1].get("reasoning_content"), None);
}

/// To Moonshot's model of this name.
fn of_moonshot(id: &str, level: ThinkingLevel) -> Value {
    let mut model = model("openai-completions");
    (model.provider, model.id, model.reasoning) = ("moonshot".into(), id.into(), true);
    let call = json!({"type": "toolCall", "id": "c1", "name": "read", "arguments": {}});
    // Another model has called without a thought.
    let mut request = request_to(
        model,
        mock(json!([
            {"role": "user", "content": "a", "timestamp": 1},
            answer(json!([call])),
            {"role": "toolResult", "toolCallId": "c1", "toolName": "read", "content": []},
        ])),
    );
    request.thinking = level;
    request.tools = vec![read_tool(json!({"type": "object"}))];
    body(&request)
}

#[test]
fn moonshot_gets_a_thought_that_says_something_with_every_answer() {
    let sent = of_moonshot("kimi-k2.6", ThinkingLevel::Low);
    assert_eq!(sent["messages"][1]["reasoning_content"], " ");
    assert_eq!((sent.get("store"), sent["tools"][0]["function"].get("strict")), (None, None));
}

#[test]
fn each_generation_of_kimi_is_asked_to_think_in_its_own_words() {
    use ThinkingLevel::{High, Low, Medium, Off, XHigh};
    let asked = |id: &str, level| {
        let sent = of_moonshot(id, level);
        [sent["thinking"]["type"].clone(), sent["reasoning_effort"].clone()]
    };
    let nothing = Value::Null;
    for (level, second, third) in [
        (Off, "disabled", "low"),
        (Low, "enabled", "low"),
        (Medium, "enabled", "low"),
        (High, "enabled", "high"),
        (XHigh, "enabled", "max"),
    ] {
        assert_eq!(asked("kimi-k2.6", level), [json!(second), nothing.clone()], "{level:?}");
        assert_eq!(asked("kimi-k3.1-pro", level), [nothing.clone(), json!(third)], "{level:?}");
        // It thinks in any case, and refuses to be told not to.
        assert_eq!(asked("kimi-k2.7-code", level), [nothing.clone(), nothing.clone()]);
    }
}

#[test]
fn no_model_of_moonshot_that_thinks_is_made_to_call() {
    use ThinkingLevel::{Low, Off};
    let asked = |provider: &str, id: &str, level, choice: &Value| {
        let mut model = model("openai-completions");
        (model.provider, model.id, model.reasoning) = (provider.into(), id.into(), true);
        Arc::make_mut(&mut model.options).params =
            serde_json::from_value(json!({"toolChoice": choice})).unwrap();
        let mut request = request_to(model, vec![user("hi")]);
        request.tools = vec![read_tool(json!({"type": "object"}))];
        request.thinking = level;
        let sent = body(&request);
        [sent["tool_choice"].clone(), sent["thinking"]["type"].clone()]
    };
    let (some, certain) =
        (json!("required"), json!({"type": "function", "function": {"name": "read"}}));
    for (provider, id, level, choice, expected) in [
        ("moonshot", "kimi-k2.6", Low, &some, [json!("auto"), json!("enabled")]),
        ("moonshot", "kimi-k2.6", Off, &some, [some.clone(), json!("disabled")]),
        ("moonshot", "kimi-k2-thinking", Off, &some, [json!("auto"), Value::Null]),
        ("moonshot", "kimi-k2.6", Low, &certain, [certain.clone(), json!("disabled")]),
        ("moonshot", "kimi-k2.6", Low, &json!("none"), [json!("none"), json!("enabled")]),
        ("openai", "gpt-5.2", Low, &some, [some.clone(), Value::Null]),
    ] {
        assert_eq!(asked(provider, id, level, choice), expected, "{id} {level:?} {choice}");
    }
}

#[test]
fn a_server_may_want_an_answer_after_results_and_plain_texts() {
    let compat = json!({
        "requiresAssistantAfterToolResult": true, "requiresStringContent": true,
        "requiresReasoningContentOnAssistantMessages": true,
    });
    let sent = body_with(compat, "mock");
    assert_eq!(
        sent["messages"],
        json!([
            {"role": "user", "content": "a\nb"},
            {"role": "assistant", "content": "", "reasoning": "hm", "reasoning_content": "",
             "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}]},
            {"role": "tool", "content": "(see attached image)", "tool_call_id": "c1"},
            {"role": "assistant", "content": "I have processed the tool results."},
            {"role": "user", "content": "Attached image(s) from tool result:"},
            {"role": "assistant", "content": "done", "reasoning_content": ""},
        ])
    );
}

#[test]
fn a_server_may_lack_fields_and_tools() {
    let sent =
        body_with(json!({"supportsUsageInStreaming": false, "supportsTools": false}), "mock");
    assert_eq!((sent.get("stream_options"), &sent["tools"]), (None, &json!([])));
    let sent = body_with(json!({"unsupportedToolSchemaKeywords": ["format"]}), "mock");
    assert_eq!(sent["tools"][0]["function"]["parameters"], json!({"type": "object"}));
}

#[test]
fn every_format_of_thought_has_its_fields() {
    let fields = |format: &str| {
        let sent = body_with(json!({"thinkingFormat": format}), "mock");
        let names = [
            "reasoning_effort",
            "reasoning",
            "thinking",
            "enable_thinking",
            "chat_template_kwargs",
        ];
        let members = sent.as_object().unwrap().iter();
        let members = members.filter(|(name, _)| names.contains(&name.as_str()));
        Value::Object(members.map(|(name, value)| (name.clone(), value.clone())).collect())
    };
    assert_eq!(fields("openai"), json!({"reasoning_effort": "low"}));
    assert_eq!(fields("openrouter"), json!({"reasoning": {"effort": "low"}}));
    let deepseek = json!({"thinking": {"type": "enabled"}, "reasoning_effort": "low"});
    assert_eq!(fields("deepseek"), deepseek);
    assert_eq!(fields("together"), json!({"reasoning": {"enabled": true}}));
    assert_eq!(fields("zai"), json!({"enable_thinking": true}));
    assert_eq!(fields("qwen"), json!({"enable_thinking": true}));
    let template = json!({"enable_thinking": true, "preserve_thinking": true});
    assert_eq!(fields("qwen-chat-template"), json!({"chat_template_kwargs": template}));
}

#[test]
fn resellers_are_told_whom_to_use() {
    let routed = |address: &str| {
        let mut model = model("openai-completions");
        model.base_url = address.into();
        Arc::make_mut(&mut model.options).compat = serde_json::from_value(json!({
            "openRouterRouting": {"only": ["a"]}, "vercelGatewayRouting": {"order": ["b"]},
        }))
        .unwrap();
        body(&request_to(model, vec![]))
    };
    assert_eq!(routed("https://openrouter.ai/api/v1")["provider"], json!({"only": ["a"]}));
    let vercel = routed("https://ai-gateway.vercel.sh/v1");
    assert_eq!(vercel["providerOptions"], json!({"gateway": {"order": ["b"]}}));
    let other = routed("https://else/v1");
    assert_eq!((other.get("provider"), other.get("providerOptions")), (None, None));
}

#[test]
fn messages_of_one_role_in_a_row_are_one() {
    let said = |text: &str| json!({"role": "user", "content": text, "timestamp": 1});
    let text = |text: &str| json!({"type": "text", "text": text});
    let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
    let messages = json!([
        answer(json!([text("a note")])),
        said("one"),
        {"role": "user", "content": [text("two"), image], "timestamp": 1},
        answer(json!([text("first")])),
        answer(json!([
            {"type": "thinking", "thinking": "hm", "thinkingSignature": "reasoning"},
            text("second"),
        ])),
        answer(json!([{"type": "toolCall", "id": "c1", "name": "read", "arguments": {}}])),
        {"role": "toolResult", "toolCallId": "c1", "toolName": "read", "content": [image]},
        said("three"),
    ]);
    let call = json!({
        "id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"},
    });
    let shown = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}});
    let follows = text("Attached image(s) from tool result:");
    assert_eq!(
        wire(messages),
        json!([
            {"role": "user", "content": "(beginning of the conversation)"},
            {"role": "assistant", "content": "a note"},
            {"role": "user", "content": [text("one"), text("two"), shown]},
            {"role": "assistant", "content": "first\n\nsecond", "reasoning": "hm",
             "tool_calls": [call]},
            {"role": "tool", "content": "(see attached image)", "tool_call_id": "c1"},
            {"role": "user", "content": [follows, shown, text("three")]},
        ])
    );
}
