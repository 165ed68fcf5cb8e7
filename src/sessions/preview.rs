//! The last lines of a conversation, for lists of sessions.

use serde_json::Value;

use crate::support::json;

use super::display::shown_text;
use super::history::HistoryOptions;
use super::service::Sessions;
use super::{SessionError, SessionKey};

impl Sessions {
    /// The last `limit` lines of a session, each of at most `max_chars`
    /// characters; `None` when there is no such session.
    pub async fn preview(
        &self,
        key: &SessionKey,
        limit: usize,
        max_chars: usize,
    ) -> Result<Option<Vec<Value>>, SessionError> {
        let options = HistoryOptions { limit, ..HistoryOptions::default() };
        let page = self.history(key, options).await?;
        if page.session_id.is_none() {
            return Ok(None);
        }
        Ok(Some(page.messages.iter().filter_map(|message| line(message, max_chars)).collect()))
    }
}

/// Role and text; `None` for a message with nothing to read in it.
fn line(message: &Value, max_chars: usize) -> Option<Value> {
    let blocks = message.get("content").and_then(Value::as_array).map(Vec::as_slice);
    let blocks = blocks.unwrap_or_default();
    let member = |block: &Value, name: &str| block.get(name)?.as_str().map(str::to_owned);
    let calls: Vec<_> = blocks
        .iter()
        .filter(|block| block.get("type").is_some_and(|kind| kind == "toolCall"))
        .filter_map(|block| member(block, "name"))
        .collect();
    let mut text = shown_text(message);
    if text.trim().is_empty() && !calls.is_empty() {
        text = format!("call {}", calls.join(", "));
    }
    let role = match message.get("role").and_then(Value::as_str) {
        _ if !calls.is_empty() => "tool",
        Some("toolResult" | "tool") => "tool",
        Some("user") => "user",
        Some("assistant") => "assistant",
        Some("system") => "system",
        _ => "other",
    };
    let text = text.trim();
    (!text.is_empty()).then(|| json!({"role": role, "text": cut(text, max_chars)}))
}

/// Cuts with three dots; as in the original, lengths are UTF-16 units.
fn cut(text: &str, max: usize) -> String {
    if text.encode_utf16().count() <= max {
        return text.to_owned();
    }
    let mut left = max.saturating_sub(3);
    let kept = text.chars().take_while(|c| {
        let fits = c.len_utf16() <= left;
        left = left.saturating_sub(c.len_utf16());
        fits
    });
    kept.collect::<String>() + "..."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_cut_as_recorded() {
        let text = "⚠️ Agent failed before reply: This operation was aborted";
        assert_eq!(cut(text, 40), "⚠️ Agent failed before reply: This op...");
        assert_eq!(cut("short", 20), "short");
    }

    #[test]
    fn tool_calls_are_named_and_empty_messages_left_out() {
        let call = json!({"role": "assistant", "content": [{"type": "toolCall", "name": "read"}]});
        assert_eq!(line(&call, 40), Some(json!({"role": "tool", "text": "call read"})));
        assert_eq!(line(&json!({"role": "user", "content": " "}), 40), None);
    }
}
