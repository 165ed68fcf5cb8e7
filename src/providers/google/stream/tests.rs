#![allow(clippy::needless_pass_by_value)] // `json!(…)` reads best in place

use super::*;
use crate::protocol::message::AssistantMessage;
use crate::providers::StreamEvent;
use crate::providers::testing::{FixedClock, model, replay};
use crate::support::json;

type Outcome = (Result<AssistantMessage, ProviderError>, Vec<StreamEvent>);

fn read(chunks: &[Value]) -> Outcome {
    let texts: Vec<_> = chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n")).collect();
    replay(Chunks::new(FixedClock::NOW), &model("google-generative-ai"), &texts.concat())
}

fn parts(parts: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}}], "responseId": "r1"})
}

fn end(reason: &str) -> Value {
    json!({"candidates": [{"content": {"parts": []}, "finishReason": reason}]})
}

#[test]
fn thought_text_and_calls_become_blocks_with_their_signatures() {
    let (message, events) = read(&[
        parts(json!([{"text": "hm", "thought": true, "thoughtSignature": "YQ=="}])),
        parts(json!([{"text": "m", "thought": true}, {"text": "Hé"}])),
        parts(json!([{"text": "", "thoughtSignature": "Yg=="}])),
        parts(json!([
            {"functionCall": {"name": "read", "args": {"n": 1}}, "thoughtSignature": "Yw=="},
            {"functionCall": {"name": "read", "id": "own"}},
            {"functionCall": {"name": "read", "id": "own", "args": {}}},
        ])),
        end("STOP"),
    ]);
    let message = message.unwrap();
    assert_eq!(
        serde_json::to_value(&message.content).unwrap(),
        json!([
            {"type": "thinking", "thinking": "hmm", "thinkingSignature": "YQ=="},
            {"type": "text", "text": "Hé", "textSignature": "Yg=="},
            {"type": "toolCall", "id": "read_5_1", "name": "read", "arguments": {"n": 1},
             "thoughtSignature": "Yw=="},
            {"type": "toolCall", "id": "own", "name": "read", "arguments": {}},
            {"type": "toolCall", "id": "read_5_3", "name": "read", "arguments": {}},
        ])
    );
    assert_eq!(message.stop_reason, StopReason::ToolUse);
    assert_eq!(message.response_id.as_deref(), Some("r1"));
    let expected = [
        StreamEvent::ThinkingStart { index: 0 },
        StreamEvent::ThinkingDelta { index: 0, delta: "hm".into() },
        StreamEvent::ThinkingDelta { index: 0, delta: "m".into() },
        StreamEvent::ThinkingSigned { index: 0, signature: "YQ==".into() },
        StreamEvent::BlockEnd { index: 0 },
        StreamEvent::TextStart { index: 1 },
        StreamEvent::TextDelta { index: 1, delta: "Hé".into() },
        StreamEvent::BlockEnd { index: 1 },
        StreamEvent::ToolCallStart { index: 2, id: "read_5_1".into(), name: "read".into() },
        StreamEvent::ToolCallDelta { index: 2, delta: "{\"n\":1}".into() },
        StreamEvent::BlockEnd { index: 2 },
        StreamEvent::ToolCallStart { index: 3, id: "own".into(), name: "read".into() },
        StreamEvent::ToolCallDelta { index: 3, delta: "{}".into() },
        StreamEvent::BlockEnd { index: 3 },
    ];
    assert_eq!(events[..expected.len()], expected);
}

#[test]
fn an_id_of_ours_is_one_that_every_api_takes() {
    let named = |name: String| json!({"functionCall": {"name": name}});
    let (message, _) =
        read(&[parts(json!([named("n".repeat(64)), named("functions.read".into())])), end("STOP")]);
    let message = message.unwrap();
    let ids: Vec<_> = message.tool_calls().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, [format!("{}_5_1", "n".repeat(40)).as_str(), "functions_read_5_2"]);
}

#[test]
fn usage_counts_thoughts_as_output_and_what_was_cached_once() {
    let chunk = json!({
        "candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 5, "thoughtsTokenCount": 7,
                          "cachedContentTokenCount": 40, "totalTokenCount": 112},
    });
    let usage = read(&[chunk]).0.unwrap().usage;
    let tokens = (usage.input, usage.output, usage.cache_read, usage.total_tokens);
    assert_eq!(tokens, (60, 12, 40, 112));
    assert!((usage.cost.total - (60.0 + 24.0 + 4.0) / 1e6).abs() < 1e-12);
    let odd = json!({"promptTokenCount": 5, "cachedContentTokenCount": 9, "totalTokenCount": 5});
    let usage = read(&[json!({"usageMetadata": odd}), end("STOP")]).0.unwrap().usage;
    assert_eq!((usage.input, usage.cache_read, usage.total_tokens), (0, 5, 5));
}

#[test]
fn every_finish_reason_has_its_stop_reason() {
    let outcome = |reason: &str| {
        let result = read(&[parts(json!([{"text": "a"}])), end(reason)]).0;
        result.map(|message| message.stop_reason)
    };
    assert_eq!(outcome("STOP").unwrap(), StopReason::Stop);
    assert_eq!(outcome("MAX_TOKENS").unwrap(), StopReason::Length);
    for (reason, kind) in [
        ("SAFETY", ProviderErrorKind::Refusal),
        ("RECITATION", ProviderErrorKind::Refusal),
        ("BLOCKLIST", ProviderErrorKind::Refusal),
        ("PROHIBITED_CONTENT", ProviderErrorKind::Refusal),
        ("SPII", ProviderErrorKind::Refusal),
        ("LANGUAGE", ProviderErrorKind::Refusal),
        ("IMAGE_SAFETY", ProviderErrorKind::Refusal),
        ("NEWFANGLED", ProviderErrorKind::Refusal),
        ("MALFORMED_FUNCTION_CALL", ProviderErrorKind::Server),
        ("MALFORMED_RESPONSE", ProviderErrorKind::Server),
        ("UNEXPECTED_TOOL_CALL", ProviderErrorKind::Server),
        ("OTHER", ProviderErrorKind::Server),
    ] {
        let error = outcome(reason).unwrap_err();
        assert_eq!((error.kind, error.partial.is_some()), (kind, true), "{reason}");
        assert_eq!(error.message, format!("The model declined to answer ({reason})"));
    }
}

#[test]
fn a_refused_prompt_and_an_error_in_the_stream_are_said() {
    let (message, _) = read(&[json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})]);
    let error = message.unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Refusal);
    assert_eq!(error.message, "The model declined to answer (PROHIBITED_CONTENT)");
    let busy = json!({"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}});
    let (message, _) = read(&[parts(json!([{"text": "half"}])), busy.clone()]);
    let error = message.unwrap_err();
    assert_eq!((error.kind, error.message), (ProviderErrorKind::Server, busy.to_string()));
}

#[test]
fn an_answer_that_is_cut_off_is_none() {
    let (message, _) = read(&[parts(json!([{"text": "half"}]))]);
    assert_eq!(message.unwrap_err().kind, ProviderErrorKind::Cut);
}
