#![allow(clippy::needless_pass_by_value)] // `json!(…)` reads best in place

use super::*;
use crate::providers::testing::{message, model, read_tool, request_to, user};
use crate::providers::{ModelInfo, ThinkingLevel};
use std::sync::Arc;

fn gemini(id: &str) -> ModelInfo {
    ModelInfo { provider: "google".into(), id: id.into(), ..model("google-generative-ai") }
}

fn wire(id: &str, messages: Value) -> Value {
    let messages = messages.as_array().unwrap().iter().cloned().map(message).collect();
    body(&request_to(gemini(id), messages))["contents"].clone()
}

fn answer(model: &str, content: Value) -> Value {
    json!({
        "role": "assistant", "content": content, "api": "google-generative-ai", "provider": "google",
        "model": model, "usage": {}, "stopReason": "toolUse", "timestamp": 1,
    })
}

fn call(id: &str, signature: &str) -> Value {
    json!({"type": "toolCall", "id": id, "name": "read", "arguments": {"n": 1}, "thoughtSignature": signature})
}

fn result(id: &str, content: Value) -> Value {
    json!({"role": "toolResult", "toolCallId": id, "toolName": "read", "content": content})
}

const IMAGE: &str = r#"[{"type":"image","data":"AA==","mimeType":"image/png"}]"#;

fn image() -> Value {
    serde_json::from_str(IMAGE).unwrap()
}

#[test]
fn a_plain_request_has_every_field_of_the_original() {
    let mut model = gemini("gemini-2.5-flash");
    model.reasoning = true;
    Arc::make_mut(&mut model.options).params.temperature = Some(0.5);
    let mut request = request_to(model, vec![user("hi")]);
    request.system = Some("be nice".into());
    request.thinking = ThinkingLevel::Low;
    request.tools =
        vec![read_tool(json!({"type": "object", "additionalProperties": false, "properties": {}}))];
    assert_eq!(
        body(&request),
        json!({
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
            "systemInstruction": {"parts": [{"text": "be nice"}], "role": "user"},
            "tools": [{"functionDeclarations": [{
                "name": "read", "description": "Reads a file.",
                "parametersJsonSchema": {"type": "object", "properties": {}},
            }]}],
            "generationConfig": {
                "temperature": 0.5, "maxOutputTokens": 8192,
                "thinkingConfig": {"includeThoughts": true, "thinkingBudget": 2048},
            },
        })
    );
}

#[test]
fn thoughts_calls_and_results_take_their_places() {
    let messages = json!([
        {"role": "user", "content": "plain", "timestamp": 1},
        answer("gemini-2.5-pro", json!([
            {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2ln"},
            {"type": "thinking", "thinking": "unsigned", "thinkingSignature": "no base64!"},
            {"type": "text", "text": "t", "textSignature": "c2ln"},
            call("c1", "c2ln"),
            call("c2", "x"),
        ])),
        result("c1", json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])),
        {"role": "toolResult", "toolCallId": "c2", "toolName": "read", "isError": true,
         "content": [{"type": "text", "text": "bad"}]},
        {"role": "user", "content": image(), "timestamp": 1},
    ]);
    let function = json!({"name": "read", "args": {"n": 1}});
    assert_eq!(
        wire("gemini-2.5-pro", messages),
        json!([
            {"role": "user", "parts": [{"text": "plain"}]},
            {"role": "model", "parts": [
                {"thought": true, "text": "hm", "thoughtSignature": "c2ln"},
                {"thought": true, "text": "unsigned"},
                {"text": "t", "thoughtSignature": "c2ln"},
                {"functionCall": function, "thoughtSignature": "c2ln"},
                {"functionCall": function},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "read", "response": {"output": "a\nb"}}},
                {"functionResponse": {"name": "read", "response": {"error": "bad"}}},
            ]},
            {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "AA=="}}]},
        ])
    );
}

#[test]
fn a_model_of_the_third_generation_gets_every_call_signed() {
    let messages = json!([
        {"role": "user", "content": "go", "timestamp": 1},
        answer("gemini-2.5-pro", json!([{"type": "thinking", "thinking": "hm"}, call("c1", "c2ln")])),
        result("c1", image()),
    ]);
    let sent = wire("gemini-3-pro-preview", messages.clone());
    for later in ["gemini-4-argon", "gemini-flash-latest"] {
        assert_eq!(wire(later, messages.clone()), sent, "{later}");
    }
    assert_eq!(
        sent[1],
        json!({"role": "model", "parts": [
            {"text": "hm"},
            {"functionCall": {"name": "read", "args": {"n": 1}},
             "thoughtSignature": "skip_thought_signature_validator"},
        ]})
    );
    assert_eq!(
        sent[2],
        json!({"role": "user", "parts": [{"functionResponse": {
            "name": "read", "response": {"output": "(see attached image)"},
            "parts": [{"inlineData": {"mimeType": "image/png", "data": "AA=="}}],
        }}]})
    );
}

#[test]
fn older_models_get_pictures_of_results_as_a_users() {
    let messages =
        json!([answer("gemini-2.5-pro", json!([call("c1", "")])), result("c1", image())]);
    assert_eq!(
        wire("gemini-2.5-pro", messages),
        json!([
            {"role": "user", "parts": [{"text": "(beginning of the conversation)"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {"n": 1}}}]},
            {"role": "user", "parts": [{"functionResponse": {
                "name": "read", "response": {"output": "(see attached image)"}}}]},
            {"role": "user", "parts": [
                {"text": "Tool result image:"},
                {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
            ]},
        ])
    );
}

#[test]
fn pictures_of_results_do_not_part_the_results() {
    let calls = json!([call("c1", ""), call("c2", ""), call("c3", "")]);
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let messages = json!([
        {"role": "user", "content": "go", "timestamp": 1},
        answer("gemini-2.5-pro", calls),
        result("c1", image()),
        result("c2", text("b")),
        result("c3", image()),
        answer("gemini-2.5-pro", text("seen")),
        {"role": "user", "content": "more", "timestamp": 1},
    ]);
    let response = |output: &str| {
        let response = json!({"name": "read", "response": {"output": output}});
        json!({"functionResponse": response})
    };
    let picture = json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}});
    let see = "(see attached image)";
    assert_eq!(
        wire("gemini-2.5-pro", messages).as_array().unwrap()[2..],
        [
            json!({"role": "user", "parts": [response(see), response("b"), response(see)]}),
            json!({"role": "user", "parts": [{"text": "Tool result image:"}, picture, picture]}),
            json!({"role": "model", "parts": [{"text": "seen"}]}),
            json!({"role": "user", "parts": [{"text": "more"}]}),
        ]
    );
}

#[test]
fn models_of_others_pair_calls_and_results_by_id() {
    let messages = json!([
        {"role": "user", "content": "go", "timestamp": 1},
        answer("gemini-2.5-pro", json!([call("c.1", "")])),
        result("c.1", json!([])),
    ]);
    let sent = wire("claude-sonnet-4-5", messages);
    assert_eq!(sent[1]["parts"][0]["functionCall"]["id"], json!("c_1"));
    let response = json!({"name": "read", "response": {"output": ""}, "id": "c_1"});
    assert_eq!(sent[2]["parts"][0]["functionResponse"], response);
}

#[test]
fn turns_of_one_role_in_a_row_are_one() {
    let said = |text: &str| json!({"role": "user", "content": text, "timestamp": 1});
    let text = |text: &str| json!({"type": "text", "text": text});
    let messages = json!([
        said("one"),
        said("two"),
        answer("gemini-2.5-pro", json!([text("first")])),
        answer("gemini-2.5-pro", json!([text("second"), call("c1", "c2ln")])),
        result("c1", json!([text("done")])),
        said("three"),
        said("four"),
    ]);
    let function = json!({"name": "read", "args": {"n": 1}});
    let response = json!({"name": "read", "response": {"output": "done"}});
    assert_eq!(
        wire("gemini-2.5-pro", messages),
        json!([
            {"role": "user", "parts": [{"text": "one"}, {"text": "two"}]},
            {"role": "model", "parts": [
                {"text": "first"},
                {"text": "second"},
                {"functionCall": function, "thoughtSignature": "c2ln"},
            ]},
            {"role": "user", "parts": [{"functionResponse": response}]},
            {"role": "user", "parts": [{"text": "three"}, {"text": "four"}]},
        ])
    );
}
