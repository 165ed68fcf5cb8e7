//! Cases of the Completions API, for each server that speaks it.

use serde_json::{Value, json};

use super::case::{Answer, Case, answer, call, case, foreign_history, user, with_results};

const API: &str = "openai-completions";

fn chunk(delta: &Value) -> Value {
    json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]})
}

fn end(reason: &str) -> Vec<Value> {
    let mut last = chunk(&json!({}));
    last["choices"][0]["finish_reason"] = json!(reason);
    let usage = json!({
        "prompt_tokens": 101, "completion_tokens": 19, "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 33},
    });
    vec![last, json!({"id": "chatcmpl-1", "choices": [], "usage": usage})]
}

fn stream(deltas: &[Value], reason: &str) -> Answer {
    let chunks: Vec<_> = deltas.iter().map(chunk).chain(end(reason)).collect();
    Answer::chunks(&chunks)
}

fn said(text: &str) -> Value {
    json!({"content": text})
}

fn plain() -> Case {
    let answer = stream(&[said("Hé"), said("llo "), said("😀 wörld")], "stop");
    case(API, "openai", "/v1", answer)
}

fn call_delta(index: usize, id: &Value, name: &Value, arguments: &str) -> Value {
    json!({"tool_calls": [{
        "index": index, "id": id, "type": "function",
        "function": {"name": name, "arguments": arguments},
    }]})
}

fn everything() -> Answer {
    let none = Value::Null;
    let deltas = [
        json!({"role": "assistant", "content": null, "reasoning_content": "h", "reasoning": "h"}),
        json!({"reasoning_content": "mé"}),
        said("so"),
        call_delta(0, &json!("call_1"), &json!("read"), ""),
        call_delta(0, &none, &none, "{\"path\":"),
        call_delta(0, &none, &none, "\"ü\"}"),
        call_delta(1, &json!("call_2"), &json!("read"), "{}"),
        json!({"reasoning_details": [{"type": "reasoning.encrypted", "id": "call_2", "data": "x"}]}),
    ];
    stream(&deltas, "tool_calls")
}

fn history(provider: &str, model: &str) -> Value {
    let content = json!([
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "reasoning_content"},
        {"type": "thinking", "thinking": "and hm"},
        {"type": "text", "text": "so"},
        call("call_1", &json!({"thoughtSignature": "{\"type\":\"reasoning.encrypted\",\"id\":\"call_1\",\"data\":\"x\"}"})),
        call("call_2", &json!({})),
    ]);
    with_results(answer([API, provider, model], "toolUse", content), ["call_1", "call_2"])
}

fn failure(status: u16) -> Answer {
    Answer::error(status, &json!({"error": {"message": "böse", "type": "x", "code": null}}))
}

pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        plain(),
        plain().named("everything").answers([everything()]),
        plain().named("history").context(history("openai", "mock-1")),
        plain().named("foreign history").context(foreign_history()),
        plain().named("blind").context(history("openai", "mock-1")).model(&json!({"input": ["text"]})),
        plain().named("sampling").options(json!({"temperature": 0.25, "maxTokens": 77})),
        plain().named("choice without tools").context(json!({"messages": [user(json!("a"))]}))
            .options(json!({"toolChoice": "auto", "maxTokens": 77})),
        plain().named("error 400").answers([failure(400)]),
        plain().named("error behind").answers([Answer::error(400, &json!({"error": {
            "message": "Provider returned error", "code": 400,
            "metadata": {"raw": "böse", "provider_name": "Behind"},
        }}))]),
        plain().named("error 401").answers([failure(401)]),
        plain().named("error 500").answers([failure(500)]),
        plain().named("error 429 once").answers([failure(429), stream(&[said("a")], "stop")]),
        plain().named("error in the stream").answers([Answer::events(&[
            chunk(&said("half")),
            json!({"error": {"message": "böse", "code": 500}}),
        ])]),
        plain().named("cut arguments").answers([stream(
            &[call_delta(0, &json!("call_1"), &json!("read"), "{\"path\":\"no")],
            "length",
        )]),
        plain().named("tokens of thought").answers([Answer::chunks(&[
            chunk(&said("a")),
            json!({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {
                "prompt_tokens": 5, "completion_tokens": 9,
                "completion_tokens_details": {"reasoning_tokens": 4},
            }}),
        ])]),
        plain().named("no end").answers([Answer { status: 200, body: format!("data: {}\n\n", chunk(&said("half"))) }]),
    ];
    let named = json!({"type": "function", "function": {"name": "read"}});
    for choice in [json!("auto"), json!("required"), json!("none"), named] {
        let case = plain().named(&format!("tool choice {choice}"));
        cases.push(case.options(json!({"toolChoice": choice, "maxTokens": 77})));
    }
    for reason in ["stop", "length", "function_call", "content_filter", "new"] {
        let answer = stream(&[said("a")], reason);
        cases.push(plain().named(&format!("stop {reason}")).answers([answer]));
    }
    for (id, level) in [
        ("gpt-5.1", "minimal"),
        ("gpt-5.1", "low"),
        ("gpt-5.1", "medium"),
        ("gpt-5.1", "high"),
        ("gpt-5.1", "xhigh"),
        ("gpt-5.2", "xhigh"),
    ] {
        let case = plain().named(&format!("thinking {id} {level}"));
        let case = case.model(&json!({"id": id, "reasoning": true}));
        cases.push(case.options(json!({"reasoning": level})));
    }
    cases.extend(servers());
    cases.extend(switches());
    cases
}

fn servers() -> Vec<Case> {
    let id = "anthropic/mock-1";
    let mut cases = Vec::new();
    for provider in
        ["groq", "xai", "mistral", "cerebras", "zai", "openrouter", "vllm", "lmstudio", "llama.cpp"]
    {
        let model = json!({"provider": provider, "reasoning": true, "id": id});
        let case = plain().named(&format!("server {provider}")).model(&model);
        cases
            .push(case.clone().context(history(provider, id)).options(json!({"reasoning": "low"})));
        let silent = case.named(&format!("server {provider} foreign, no thought"));
        cases.push(silent.context(foreign_history()));
    }
    cases
}

/// The server is told, so that both sides begin alike.
fn switches() -> Vec<Case> {
    [
        ("supportsStore", json!(false)),
        ("supportsDeveloperRole", json!(false)),
        ("supportsReasoningEffort", json!(false)),
        ("supportsUsageInStreaming", json!(false)),
        ("supportsStrictMode", json!(false)),
        ("maxTokensField", json!("max_tokens")),
        ("thinkingFormat", json!("zai")),
        ("thinkingFormat", json!("qwen")),
        ("requiresToolResultName", json!(true)),
        ("requiresAssistantAfterToolResult", json!(true)),
        ("requiresThinkingAsText", json!(true)),
        ("requiresMistralToolIds", json!(true)),
    ]
    .into_iter()
    .map(|(name, value)| {
        let case = plain().named(&format!("compat {name} {value}"));
        let case = case.model(&json!({"reasoning": true, "compat": {name: value}}));
        case.context(history("openai", "mock-1")).options(json!({"reasoning": "low"}))
    })
    .collect()
}
