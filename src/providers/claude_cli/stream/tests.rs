use super::*;
use crate::protocol::message::AssistantMessage;
use crate::providers::testing::model;

/// Reads all lines; gives the outcome and the replies.
fn read(lines: &[Value]) -> (Result<AssistantMessage, ProviderError>, Vec<Value>) {
    let model = model("anthropic-messages");
    let mut sink = |_| {};
    let mut answer = Answer::new(&model, &mut sink, 5);
    let (mut turn, mut replies) = (Turn::default(), Vec::new());
    for line in lines {
        match turn.read(&line.to_string(), &mut answer) {
            Ok(Said::Nothing) => {}
            Ok(Said::Question(reply)) => replies.push(reply),
            Ok(Said::End(Ok(stop))) => return (Ok(answer.finish(stop)), replies),
            Ok(Said::End(Err(error))) | Err(error) => return (Err(answer.fail(error)), replies),
        }
    }
    panic!("no end");
}

fn event(event: &Value) -> Value {
    json!({"type": "stream_event", "event": event, "parent_tool_use_id": null, "uuid": "u"})
}

fn result(more: &Value) -> Value {
    let mut line = json!({"type": "result", "subtype": "success", "is_error": false});
    line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    line
}

#[test]
fn its_own_calls_of_tools_and_its_subagents_are_no_part_of_the_answer() {
    let start = |block: Value| {
        event(&json!({"type": "content_block_start", "index": 0, "content_block": block}))
    };
    let delta =
        |delta: Value| event(&json!({"type": "content_block_delta", "index": 0, "delta": delta}));
    let stop = event(&json!({"type": "content_block_stop", "index": 0}));
    let ended = |reason: &str| {
        event(&json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {}}))
    };
    let mut subagent = delta(json!({"type": "text_delta", "text": "not mine"}));
    subagent["parent_tool_use_id"] = json!("toolu_1");
    let message = event(&json!({"type": "message_start", "message": {"id": "msg_1"}}));
    let lines = [
        json!({"type": "system", "subtype": "init"}),
        message.clone(),
        start(json!({"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {}})),
        delta(json!({"type": "input_json_delta", "partial_json": "{}"})),
        stop.clone(),
        ended("tool_use"),
        subagent,
        message,
        start(json!({"type": "text", "text": ""})),
        delta(json!({"type": "text_delta", "text": "Two."})),
        stop,
        ended("end_turn"),
        result(&json!({"usage": {"input_tokens": 3, "output_tokens": 2}})),
    ];
    let message = read(&lines).0.unwrap();
    assert_eq!(message.stop_reason, StopReason::Stop);
    assert_eq!(
        serde_json::to_value(&message.content).unwrap(),
        json!([{"type": "text", "text": "Two."}])
    );
    assert_eq!((message.usage.input, message.usage.output), (3, 2));
}

#[test]
fn whole_answers_count_when_no_pieces_came() {
    let lines = [
        json!({"type": "assistant", "parent_tool_use_id": null, "message": {"content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "Two."},
        ]}}),
        result(&json!({})),
    ];
    let content = serde_json::to_value(read(&lines).0.unwrap().content).unwrap();
    assert_eq!((&content[0]["thinking"], &content[1]["text"]), (&json!("hm"), &json!("Two.")));
}

#[test]
fn what_it_wants_to_be_allowed_is_denied_and_the_rest_not_understood() {
    let asked = |subtype: &str| {
        json!({"type": "control_request", "request_id": "r1",
            "request": {"subtype": subtype, "tool_name": "Bash", "input": {}}})
    };
    let replies = read(&[asked("can_use_tool"), asked("hook_callback"), result(&json!({}))]).1;
    assert_eq!(replies[0]["response"]["response"]["behavior"], "deny");
    assert_eq!(replies[0]["response"]["request_id"], "r1");
    assert_eq!(replies[1]["response"]["subtype"], "error");
}

#[test]
fn failures_are_told_by_its_word_or_its_text() {
    use ProviderErrorKind as Kind;
    let api_error = |word: &str| json!({"type": "assistant", "error": word, "message": {}});
    let failed = |text: &str| result(&json!({"is_error": true, "result": text}));
    for (word, text, kind) in [
        ("rate_limit", "API Error: 429", Kind::RateLimit),
        ("billing_error", "Credit balance is too low", Kind::RateLimit),
        ("authentication_failed", "API Error: 401", Kind::Auth),
        ("unknown", "Invalid API key · Please run /login", Kind::Auth),
        ("invalid_request", "Prompt is too long", Kind::ContextLength),
        ("invalid_request", "API Error: 400", Kind::BadRequest),
        ("unknown", "API Error: 529 Overloaded", Kind::Overloaded),
        ("unknown", "?", Kind::Server),
    ] {
        let error = read(&[api_error(word), failed(text)]).0.unwrap_err();
        assert_eq!((error.kind, error.message), (kind, format!("claude-cli: {text}")), "{word}");
    }
    let stopped = result(&json!({"subtype": "error_max_turns", "errors": ["too many"]}));
    assert_eq!(read(&[stopped]).0.unwrap_err().message, "claude-cli: too many");
}
