//! Things that tests of providers start from.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::answer::Answer;
use super::reader::{Flow, Reader, conclude};
use super::sse::{Framing, SseParser};
use super::{
    Api, InputKind, ModelInfo, ModelPrice, ModelRequest, ProviderError, StreamEvent, ToolSpec,
};
use crate::protocol::message::{AgentMessage, AssistantMessage, StopReason, UserMessage};
use crate::support::{Clock, Secret};

/// A clock that stands still.
pub struct FixedClock;

impl FixedClock {
    /// Where it stands.
    pub const NOW: u64 = 5;
}

impl Clock for FixedClock {
    fn now_ms(&self) -> u64 {
        Self::NOW
    }
}

/// `mock/mock-1` with this API.
pub fn model(api: &str) -> ModelInfo {
    ModelInfo {
        provider: "mock".into(),
        id: "mock-1".into(),
        name: "Mock One".into(),
        api: Api::parse(api).unwrap(),
        base_url: "http://127.0.0.1:9/v1".into(),
        api_key: Some(Secret::new("mock-key")),
        headers: BTreeMap::new(),
        reasoning: false,
        input: vec![InputKind::Text, InputKind::Image],
        price: ModelPrice {
            input: 1.0,
            output: 2.0,
            cache_read: 0.1,
            cache_write: 0.2,
            above: None,
        },
        context_window: 200_000,
        max_tokens: 8192,
        timeout: None,
        options: Arc::default(),
    }
}

/// A request to it.
pub fn request_to(model: ModelInfo, messages: Vec<AgentMessage>) -> ModelRequest {
    ModelRequest::aside(Arc::new(model), messages, "s")
}

/// A request to the OpenAI form of it.
pub fn request(messages: Vec<AgentMessage>) -> ModelRequest {
    request_to(model("openai-completions"), messages)
}

/// The `messages` of a request to `mock/mock-1` with this API, as they go out.
pub fn wire(api: &str, messages: &[AgentMessage]) -> Vec<serde_json::Value> {
    let request = request_to(model(api), messages.to_vec());
    let mut body = match request.model.api {
        Api::AnthropicMessages => super::anthropic::body(&request),
        _ => super::openai_completions::body(&request),
    };
    match body["messages"].take() {
        serde_json::Value::Array(messages) => messages,
        other => panic!("messages are {other}"),
    }
}

/// The tool `read`, with these parameters.
pub fn read_tool(parameters: serde_json::Value) -> ToolSpec {
    ToolSpec { name: "read".into(), description: "Reads a file.".into(), parameters }
}

/// The beginning of a PNG of this size.
pub fn png(width: u32, height: u32) -> Vec<u8> {
    let start = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice();
    [start, &width.to_be_bytes(), &height.to_be_bytes()].concat()
}

/// What a user said.
pub fn user(text: &str) -> AgentMessage {
    AgentMessage::User(UserMessage::text(text, 1))
}

/// An empty answer of this model.
pub fn answer(model: &ModelInfo) -> AssistantMessage {
    let mut message = AssistantMessage::from_gateway("", FixedClock::NOW);
    message.content.clear();
    message.api = model.api.as_str().into();
    message.provider.clone_from(&model.provider);
    message.model.clone_from(&model.id);
    message.stop_reason = StopReason::Stop;
    message
}

/// A message from its JSON form.
pub fn message(value: serde_json::Value) -> AgentMessage {
    serde_json::from_value(value).unwrap()
}

/// The text of all text deltas.
pub fn streamed_text(events: &[StreamEvent]) -> String {
    events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::TextDelta { delta, .. } => Some(delta.as_str()),
            _ => None,
        })
        .collect()
}

/// What a reader makes of this text of events, and the events on the way but for what it
/// has used, which is in the message. It comes byte by byte, so that no piece of it holds a whole character or line.
pub fn replay(
    reader: impl Reader,
    model: &ModelInfo,
    text: &str,
) -> (Result<AssistantMessage, ProviderError>, Vec<StreamEvent>) {
    replay_as(Framing::Events, reader, model, text)
}

/// The same of a text with this framing.
pub fn replay_as(
    framing: Framing,
    mut reader: impl Reader,
    model: &ModelInfo,
    text: &str,
) -> (Result<AssistantMessage, ProviderError>, Vec<StreamEvent>) {
    let mut events = Vec::new();
    let mut sink = |event| {
        if !matches!(event, StreamEvent::Used(_)) {
            events.push(event);
        }
    };
    let mut answer = Answer::new(model, &mut sink, FixedClock::NOW);
    let mut parser = SseParser::new(framing, 100_000);
    let (mut bytes, mut is_whole) = (text.bytes(), false);
    loop {
        while let Some(event) = parser.next_event().unwrap() {
            match reader.read(&event, &mut answer) {
                Ok(Flow::More) => {}
                Ok(Flow::End) => return (conclude(&reader, answer, ProviderError::cut()), events),
                Err(error) => return (Err(answer.fail(error)), events),
            }
        }
        match bytes.next() {
            Some(byte) => parser.feed(&[byte]),
            None if is_whole => break,
            None => {
                parser.finish();
                is_whole = true;
            }
        }
    }
    let result = conclude(&reader, answer, ProviderError::cut());
    (result, events)
}
