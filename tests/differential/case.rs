//! What a case consists of, and the conversations that all APIs share.

use serde_json::{Value, json};

/// One answer of the provider.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// All of its body.
    pub body: String,
}

impl Answer {
    /// Server-sent events, named as Anthropic and the Responses API name them.
    pub fn events(events: &[Value]) -> Self {
        let event = |event: &Value| match event["type"].as_str() {
            Some(name) => format!("event: {name}\ndata: {event}\n\n"),
            None => format!("data: {event}\n\n"),
        };
        Self { status: 200, body: events.iter().map(event).collect() }
    }

    /// The same, with the end that the Completions API has.
    pub fn chunks(chunks: &[Value]) -> Self {
        let mut answer = Self::events(chunks);
        answer.body.push_str("data: [DONE]\n\n");
        answer
    }

    /// An error.
    pub fn error(status: u16, body: &Value) -> Self {
        Self { status, body: body.to_string() }
    }
}

/// A call of a model, and what the provider answers.
#[derive(Debug, Clone)]
pub struct Case {
    /// Begins with the name of the API.
    pub name: String,
    /// As pi-ai describes models, without `baseUrl`.
    pub model: Value,
    /// What follows the address of the server.
    pub path: &'static str,
    /// `{systemPrompt, messages, tools}`.
    pub context: Value,
    /// Options of pi-ai's `streamSimple`, without the key.
    pub options: Value,
    /// What the provider answers, one for each attempt.
    pub answers: Vec<Answer>,
}

impl Case {
    /// The same with other members of the model.
    pub fn model(mut self, more: &Value) -> Self {
        merge(&mut self.model, more);
        self
    }

    /// The same with these options, too.
    pub fn options(mut self, options: Value) -> Self {
        merge(&mut self.options, &options);
        self
    }

    /// The same under another name.
    pub fn named(mut self, name: &str) -> Self {
        let (api, _) = self.name.split_once(' ').unwrap();
        self.name = format!("{api} {name}");
        self
    }

    /// The same with this conversation.
    pub fn context(mut self, context: Value) -> Self {
        self.context = context;
        self
    }

    /// The same with these answers.
    pub fn answers(mut self, answers: impl Into<Vec<Answer>>) -> Self {
        self.answers = answers.into();
        self
    }
}

fn merge(into: &mut Value, more: &Value) {
    for (name, value) in more.as_object().unwrap() {
        into[name] = value.clone();
    }
}

/// The plainest case of an API.
pub fn case(api: &'static str, provider: &str, path: &'static str, answer: Answer) -> Case {
    Case {
        name: format!("{api} text"),
        model: json!({
            "id": "mock-1", "name": "Mock One", "api": api, "provider": provider, "reasoning": false,
            "input": ["text", "image"],
            "cost": {"input": 1.25, "output": 10, "cacheRead": 0.125, "cacheWrite": 1.5},
            "contextWindow": 200_000, "maxTokens": 64_000,
        }),
        path,
        context: json!({
            "systemPrompt": "be nïce 😀",
            "messages": [user(json!("hi"))],
            "tools": [tool()],
        }),
        options: json!({"sessionId": "session-1"}),
        answers: vec![answer],
    }
}

/// Plain enough for every API.
pub fn tool() -> Value {
    json!({"name": "read", "description": "Reads a file.", "parameters": {
        "type": "object", "properties": {"path": {"type": "string", "description": "which"}},
        "required": ["path"],
    }})
}

pub fn user(content: Value) -> Value {
    json!({"role": "user", "content": content, "timestamp": 1})
}

pub fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

pub fn image() -> Value {
    json!({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"})
}

pub fn call(id: &str, more: &Value) -> Value {
    let mut call =
        json!({"type": "toolCall", "id": id, "name": "read", "arguments": {"path": "é", "n": 1.5}});
    merge(&mut call, more);
    call
}

pub fn result(id: &str, content: Value, is_error: bool) -> Value {
    json!({
        "role": "toolResult", "toolCallId": id, "toolName": "read", "content": content,
        "details": {"secret": 1}, "isError": is_error, "timestamp": 3,
    })
}

/// An answer of this model; `api/provider/model`.
pub fn answer(from: [&str; 3], stop: &str, content: Value) -> Value {
    json!({
        "role": "assistant", "content": content, "api": from[0], "provider": from[1], "model": from[2],
        "usage": {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2,
                  "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}},
        "stopReason": stop, "timestamp": 2,
    })
}

/// A conversation with an answer in the middle whose calls have all results.
pub fn with_results(answer: Value, ids: [&str; 2]) -> Value {
    json!({
        "systemPrompt": "s",
        "messages": [
            user(json!([text("look"), image(), text(" ")])),
            answer,
            result(ids[0], json!([text("one"), text("two")]), false),
            result(ids[1], json!([image()]), true),
            user(json!("go on")),
        ],
        "tools": [tool()],
    })
}

/// What other models leave behind: thoughts, hidden thoughts, signatures, ids
/// of other kinds, answers that failed, calls without results.
pub fn foreign_history() -> Value {
    let other = ["openai-responses", "elsewhere", "other-1"];
    let item = r#"{"type":"reasoning","id":"rs_1","summary":[]}"#;
    json!({
        "messages": [
            user(json!("begin")),
            answer(other, "toolUse", json!([
                {"type": "thinking", "thinking": "a thought", "thinkingSignature": item},
                {"type": "thinking", "thinking": "", "thinkingSignature": item},
                {"type": "thinking", "thinking": "[Reasoning redacted]", "thinkingSignature": "x", "redacted": true},
                {"type": "text", "text": "said", "textSignature": "msg_1"},
                call("call_1|fc+/=1", &json!({"thoughtSignature": "c2ln"})),
            ])),
            result("call_1|fc+/=1", json!([text("one")]), false),
            answer(other, "error", json!([text("half")])),
            answer(other, "aborted", json!([call("call_9|fc_9", &json!({}))])),
            answer(other, "toolUse", json!([call("call_2|fc_2", &json!({}))])),
            user(json!("never mind")),
        ],
    })
}
