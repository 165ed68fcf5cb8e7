//! Questions of a session that wait for a person, as requests for permission.
//!
//! Owns: their frames. Must not: decide anything.

use std::sync::Arc;

use serde_json::Value;

use crate::agent::Card;
use crate::agent::approvals::{Question, QuestionKind};
use crate::agent::feed::Told;
use crate::dialects::claude::format::{tool_input, tool_name, tool_use_id};
use crate::dialects::question::kind_of;
use crate::sessions::SessionKey;
use crate::support::json;

/// What commands are run with.
const COMMANDS: &str = "Bash";

/// A question that waits.
#[derive(Debug, Clone)]
pub struct Waiting {
    /// Its id, and that of the request.
    pub id: String,
    /// What it is about.
    pub kind: QuestionKind,
    /// The session in which it was asked: this one, or that of a sub-agent.
    pub key: SessionKey,
    /// The run that waits for it, where that was heard.
    pub run_id: Option<Arc<str>>,
    /// The call that waits for it, as the transcript names it.
    pub call_id: Option<String>,
    /// What is to be done: the same answer does for the same again.
    pub what: Value,
    /// `control_request`.
    pub frame: Arc<str>,
}

impl Waiting {
    /// The question of a call; `data` is that of its `approval` event.
    pub fn of_call(told: &Told, card: &Card, data: &Value) -> Self {
        let id = data["approvalId"].as_str().unwrap_or_default();
        let mut input = tool_input(&card.call.name, &card.call.arguments);
        warn(&mut input, data);
        let name = tool_name(&card.call.name);
        // In another session the same words may mean another folder.
        let what = json!([told.key.as_str(), data["host"], card.call.arguments]);
        let run_id = told.run.as_ref().map(|run| Arc::clone(&run.id));
        let by = (told.key.clone(), run_id, Some(card.call.id.clone()));
        Self::new(id, kind_of(data), by, (&name, input, what))
    }

    /// A question of somebody else: a node, a plugin, or a call that began before
    /// anybody looked. It was asked in this session.
    pub fn of_question(key: SessionKey, question: &Question) -> Self {
        let request = &question.request;
        let call_id = question.call_id.clone();
        let asked = match question.kind {
            QuestionKind::Exec => {
                let mut input = json!({"command": request["command"]});
                if request["cwd"].is_string() {
                    input["workdir"] = request["cwd"].clone();
                }
                warn(&mut input, request);
                let mut what = json!([request, null]);
                if !request["envKeys"].is_null() {
                    // Secrets in the values of variables are not told: what looks alike may differ.
                    what[1] = question.id.as_str().into();
                }
                (COMMANDS.to_owned(), input, what)
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
        let by = (key, None, call_id);
        Self::new(&question.id, question.kind, by, (&asked.0, asked.1, asked.2))
    }

    /// Whether a call waits for it.
    pub fn is_of_call(&self, key: &SessionKey, call_id: &str) -> bool {
        self.key == *key && self.call_id.as_deref() == Some(call_id)
    }

    fn new(
        id: &str,
        kind: QuestionKind,
        (key, run_id, call_id): (SessionKey, Option<Arc<str>>, Option<String>),
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
        let (id, frame) = (id.to_owned(), frame.to_string().into());
        Self { id, kind, key, run_id, call_id, what, frame }
    }
}

/// What there is to watch out for stands where clients show what a command is about.
fn warn(input: &mut Value, asked: &Value) {
    if let Some(warning) = asked["warningText"].as_str() {
        input["description"] = warning.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::feed::RunNews;
    use crate::agent::tools::ToolKind;

    fn of_call(key: &str, tool: &str, arguments: &Value, data: &Value) -> Waiting {
        let call = json!({"type": "toolCall", "id": "c", "name": tool, "arguments": arguments});
        let call = serde_json::from_value(call).unwrap();
        let card = Card { call, meta: None, kind: ToolKind::Changes, started_at: 0 };
        let key = SessionKey::from_canonical(key);
        Waiting::of_call(&Told { key, run: None, news: RunNews::Begins }, &card, data)
    }

    #[test]
    fn only_what_is_the_same_in_all_is_about_the_same() {
        let exec = json!({"kind": "exec", "approvalId": "a", "host": "gateway"});
        let plugin = json!({"kind": "plugin", "approvalId": "plugin:a"});
        let main = "agent:main:main";
        let write = |path: &str| of_call(main, "write", &json!({"path": path}), &plugin);
        assert_eq!((write("a").kind, write("a").id.as_str()), (QuestionKind::Plugin, "plugin:a"));
        assert_eq!(write("a").what, write("a").what);
        assert_ne!(write("a").what, write("b").what);
        let list = json!({"command": "ls"});
        let first = of_call(main, "exec", &list, &exec);
        assert_eq!(first.kind, QuestionKind::Exec);
        let elsewhere = json!({"kind": "exec", "approvalId": "b", "host": "node"});
        for other in [
            of_call("agent:main:subagent:x", "exec", &list, &exec),
            of_call(main, "exec", &list, &elsewhere),
            of_call(main, "exec", &json!({"command": "ls", "workdir": "/"}), &exec),
            of_call(main, "exec", &json!({"command": "ls", "env": {"A": "1"}}), &exec),
        ] {
            assert_ne!(other.what, first.what);
        }
    }

    #[test]
    fn what_is_to_be_watched_out_for_is_what_the_command_is_described_with() {
        let warned = json!({"kind": "exec", "approvalId": "a", "warningText": "X='1'"});
        let asked = of_call("agent:main:main", "exec", &json!({"command": "ls"}), &warned);
        let frame: Value = serde_json::from_str(&asked.frame).unwrap();
        let input = json!({"command": "ls", "description": "X='1'"});
        assert_eq!(frame["request"]["input"], input);
    }
}
