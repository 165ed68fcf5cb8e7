//! A conversation without what was thought in it.
//!
//! Must not: know why a provider does not take its thoughts back.

use super::ModelRequest;
use crate::protocol::message::{AgentMessage, ContentBlock};

/// When the newest answer of the conversation began.
pub fn newest_answer(request: &ModelRequest) -> Option<u64> {
    let began = request.messages.iter().filter_map(|message| match message {
        AgentMessage::Assistant(answer) => Some(answer.timestamp),
        _ => None,
    });
    began.max()
}

/// The same request without the thoughts of answers that had begun by `until`; `None` when
/// there are none. What a thought has signed, and ids that the provider pairs with one, go too:
/// those answers are sent as those of another model are.
pub fn without_thoughts(request: &ModelRequest, until: u64) -> Option<ModelRequest> {
    let model = &request.model;
    let mut request = request.clone();
    let mut had_some = false;
    for message in &mut request.messages {
        if let AgentMessage::Assistant(answer) = message
            && answer.timestamp <= until
        {
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
        let without = |request: &ModelRequest| without_thoughts(request, 1);
        let of = |messages| without(&request_to(model("google-generative-ai"), messages));
        let signed = answer("mock-1", json!([call]));
        let rest = of(vec![signed.clone()]).unwrap();
        assert_eq!(rest.messages, [answer("", json!([call]))]);
        assert!(without(&rest).is_none());
        // That of a later answer stays.
        let request = request_to(model("google-generative-ai"), vec![signed]);
        assert!(without_thoughts(&request, 0).is_none());
        assert_eq!(newest_answer(&request), Some(1));
        // That of another model is not sent.
        assert!(of(vec![answer("mock-2", json!([call]))]).is_none());
    }
}
