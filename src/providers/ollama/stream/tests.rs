use super::*;
use crate::protocol::message::AssistantMessage;
use crate::providers::ProviderErrorKind;
use crate::providers::StreamEvent;
use crate::providers::sse::Framing;
use crate::providers::testing::{model, replay_as};
use crate::support::json;

type Outcome = (Result<AssistantMessage, ProviderError>, Vec<StreamEvent>);

fn read(lines: &[&str]) -> Outcome {
    replay_as(Framing::Lines, Chunks::default(), &model("ollama"), &lines.join("\n"))
}

const DONE: &str = r#"{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":30,"eval_count":7}"#;

#[test]
fn thought_and_text_are_streamed_and_counted() {
    let (message, events) = read(&[
        r#"{"message":{"role":"assistant","content":"","thinking":"h"},"done":false}"#,
        r#"{"message":{"role":"assistant","content":"","thinking":"m"},"done":false}"#,
        r#"{"message":{"role":"assistant","content":"Hé"},"done":false}"#,
        DONE,
    ]);
    let message = message.unwrap();
    assert_eq!(
        serde_json::to_value(&message.content).unwrap(),
        json!([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Hé"}])
    );
    assert_eq!(message.stop_reason, StopReason::Stop);
    let usage = message.usage;
    assert_eq!((usage.input, usage.output, usage.total_tokens), (30, 7, 37));
    assert_eq!(
        events,
        [
            StreamEvent::ThinkingStart { index: 0 },
            StreamEvent::ThinkingDelta { index: 0, delta: "h".into() },
            StreamEvent::ThinkingDelta { index: 0, delta: "m".into() },
            StreamEvent::BlockEnd { index: 0 },
            StreamEvent::TextStart { index: 1 },
            StreamEvent::TextDelta { index: 1, delta: "Hé".into() },
            StreamEvent::BlockEnd { index: 1 },
        ]
    );
}

#[test]
fn calls_come_before_the_last_line_and_get_ids_of_their_own() {
    let (message, _) = read(&[
        r#"{"message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"read","arguments":{"id":1234567890123456789}}},{"function":{"name":"now"}}]},"done":false}"#,
        DONE,
    ]);
    let message = message.unwrap();
    assert_eq!(message.stop_reason, StopReason::ToolUse);
    let calls: Vec<_> = message.tool_calls().collect();
    assert_eq!(calls[0].arguments, json!({"id": "1234567890123456789"}));
    assert_eq!((calls[1].name.as_str(), &calls[1].arguments), ("now", &json!({})));
    assert!(calls[0].id.starts_with("ollama_call_") && calls[0].id != calls[1].id);
}

#[test]
fn every_end_has_its_stop_reason() {
    let (message, _) = read(&[r#"{"message":{"content":"a"},"done":true,"done_reason":"length"}"#]);
    assert_eq!(message.unwrap().stop_reason, StopReason::Length);
    let (message, _) = read(&[r#"{"message":{"content":"half"},"done":false}"#]);
    let error = message.unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Cut);
    assert_eq!(error.partial.unwrap().content.len(), 1);
}

#[test]
fn an_error_in_the_stream_and_garbage_are_said() {
    let (message, _) = read(&[r#"{"message":{"content":"half"}}"#, r#"{"error":"out of memory"}"#]);
    let error = message.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ProviderErrorKind::Server, "out of memory"));
    // As servers write it that stand before Ollama.
    let busy = read(&[r#"{"error":{"message":"busy","code":503}}"#]).0.unwrap_err();
    assert_eq!((busy.kind, busy.message.as_str()), (ProviderErrorKind::Server, "busy"));
    assert_eq!(read(&["<html>"]).0.unwrap_err().kind, ProviderErrorKind::Protocol);
}
