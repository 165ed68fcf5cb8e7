//! What a tool answers.

use std::borrow::Cow;

use serde_json::Value;

use crate::protocol::message::{ContentBlock, Usage, text_of};
use crate::support::json;
use crate::telemetry::result_without_secrets;

/// What a tool answers, or has to show so far.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    /// What the model gets to see.
    pub content: Vec<ContentBlock>,
    /// For clients and for the record.
    pub details: Option<Value>,
    /// Whether it failed.
    pub is_error: bool,
    /// What the models have used that the tool asked; it counts for the run.
    pub usage: Option<Usage>,
}

impl ToolOutput {
    /// A good answer of one text.
    pub fn text(text: impl Into<String>) -> Self {
        let content = vec![ContentBlock::text(text)];
        Self { content, details: None, is_error: false, usage: None }
    }

    /// A good answer that is data: the model reads it as JSON, and so do clients.
    pub fn json(data: Value) -> Self {
        let text = format!("{data:#}");
        Self { details: Some(data), ..Self::text(text) }
    }

    /// A call that never came to the tool, in words that the model can read.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, details: Some(json!({})), ..Self::text(text) }
    }

    /// A tool that failed: `{status: "error", tool, error}`.
    pub fn failed(tool: &str, error: impl Into<String>) -> Self {
        let data = json!({"status": "error", "tool": tool, "error": error.into()});
        Self { is_error: true, ..Self::json(data) }
    }

    /// The same without the secrets that the gateway knows: what a program prints
    /// or a file says is read by a model, and kept.
    #[must_use]
    pub fn without_secrets(mut self) -> Self {
        for block in &mut self.content {
            if let ContentBlock::Text(block) = block {
                hide(&mut block.text);
            }
        }
        self.details.iter_mut().for_each(hide_in);
        self
    }

    /// `{content, details?}` as clients see it.
    pub fn to_wire(&self) -> Value {
        let mut wire = json!({"content": self.content});
        if let (Some(details), Value::Object(members)) = (&self.details, &mut wire) {
            members.insert("details".into(), details.clone());
        }
        wire
    }

    /// Its text.
    pub fn to_text(&self) -> String {
        text_of(&self.content)
    }

    /// Why it failed, in one line.
    pub fn error_line(&self) -> Option<String> {
        let told = self.details.as_ref().and_then(|details| details.get("error")?.as_str());
        let first = || self.to_text().lines().next().unwrap_or_default().to_owned();
        self.is_error.then(|| told.map_or_else(first, str::to_owned))
    }

    /// Whether the transcript calls it an error. An error that is told as data
    /// is none there, as in the original.
    pub fn is_error_in_transcript(&self) -> bool {
        let is_data = |details: &Value| details.get("status").is_some_and(|it| it == "error");
        self.is_error && !self.details.as_ref().is_some_and(is_data)
    }
}

fn hide(text: &mut String) {
    if let Cow::Owned(hidden) = result_without_secrets(text) {
        *text = hidden;
    }
}

/// In all texts of data; names of members are the tools' own.
fn hide_in(data: &mut Value) {
    match data {
        Value::String(text) => hide(text),
        Value::Array(items) => items.iter_mut().for_each(hide_in),
        Value::Object(members) => members.values_mut().for_each(hide_in),
        _ => {}
    }
}
