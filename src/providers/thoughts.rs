//! A conversation without what was thought in it.
//!
//! Must not: know why a provider does not take its thoughts back.

use super::ModelRequest;
use crate::protocol::message::{AgentMessage, ContentBlock};

/// The same request without thoughts; `None` when it has none.
pub fn without_thoughts(request: &ModelRequest) -> Option<ModelRequest> {
    let mut request = request.clone();
    let mut had_some = false;
    for message in &mut request.messages {
        if let AgentMessage::Assistant(answer) = message {
            let before = answer.content.len();
            answer.content.retain(|block| !matches!(block, ContentBlock::Thinking(_)));
            had_some |= answer.content.len() < before;
        }
    }
    had_some.then_some(request)
}
