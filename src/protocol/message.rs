//! Messages of a conversation, as transcripts and events have them.
//!
//! Members that we do not know survive a round trip: they are kept in `extra`.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

pub use extra::Extra;
pub use stop_reason::StopReason;

mod extra;
mod stop_reason;

/// The provider of what the gateway itself says.
const GATEWAY: &str = "openclaw";

/// The model of its notes and of its answers to commands.
pub const INJECTED: &str = "gateway-injected";

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
    /// Milliseconds since the epoch.
    #[serde(default)]
    pub timestamp: u64,
    /// The provider's own id of this answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// What went wrong, for `error` and `aborted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
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
            provider: GATEWAY.into(),
            model: INJECTED.into(),
            usage: Usage::default(),
            stop_reason: StopReason::Stop,
            error_message: None,
            timestamp,
            response_id: None,
            extra: Map::new(),
        }
    }

    /// Why it is no answer; `None` when it is one, be it cut or empty.
    pub fn failure(&self) -> Option<String> {
        let unknown = || "the model did not answer".to_owned();
        let why = || self.error_message.clone().unwrap_or_else(unknown);
        self.stop_reason.has_failed().then(why)
    }

    /// Whether the gateway itself has said it, and no model.
    pub fn is_from_gateway(&self) -> bool {
        self.provider == GATEWAY
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
        Self::Text(TextBlock {
            kind: TextTag::Text,
            text: text.into(),
            text_signature: None,
            extra: Map::new(),
        })
    }

    /// A thinking block.
    pub fn thinking(thinking: impl Into<String>) -> Self {
        Self::Thinking(ThinkingBlock {
            kind: ThinkingTag::Thinking,
            thinking: thinking.into(),
            thinking_signature: None,
            redacted: None,
            extra: Map::new(),
        })
    }

    /// An image block; `data` is base64.
    pub fn image(data: impl Into<String>, mime_type: impl Into<String>) -> Self {
        Self::Image(ImageBlock {
            kind: ImageTag::Image,
            data: data.into(),
            mime_type: mime_type.into(),
            extra: Map::new(),
        })
    }

    /// A tool call.
    pub fn tool_call(id: impl Into<String>, name: impl Into<String>, arguments: Value) -> Self {
        Self::ToolCall(ToolCall {
            kind: ToolCallTag::ToolCall,
            id: id.into(),
            name: name.into(),
            arguments,
            fault: None,
            thought_signature: None,
            extra: Map::new(),
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
    /// Members that we do not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
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
    /// What the provider wants back with it, unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_signature: Option<String>,
    /// Whether the provider hid the thought; the payload is the signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redacted: Option<bool>,
    /// Members that we do not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
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
    /// Members that we do not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
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
    /// Why what the model wrote as arguments could not be read; nobody stores it.
    #[serde(skip)]
    pub fault: Option<String>,
    /// Signature that some providers want back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thought_signature: Option<String>,
    /// Members that we do not know.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
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

/// All text blocks.
pub fn texts_of(blocks: &[ContentBlock]) -> impl Iterator<Item = &str> {
    blocks.iter().filter_map(|block| match block {
        ContentBlock::Text(block) => Some(block.text.as_str()),
        _ => None,
    })
}

/// All text blocks, joined without separator.
pub fn text_of(blocks: &[ContentBlock]) -> String {
    texts_of(blocks).collect()
}

/// Tokens of one model call, and what they cost.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
    /// Members that we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Usage {
    /// Takes in what another call has used.
    pub fn grow(&mut self, more: &Self) {
        self.input += more.input;
        self.output += more.output;
        self.cache_read += more.cache_read;
        self.cache_write += more.cache_write;
        self.total_tokens += more.total_tokens;
        self.cost.input += more.cost.input;
        self.cost.output += more.cost.output;
        self.cost.cache_read += more.cost.cache_read;
        self.cost.cache_write += more.cost.cache_write;
        self.cost.total += more.cost.total;
    }
}

/// Price of one model call in US dollars.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cost {
    /// For [`Usage::input`].
    #[serde(serialize_with = "as_javascript")]
    pub input: f64,
    /// For [`Usage::output`].
    #[serde(serialize_with = "as_javascript")]
    pub output: f64,
    /// For [`Usage::cache_read`].
    #[serde(serialize_with = "as_javascript")]
    pub cache_read: f64,
    /// For [`Usage::cache_write`].
    #[serde(serialize_with = "as_javascript")]
    pub cache_write: f64,
    /// The sum.
    #[serde(serialize_with = "as_javascript")]
    pub total: f64,
    /// Members that we do not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A number as the original writes it: `0`, not `0.0`.
#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes it so
fn as_javascript<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    let text = number.to_string();
    match text.parse::<u64>() {
        Ok(whole) => serializer.serialize_u64(whole),
        Err(_) => serializer.serialize_f64(*number),
    }
}

#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod tests;
