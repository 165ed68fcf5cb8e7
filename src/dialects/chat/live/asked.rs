//! The calls that wait for a decision of this client.
//!
//! Owns: which they are, by the id of the call. Promises: a client is told once of
//! a question and once of its answer, whoever answers. Plain data: whoever has it
//! locks it.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::frame;
use crate::agent::approvals::{Question, QuestionKind};
use crate::dialects::question::kind_of;
use crate::protocol::message::ToolCall;
use crate::support::json;

/// How long a question of a turn that began here waits: then it is a no, as in the
/// original.
pub const PATIENCE: Duration = Duration::from_mins(5);

/// Questions that one client is shown at a time; more are for others to answer.
const MAX_ASKED: usize = 100;

/// A question that a client is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// What kind it is of.
    pub kind: QuestionKind,
    /// Its id.
    pub approval_id: String,
    /// The tool that is called.
    pub tool: String,
    /// Whether it is asked in a turn that began here.
    pub is_own: bool,
    /// When it becomes a no by itself; none where that is not up to us.
    pub deadline: Option<Instant>,
}

/// The questions, by the ids of their calls.
#[derive(Debug, Default)]
pub struct Questions(HashMap<String, Asked>);

impl Questions {
    /// A call is asked about, of a turn that began here or of another, or that was
    /// decided: the frames for it. `data` is that of an `approval` event.
    pub fn hear(&mut self, call: &ToolCall, is_own: bool, data: &Value) -> Vec<Value> {
        let (tool, call_id) = (&call.name, call.id.as_str());
        if data["phase"] != "requested" {
            let approved = data["status"] == "approved";
            let known = self.0.remove(call_id);
            return known
                .map(|asked| frame::approval_resolved(Some(&asked.tool), call_id, approved))
                .into_iter()
                .collect();
        }
        let approval_id = data["approvalId"].as_str().unwrap_or_default().to_owned();
        let kind = kind_of(data);
        let deadline = is_own.then(|| Instant::now() + PATIENCE);
        let asked = Asked { kind, approval_id, tool: tool.clone(), is_own, deadline };
        let arguments = frame::arguments_text(&call.arguments).unwrap_or_default();
        self.ask(call_id, &arguments, asked)
    }

    /// The bus tells of a question in the conversation that is open here; in a turn
    /// that began elsewhere, so it goes by its own id.
    pub fn overhear(&mut self, question: &Question) -> Vec<Value> {
        let request = &question.request;
        let text = |name: &str| request[name].as_str().map(str::to_owned);
        let tool = text("toolName").unwrap_or_else(|| match question.kind {
            QuestionKind::Exec => "exec".into(),
            QuestionKind::Plugin => "tool".into(),
        });
        let said = text("command").or_else(|| text("description")).unwrap_or_default();
        let member = if question.kind == QuestionKind::Exec { "command" } else { "description" };
        let arguments = json!({ (member): said }).to_string();
        let (kind, approval_id) = (question.kind, question.id.clone());
        let asked = Asked { kind, approval_id, tool, is_own: false, deadline: None };
        self.ask(&question.id, &arguments, asked)
    }

    fn ask(&mut self, call_id: &str, arguments: &str, asked: Asked) -> Vec<Value> {
        let is_shown = self.0.contains_key(call_id) || self.has(&asked.approval_id);
        if is_shown || self.0.len() >= MAX_ASKED {
            return Vec::new();
        }
        let frames = frame::approval_requests(&asked.tool, call_id, arguments);
        self.0.insert(call_id.to_owned(), asked);
        frames.into()
    }

    /// The question about a call.
    pub fn find(&self, call_id: &str) -> Option<&Asked> {
        self.0.get(call_id)
    }

    /// It was answered here, or elsewhere: tells of it, unless that was done.
    pub fn settle(&mut self, call_id: &str, approved: bool) -> Option<Value> {
        let asked = self.0.remove(call_id)?;
        Some(frame::approval_resolved(Some(&asked.tool), call_id, approved))
    }

    /// Forgets those of turns that began elsewhere which nobody can answer any more.
    pub fn forget_unless(&mut self, is_asked: impl Fn(&str) -> bool) {
        self.0.retain(|_, asked| asked.is_own || is_asked(&asked.approval_id));
    }

    /// Whether a question is shown, under whatever id of a call.
    fn has(&self, approval_id: &str) -> bool {
        self.0.values().any(|asked| asked.approval_id == approval_id)
    }

    /// When the first becomes a no.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.0.values().filter_map(|asked| asked.deadline).min()
    }

    /// Those whose time is over. They are asked no more here; what becomes of them
    /// is still told.
    pub fn take_overdue(&mut self, now: Instant) -> Vec<Asked> {
        let overdue = |asked: &&mut Asked| asked.deadline.is_some_and(|deadline| deadline <= now);
        let all = self.0.values_mut().filter(overdue);
        all.map(|asked| {
            asked.deadline = None;
            asked.clone()
        })
        .collect()
    }

    /// Those of turns that began here: whoever was asked has gone.
    pub fn take_own(&mut self) -> Vec<Asked> {
        let all = std::mem::take(&mut self.0).into_values();
        all.filter(|asked| asked.is_own).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> ToolCall {
        let call = json!({"type": "toolCall", "id": id, "name": "exec", "arguments": {}});
        serde_json::from_value(call).unwrap()
    }

    fn requested(id: &str) -> Value {
        json!({"phase": "requested", "kind": "exec", "approvalId": id})
    }

    fn names(frames: &[Value]) -> Vec<&str> {
        frames.iter().map(|frame| frame["event"].as_str().unwrap()).collect()
    }

    #[tokio::test]
    async fn a_question_and_its_answer_are_told_once() {
        let mut questions = Questions::default();
        let asked = questions.hear(&call("c1"), true, &requested("a1"));
        assert_eq!(names(&asked), ["approval_request", "tool_approval_request"]);
        assert!(questions.hear(&call("c1"), true, &requested("a1")).is_empty());
        assert!(questions.has("a1"));
        let granted = json!({"phase": "resolved", "status": "approved"});
        let resolved = questions.hear(&call("c1"), true, &granted);
        assert_eq!(resolved, [frame::approval_resolved(Some("exec"), "c1", true)]);
        assert!(questions.hear(&call("c1"), true, &granted).is_empty());
        questions.hear(&call("c2"), true, &requested("a2"));
        assert!(questions.settle("c2", false).is_some());
        let denied = json!({"phase": "resolved", "status": "denied"});
        assert!(questions.hear(&call("c2"), true, &denied).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn after_five_minutes_a_question_is_overdue_once() {
        let mut questions = Questions::default();
        questions.hear(&call("c1"), true, &requested("a1"));
        let deadline = questions.next_deadline().unwrap();
        assert_eq!(deadline - Instant::now(), Duration::from_mins(5));
        assert!(questions.take_overdue(Instant::now()).is_empty());
        tokio::time::advance(PATIENCE).await;
        let overdue = questions.take_overdue(Instant::now());
        assert_eq!(overdue.len(), 1);
        assert_eq!((overdue[0].approval_id.as_str(), overdue[0].kind), ("a1", QuestionKind::Exec));
        assert!(questions.take_overdue(Instant::now()).is_empty());
        assert_eq!(questions.next_deadline(), None);
        let lapsed = json!({"phase": "resolved", "status": "unavailable"});
        let told = questions.hear(&call("c1"), true, &lapsed);
        assert_eq!(told, [frame::approval_resolved(Some("exec"), "c1", false)]);
    }

    #[tokio::test]
    async fn what_is_shown_is_bounded_and_goes_with_the_client() {
        let mut questions = Questions::default();
        for index in 0..=MAX_ASKED {
            let index = index.to_string();
            questions.hear(&call(&index), true, &requested(&format!("plugin:{index}")));
        }
        let own = questions.take_own();
        assert_eq!(own.len(), MAX_ASKED);
        assert!(own.iter().all(|asked| asked.kind == QuestionKind::Plugin));
        assert!(questions.take_own().is_empty());
    }
}
