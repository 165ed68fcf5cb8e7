use super::*;

use crate::support::json;

/// Byte for byte: the original's own parser may be as old as the text.
#[track_caller]
fn survives(text: &str) {
    let read: AgentMessage = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
}

#[test]
fn recorded_messages_survive_a_round_trip_to_the_byte() {
    survives(r#"{"role":"user","content":"plain","timestamp":1}"#);
    survives(
        r#"{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image","data":"AA==","mimeType":"image/png"}],"timestamp":1,"MediaPath":"/x.png"}"#,
    );
    survives(
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"hm","thinkingSignature":"s"},{"type":"text","text":"Let me look.","textSignature":"t"},{"type":"toolCall","id":"c","name":"read","arguments":{"path":"n"},"thoughtSignature":"g"}],"api":"openai-completions","provider":"mock","model":"mock-1","usage":{"input":4521,"output":1,"cacheRead":0,"cacheWrite":0,"totalTokens":4522,"cost":{"input":0.004521,"output":0.25,"cacheRead":0,"cacheWrite":0,"total":3}},"stopReason":"toolUse","timestamp":5,"responseId":"r","openclawAbort":{"x":1}}"#,
    );
    survives(
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"[Reasoning redacted]","thinkingSignature":"x","redacted":true}],"api":"a","provider":"p","model":"m","usage":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"error","timestamp":5,"responseId":"r","errorMessage":"500 boom"}"#,
    );
    survives(
        r#"{"role":"toolResult","toolCallId":"c","toolName":"read","content":[{"type":"text","text":"alpha"}],"details":{"n":1},"isError":false,"timestamp":6}"#,
    );
}

#[test]
fn members_and_blocks_that_we_do_not_know_survive_a_round_trip() {
    survives(
        r#"{"role":"user","content":[{"type":"text","text":"hi","citations":[1]},{"type":"image","data":"AA==","mimeType":"image/png","alt":"x"},{"type":"newfangled","x":[1]},"bare"],"timestamp":1,"from":{"id":7}}"#,
    );
    survives(
        r#"{"role":"toolResult","toolCallId":"c","toolName":"t","content":[{"type":"toolCall","id":"c","name":"t","arguments":{},"index":3},{"type":"thinking","thinking":"","later":null}],"isError":true,"timestamp":6,"durationMs":9}"#,
    );
    survives(
        r#"{"role":"assistant","content":[],"api":"a","provider":"p","model":"m","usage":{"input":1,"output":2,"cacheRead":0,"cacheWrite":0,"totalTokens":3,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0.5,"currency":"EUR","tiers":[1]},"reasoning":7,"cacheWrite1h":{"n":1}},"stopReason":"stop","timestamp":5,"diagnostics":[]}"#,
    );
}

#[test]
fn a_usage_without_unknown_members_takes_one_word_more() {
    let word = size_of::<usize>();
    assert_eq!(size_of::<Cost>(), 5 * 8 + word);
    assert_eq!(size_of::<Usage>(), 5 * 8 + size_of::<Cost>() + word);
    let read: Usage = serde_json::from_value(json!({"input": 1})).unwrap();
    assert!(read.extra.is_empty() && read.cost.extra.is_empty());
}

#[test]
fn what_older_writers_left_out_has_its_default() {
    let read: AgentMessage = serde_json::from_value(json!({
        "role": "assistant", "content": [], "api": "a", "provider": "p", "model": "m",
        "usage": {}, "stopReason": "stop",
    }))
    .unwrap();
    let AgentMessage::Assistant(read) = read else { panic!("{read:?}") };
    assert_eq!((read.timestamp, read.usage), (0, Usage::default()));
}

#[test]
fn every_stop_reason_has_its_word() {
    use StopReason::{Aborted, Error, Length, Stop, ToolUse};
    for (reason, word) in [
        (Stop, "stop"),
        (Length, "length"),
        (ToolUse, "toolUse"),
        (Error, "error"),
        (Aborted, "aborted"),
    ] {
        assert_eq!(serde_json::to_value(reason).unwrap(), json!(word));
        assert_eq!(reason.as_str(), word);
    }
}
