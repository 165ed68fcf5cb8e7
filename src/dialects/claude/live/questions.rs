//! Questions of a session that wait for a person, as requests for permission.
//!
//! Owns: their frames. Must not: decide anything.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::agent::Card;
use crate::agent::approvals::{Question, QuestionKind};
use crate::dialects::claude::format::{tool_input, tool_name, tool_use_id};

/// What commands are run with.
const COMMANDS: &str = "Bash";

/// A question that waits.
#[derive(Debug, Clone)]
pub struct Waiting {
    /// Its id, and that of the request.
    pub id: String,
    /// What it is about.
    pub kind: QuestionKind,
    /// The call that waits for it, as the transcript names it.
    pub call_id: Option<String>,
    /// What is to be done: the same answer does for the same again.
    pub what: Value,
    /// `control_request`.
    pub frame: Arc<str>,
}

impl Waiting {
    /// The question of a call that is known.
    pub fn of_call(id: &str, card: &Card, command: &Value) -> Self {
        let input = tool_input(&card.call.name, &card.call.arguments);
        let name = tool_name(&card.call.name);
        let (kind, call_id) = (QuestionKind::Exec, Some(card.call.id.clone()));
        Self::new(id, kind, call_id, (&name, input, command.clone()))
    }

    /// A question of somebody else: a node, a plugin, or a call that began before
    /// anybody looked.
    pub fn of_question(question: &Question) -> Self {
        let request = &question.request;
        let call_id = question.call_id.clone();
        let asked = match question.kind {
            QuestionKind::Exec => {
                let mut input = json!({"command": request["command"]});
                if request["cwd"].is_string() {
                    input["workdir"] = request["cwd"].clone();
                }
                (COMMANDS.to_owned(), input, request["command"].clone())
            }
            QuestionKind::Plugin => {
                let name = request["toolName"].as_str().or_else(|| request["pluginId"].as_str());
                let name = tool_name(name.unwrap_or("plugin")).into_owned();
                let input = json!({"title": request["title"],
                    "description": request["description"]});
                (name, input.clone(), input)
            }
        };
        let call_id = call_id.or_else(|| request["toolCallId"].as_str().map(str::to_owned));
        Self::new(&question.id, question.kind, call_id, (&asked.0, asked.1, asked.2))
    }

    fn new(
        id: &str,
        kind: QuestionKind,
        call_id: Option<String>,
        (name, input, what): (&str, Value, Value),
    ) -> Self {
        // Every request names a call; one that waits for none names itself.
        let tool_use = tool_use_id(call_id.as_deref().unwrap_or(id));
        let frame = json!({
            "type": "control_request",
            "request_id": id,
            "request": {
                "subtype": "can_use_tool",
                "tool_name": name,
                "input": input,
                "tool_use_id": tool_use,
            },
        });
        let what = json!([name, what]);
        Self { id: id.to_owned(), kind, call_id, what, frame: frame.to_string().into() }
    }
}
