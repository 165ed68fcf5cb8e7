//! Results of servers, as results of tools.
//!
//! Owns: what becomes of each kind of content. Promises: a result has bounds,
//! however large the server makes it, and holds nothing that a model's API
//! refuses: it would be refused again with every later turn.

use std::borrow::Cow;

use rmcp::model::{CallToolResult, ContentBlock as Content, ResourceContents};
use serde::Deserialize;
use serde_json::Value;

use crate::agent::tools::ToolOutput;
use crate::agent::tools::files::picture;
use crate::protocol::message::ContentBlock;
use crate::support::json;
use crate::telemetry::without_secrets;

/// Longest text of a result; longer ones fill the model's context.
const MAX_TEXT: usize = 100_000;
/// Most pictures.
const MAX_PICTURES: usize = 8;
const UNKNOWN: &str = "[content of an unknown kind]";

/// The result of a call of `tool` of `server`. An error does not repeat the
/// credentials that the server was given.
pub fn output(server: &str, tool: &str, result: CallToolResult) -> ToolOutput {
    let is_error = result.is_error == Some(true);
    let mut made = Made { is_error, ..Made::default() };
    for content in result.content {
        made.add(content);
    }
    let mut details = json!({"mcpServer": server, "mcpTool": tool});
    if let Some(structured) = result.structured_content {
        if made.content.is_empty() {
            made.text(&format!("{structured:#}"));
        }
        let text = structured.to_string();
        if text.len() <= MAX_TEXT && (!is_error || *without_secrets(&text) == *text) {
            details["structuredContent"] = structured;
        }
    }
    if made.content.is_empty() {
        made.text("(no output)");
    }
    ToolOutput { content: made.content, details: Some(details), is_error, usage: None }
}

/// The result in an answer that is none as a whole: what nobody knows of its content is told
/// as such. An answer that says nothing is one, too.
pub fn repaired(mut answer: Value) -> Option<CallToolResult> {
    let members = answer.as_object_mut()?;
    if members.keys().all(|name| name == "_meta") {
        return Some(CallToolResult::default());
    }
    if let Some(Value::Array(content)) = members.get_mut("content") {
        for block in content {
            if Content::deserialize(&*block).is_err() {
                *block = json!({"type": "text", "text": UNKNOWN});
            }
        }
    }
    serde_json::from_value(answer).ok()
}

/// The content made so far.
#[derive(Default)]
struct Made {
    content: Vec<ContentBlock>,
    texts: usize,
    pictures: usize,
    is_error: bool,
}

impl Made {
    fn add(&mut self, content: Content) {
        match content {
            Content::Text(text) => self.text(&text.text),
            Content::Image(image) => self.picture(image.data, &image.mime_type),
            Content::Audio(audio) => self.text(&format!("[audio, {}]", audio.mime_type)),
            Content::Resource(embedded) => match embedded.resource {
                ResourceContents::TextResourceContents { uri, text, .. } => {
                    self.text(&format!("[resource {uri}]\n{text}"));
                }
                ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                    let kind = mime_type.unwrap_or_else(|| "binary".into());
                    if kind.starts_with("image/") {
                        self.picture(blob, &kind);
                    } else {
                        self.text(&format!("[resource {uri}, {kind}]"));
                    }
                }
                _ => self.text("[a resource of an unknown kind]"),
            },
            Content::ResourceLink(link) => {
                self.text(&format!("[resource {}: {}]", link.uri, link.name));
            }
            _ => self.text(UNKNOWN),
        }
    }

    fn text(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        let hidden = if self.is_error { without_secrets(text) } else { Cow::Borrowed(text) };
        let text = hidden.as_ref();
        let room = MAX_TEXT.saturating_sub(self.texts);
        let taken: String = text.chars().take(room).collect();
        self.texts += taken.chars().count();
        let is_cut = taken.len() < text.len();
        if is_cut && room == 0 {
            return;
        }
        let end = if is_cut { "\n[cut: the result is too long]" } else { "" };
        self.content.push(ContentBlock::text(format!("{taken}{end}")));
    }

    fn picture(&mut self, data: String, mime_type: &str) {
        let has_room = self.pictures < MAX_PICTURES;
        if let Some(shown) = has_room.then(|| picture(data)).flatten() {
            self.pictures += 1;
            self.content.push(shown);
        } else {
            self.text(&format!("[a picture that is left out, {mime_type}]"));
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;
    use crate::agent::tools::files::PICTURE_MAX;
    use crate::providers::testing;

    fn read(result: Value) -> ToolOutput {
        output("docs", "look", serde_json::from_value(result).unwrap())
    }

    /// As little as tells what it is.
    fn png() -> String {
        STANDARD.encode(b"\x89PNG\r\n\x1a\n")
    }

    #[test]
    fn every_kind_of_content_is_shown() {
        let shown = read(json!({"isError": true, "structuredContent": {"a": 1}, "content": [
            {"type": "text", "text": "hi"},
            {"type": "image", "data": png(), "mimeType": "image/png"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "x:1", "text": "inner"}},
            {"type": "resource", "resource": {"uri": "x:2", "blob": "AA", "mimeType": "a/b"}},
            {"type": "resource_link", "uri": "x:3", "name": "three"}]}));
        assert!(shown.is_error && shown.is_error_in_transcript());
        assert_eq!(
            shown.details,
            Some(json!({"mcpServer": "docs", "mcpTool": "look", "structuredContent": {"a": 1}}))
        );
        assert_eq!(shown.content.len(), 6);
        let text = shown.to_text();
        for part in ["hi", "[audio, audio/wav]", "inner", "[resource x:2, a/b]", "x:3: three"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn data_alone_is_shown_as_json_and_nothing_as_such() {
        assert_eq!(read(json!({"structuredContent": {"a": 1}})).to_text(), "{\n  \"a\": 1\n}");
        assert_eq!(read(json!({"content": []})).to_text(), "(no output)");
        let empty = json!({"type": "text", "text": "\n"});
        assert_eq!(read(json!({"content": [empty, empty]})).content.len(), 1);
    }

    #[test]
    fn content_of_an_unknown_kind_takes_nothing_else_away() {
        let answer = json!({"isError": true, "content": [
            {"type": "text", "text": "known"}, {"type": "hologram", "data": "AA"}, "?"]});
        let shown = output("docs", "look", repaired(answer).unwrap());
        assert!(shown.is_error);
        assert_eq!(shown.content.len(), 3);
        assert_eq!(shown.to_text().matches(UNKNOWN).count(), 2, "{shown:?}");
        assert!(repaired(json!({"_meta": {"a": 1}})).unwrap().content.is_empty());
        for broken in [json!(null), json!("text"), json!({"other": 1}), json!({"content": 5})] {
            assert!(repaired(broken).is_none());
        }
    }

    #[test]
    fn a_result_has_bounds() {
        let text = "x".repeat(MAX_TEXT);
        let item = json!({"type": "text", "text": text});
        let shown = read(json!({"content": [item, item, item]})).to_text();
        assert!(shown.len() < MAX_TEXT + 100, "{}", shown.len());
        let picture = json!({"type": "image", "data": png(), "mimeType": "image/png"});
        let shown = read(json!({ "content": vec![picture; 20] }));
        let pictures = shown.content.iter().filter(|it| matches!(it, ContentBlock::Image(_)));
        assert_eq!(pictures.count(), MAX_PICTURES);
    }

    #[test]
    fn a_picture_is_what_its_bytes_say_and_what_no_model_takes_is_left_out() {
        let shown = |data: &str, mime: &str| {
            read(json!({"content": [{"type": "image", "data": data, "mimeType": mime}]})).content
        };
        assert_eq!(shown(&png(), "image/jpeg"), [ContentBlock::image(png(), "image/png")]);
        let svg = STANDARD.encode("<svg/>");
        let mut large = b"\x89PNG\r\n\x1a\n".to_vec();
        large.resize(PICTURE_MAX, 0);
        let wide = STANDARD.encode(testing::png(8001, 1));
        for data in ["", "no base64!", &svg, &STANDARD.encode(large), &wide] {
            let left_out = ContentBlock::text("[a picture that is left out, image/svg+xml]");
            assert_eq!(shown(data, "image/svg+xml"), [left_out]);
        }
    }
}
