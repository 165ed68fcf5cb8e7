//! Asking a person about a tool call that is no command.
//!
//! Promises: what is shown is the whole call; without a yes in time it is a no.
//! Whoever gives up waiting takes the question back. Must not: know why it is asked.

use serde_json::Value;

use super::asking::{ApprovalNews, Asked};
use super::authorize::SHOWN_MAX;
use super::pending::{Decision, Draft, QuestionKind};
use super::service::Approvals;
use crate::bus::Audience;
use crate::config::GUARDRAIL_ASK_LIMIT;
use crate::sessions::SessionKey;
use crate::support::json;

/// Who asks, as plugins are called.
const ASKER: &str = "guardrails";

/// The call that is asked about.
#[derive(Debug, Clone, Copy)]
pub struct ToolQuestion<'a> {
    /// The tool.
    pub tool: &'a str,
    /// With what it is called.
    pub arguments: &'a Value,
    /// The model's name for the call.
    pub call_id: &'a str,
    /// Id of the agent.
    pub agent: &'a str,
    /// The session of the call.
    pub session: &'a SessionKey,
}

/// Why a call may not go on, in a word and for the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ToolRefusal {
    /// A person said no.
    #[error("a person said no to it")]
    Denied,
    /// Nobody said anything in time.
    #[error("nobody answered in time whether it may be used")]
    Expired,
    /// Nobody is connected who could be asked.
    #[error("a person has to allow it, and nobody who could is connected")]
    NoRoute,
    /// It cannot be shown whole.
    #[error("its arguments are too long to be shown whole to whoever decides")]
    TooLong,
    /// Too many questions are open.
    #[error("too many questions are waiting for an answer")]
    Full,
}

impl Approvals {
    /// Asks whether a call may go on; that takes as long as it takes. Dropping the
    /// future takes the question back.
    ///
    /// # Errors
    /// When it may not.
    pub async fn ask_about(
        &self,
        about: &ToolQuestion<'_>,
        news: &dyn ApprovalNews,
    ) -> Result<(), ToolRefusal> {
        let shown = about.arguments.to_string();
        if shown.len() > SHOWN_MAX {
            return Err(ToolRefusal::TooLong);
        }
        if !self.parts.bus.wants(QuestionKind::Plugin.requested(), &Audience::Everyone) {
            return Err(ToolRefusal::NoRoute);
        }
        let allowed = vec![Decision::AllowOnce, Decision::Deny];
        let words: Vec<_> = allowed.iter().map(|decision| decision.as_str()).collect();
        let request = json!({
            "pluginId": ASKER,
            "title": format!("Allow the tool {}?", about.tool),
            "description": shown,
            "severity": "warning",
            "toolName": about.tool,
            "toolCallId": about.call_id,
            "agentId": about.agent,
            "sessionKey": about.session.as_str(),
            "turnSourceChannel": null,
            "turnSourceTo": null,
            "turnSourceAccountId": null,
            "turnSourceThreadId": null,
            "allowedDecisions": words,
        });
        let kind = QuestionKind::Plugin;
        let (limit, call_id) = (GUARDRAIL_ASK_LIMIT, Some(about.call_id.to_owned()));
        let draft = Draft { kind, request, allowed, limit, call_id };
        let question = self.open(None, draft).map_err(|_| ToolRefusal::Full)?;
        let about = Asked {
            kind: "plugin",
            noun: "Tool",
            item: "tool",
            call_id: about.call_id,
            rest: &[("toolName", about.tool)],
        };
        match self.wait(&question, about, news).await {
            None => Err(ToolRefusal::Expired),
            Some(Decision::Deny) => Err(ToolRefusal::Denied),
            Some(_) => Ok(()),
        }
    }
}
