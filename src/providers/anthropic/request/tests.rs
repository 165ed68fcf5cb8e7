#![allow(clippy::needless_pass_by_value)] // `json!(…)` reads best in place

use super::*;
use crate::protocol::message::AgentMessage;
use crate::providers::ThinkingLevel;
use crate::providers::testing::{message, model, png, read_tool, request_to, user};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::sync::Arc;

fn answer(content: Value) -> Value {
    json!({
        "role": "assistant", "content": content, "api": "anthropic-messages", "provider": "mock",
        "model": "mock-1", "usage": {}, "stopReason": "stop", "timestamp": 1,
    })
}

fn request(messages: Vec<AgentMessage>) -> ModelRequest {
    request_to(model("anthropic-messages"), messages)
}

fn wire(messages: &Value) -> Value {
    let messages = messages.as_array().unwrap().iter().cloned().map(message).collect();
    body(&request(messages))["messages"].clone()
}

/// The body for a model that is to think.
fn asked_to_think(messages: &[Value]) -> Value {
    let model = ModelInfo { reasoning: true, ..model("anthropic-messages") };
    let messages = messages.iter().cloned().map(message).collect();
    body(&ModelRequest { thinking: ThinkingLevel::Low, ..request_to(model, messages) })
}

#[test]
fn a_plain_request_has_every_field_of_the_original() {
    let mut request = request(vec![user("hi")]);
    request.system = Some("be nice".into());
    request.thinking = ThinkingLevel::High; // the model cannot think
    request.tools = vec![
        read_tool(json!({
            "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"],
            "additionalProperties": false,
        })),
        ToolSpec { name: "now".into(), description: String::new(), parameters: Value::Null },
    ];
    let mark = json!({"type": "ephemeral"});
    assert_eq!(
        body(&request),
        json!({
            "model": "mock-1",
            "max_tokens": 8192,
            "stream": true,
            "system": [{"type": "text", "text": "be nice", "cache_control": mark}],
            "messages": [{"role": "user", "content": [
                {"type": "text", "text": "hi", "cache_control": mark},
            ]}],
            "tools": [
                {"name": "read", "description": "Reads a file.", "input_schema": {
                    "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"],
                }},
                {"name": "now", "description": "", "input_schema": {
                    "type": "object", "properties": {}, "required": [],
                }},
            ],
        })
    );
}

#[test]
fn models_of_minimax_are_told_not_to_think() {
    let of = |provider: &str, thinking| {
        let info =
            ModelInfo { reasoning: true, provider: provider.into(), ..model("anthropic-messages") };
        let sent = body(&ModelRequest { thinking, ..request_to(info, vec![user("hi")]) });
        sent["thinking"]["type"].clone()
    };
    assert_eq!(of("minimax", ThinkingLevel::Off), "disabled");
    assert_eq!(of("minimax", ThinkingLevel::Low), "enabled");
    assert_eq!(of("mock", ThinkingLevel::Off), Value::Null);
}

#[test]
fn a_tool_keeps_the_schemas_that_its_properties_refer_to() {
    let mut request = request(vec![user("hi")]);
    let point = json!({"type": "object", "properties": {"x": {"type": "number"}}});
    let properties = json!({"at": {"$ref": "#/$defs/point"}, "to": {"$ref": "#/definitions/p"}});
    request.tools = vec![read_tool(json!({
        "type": "object", "properties": properties, "$defs": {"point": point},
        "definitions": {"p": point}, "anyOf": [{"required": ["at"]}], "$schema": "x",
    }))];
    assert_eq!(
        body(&request)["tools"][0]["input_schema"],
        json!({
            "type": "object", "properties": properties, "required": [],
            "$defs": {"point": point}, "definitions": {"p": point},
        })
    );
}

#[test]
fn thoughts_calls_and_results_take_their_places() {
    let messages = [
        json!({"role": "user", "content": "plain", "timestamp": 1}),
        answer(json!([
            {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"},
            {"type": "thinking", "thinking": "[Reasoning redacted]", "thinkingSignature": "data", "redacted": true},
            {"type": "thinking", "thinking": "unsigned"},
            {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "n"}},
            {"type": "toolCall", "id": "c2", "name": "shot", "arguments": {}},
        ])),
        json!({"role": "toolResult", "toolCallId": "c1", "toolName": "read",
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            "isError": true}),
        json!({"role": "toolResult", "toolCallId": "c2", "toolName": "shot",
            "content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}]}),
    ];
    let image = json!({
        "type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="},
    });
    assert_eq!(
        asked_to_think(&messages)["messages"],
        json!([
            {"role": "user", "content": "plain"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "redacted_thinking", "data": "data"},
                {"type": "text", "text": "unsigned"},
                {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "n"}},
                {"type": "tool_use", "id": "c2", "name": "shot", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "a\nb", "is_error": true},
                {"type": "tool_result", "tool_use_id": "c2", "is_error": false,
                 "content": [{"type": "text", "text": "(see attached image)"}, image],
                 "cache_control": {"type": "ephemeral"}},
            ]},
        ])
    );
}

#[test]
fn a_failed_call_has_text_only_and_its_pictures_follow_all_results() {
    let call = |id: &str| json!({"type": "toolCall", "id": id, "name": "shot", "arguments": {}});
    let picture = |data: &str| json!({"type": "image", "data": data, "mimeType": "image/png"});
    let result = |id: &str, content: Value, is_error: bool| {
        json!({"role": "toolResult", "toolCallId": id, "toolName": "shot", "content": content,
            "isError": is_error})
    };
    let text = |text: &str| json!({"type": "text", "text": text});
    let messages = json!([
        {"role": "user", "content": "go", "timestamp": 1},
        answer(json!([call("c1"), call("c2"), call("c3"), call("c4")])),
        result("c1", json!([text("a"), picture("AA=="), text("b")]), true),
        result("c2", json!([picture("BB==")]), true),
        result("c3", json!([text("fine"), picture("CC==")]), false),
        result("c4", json!([]), true),
    ]);
    let image = |data: &str| {
        json!({"type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": data}})
    };
    let result = |id: &str, content: Value, is_error: bool| {
        let mut result = json!({"type": "tool_result", "tool_use_id": id, "content": content});
        result["is_error"] = json!(is_error);
        result
    };
    let mut last = image("BB==");
    last["cache_control"] = json!({"type": "ephemeral"});
    assert_eq!(
        wire(&messages)[2]["content"],
        json!([
            result("c1", json!("a\nb"), true),
            result("c2", json!("(see attached image)"), true),
            result("c3", json!([text("fine"), image("CC==")]), false),
            result("c4", json!("(no output)"), true),
            image("AA=="),
            last,
        ])
    );
}

/// What is sent of pictures of these sizes, of a message each: the width of each, or `None`
/// where one was.
fn shown(sizes: &[(u32, u32)]) -> Vec<Option<u32>> {
    let data = |(width, height): &(u32, u32)| STANDARD.encode(png(*width, *height));
    let message = |size| {
        let picture = json!({"type": "image", "data": data(size), "mimeType": "image/png"});
        message(json!({"role": "user", "content": [picture], "timestamp": 1}))
    };
    let sent = body(&request(sizes.iter().map(message).collect()));
    let parts = sent["messages"][0]["content"].as_array().unwrap().iter();
    let width = |(part, size): (&Value, &(u32, u32))| {
        if part["type"] == "image" {
            assert_eq!(part["source"]["data"], data(size));
            return Some(size.0);
        }
        assert_eq!(part["text"], "(image left out: the provider does not take it)");
        None
    };
    parts.zip(sizes).map(width).collect()
}

#[test]
fn pictures_that_the_api_refuses_are_left_out() {
    assert_eq!(shown(&[(8000, 9), (8001, 9), (9, 8001)]), [Some(8000), None, None]);
    // More than twenty have to be small; the newest of the large ones stay.
    let mut sizes = vec![(2001, 9), (9, 9), (9, 2001), (2001, 9)];
    sizes.resize(20, (2000, 2000));
    let widths = |sizes: &[(u32, u32)]| sizes.iter().map(|size| Some(size.0)).collect::<Vec<_>>();
    assert_eq!(shown(&sizes), widths(&sizes));
    sizes.extend([(2001, 9), (9, 9)]);
    let mut expected = widths(&sizes);
    (expected[0], expected[2]) = (None, None);
    assert_eq!(shown(&sizes), expected);
    sizes.resize(110, (9, 9));
    let sent = shown(&sizes);
    assert_eq!((sent.iter().flatten().count(), sent[20]), (100, None));
}

/// A message with a picture of so many bytes.
fn picture_of(bytes: usize) -> Value {
    let mut data = png(1, 1);
    data.resize(bytes, 0);
    let picture = json!({"type": "image", "data": STANDARD.encode(data), "mimeType": "image/png"});
    json!({"role": "user", "content": [picture], "timestamp": 1})
}

#[test]
fn a_picture_of_too_many_bytes_is_left_out() {
    let sent = |bytes| wire(&json!([picture_of(bytes)]))[0]["content"][0]["type"].clone();
    assert_eq!((sent(3_932_160), sent(3_932_161)), (json!("image"), json!("text")));
}

#[test]
fn the_oldest_pictures_are_left_out_when_all_have_too_many_bytes_together() {
    // 4 MiB in base64, and four times 5 MiB.
    let mut messages = vec![picture_of(3_145_728)];
    messages.extend(vec![picture_of(3_932_160); 4]);
    let shown = |messages: &[Value]| {
        let sent = wire(&json!(messages));
        let parts = sent[0]["content"].as_array().unwrap().iter();
        parts.map(|part| part["type"] == "image").collect::<Vec<_>>()
    };
    assert_eq!(shown(&messages), [true; 5]);
    messages.push(picture_of(24));
    assert_eq!(shown(&messages), [false, true, true, true, true, true]);
}

#[test]
fn a_conversation_that_begins_with_a_note_gets_a_beginning() {
    let messages = json!([answer(json!([{"type": "text", "text": "note"}])), user("hi")]);
    let mark = json!({"type": "ephemeral"});
    assert_eq!(
        wire(&messages),
        json!([
            {"role": "user", "content": "(beginning of the conversation)"},
            {"role": "assistant", "content": [{"type": "text", "text": "note"}]},
            {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": mark}]},
        ])
    );
}

#[test]
fn ids_of_other_apis_are_made_to_fit() {
    let long = format!("call.1|{}", "f".repeat(90));
    let mut other =
        answer(json!([{"type": "toolCall", "id": long, "name": "read", "arguments": {}}]));
    other["api"] = json!("openai-completions");
    let messages = json!([user("hi"), other]);
    let wire = wire(&messages);
    let id = wire[1]["content"][0]["id"].as_str().unwrap();
    assert_eq!(id, format!("call_1_{}", "f".repeat(57)));
    assert_eq!(wire[2]["content"][0]["tool_use_id"], json!(id));
}

fn with_params(params: Value, level: ThinkingLevel) -> Value {
    let mut model = model("anthropic-messages");
    model.base_url = "https://api.anthropic.com".into();
    model.reasoning = true;
    Arc::make_mut(&mut model.options).params = serde_json::from_value(params).unwrap();
    let mut request = request_to(model, vec![user("hi")]);
    request.system = Some("s".into());
    request.thinking = level;
    body(&request)
}

#[test]
fn the_prompt_is_kept_in_the_cache_as_long_as_configured() {
    let marks = |retention: &str| {
        let sent = with_params(json!({"cacheRetention": retention}), ThinkingLevel::Off);
        let part = &sent["messages"][0]["content"][0];
        assert_eq!(sent["system"][0].get("cache_control"), part.get("cache_control"));
        part.get("cache_control").cloned()
    };
    assert_eq!(marks("none"), None);
    assert_eq!(marks("short"), Some(json!({"type": "ephemeral"})));
    assert_eq!(marks("long"), Some(json!({"type": "ephemeral", "ttl": "1h"})));
}

#[test]
fn temperature_is_sent_only_without_thought() {
    let params = || json!({"temperature": 0.5});
    assert_eq!(with_params(params(), ThinkingLevel::Off)["temperature"], json!(0.5));
    assert_eq!(with_params(params(), ThinkingLevel::Low).get("temperature"), None);
}

#[test]
fn a_model_that_refuses_a_temperature_gets_none() {
    let sent = |id: &str, compat: Value| {
        let mut model = ModelInfo { id: id.into(), ..model("anthropic-messages") };
        let options = Arc::make_mut(&mut model.options);
        options.params.temperature = Some(0.5);
        options.compat = serde_json::from_value(compat).unwrap();
        body(&request_to(model, vec![user("hi")])).get("temperature").is_some()
    };
    for (id, is_sent) in [
        ("claude-opus-4-6", true),
        ("claude-sonnet-4-6", true),
        ("claude-opus-4-7", false),
        ("claude-opus-5-5", false),
        ("claude-sonnet-5", false),
        ("claude-haiku-5-5", false),
        ("claude-fable-5", false),
    ] {
        assert_eq!(sent(id, json!({})), is_sent, "{id}");
    }
    assert!(sent("claude-opus-4-7", json!({"supportsTemperature": true})));
}

fn thought() -> Value {
    json!({"type": "thinking", "thinking": "hm", "thinkingSignature": "s"})
}

fn said() -> Value {
    json!({"type": "text", "text": "so"})
}

fn user_says(text: &str) -> Value {
    json!({"role": "user", "content": text, "timestamp": 1})
}

/// An answer that begins with this and calls a tool, and the result.
fn round(first: &[Value], id: &str) -> [Value; 2] {
    let call = json!({"type": "toolCall", "id": id, "name": "t", "arguments": {}});
    let content = [first, &[call]].concat();
    let result = json!({"role": "toolResult", "toolCallId": id, "toolName": "t", "content": []});
    [answer(json!(content)), result]
}

/// Whether the model is asked to think, and how many thoughts it is shown.
fn thinks(messages: &[Value]) -> (bool, usize) {
    let body = asked_to_think(messages);
    let shown = body["messages"].to_string().matches(r#""type":"thinking""#).count();
    (body.get("thinking").is_some(), shown)
}

#[test]
fn a_turn_goes_on_as_its_first_answer_began() {
    let go = [user_says("go")];
    let steer = [user_says("rather so")];
    let (with, without) = (round(&[thought()], "c1"), round(&[said()], "c1"));
    let (later_with, later_without) = (round(&[thought()], "c2"), round(&[], "c2"));
    assert_eq!(thinks(&[&go[..], &with].concat()), (true, 1));
    assert_eq!(thinks(&[&go[..], &with, &later_without].concat()), (true, 1));
    assert_eq!(thinks(&[&go[..], &without].concat()), (false, 0));
    assert_eq!(thinks(&[&go[..], &without, &later_with].concat()), (false, 0));
    // A message of the user is another turn, also behind results.
    assert_eq!(thinks(&[&go[..], &without, &steer].concat()), (true, 0));
    assert_eq!(thinks(&[&go[..], &with, &steer].concat()), (true, 1));
    assert_eq!(thinks(&[&go[..], &with, &steer, &later_without].concat()), (false, 0));
}

#[test]
fn a_request_that_asks_for_no_thought_has_none() {
    let messages = [&[user_says("go")][..], &round(&[thought(), said()], "c1")].concat();
    let sent = |reasoning| {
        let model = ModelInfo { reasoning, ..model("anthropic-messages") };
        let messages = messages.iter().cloned().map(message).collect();
        body(&request_to(model, messages))["messages"][1]["content"][0].clone()
    };
    assert_eq!(sent(true), said());
    // One that was never asked may think all the same, and want that back.
    assert_eq!(sent(false)["type"], "thinking");
}

#[test]
fn no_answer_ends_with_a_thought_and_one_that_is_nothing_else_is_not_sent() {
    let hidden = json!({
        "type": "thinking", "thinking": "x", "thinkingSignature": "d", "redacted": true,
    });
    let messages = [
        answer(json!([thought()])),
        user_says("go"),
        answer(json!([thought(), hidden])),
        user_says("on"),
        answer(json!([thought(), said(), thought(), hidden])),
        user_says("and"),
    ];
    let mark = json!({"type": "ephemeral"});
    assert_eq!(
        asked_to_think(&messages)["messages"],
        json!([
            {"role": "user", "content": [
                {"type": "text", "text": "go"}, {"type": "text", "text": "on"},
            ]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"}, said(),
            ]},
            {"role": "user", "content": [
                {"type": "text", "text": "and", "cache_control": mark},
            ]},
        ])
    );
}

#[test]
fn messages_of_one_role_in_a_row_are_one() {
    let said_after_results = [user_says("rather so"), user_says("or so")];
    let messages = [
        &[user_says("go"), answer(json!([said()])), answer(json!([said()]))][..],
        &round(&[], "c1"),
        &said_after_results,
        &[answer(json!([said()])), answer(json!([thought(), said()])), user_says("on")],
    ]
    .concat();
    let text = |text: &str| json!({"type": "text", "text": text});
    let sent = wire(&json!(messages));
    let roles = sent.as_array().unwrap().iter().map(|it| it["role"].as_str().unwrap());
    // What a model has signed keeps its place.
    let expected = ["user", "assistant", "user", "assistant", "assistant", "user"];
    assert_eq!(roles.collect::<Vec<_>>(), expected);
    let call = json!({"type": "tool_use", "id": "c1", "name": "t", "input": {}});
    assert_eq!(sent[1]["content"], json!([said(), said(), call]));
    assert_eq!(sent[2]["content"][0]["type"], "tool_result");
    let texts = [text("rather so"), text("or so")];
    assert_eq!(sent[2]["content"].as_array().unwrap()[1..], texts);
    let marked = json!({"type": "text", "text": "on", "cache_control": {"type": "ephemeral"}});
    assert_eq!(sent[5]["content"], json!([marked]));
    // The begin stays as it was when there was no more of it, but for the mark.
    let shorter = wire(&json!(messages[..messages.len() - 4]));
    let mut last = shorter[2]["content"][1].clone();
    assert_eq!(last["cache_control"], json!({"type": "ephemeral"}));
    last.as_object_mut().unwrap().remove("cache_control");
    assert_eq!((last, &shorter[1]), (text("rather so"), &sent[1]));
}
