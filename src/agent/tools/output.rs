//! What a tool answers.

use std::borrow::Cow;

use serde_json::Value;

use crate::protocol::message::{ContentBlock, Usage, text_of};
use crate::support::json;
use crate::telemetry::result_without_secrets;

/// Longest text of an error for a client, which is no place for a whole output.
const ERROR_MAX: usize = 8 * 1024;
/// Longest text of a result for those who follow a run, in UTF-16 units, as in the original.
const FOLLOWED_MAX: usize = 8000;

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
        self.with_details(json!({"content": self.content}))
    }

    /// The same for those who follow a run: of a long text the beginning, of a picture its
    /// size, as in the original. All of it would go to each of them, and more than once.
    pub fn to_followers(&self) -> Value {
        let content = self.content.iter().map(|block| match block {
            ContentBlock::Image(picture) => json!({"type": "image",
                "mimeType": picture.mime_type, "omitted": true, "bytes": picture.data.len()}),
            ContentBlock::Text(block) => {
                let mut told = json!(block);
                if let Some(begin) = begin_for_followers(&block.text) {
                    told["text"] = format!("{begin}\n…(truncated)…").into();
                }
                told
            }
            block => json!(block),
        });
        self.with_details(json!({"content": content.collect::<Vec<_>>()}))
    }

    fn with_details(&self, mut wire: Value) -> Value {
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

    /// Why it failed, for who gets to see nothing else: the reason first, then the end of
    /// what was printed until then.
    pub fn error_text(&self) -> Option<String> {
        if !self.is_error {
            return None;
        }
        let (text, details) = (self.to_text(), self.details.as_ref());
        let detail = |name: &str| details.and_then(|details| details.get(name)?.as_str());
        let printed = detail("aggregated").unwrap_or_default();
        let reason = match (detail("error"), text.strip_prefix(printed)) {
            (Some(error), _) => error,
            (None, Some(reason)) if !reason.trim().is_empty() => reason.trim(),
            (None, _) => return Some(end_of(&text, ERROR_MAX).to_owned()),
        };
        let printed = end_of(printed.trim(), ERROR_MAX.saturating_sub(reason.len()));
        let gap = if printed.is_empty() { "" } else { "\n\n" };
        Some(format!("{}{gap}{printed}", begin_of(reason, ERROR_MAX)))
    }

    /// Whether the transcript calls it an error. An error that is told as data
    /// is none there, as in the original.
    pub fn is_error_in_transcript(&self) -> bool {
        let is_data = |details: &Value| details.get("status").is_some_and(|it| it == "error");
        self.is_error && !self.details.as_ref().is_some_and(is_data)
    }
}

/// What is left of a text that is too long for those who follow a run.
fn begin_for_followers(text: &str) -> Option<&str> {
    let mut units = 0;
    let end = text.char_indices().find(|(_, letter)| {
        units += letter.len_utf16();
        units > FOLLOWED_MAX
    });
    text.get(..end?.0)
}

fn begin_of(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

fn end_of(text: &str, max: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(max))..]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_follows_gets_the_beginning_of_a_long_text_in_the_units_of_the_original() {
        let told = |text: &str| {
            let told = ToolOutput::text(text).to_followers();
            told["content"][0]["text"].as_str().unwrap().to_owned()
        };
        for fits in ["é".repeat(FOLLOWED_MAX), "🦀".repeat(FOLLOWED_MAX / 2)] {
            assert_eq!(told(&fits), fits);
        }
        // No half of a character is left.
        let begin = "é".repeat(FOLLOWED_MAX - 1);
        assert_eq!(told(&format!("{begin}🦀")), format!("{begin}\n…(truncated)…"));
        let whole = ToolOutput::text("x".repeat(FOLLOWED_MAX + 1));
        let text = &whole.to_followers()["content"][0]["text"];
        assert_eq!(*text, format!("{}\n…(truncated)…", "x".repeat(FOLLOWED_MAX)));
        assert_eq!(whole.to_wire()["content"][0]["text"], whole.to_text());
    }

    fn printed(printed: &str, text: &str) -> Option<String> {
        let details = json!({"status": "failed", "aggregated": printed});
        let output = ToolOutput::text(format!("{printed}{text}"));
        ToolOutput { is_error: true, details: Some(details), ..output }.error_text()
    }

    #[test]
    fn an_error_is_told_by_its_reason_with_what_was_printed_behind_it() {
        assert_eq!(ToolOutput::text("fine").error_text(), None);
        assert_eq!(ToolOutput::failed("read", "no file").error_text().unwrap(), "no file");
        assert_eq!(ToolOutput::error("a\nb").error_text().unwrap(), "a\nb");
        assert_eq!(printed("", "(code 3)").unwrap(), "(code 3)");
        assert_eq!(printed("one\ntwo", "\n\n(code 3)").unwrap(), "(code 3)\n\none\ntwo");
        let long = "\u{e9}".repeat(ERROR_MAX) + "end";
        let told = printed(&long, "\n\n(code 3)").unwrap();
        assert!(told.starts_with("(code 3)\n\n") && told.ends_with("end"), "{told}");
        assert!(told.len() <= ERROR_MAX + 2, "{}", told.len());
        assert!(ToolOutput::error(&long).error_text().unwrap().len() <= ERROR_MAX);
    }
}
