//! A conversation without what was thought in it.
//!
//! Must not: know why a provider does not take its thoughts back.

use super::ModelRequest;
use crate::protocol::message::{AgentMessage, ContentBlock};

/// The same request without thoughts; `None` when it has none. What a thought has signed, and
/// ids that the provider pairs with one, go too: answers are sent as those of another model are.
pub fn without_thoughts(request: &ModelRequest) -> Option<ModelRequest> {
    let model = &request.model;
    let mut request = request.clone();
    let mut had_some = false;
    for message in &mut request.messages {
        if let AgentMessage::Assistant(answer) = message {
            let before = answer.content.len();
            answer.content.retain(|block| !matches!(block, ContentBlock::Thinking(_)));
            let is_signed = answer.model == model.id && answer.content.iter().any(is_signed);
            had_some |= answer.content.len() < before || is_signed;
            answer.model.clear();
        }
    }
    had_some.then_some(request)
}

fn is_signed(block: &ContentBlock) -> bool {
    match block {
        ContentBlock::Text(block) => block.text_signature.is_some(),
        ContentBlock::ToolCall(call) => call.thought_signature.is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::testing::{message, model, request_to};
    use crate::support::json;
    use serde_json::Value;

    #[test]
    fn what_a_thought_has_signed_goes_with_it() {
        let answer = |model: &str, content: Value| {
            message(json!({"role": "assistant", "api": "google-generative-ai", "provider": "mock",
                "model": model, "content": content, "usage": {}, "stopReason": "toolUse",
                "timestamp": 1}))
        };
        let call = json!({"type": "toolCall", "id": "c", "name": "t", "arguments": {},
            "thoughtSignature": "c2ln"});
        let of = |messages| without_thoughts(&request_to(model("google-generative-ai"), messages));
        let signed = answer("mock-1", json!([call]));
        let without = of(vec![signed]).unwrap();
        assert_eq!(without.messages, [answer("", json!([call]))]);
        assert!(without_thoughts(&without).is_none());
        // That of another model is not sent.
        assert!(of(vec![answer("mock-2", json!([call]))]).is_none());
    }
}
