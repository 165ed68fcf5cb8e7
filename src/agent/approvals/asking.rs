//! Waiting for a person's answer.
//!
//! Owns: the `approval` events of a run. Promises: whoever gives up waiting takes the question
//! back. Must not: know what a yes leads to.

use std::sync::Arc;

use serde_json::Value;

use super::pending::{Decision, Question};
use super::service::Approvals;
use crate::support::{BoxFuture, json};

/// Who tells a run's watchers of a question.
pub trait ApprovalNews: Send + Sync {
    /// Tells the data of an `approval` event.
    fn tell(&self, data: Value) -> BoxFuture<'_, ()>;

    /// Waits for a person's answer: nobody works on anything meanwhile.
    fn while_asked<'a>(
        &'a self,
        asking: BoxFuture<'a, Option<Decision>>,
    ) -> BoxFuture<'a, Option<Decision>> {
        asking
    }
}

/// The call that a question is about, as its events say it.
pub(super) struct Asked<'a> {
    /// `exec` or `plugin`.
    pub kind: &'static str,
    /// What titles call it, such as `Command`.
    pub noun: &'static str,
    /// What its item is named by, before the id of the call.
    pub item: &'static str,
    /// The model's name for the call.
    pub call_id: &'a str,
    /// What else is told of it: by name, as text.
    pub rest: &'a [(&'static str, &'a str)],
}

impl Approvals {
    /// Tells of a question, waits for its answer, and tells of that. Dropping the future takes
    /// the question back.
    pub(super) async fn wait(
        &self,
        question: &Arc<Question>,
        about: Asked<'_>,
        news: &dyn ApprovalNews,
    ) -> Option<Decision> {
        let guard = Withdrawal { approvals: self, question };
        let mut asked = data(question, &about, "requested", "pending", "requested");
        if let Some(warning) = question.request["warningText"].as_str() {
            asked["warningText"] = warning.into();
        }
        let asking = async {
            news.tell(asked).await;
            let answer = question.decision().await;
            drop(guard);
            let (status, end) = match answer {
                None => ("unavailable", "expired"),
                Some(Decision::Deny) => ("denied", "denied"),
                Some(_) => ("approved", "granted"),
            };
            news.tell(data(question, &about, "resolved", status, end)).await;
            answer
        };
        news.while_asked(Box::pin(asking)).await
    }
}

fn data(question: &Question, about: &Asked<'_>, phase: &str, status: &str, end: &str) -> Value {
    let mut data = json!({
        "phase": phase,
        "kind": about.kind,
        "status": status,
        "title": format!("{} approval {end}", about.noun),
        "itemId": format!("{}:{}", about.item, about.call_id),
        "toolCallId": about.call_id,
        "approvalId": question.id,
        "approvalSlug": slug(&question.id),
    });
    for (name, text) in about.rest {
        data[*name] = (*text).into();
    }
    data["message"] = "".into();
    data
}

/// Takes a question back when nobody waits for its answer any more.
struct Withdrawal<'a> {
    approvals: &'a Approvals,
    question: &'a Question,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        let Self { approvals, question } = self;
        let tell = || approvals.tell_resolved(question, Decision::Deny, "gateway");
        question.decide_then(Decision::Deny, tell);
    }
}

/// How people name a question: its first eight characters.
fn slug(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}
