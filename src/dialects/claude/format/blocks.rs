//! Content blocks in the form of the Anthropic API.

use serde_json::Value;

use super::names::{tool_input, tool_name, tool_use_id};
use crate::protocol::message::{ContentBlock, ImageBlock, ThinkingBlock};
use crate::providers::Api;
use crate::support::json;

/// A block of a message of `api`; `None` for one that says nothing or that the
/// form has no place for. Signatures of other providers stay away: they would be
/// refused where the conversation goes on.
pub fn block(block: &ContentBlock, api: &str) -> Option<Value> {
    match block {
        ContentBlock::Text(block) if block.text.is_empty() => None,
        ContentBlock::Text(block) => Some(json!({"type": "text", "text": block.text})),
        ContentBlock::Thinking(block) => thinking(block, api == Api::AnthropicMessages.as_str()),
        ContentBlock::Image(block) => Some(image(block)),
        ContentBlock::ToolCall(call) => Some(json!({
            "type": "tool_use",
            "id": tool_use_id(&call.id),
            "name": tool_name(&call.name),
            "input": tool_input(&call.name, &call.arguments),
        })),
        ContentBlock::Unknown(_) => None,
    }
}

fn thinking(block: &ThinkingBlock, is_signed_for_them: bool) -> Option<Value> {
    let signature = block.thinking_signature.as_deref().filter(|_| is_signed_for_them);
    if block.redacted == Some(true) {
        return Some(json!({"type": "redacted_thinking", "data": signature?}));
    }
    let signature = signature.unwrap_or_default();
    let says_something = !block.thinking.is_empty() || !signature.is_empty();
    says_something
        .then(|| json!({"type": "thinking", "thinking": block.thinking, "signature": signature}))
}

fn image(block: &ImageBlock) -> Value {
    let source = json!({"type": "base64", "media_type": block.mime_type, "data": block.data});
    json!({"type": "image", "source": source})
}

/// What a tool answered, as `content` of its `tool_result`: a text, or blocks
/// when there is a picture.
pub(super) fn result_content(content: &[ContentBlock]) -> Value {
    let blocks: Vec<_> = content.iter().filter_map(result_part).collect();
    if blocks.iter().any(|block| block["type"] == "image") {
        return blocks.into();
    }
    let texts: Vec<_> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    texts.join("\n").into()
}

fn result_part(content: &ContentBlock) -> Option<Value> {
    match content {
        ContentBlock::Text(_) => block(content, ""),
        // The order of members that results have.
        ContentBlock::Image(block) => Some(json!({"type": "image", "source":
            {"type": "base64", "data": block.data, "media_type": block.mime_type}})),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thought(signature: Option<&str>, redacted: Option<bool>) -> ContentBlock {
        let ContentBlock::Thinking(block) = ContentBlock::thinking("hm") else { unreachable!() };
        let thinking_signature = signature.map(str::to_owned);
        ContentBlock::Thinking(ThinkingBlock { thinking_signature, redacted, ..block })
    }

    #[test]
    fn only_signatures_of_the_api_itself_are_passed_on() {
        let signed = thought(Some("sig"), None);
        let signature = |api| block(&signed, api).unwrap()["signature"].clone();
        assert_eq!(signature("anthropic-messages"), "sig");
        assert_eq!(signature("openai-responses"), "");
        let hidden = thought(Some("data"), Some(true));
        let expected = json!({"type": "redacted_thinking", "data": "data"});
        assert_eq!(block(&hidden, "anthropic-messages"), Some(expected));
        assert_eq!(block(&hidden, "openai-responses"), None);
    }

    #[test]
    fn results_are_texts_until_there_is_a_picture() {
        let text = [ContentBlock::text("a"), ContentBlock::text("b")];
        assert_eq!(result_content(&text), "a\nb");
        let with_picture = [ContentBlock::text("a"), ContentBlock::image("AA==", "image/png")];
        assert_eq!(
            result_content(&with_picture).to_string(),
            concat!(
                r#"[{"type":"text","text":"a"},{"type":"image","source":"#,
                r#"{"type":"base64","data":"AA==","media_type":"image/png"}}]"#
            )
        );
        assert_eq!(result_content(&[]), "");
    }
}
