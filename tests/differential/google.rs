//! Cases of Google's API.

use serde_json::{Value, json};

use super::case::{Answer, Case, answer, call, case, foreign_history, with_results};

const API: &str = "google-generative-ai";

fn chunk(parts: &Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}]})
}

fn end(reason: &str) -> Value {
    json!({
        "candidates": [{"content": {"role": "model", "parts": []}, "finishReason": reason, "index": 0}],
        "usageMetadata": {"promptTokenCount": 101, "candidatesTokenCount": 12, "thoughtsTokenCount": 7,
                          "cachedContentTokenCount": 33, "totalTokenCount": 120},
    })
}

fn stream(parts: &[Value], reason: &str) -> Answer {
    let chunks: Vec<_> = parts.iter().map(chunk).chain([end(reason)]).collect();
    Answer::events(&chunks)
}

fn plain() -> Case {
    let parts = ["Hé", "llo ", "😀 wörld"].map(|text| json!([{"text": text}]));
    case(API, "google", "/v1beta", stream(&parts, "STOP"))
}

fn everything() -> Answer {
    let parts = [
        json!([{"text": "h", "thought": true, "thoughtSignature": "c2ln"}]),
        json!([{"text": "mé", "thought": true}]),
        json!([{"text": "so"}]),
        json!([{"text": "", "thoughtSignature": "dGV4"}]),
        json!([
            {"functionCall": {"name": "read", "args": {"path": "ü"}}, "thoughtSignature": "Y2Fs"},
            {"functionCall": {"name": "read", "id": "own", "args": {}}},
            {"functionCall": {"name": "read", "id": "own"}},
        ]),
    ];
    stream(&parts, "STOP")
}

fn history(model: &str) -> Value {
    let content = json!([
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2ln"},
        {"type": "thinking", "thinking": "odd", "thinkingSignature": "no base64"},
        {"type": "text", "text": "so", "textSignature": "c2ln"},
        call("call_1", &json!({"thoughtSignature": "c2ln"})),
        call("call_2", &json!({"thoughtSignature": "no base64"})),
    ]);
    with_results(answer([API, "google", model], "toolUse", content), ["call_1", "call_2"])
}

fn failure(status: u16) -> Answer {
    Answer::error(status, &json!({"error": {"code": status, "message": "böse", "status": "X"}}))
}

pub fn cases() -> Vec<Case> {
    let half = chunk(&json!([{"text": "half"}]));
    let mut cases = vec![
        plain(),
        plain().named("everything").answers([everything()]),
        plain().named("foreign history").context(foreign_history()),
        plain().named("blind").context(history("mock-1")).model(&json!({"input": ["text"]})),
        plain().named("sampling").options(json!({"temperature": 0.25, "maxTokens": 77})),
        plain().named("error 400").answers([failure(400)]),
        plain().named("error in the stream").answers([Answer::events(&[
            half.clone(),
            json!({"error": {"code": 503, "message": "böse", "status": "UNAVAILABLE"}}),
        ])]),
        plain().named("no end").answers([Answer::events(&[half])]),
    ];
    for choice in ["auto", "any", "none"] {
        let case = plain().named(&format!("tool choice {choice}"));
        cases.push(case.options(json!({"toolChoice": choice, "maxTokens": 77})));
    }
    let case = plain().named("choice without tools").context(foreign_history());
    cases.push(case.options(json!({"toolChoice": "auto", "maxTokens": 77})));
    for model in ["mock-1", "gemini-3-pro", "claude-mock", "gpt-oss-mock"] {
        let case = plain().named(&format!("history {model}")).model(&json!({"id": model}));
        cases.push(case.context(history(model)));
    }
    for reason in ["STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "MALFORMED_FUNCTION_CALL", "NEW"] {
        let answer = stream(&[json!([{"text": "a"}])], reason);
        cases.push(plain().named(&format!("stop {reason}")).answers([answer]));
    }
    for id in [
        "gemini-2.5-pro",
        "gemini-2.5-flash",
        "gemini-3-pro-preview",
        "gemini-3-flash-preview",
        "other",
    ] {
        for level in ["minimal", "low", "medium", "high", "xhigh"] {
            let case = plain().named(&format!("thinking {id} {level}"));
            let case = case.model(&json!({"id": id, "reasoning": true}));
            cases.push(case.options(json!({"reasoning": level})));
        }
    }
    cases
}
