//! Tools that the model may call.
//!
//! Owns: the list of tools and the way of a call to one. Promises: a call that
//! names no tool, or arguments that do not fit, is an answer the model can
//! read, never the end of the run. Must not: know the model's API.

mod session_status;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::protocol::message::{ContentBlock, ToolCall};
use crate::providers::{ModelInfo, ToolSpec};
use crate::sessions::{SessionKey, Sessions};
use crate::support::BoxFuture;

/// What a tool answers.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    /// What the model gets to see.
    pub content: Vec<ContentBlock>,
    /// For clients and for the record.
    pub details: Option<Value>,
    /// Whether it failed.
    pub is_error: bool,
}

impl ToolOutput {
    /// A good answer of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![ContentBlock::text(text)], details: None, is_error: false }
    }

    /// A failure that the model can read.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// `{content, details?}` as clients see it.
    pub fn to_wire(&self) -> Value {
        let mut wire = json!({"content": self.content});
        if let (Some(details), Value::Object(members)) = (&self.details, &mut wire) {
            members.insert("details".into(), details.clone());
        }
        wire
    }
}

/// What a tool has at hand.
pub struct ToolContext {
    /// The session of the run.
    pub key: SessionKey,
    /// Conversations.
    pub sessions: Sessions,
    /// The model of the run.
    pub model: Arc<ModelInfo>,
}

/// One tool.
trait Tool: Send + Sync {
    /// How the model sees it.
    fn spec(&self) -> ToolSpec;

    /// In words, what is done with these arguments: it follows the tool's name
    /// on cards. `None` when there is nothing to say.
    fn meta(&self, _arguments: &Value) -> Option<String> {
        None
    }

    /// Does it. Dropping the future stops it.
    fn call<'a>(&'a self, cx: &'a ToolContext, arguments: &'a Value) -> BoxFuture<'a, ToolOutput>;
}

/// The tools there are.
pub struct Tools(Vec<Box<dyn Tool>>);

impl Default for Tools {
    fn default() -> Self {
        Self(vec![Box::new(session_status::SessionStatus)])
    }
}

impl Tools {
    /// How the model sees them.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.0.iter().map(|tool| tool.spec()).collect()
    }

    /// In words, what a call does; it follows the tool's name on cards.
    pub fn meta(&self, call: &ToolCall) -> Option<String> {
        self.find(&call.name)?.meta(&call.arguments)
    }

    fn find(&self, name: &str) -> Option<&dyn Tool> {
        self.0.iter().find(|tool| tool.spec().name == name).map(|tool| &**tool)
    }

    /// Runs one call.
    pub async fn call(&self, cx: &ToolContext, call: &ToolCall) -> ToolOutput {
        let Some(tool) = self.find(&call.name) else {
            let known: Vec<_> = self.0.iter().map(|tool| tool.spec().name).collect();
            return ToolOutput::error(format!(
                "Tool {} not found. Available: {}.",
                call.name,
                known.join(", ")
            ));
        };
        if !call.arguments.is_object() {
            return ToolOutput::error(format!(
                "Arguments of {} must be an object, got {}.",
                call.name, call.arguments
            ));
        }
        tool.call(cx, &call.arguments).await
    }
}
