//! The calls that wait for a decision of this client.
//!
//! Owns: which they are. Promises: a client is told once of a question and once of
//! its answer, whoever answers; no two have one name, by which he answers, so that what he
//! says late to the one says nothing to the other.
//! Plain data: whoever has it locks it.

use std::collections::VecDeque;
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

/// Ids of calls that were asked about and are remembered: whoever answers a question that
/// so many others have followed has not clicked twice.
const MAX_USED: usize = 256;

/// A question that a client is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// What kind it is of.
    pub kind: QuestionKind,
    /// Its id.
    pub approval_id: String,
    /// By which the client names it: the id of the call, or its own where another one is, or
    /// was, about a call with the same id.
    pub call_id: String,
    /// The id of the call, by which the client may name it too, where it goes by its own.
    pub also: Option<String>,
    /// The tool that is called.
    pub tool: String,
    /// Whether it is asked in a turn that began here.
    pub is_own: bool,
    /// When it becomes a no by itself; none where that is not up to us.
    pub deadline: Option<Instant>,
}

impl Asked {
    fn resolved(&self, approved: bool) -> Value {
        frame::approval_resolved(Some(&self.tool), &self.call_id, approved)
    }
}

/// The questions, in the order in which they were asked.
#[derive(Debug, Default)]
pub struct Questions {
    waiting: Vec<Asked>,
    /// Ids of calls by which a question was named, the newest last.
    used: VecDeque<String>,
}

impl Questions {
    /// A call of a turn that began here is asked about, or that was decided, of any
    /// turn: the frames for it. `data` is that of an `approval` event.
    pub fn hear(&mut self, call: &ToolCall, data: &Value) -> Vec<Value> {
        let approval_id = data["approvalId"].as_str().unwrap_or_default().to_owned();
        if data["phase"] != "requested" {
            return self.settle(&approval_id, data["status"] == "approved");
        }
        let kind = kind_of(data);
        let (call_id, tool) = (call.id.clone(), call.name.clone());
        let arguments = frame::arguments_text(&call.arguments).unwrap_or_default();
        let deadline = Some(Instant::now() + PATIENCE);
        let (also, is_own) = (None, true);
        self.ask(Asked { kind, approval_id, call_id, also, tool, is_own, deadline }, &arguments)
    }

    /// There is a question in the conversation that is open here, which goes by its own id;
    /// in a turn that began elsewhere, so it waits as long as it may, unless it `is_own` and
    /// only the news of it were missed.
    pub fn overhear(&mut self, question: &Question, is_own: bool) -> Vec<Value> {
        let request = &question.request;
        let text = |name: &str| request[name].as_str().map(str::to_owned);
        let tool = text("toolName").unwrap_or_else(|| match question.kind {
            QuestionKind::Exec => "exec".into(),
            QuestionKind::Plugin => "tool".into(),
        });
        let said = text("command").or_else(|| text("description")).unwrap_or_default();
        let member = if question.kind == QuestionKind::Exec { "command" } else { "description" };
        // What is asked about a tool describes its call by the arguments.
        let given: Option<Value> =
            text("toolCallId").and_then(|_| serde_json::from_str(&said).ok());
        let given = given.filter(Value::is_object);
        let mut arguments = given.unwrap_or_else(|| json!({ (member): said }));
        if let Some(warning) = text("warningText") {
            arguments["warning"] = warning.into();
        }
        let arguments = arguments.to_string();
        let (kind, approval_id, call_id) =
            (question.kind, question.id.clone(), question.id.clone());
        let also = question.call_id.clone();
        let deadline = is_own.then(|| Instant::now() + PATIENCE);
        self.ask(Asked { kind, approval_id, call_id, also, tool, is_own, deadline }, &arguments)
    }

    /// The same for one whose news were missed, if it may be shown. What a client asks about a
    /// session is of no turn in it.
    pub fn find_out(&mut self, question: &Question, is_own: bool, may_decide: bool) -> Vec<Value> {
        let is_own = is_own && question.call_id.is_some();
        if is_own || may_decide { self.overhear(question, is_own) } else { Vec::new() }
    }

    fn ask(&mut self, mut asked: Asked, arguments: &str) -> Vec<Value> {
        if self.has(&asked.approval_id) || self.waiting.len() >= MAX_ASKED {
            return Vec::new();
        }
        // An answer that is meant for the one must not decide the other.
        if self.is_taken(&asked.call_id) {
            asked.call_id.clone_from(&asked.approval_id);
        } else {
            self.use_up(asked.call_id.clone());
        }
        asked.also = asked.also.filter(|id| !self.is_taken(id));
        if let Some(id) = asked.also.clone() {
            self.use_up(id);
        }
        let frames = frame::approval_requests(&asked.tool, &asked.call_id, arguments);
        self.waiting.push(asked);
        frames.into()
    }

    /// Whether another question goes, or went, by this name.
    fn is_taken(&self, name: &str) -> bool {
        self.used.iter().any(|used| used == name) || self.find(name).is_some()
    }

    /// Remembers a name that no other question gets.
    fn use_up(&mut self, name: String) {
        if self.used.len() >= MAX_USED {
            self.used.pop_front();
        }
        self.used.push_back(name);
    }

    /// The question that the client was told of by this name, or about the call with this id.
    pub fn find(&self, call_id: &str) -> Option<&Asked> {
        let is_it =
            |asked: &&Asked| asked.call_id == call_id || asked.also.as_deref() == Some(call_id);
        self.waiting.iter().find(is_it)
    }

    /// It was answered here, or elsewhere: tells of it, unless that was done.
    pub fn settle(&mut self, approval_id: &str, approved: bool) -> Vec<Value> {
        self.settle_ended(|asked| (asked.approval_id == approval_id).then_some(approved))
    }

    /// Tells of those that have ended; `ending` says whether that was a yes, and
    /// nothing of those that wait.
    pub fn settle_ended(&mut self, ending: impl Fn(&Asked) -> Option<bool>) -> Vec<Value> {
        let mut told = Vec::new();
        self.waiting.retain(|asked| {
            let ended = ending(asked);
            told.extend(ended.map(|approved| asked.resolved(approved)));
            ended.is_none()
        });
        told
    }

    /// Whether a question is shown.
    pub fn has(&self, approval_id: &str) -> bool {
        self.waiting.iter().any(|asked| asked.approval_id == approval_id)
    }

    /// When the first becomes a no.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(|asked| asked.deadline).min()
    }

    /// Those whose time is over. They are asked no more here; what becomes of them
    /// is still told.
    pub fn take_overdue(&mut self, now: Instant) -> Vec<Asked> {
        let overdue = |asked: &&mut Asked| asked.deadline.is_some_and(|deadline| deadline <= now);
        let all = self.waiting.iter_mut().filter(overdue);
        all.map(|asked| {
            asked.deadline = None;
            asked.clone()
        })
        .collect()
    }

    /// Those of turns that began here: whoever was asked has gone.
    pub fn take_own(&mut self) -> Vec<Asked> {
        let all = std::mem::take(&mut self.waiting).into_iter();
        all.filter(|asked| asked.is_own).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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
        let asked = questions.hear(&call("c1"), &requested("a1"));
        assert_eq!(names(&asked), ["approval_request", "tool_approval_request"]);
        assert!(questions.hear(&call("c1"), &requested("a1")).is_empty());
        assert!(questions.has("a1"));
        let granted = json!({"phase": "resolved", "status": "approved", "approvalId": "a1"});
        let resolved = questions.hear(&call("c1"), &granted);
        assert_eq!(resolved, [frame::approval_resolved(Some("exec"), "c1", true)]);
        assert!(questions.hear(&call("c1"), &granted).is_empty());
        questions.hear(&call("c2"), &requested("a2"));
        assert_eq!(questions.settle("a2", false).len(), 1);
        let denied = json!({"phase": "resolved", "status": "denied", "approvalId": "a2"});
        assert!(questions.hear(&call("c2"), &denied).is_empty());
    }

    #[tokio::test]
    async fn of_calls_with_one_id_the_later_ones_are_asked_about_under_names_of_their_own() {
        let mut questions = Questions::default();
        for (id, name) in [("a1", "c1"), ("a2", "a2"), ("a3", "a3")] {
            let asked = questions.hear(&call("c1"), &requested(id));
            assert_eq!(names(&asked), ["approval_request", "tool_approval_request"]);
            assert!(asked.iter().all(|frame| frame["call_id"] == name), "{asked:?}");
            assert_eq!(questions.find(name).unwrap().approval_id, id);
        }
        let told = questions.settle("a1", true);
        assert_eq!(told, [frame::approval_resolved(Some("exec"), "c1", true)]);
        // What is said to it once more is said to nobody.
        assert_eq!(questions.find("c1"), None);
        let told = questions.settle("a3", false);
        assert_eq!(told, [frame::approval_resolved(Some("exec"), "a3", false)]);
        assert_eq!(questions.find("a2").unwrap().approval_id, "a2");
    }

    #[tokio::test]
    async fn what_is_said_late_to_a_question_is_no_answer_to_a_later_one() {
        let mut questions = Questions::default();
        let mut ask = |call_id: &str, id: &str| {
            let asked = questions.hear(&call(call_id), &requested(id));
            questions.settle(id, true);
            asked[0]["call_id"].as_str().unwrap().to_owned()
        };
        assert_eq!(ask("c1", "a1"), "c1");
        assert_eq!(ask("c1", "a2"), "a2");
        for index in 0..MAX_USED {
            let id = format!("x{index}");
            assert_eq!(ask(&id, &format!("b{index}")), id);
        }
        // After so many others nobody means the first one any more.
        assert_eq!(ask("c1", "a3"), "c1");
        assert!(questions.used.len() <= MAX_USED);
    }

    #[tokio::test(start_paused = true)]
    async fn after_five_minutes_a_question_is_overdue_once() {
        let mut questions = Questions::default();
        questions.hear(&call("c1"), &requested("a1"));
        let deadline = questions.next_deadline().unwrap();
        assert_eq!(deadline - Instant::now(), Duration::from_mins(5));
        assert!(questions.take_overdue(Instant::now()).is_empty());
        tokio::time::advance(PATIENCE).await;
        let overdue = questions.take_overdue(Instant::now());
        assert_eq!(overdue.len(), 1);
        assert_eq!((overdue[0].approval_id.as_str(), overdue[0].kind), ("a1", QuestionKind::Exec));
        assert!(questions.take_overdue(Instant::now()).is_empty());
        assert_eq!(questions.next_deadline(), None);
        let lapsed = json!({"phase": "resolved", "status": "unavailable", "approvalId": "a1"});
        let told = questions.hear(&call("c1"), &lapsed);
        assert_eq!(told, [frame::approval_resolved(Some("exec"), "c1", false)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_whose_news_were_missed_waits_and_goes_as_one_that_was_heard_of() {
        let mut questions = Questions::default();
        for (id, is_own) in [("a1", false), ("a2", true)] {
            let asked = questions.overhear(&Question::example(id), is_own);
            assert_eq!(names(&asked), ["approval_request", "tool_approval_request"]);
            assert_eq!(asked[0]["call_id"], id);
        }
        let deadline = questions.next_deadline().unwrap();
        assert_eq!(deadline - Instant::now(), PATIENCE);
        // Heard of after all.
        assert!(questions.hear(&call("c2"), &requested("a2")).is_empty());
        let own: Vec<_> = questions.take_own().into_iter().map(|it| it.approval_id).collect();
        assert_eq!(own, ["a2"]);
    }

    #[tokio::test]
    async fn of_what_was_missed_calls_are_of_the_turn_and_the_rest_is_for_who_may_decide() {
        for (call_id, may_decide, shown) in [
            (Some("c1"), false, Some(true)),
            (Some("c1"), true, Some(true)),
            (None, true, Some(false)),
            (None, false, None),
        ] {
            let mut questions = Questions::default();
            let mut question = Arc::into_inner(Question::example("a1")).unwrap();
            question.call_id = call_id.map(str::to_owned);
            let frames = questions.find_out(&question, true, may_decide);
            assert_eq!(frames.is_empty(), shown.is_none(), "{call_id:?}");
            let asked = questions.find("a1");
            assert_eq!(asked.map(|asked| asked.is_own), shown, "{call_id:?}");
            let waits = asked.is_some_and(|asked| asked.deadline.is_some());
            assert_eq!(waits, shown == Some(true), "{call_id:?}");
        }
    }

    #[tokio::test]
    async fn a_question_about_another_clients_call_is_answered_by_the_id_of_that_too() {
        let about = |id: &str| {
            let mut question = Arc::into_inner(Question::example(id)).unwrap();
            question.kind = QuestionKind::Plugin;
            question.request = json!({"toolName": "read", "toolCallId": "c1",
                "description": "{\"path\":\"x\"}"});
            question.call_id = Some("c1".into());
            question
        };
        let mut questions = Questions::default();
        let asked = questions.overhear(&about("a1"), false);
        assert_eq!((&asked[0]["call_id"], &asked[0]["tool"]), (&json!("a1"), &json!("read")));
        assert_eq!(asked[0]["arguments"], r#"{"path":"x"}"#);
        for name in ["a1", "c1"] {
            assert_eq!(questions.find(name).unwrap().approval_id, "a1", "{name}");
        }
        // Of two calls with one id it means the first, and then none.
        questions.overhear(&about("a2"), false);
        questions.settle("a1", true);
        assert_eq!(questions.find("c1"), None);
        assert_eq!(questions.find("a2").unwrap().approval_id, "a2");
    }

    #[tokio::test]
    async fn what_is_shown_is_bounded_and_goes_with_the_client() {
        let mut questions = Questions::default();
        for index in 0..=MAX_ASKED {
            let index = index.to_string();
            questions.hear(&call(&index), &requested(&format!("plugin:{index}")));
        }
        let own = questions.take_own();
        assert_eq!(own.len(), MAX_ASKED);
        assert!(own.iter().all(|asked| asked.kind == QuestionKind::Plugin));
        assert!(questions.take_own().is_empty());
    }
}
