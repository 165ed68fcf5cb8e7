use super::*;
use crate::protocol::message::AssistantMessage;
use crate::providers::testing::{model, streamed_text};

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

const FRANCE: &str = "The capital of France is Paris.";

/// A message that begins with these pieces of text.
fn begun(id: &str, pieces: &[&str]) -> Vec<Value> {
    let mut lines = vec![
        event(&json!({"type": "message_start", "message": {"id": id}})),
        event(&json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "text", "text": ""}})),
    ];
    lines.extend(pieces.iter().map(|text| {
        event(&json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": text}}))
    }));
    lines
}

fn ended(reason: &str) -> Vec<Value> {
    vec![
        event(&json!({"type": "content_block_stop", "index": 0})),
        event(&json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {}})),
        event(&json!({"type": "message_stop"})),
    ]
}

/// A message of the CLI's own tool.
fn tool(id: &str) -> Vec<Value> {
    let mut lines = vec![
        event(&json!({"type": "message_start", "message": {"id": id}})),
        event(&json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "tool_use", "id": "t1", "name": "Read", "input": {}}})),
    ];
    lines.extend(ended("tool_use"));
    lines
}

fn whole(id: &str, text: &str) -> Value {
    json!({"type": "assistant", "parent_tool_use_id": null,
        "message": {"id": id, "content": [{"type": "text", "text": text}]}})
}

fn retry() -> Value {
    json!({"type": "system", "subtype": "api_retry", "attempt": 1, "error": "overloaded"})
}

/// What the answer is, and which text was told on the way.
fn answered(parts: &[&[Value]], said: &str) -> (Result<Value, ProviderErrorKind>, String) {
    let lines = [parts.concat(), vec![result(&json!({"result": said}))]].concat();
    let model = model("anthropic-messages");
    let mut events = Vec::new();
    let mut sink = |event| events.push(event);
    let mut answer = Answer::new(&model, &mut sink, 5);
    let mut turn = Turn::default();
    let mut read = || {
        for line in &lines {
            if let Said::End(outcome) = turn.read(&line.to_string(), &mut answer)? {
                return outcome;
            }
        }
        panic!("no end");
    };
    let outcome = read();
    let outcome = match outcome {
        Ok(stop) => Ok(serde_json::to_value(answer.finish(stop).content).unwrap()),
        Err(error) => Err(answer.fail(error).kind),
    };
    (outcome, streamed_text(&events))
}

#[test]
fn a_message_that_is_begun_again_is_told_once() {
    let half: &[Value] = &begun("msg_1", &["The capital ", "of Fra"]);
    let again = [
        begun("msg_2", &["The ", "capital of France", " is Paris."]),
        vec![whole("msg_2", FRANCE)],
        ended("end_turn"),
    ]
    .concat();
    let broken_again = begun("msg_3", &["The cap"]);
    let ways: [&[&[Value]]; 6] = [
        &[half, &[retry()], &again],
        &[half, &again],
        &[half, &broken_again, &[retry()], &again],
        &[half, &[whole("msg_2", FRANCE)]],
        // The last word of the CLI is all that is left of the second message.
        &[half],
        &[half, &[whole("msg_1", "The capital of Fra")]],
    ];
    let text = json!([{"type": "text", "text": FRANCE}]);
    for (number, way) in ways.into_iter().enumerate() {
        assert_eq!(answered(way, FRANCE), (Ok(text.clone()), FRANCE.to_owned()), "{number}");
    }
}

#[test]
fn thoughts_of_a_message_that_is_begun_again_do_not_part_its_text() {
    let thought = |id: &str, text: &str| {
        vec![
            event(&json!({"type": "message_start", "message": {"id": id}})),
            event(&json!({"type": "content_block_start", "index": 0,
                "content_block": {"type": "thinking", "thinking": "", "signature": ""}})),
            event(&json!({"type": "content_block_delta", "index": 0,
                "delta": {"type": "thinking_delta", "thinking": text}})),
            event(&json!({"type": "content_block_stop", "index": 0})),
        ]
    };
    let first = [thought("msg_1", "hm"), begun("msg_1", &["The cap"])[1..].to_vec()].concat();
    let second = [
        thought("msg_2", "well"),
        begun("msg_2", &["The capital."])[1..].to_vec(),
        ended("end_turn"),
    ]
    .concat();
    let (content, _) = answered(&[&first, &second], "The capital.");
    assert_eq!(
        content,
        Ok(
            json!([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "The capital."}])
        )
    );
}

#[test]
fn a_message_that_begins_again_with_another_text_is_no_answer() {
    let half: &[Value] = &begun("msg_1", &["The capital of Fra"]);
    let other = [begun("msg_2", &["It is Paris."]), ended("end_turn")].concat();
    let short = [begun("msg_2", &["The capital"]), ended("end_turn")].concat();
    let ways: [&[&[Value]]; 6] = [
        &[half, &[retry()], &other],
        &[half, &short],
        &[half, &tool("msg_2")],
        &[half, &[whole("msg_2", "It is Paris.")]],
        &[half, &[whole("msg_2", "The capital")]],
        // Nothing but its last word.
        &[half],
    ];
    for (number, way) in ways.into_iter().enumerate() {
        let expected = (Err(ProviderErrorKind::Cut), "The capital of Fra".to_owned());
        assert_eq!(answered(way, "It is Paris."), expected, "{number}");
    }
}

#[test]
fn what_the_cli_says_itself_is_no_message() {
    let mut failure = whole("own", "API Error: overloaded");
    failure["message"]["model"] = json!("<synthetic>");
    let half: &[Value] = &begun("msg_1", &["The capital of Fra"]);
    let all = [begun("msg_1", &[FRANCE]), ended("end_turn")].concat();
    for way in [half, &all] {
        let expected = (Ok(json!([{"type": "text", "text": FRANCE}])), FRANCE.to_owned());
        assert_eq!(answered(&[way, &[failure.clone()]], FRANCE), expected);
    }
}

#[test]
fn each_message_counts_whether_it_comes_in_pieces_or_whole() {
    let text = |texts: &[&str]| {
        let blocks = texts.iter().map(|text| json!({"type": "text", "text": text}));
        Ok(blocks.collect::<Value>())
    };
    let look = [begun("msg_1", &["I look. "]), ended("tool_use")].concat();
    let last = [begun("msg_2", &[FRANCE]), ended("end_turn")].concat();
    // The second message is no repetition of the first one, whatever it says.
    let same = [begun("msg_2", &["I look. "]), ended("end_turn")].concat();
    assert_eq!(answered(&[&look, &last], FRANCE).0, text(&["I look. ", FRANCE]));
    assert_eq!(answered(&[&look, &same], "I look. ").0, text(&["I look. ", "I look. "]));
    assert_eq!(
        answered(&[&look, &[whole("msg_2", FRANCE)]], FRANCE).0,
        text(&["I look. ", FRANCE])
    );
    let two = [whole("msg_1", "I look. "), whole("msg_2", FRANCE)];
    assert_eq!(answered(&[&two], FRANCE).0, text(&["I look. ", FRANCE]));
    assert_eq!(answered(&[&tool("msg_1"), &[whole("msg_2", FRANCE)]], FRANCE).0, text(&[FRANCE]));
    // Where nothing else came of it, its last word is the answer.
    assert_eq!(answered(&[&tool("msg_1")], FRANCE).0, text(&[FRANCE]));
    assert_eq!(answered(&[&tool("msg_1")], "").0, text(&[]));
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

/// The answer to messages that break off after these pieces of JSON text, and what was told.
fn broken_off(messages: &[&[&str]]) -> (Value, String) {
    let model = model("anthropic-messages");
    let mut events = Vec::new();
    let mut sink = |event| events.push(event);
    let mut answer = Answer::new(&model, &mut sink, 5);
    let mut turn = Turn::default();
    let line = |event: &str| format!(r#"{{"type":"stream_event","event":{{{event}}}}}"#);
    let mut lines = Vec::new();
    for pieces in messages {
        lines.push(line(r#""type":"message_start","message":{"id":"msg_1"}"#));
        lines.push(line(r#""type":"content_block_start","content_block":{"type":"text"}"#));
        lines.extend(pieces.iter().map(|text| {
            let delta = format!(r#"{{"type":"text_delta","text":"{text}"}}"#);
            line(&format!(r#""type":"content_block_delta","delta":{delta}"#))
        }));
    }
    lines.push(r#"{"type":"result","subtype":"success","result":"Hi 😀!"}"#.to_owned());
    for line in &lines {
        assert!(turn.read(line, &mut answer).is_ok(), "{line}");
    }
    let content = serde_json::to_value(answer.finish(StopReason::Stop).content).unwrap();
    (content, streamed_text(&events))
}

#[test]
fn a_character_that_is_cut_between_two_lines_is_whole_and_told_once() {
    let cut: &[&str] = &[r"Hi \ud83d", r"\ude00!"];
    let ways: [&[&[&str]]; 6] = [
        &[&[r"Hi \ud83d", r"\ude00"]],
        &[cut],
        // It broke off in the middle, and the last word has it whole.
        &[&[r"Hi \ud83d"]],
        // Begun again, cut in the same place, in another and in none.
        &[cut, cut],
        &[&[r"Hi \ud83d"], cut],
        &[cut, &["H", r"i \ud83d\ude00!"]],
    ];
    for (number, way) in ways.into_iter().enumerate() {
        let expected = json!([{"type": "text", "text": "Hi 😀!"}]);
        assert_eq!(broken_off(way), (expected, "Hi 😀!".to_owned()), "{number}");
    }
}

#[test]
fn of_what_was_said_only_half_a_character_is_kept_beside_what_was_told() {
    let model = model("anthropic-messages");
    let mut sink = |_| {};
    let mut answer = Answer::new(&model, &mut sink, 5);
    let mut turn = Turn::default();
    for (piece, kept) in [
        ("Hi ", ""),
        ("you \u{fdd0}d83d", "\u{fdd0}d83d"),
        ("\u{fdd0}de00\u{fdd0}d83d", "\u{fdd0}d83d"),
        ("!", ""),
    ] {
        assert!(turn.say(piece, &mut answer).is_ok(), "{piece}");
        assert_eq!(turn.heard, kept, "{piece}");
    }
    assert_eq!(turn.told, "Hi you 😀!");
}

#[test]
fn an_answer_is_one_though_its_end_says_nothing_of_some_numbers() {
    let more = json!({"result": "Done.", "errors": null, "usage": {"input_tokens": null,
        "output_tokens": 2, "cache_read_input_tokens": 1.5}});
    let message = read(&[result(&more)]).0.unwrap();
    assert_eq!((message.usage.input, message.usage.output), (0, 2));
    assert_eq!(message.stop_reason, StopReason::Stop);
}
