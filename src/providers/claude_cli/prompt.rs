//! What the CLI is asked.
//!
//! Owns: the one line with the question. A session of its own that knows
//! nothing yet gets the conversation as text before it.

use std::fmt::Write as _;

use serde_json::Value;

use super::super::ModelRequest;
use super::super::compose::compose;
use super::conversation::Known;
use crate::protocol::message::{AgentMessage, ContentBlock, UserContent, UserMessage, text_of};
use crate::support::{Ids, RandomIds, json};

const INTRODUCTION: &str = "The conversation so far:";
const QUESTION: &str = "Answer what follows.";

/// The line.
pub fn line(request: &ModelRequest, session: &Known) -> Value {
    let news = request.messages.get(session.messages..).unwrap_or_default();
    let messages = compose(news, &request.model, str::to_owned);
    let is_question = |message: &AgentMessage| matches!(message, AgentMessage::User(_));
    let asked = messages.iter().rev().take_while(|message| is_question(message)).count();
    let (past, questions) = messages.split_at(messages.len() - asked);
    let mut content = Vec::new();
    if !past.is_empty() {
        content.push(json!({"type": "text", "text": told(past)}));
    }
    for question in questions {
        if let AgentMessage::User(user) = question {
            content.extend(blocks(user));
        }
    }
    json!({
        "type": "user",
        "uuid": RandomIds.uuid(),
        "message": {"role": "user", "content": content},
        "parent_tool_use_id": null,
        "session_id": session.id,
    })
}

/// What a user wrote.
pub fn user_text(user: &UserMessage) -> String {
    match &user.content {
        UserContent::Text(text) => text.clone(),
        UserContent::Blocks(blocks) => text_of(blocks),
    }
}

fn blocks(user: &UserMessage) -> Vec<Value> {
    let UserContent::Blocks(blocks) = &user.content else {
        return vec![json!({"type": "text", "text": user_text(user)})];
    };
    let wire = blocks.iter().filter_map(|block| match block {
        ContentBlock::Text(block) => Some(json!({"type": "text", "text": block.text})),
        ContentBlock::Image(image) => Some(json!({"type": "image", "source": {
            "type": "base64", "media_type": image.mime_type, "data": image.data,
        }})),
        _ => None,
    });
    wire.collect()
}

/// The conversation as text. It has no calls of the CLI's own tools, but may
/// have some of another model.
fn told(past: &[AgentMessage]) -> String {
    let mut text = format!("{INTRODUCTION}\n");
    for message in past {
        let (who, what) = match message {
            AgentMessage::User(user) => ("User", user_text(user)),
            AgentMessage::Assistant(answer) => ("Assistant", text_of(&answer.content)),
            AgentMessage::ToolResult(result) => {
                ("Result of a tool", format!("{}: {}", result.tool_name, text_of(&result.content)))
            }
        };
        if !what.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n{who}: {what}\n");
        }
    }
    text.push('\n');
    text.push_str(QUESTION);
    text
}
