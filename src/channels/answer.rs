//! What a person hears of the end of a run.
//!
//! Promises: all that was said of an answer, and why there is no more; of a run of the last
//! process, what its transcript has. Must not: send it.

use serde_json::Value;

use super::replies::ReplyTo;
use super::service::Channels;
use crate::agent::subagents::hears_of_another;
use crate::agent::{AbortReason, RunEnd, RunReport, Runs, Speech, add_turn};
use crate::protocol::message::AgentMessage;
use crate::providers::text_for_people;
use crate::sessions::HistoryOptions;

/// How far back the reply of a run of the last process is looked for.
const LOOK_BACK: usize = 400;
/// What somebody hears whose message was being answered when the gateway stopped.
const INTERRUPTED: &str =
    "⚠️ The gateway stopped before it had answered. Send your message again to get an answer.";
/// What somebody hears for whom a result was being told then, of which they have sent nothing.
const RESULT_INTERRUPTED: &str = "⚠️ The gateway stopped before it had told you of a result that \
    has come. Ask for it to hear it.";
/// What somebody hears whose answer took too long.
const TIMED_OUT: &str = "⚠️ It took too long and was stopped.";
/// What somebody hears whose message was being answered when somebody else stopped that.
const STOPPED: &str = "⚠️ It was stopped.";

impl Channels {
    /// What a person gets of the end of a run: what it has said, and why there is no more; and
    /// whether that is a note that the message is to be sent again.
    pub(super) async fn answer_of(
        &self,
        runs: &Runs,
        reply: &ReplyTo,
        report: &RunReport,
    ) -> (Speech, bool) {
        let (progress, is_cut) = (&report.progress, is_cut_off(report));
        let is_result = hears_of_another(&reply.run_id);
        let interrupted = if is_result { RESULT_INTERRUPTED } else { INTERRUPTED };
        let note = match &report.end {
            RunEnd::Answered => String::new(),
            _ if is_cut => {
                tracing::info!(run = reply.run_id, "told a person that a run was cut off");
                interrupted.to_owned()
            }
            RunEnd::Failed(error) => {
                format!("⚠️ No answer: {}", text_for_people(error, "unknown"))
            }
            RunEnd::Aborted(AbortReason::Timeout) => TIMED_OUT.to_owned(),
            RunEnd::Aborted(_) if progress.is_taken_away => STOPPED.to_owned(),
            // Who is answered has asked for it.
            RunEnd::Aborted(_) => return (Speech::default(), false),
        };
        let (mut said, has_answered) = if runs.remembered(report.family, &report.run_id).is_some() {
            // A silent reply says nothing, and may have files.
            (progress.speech(), false)
        } else {
            self.stored_reply(reply).await.unwrap_or_default()
        };
        if is_cut && has_answered {
            // What was cut off is the answer to a message that came meanwhile.
            return (said, false);
        }
        add_turn(&mut said.text, &note);
        (said, is_cut)
    }

    /// What a run of the last process has said, out of its transcript, and whether that is an
    /// answer to its message.
    async fn stored_reply(&self, reply: &ReplyTo) -> Option<(Speech, bool)> {
        let defaults = HistoryOptions::default();
        let options =
            HistoryOptions { limit: LOOK_BACK, is_raw: true, has_run_ids: true, ..defaults };
        let page = self.0.parts.sessions.history(&reply.key, options).await;
        let messages = page
            .inspect_err(|error| tracing::error!(run = reply.run_id, %error, "reply not found"))
            .ok()?
            .messages;
        let begins = |message: &Value| message["idempotencyKey"] == reply.run_id.as_str();
        // The key of a run that was stopped may be used again: the last one is meant.
        let at = messages.iter().rposition(begins)?;
        let told = messages.iter().skip(at + 1).take_while(|message| message["role"] != "user");
        let told = told.filter_map(|it| serde_json::from_value::<AgentMessage>(it.clone()).ok());
        // What a command was answered meanwhile is none of it.
        let is_note = |it: &AgentMessage| match it {
            AgentMessage::Assistant(answer) => answer.is_from_gateway(),
            AgentMessage::User(_) | AgentMessage::ToolResult(_) => false,
        };
        let told: Vec<_> = told.filter(|message| !is_note(message)).collect();
        let has_answered = matches!(told.last(), Some(AgentMessage::Assistant(answer))
            if answer.stop_reason.ended_by_itself());
        let mut speech = Speech::default();
        for message in &told {
            speech.hear(message);
        }
        Some((speech, has_answered))
    }
}

/// Whether a stop of the gateway has ended a run.
fn is_cut_off(report: &RunReport) -> bool {
    report.is_interrupted() || report.end == RunEnd::Aborted(AbortReason::Shutdown)
}
