//! Model APIs behind one trait.
//!
//! Owns: requests to model providers, their streams, retry, usage, the model
//! catalogue. Promises: a stream can be dropped at any await, and what has
//! been streamed is never lost by an error. Must not: know about sessions (but for
//! what people see of a text), runs or sockets.

mod adapters;
mod answer;
mod anthropic;
mod api;
mod briefing;
mod call_watch;
mod catalog;
mod claude_cli;
mod compose;
pub mod credentials;
mod effort;
mod embeddings;
mod error;
mod failover;
mod google;
mod halves;
mod http;
mod json;
mod offline;
mod ollama;
mod openai_completions;
mod openai_responses;
mod overflow;
mod parts;
mod pictures;
mod probe;
mod reader;
mod refusals;
mod retry;
pub mod schema;
mod scrub;
pub mod sse;
#[cfg(test)]
pub(crate) mod testing;
mod thoughts;
mod wishes;

pub use adapters::Adapters;
pub use briefing::Briefing;
pub use catalog::{
    Api, Catalog, CatalogError, CatalogSources, Choice, InputKind, MissingModel, ModelInfo,
    ModelPrice, ModelRef, NameError, OFFLINE_MODEL, OFFLINE_PROVIDER, PriceStep, ProviderInfo,
    View, key_in_environment, known_provider, known_providers, ollama_address,
};
pub use claude_cli::forget_prompts;
pub use embeddings::{EmbeddingModel, EmbeddingSettings, Embeddings, EmbeddingsRefused};
pub use error::{ErrorStyle, ProviderError, ProviderErrorKind, text_for_people};
pub use failover::{Attempt, Failover, FallbackNotice, Route};
pub use http::{Clients, HttpLimits, is_loopback, root_cause};
pub use pictures::{PictureSize, picture_fits};
pub use probe::{ProbeFailure, probe};
pub use retry::{RetryNotice, RetryPolicy};
pub use wishes::AnswerWishes;

use serde_json::Value;

use crate::protocol::message::{AgentMessage, AssistantMessage, Usage};
use crate::support::BoxFuture;

/// How hard the model should think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum ThinkingLevel {
    /// Not at all.
    #[default]
    Off,
    /// The least the model offers.
    Minimal,
    /// A little.
    Low,
    /// Some.
    Medium,
    /// A lot.
    High,
    /// The most, where a model has it.
    XHigh,
}

impl ThinkingLevel {
    /// The level with this name (`off … xhigh`).
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "off" => Self::Off,
            "minimal" => Self::Minimal,
            "low" => Self::Low,
            "medium" => Self::Medium,
            "high" => Self::High,
            "xhigh" => Self::XHigh,
            _ => return None,
        })
    }

    /// The level that somebody means by this word: its name in any case, or another word that
    /// OpenClaw (or a client of the simple profile) has for it. `max` is the most there is.
    pub fn meant_by(word: &str) -> Option<Self> {
        let mut word = word.trim().to_lowercase();
        word.retain(|letter| !matches!(letter, ' ' | '_' | '-'));
        Some(match word.as_str() {
            "off" | "none" => Self::Off,
            "min" | "minimal" | "think" => Self::Minimal,
            "low" | "on" | "enable" | "enabled" | "thinkhard" => Self::Low,
            "mid" | "med" | "medium" | "normal" | "harder" | "thinkharder" => Self::Medium,
            "high" | "highest" | "ultra" | "ultrathink" | "thinkhardest" => Self::High,
            "xhigh" | "extrahigh" | "max" => Self::XHigh,
            _ => return None,
        })
    }

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
        }
    }
}

/// A tool as the model gets to see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolSpec {
    /// Name the model calls it by.
    pub name: String,
    /// What it is good for.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// One call of a model.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// Which model, with everything needed to reach it.
    pub model: std::sync::Arc<ModelInfo>,
    /// System prompt.
    pub system: Option<String>,
    /// The conversation, oldest first; the last one is to be answered.
    pub messages: Vec<AgentMessage>,
    /// Tools that the model may call.
    pub tools: Vec<ToolSpec>,
    /// How hard to think.
    pub thinking: ThinkingLevel,
    /// Stable id of the conversation, for providers that cache by it.
    pub session_id: String,
    /// Whether it is about its pictures: without them there is nothing to ask.
    pub needs_pictures: bool,
}

impl ModelRequest {
    /// A question beside a conversation: without tools, and without thinking. The system
    /// prompt is told by whoever chooses the model.
    pub fn aside(
        model: std::sync::Arc<ModelInfo>,
        messages: Vec<AgentMessage>,
        session_id: impl Into<String>,
    ) -> Self {
        Self {
            model,
            system: None,
            messages,
            tools: Vec::new(),
            thinking: ThinkingLevel::Off,
            session_id: session_id.into(),
            needs_pictures: false,
        }
    }

    /// The tools to send: none to a server that has no use for any, and
    /// without keywords of JSON Schema that it refuses.
    fn offered_tools(&self) -> Vec<ToolSpec> {
        let compat = &self.model.options.compat;
        if compat.supports_tools == Some(false) {
            return Vec::new();
        }
        let mut tools = self.tools.clone();
        for tool in &mut tools {
            schema::without(&mut tool.parameters, &compat.unsupported_tool_schema_keywords);
        }
        tools
    }
}

/// What happens while an answer is on its way. Indexes count content blocks.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// A text block begins.
    TextStart { index: usize },
    /// More of it.
    TextDelta { index: usize, delta: String },
    /// A thinking block begins.
    ThinkingStart { index: usize },
    /// More of it.
    ThinkingDelta { index: usize, delta: String },
    /// A tool call begins.
    ToolCallStart { index: usize, id: String, name: String },
    /// More of its arguments, as JSON text.
    ToolCallDelta { index: usize, delta: String },
    /// The signature of a thinking block, just before its end.
    ThinkingSigned { index: usize, signature: String },
    /// The call in this block broke off before its arguments, just before its end.
    CallCut { index: usize },
    /// A block is complete.
    BlockEnd { index: usize },
    /// What the answer has used so far, for whoever pays.
    Used(Usage),
    /// The call failed and will be tried again.
    Retry(RetryNotice),
    /// Another model is asked, or answers.
    Fallback(FallbackNotice),
    /// The answer begins once more: what came of it before does not count.
    Anew,
}

/// Where a provider reports [`StreamEvent`]s; called in order.
pub type EventSink<'a> = &'a mut (dyn FnMut(StreamEvent) + Send);

/// Whether somebody else can be asked at once after a failure for this reason.
pub type Passes = fn(credentials::FailureReason) -> bool;

/// A model API.
pub trait Provider: Send + Sync {
    /// Streams one answer. Dropping the future cancels the call.
    ///
    /// # Errors
    /// [`ProviderError`]; its `partial` holds what had arrived by then.
    fn stream<'a>(
        &'a self,
        request: &'a ModelRequest,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<AssistantMessage, ProviderError>>;

    /// The same where somebody else can be asked at once after some failures: no long wait is
    /// worth while then.
    ///
    /// # Errors
    /// As there.
    fn stream_or_pass<'a>(
        &'a self,
        request: &'a ModelRequest,
        _: Passes,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<AssistantMessage, ProviderError>> {
        self.stream(request, events)
    }
}
