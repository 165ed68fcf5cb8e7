//! Messages of a conversation, as the original's transcripts hold them.
//!
//! Members that we do not know survive a round trip: they are kept in `extra`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One message of a conversation, told apart by `role`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "camelCase")]
pub enum AgentMessage {
    /// What a person (or a program in that place) said.
    User(UserMessage),
    /// What the model said.
    Assistant(AssistantMessage),
    /// What a tool answered.
    ToolResult(ToolResultMessage),
}

impl AgentMessage {
    /// Milliseconds since the epoch.
    pub const fn timestamp(&self) -> u64 {
        match self {
            Self::User(message) => message.timestamp,
            Self::Assistant(message) => message.timestamp,
            Self::ToolResult(message) => message.timestamp,
        }
    }

    /// All text blocks, joined without separator.
    pub fn text(&self) -> String {
        match self {
            Self::User(message) => message.content.text(),
            Self::Assistant(message) => text_of(&message.content),
            Self::ToolResult(message) => text_of(&message.content),
        }
    }
}

/// A message of role `user`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    /// Text or blocks.
    pub content: UserContent,
    /// Milliseconds since the epoch.
    #[serde(default)]
    pub timestamp: u64,
    /// Members that we do not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl UserMessage {
    /// A message of one text block.
    pub fn text(text: impl Into<String>, timestamp: u64) -> Self {
        Self {
            content: UserContent::Blocks(vec![ContentBlock::text(text)]),
            timestamp,
            extra: Map::new(),
        }
    }
}

/// Content of a user message: a plain string or blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum UserContent {
    /// Only text.
    Text(String),
    /// Text and images.
    Blocks(Vec<ContentBlock>),
}

impl UserContent {
    /// All text, joined without separator.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => text_of(blocks),
        }
    }
}

/// A message of role `assistant`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssistantMessage {
    /// Text, thinking and tool calls in the order the model gave them.
    pub content: Vec<ContentBlock>,
    /// Which API it came through, such as `openai-completions`.
    pub api: String,
    /// Provider id of the configuration.
    pub provider: String,
    /// Model id at that provider.
    pub model: String,
    /// Tokens and price.
    pub usage: Usage,
    /// Why the model stopped.
    pub stop_reason: StopReason,
    /// What went wrong, for `error` and `aborted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Milliseconds since the epoch.
    #[serde(default)]
    pub timestamp: u64,
    /// The provider's own id of this answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// Members that we do not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl AssistantMessage {
    /// An answer that the gateway itself gives (commands, injected notes).
    pub fn from_gateway(text: impl Into<String>, timestamp: u64) -> Self {
        Self {
            content: vec![ContentBlock::text(text)],
            api: "openai-responses".into(),
            provider: "openclaw".into(),
            model: "gateway-injected".into(),
            usage: Usage::default(),
            stop_reason: StopReason::Stop,
            error_message: None,
            timestamp,
            response_id: None,
            extra: Map::new(),
        }
    }

    /// The tool calls in it, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(|block| match block {
            ContentBlock::ToolCall(call) => Some(call),
            _ => None,
        })
    }
}

/// A message of role `toolResult`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultMessage {
    /// The call that this answers.
    pub tool_call_id: String,
    /// Name of the tool.
    pub tool_name: String,
    /// What the model gets to see.
    pub content: Vec<ContentBlock>,
    /// For clients and for the record; the model does not see it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// Whether the tool failed.
    #[serde(default)]
    pub is_error: bool,
    /// Milliseconds since the epoch.
    #[serde(default)]
    pub timestamp: u64,
    /// Members that we do not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ContentBlock {
    /// Plain text.
    Text(TextBlock),
    /// What the model thought.
    Thinking(ThinkingBlock),
    /// A picture.
    Image(ImageBlock),
    /// A call of a tool.
    ToolCall(ToolCall),
    /// A block of a type that we do not know, kept as it is.
    Unknown(Value),
}

impl ContentBlock {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextBlock { kind: TextTag::Text, text: text.into(), text_signature: None })
    }

    /// A thinking block.
    pub fn thinking(thinking: impl Into<String>) -> Self {
        Self::Thinking(ThinkingBlock {
            kind: ThinkingTag::Thinking,
            thinking: thinking.into(),
            thinking_signature: None,
            redacted: None,
        })
    }

    /// An image block; `data` is base64.
    pub fn image(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Image(ImageBlock {
            kind: ImageTag::Image,
            data: data.into(),
            mime_type: mime_type.into(),
        })
    }

    /// A tool call.
    pub fn tool_call(id: impl Into<String>, name: impl Into<String>, arguments: Value) -> Self {
        Self::ToolCall(ToolCall {
            kind: ToolCallTag::ToolCall,
            id: id.into(),
            name: name.into(),
            arguments,
            thought_signature: None,
        })
    }
}

/// `{type:"text", text}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TextBlock {
    /// Always `text`.
    #[serde(rename = "type")]
    pub kind: TextTag,
    /// The text.
    pub text: String,
    /// Provider's id or signature of this block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_signature: Option<String>,
}

/// `{type:"thinking", thinking}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThinkingBlock {
    /// Always `thinking`.
    #[serde(rename = "type")]
    pub kind: ThinkingTag,
    /// The thought.
    pub thinking: String,
    /// What the provider wants back with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_signature: Option<String>,
    /// Whether the provider hid the thought; the payload is the signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redacted: Option<bool>,
}

/// `{type:"image", data, mimeType}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageBlock {
    /// Always `image`.
    #[serde(rename = "type")]
    pub kind: ImageTag,
    /// Base64.
    pub data: String,
    /// Such as `image/png`.
    pub mime_type: String,
}

/// `{type:"toolCall", id, name, arguments}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Always `toolCall`.
    #[serde(rename = "type")]
    pub kind: ToolCallTag,
    /// The provider's id of the call.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// What the model passes; an object.
    pub arguments: Value,
    /// Signature that some providers want back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thought_signature: Option<String>,
}

macro_rules! tag {
    ($($(#[$doc:meta])* $name:ident = $variant:ident $wire:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $name {
            /// The only value.
            #[serde(rename = $wire)]
            $variant,
        }
    )*};
}

tag! {
    /// `type` of a text block.
    TextTag = Text "text";
    /// `type` of a thinking block.
    ThinkingTag = Thinking "thinking";
    /// `type` of an image block.
    ImageTag = Image "image";
    /// `type` of a tool call.
    ToolCallTag = ToolCall "toolCall";
}

/// All text blocks, joined without separator.
pub fn text_of(blocks: &[ContentBlock]) -> String {
    blocks
        .iter()
        .filter_map(|block| match block {
            ContentBlock::Text(block) => Some(block.text.as_str()),
            _ => None,
        })
        .collect()
}

/// Tokens of one model call, and what they cost.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Prompt tokens that were not served from a cache.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
    /// Prompt tokens read from the provider's cache.
    pub cache_read: u64,
    /// Prompt tokens written to the provider's cache.
    pub cache_write: u64,
    /// All of them, by the provider's own count where it gives one.
    pub total_tokens: u64,
    /// Price in US dollars.
    pub cost: Cost,
}

/// Price of one model call in US dollars.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cost {
    /// For [`Usage::input`].
    pub input: f64,
    /// For [`Usage::output`].
    pub output: f64,
    /// For [`Usage::cache_read`].
    pub cache_read: f64,
    /// For [`Usage::cache_write`].
    pub cache_write: f64,
    /// The sum.
    pub total: f64,
}

/// Why an assistant message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    /// It was finished.
    Stop,
    /// The token limit was reached.
    Length,
    /// It waits for tools.
    ToolUse,
    /// It failed.
    Error,
    /// Somebody stopped it.
    Aborted,
}

impl StopReason {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolUse => "toolUse",
            Self::Error => "error",
            Self::Aborted => "aborted",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn survives(message: &Value) {
        let read: AgentMessage = serde_json::from_value(message.clone()).unwrap();
        assert_eq!(&serde_json::to_value(read).unwrap(), message);
    }

    #[test]
    fn recorded_messages_survive_a_round_trip() {
        survives(&json!({"role": "user", "content": "plain", "timestamp": 1}));
        survives(&json!({
            "role": "user",
            "content": [{"type": "text", "text": "hi"}, {"type": "image", "data": "AA==", "mimeType": "image/png"}],
            "timestamp": 1, "MediaPath": "/x.png",
        }));
        survives(&json!({
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "thinkingSignature": "s"},
                {"type": "text", "text": "Let me look.", "textSignature": "t"},
                {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "n"}},
                {"type": "newfangled", "x": [1]},
            ],
            "api": "openai-completions", "provider": "mock", "model": "mock-1",
            "usage": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 3,
                "cost": {"input": 0.1, "output": 0.2, "cacheRead": 0.0, "cacheWrite": 0.0, "total": 0.3}},
            "stopReason": "toolUse", "timestamp": 5, "responseId": "r", "openclawAbort": {"x": 1},
        }));
        survives(&json!({
            "role": "toolResult", "toolCallId": "c", "toolName": "read",
            "content": [{"type": "text", "text": "alpha"}], "details": {"n": 1}, "isError": false, "timestamp": 6,
        }));
    }
}
