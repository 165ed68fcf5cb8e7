//! Tools of clients: the model may call them, and the client does it.
//!
//! Promises: such a call has a result at once, as each call needs one; it says that
//! the true one is still to come, which the client sends as its next message.

use serde_json::Value;

use super::{Tool, ToolContext, ToolKind, ToolOutput};
use crate::providers::ToolSpec;
use crate::support::{BoxFuture, json};

/// A tool of whoever asked.
pub struct ClientTool(ToolSpec);

impl ClientTool {
    /// One that is described like this.
    pub const fn new(spec: ToolSpec) -> Self {
        Self(spec)
    }
}

impl Tool for ClientTool {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn spec(&self) -> ToolSpec {
        self.0.clone()
    }

    // What the client does nobody here knows, but the call alone does nothing.
    fn kind(&self) -> ToolKind {
        ToolKind::Reads
    }

    fn is_of_client(&self) -> bool {
        true
    }

    fn call<'a>(&'a self, _cx: &'a ToolContext, _: &'a Value) -> BoxFuture<'a, ToolOutput> {
        let data = json!({"status": "pending", "tool": self.0.name,
            "message": "The client does this. Its result comes with the next message."});
        Box::pin(std::future::ready(ToolOutput::json(data)))
    }
}
