//! What a run of `agent` has said, for the answer that tells its end.
//!
//! Promises: also of a run of an earlier process, as long as its session goes on with the
//! same transcript.

use std::io;
use std::sync::Arc;

use serde_json::Value;

use crate::agent::{AbortReason, Family, RunEnd, RunReport, Speech};
use crate::protocol::message::AgentMessage;
use crate::registry::Ctx;
use crate::sessions::{Entries, EntryBody, EntryPlace, SessionError, SessionKey, StoredTranscript};
use crate::support::json;

/// What is told in the place of an answer that has not begun in its time, as by the original.
const NO_ANSWER_IN_TIME: &str = "Request timed out before a response was generated. Please try \
    again, or increase `agents.defaults.timeoutSeconds` in your config.";
/// What is told after an answer that its time has cut.
const CUT_BY_TIME: &str = "Request timed out before the response was complete. Please try again \
    with a longer timeout, or increase `agents.defaults.timeoutSeconds` in your config.";

/// What a run has said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// Turn by turn.
    turns: Vec<String>,
    whole: Speech,
}

impl Said {
    /// What a run has said that has ended; `None` where nothing tells of it any more.
    pub async fn by(cx: &Ctx, report: &RunReport) -> Option<Self> {
        let progress = &report.progress;
        let is_remembered = progress.started_at.is_some() || !progress.shown().is_empty();
        if is_remembered || report.end != RunEnd::Answered {
            let turns = progress.said().into_iter().map(str::to_owned).collect();
            return Some(Self { turns, whole: progress.speech() });
        }
        let read = read(cx, report).await;
        read.unwrap_or_else(|error| {
            tracing::error!(run = %report.run_id, %error, "what a run has said was not found");
            None
        })
    }

    /// What it has said last.
    pub fn last(&self) -> &str {
        self.turns.last().map_or("", String::as_str)
    }

    /// One for each turn that has said something; its files come with the last one. Where
    /// it took too long, another one says so: what was cut is no answer.
    pub fn payloads(&self, end: &RunEnd) -> Vec<Value> {
        let files = &self.whole.files;
        let said = self.turns.iter().map(String::as_str);
        let mut said: Vec<_> = said.filter(|said| !said.trim().is_empty()).collect();
        if said.is_empty() && !files.is_empty() {
            said.push("");
        }
        let mut payloads: Vec<_> =
            said.iter().map(|said| json!({"text": said, "mediaUrl": null})).collect();
        if let Some(last) = payloads.last_mut()
            && !files.is_empty()
        {
            last["mediaUrl"] = json!(files.first());
            last["mediaUrls"] = json!(files);
        }
        if *end == RunEnd::Aborted(AbortReason::Timeout) {
            let why = if payloads.is_empty() { NO_ANSWER_IN_TIME } else { CUT_BY_TIME };
            payloads.push(json!({"text": why, "mediaUrl": null, "isError": true}));
        }
        payloads
    }
}

/// The same from its transcript.
async fn read(cx: &Ctx, report: &RunReport) -> Result<Option<Said>, SessionError> {
    let (services, family) = (&cx.services, Family::Agent.as_str());
    let record = services.runs.parts().store.run_of(family, &report.run_id).await?;
    let Some(record) = record else { return Ok(None) };
    let key = SessionKey::from_canonical(record.session_key);
    let Some(entry) = services.sessions.entry(&key).await? else { return Ok(None) };
    let (run_id, ended_at) = (Arc::clone(&report.run_id), report.ended_at);
    let read = move |transcript: StoredTranscript<'_>| {
        told(transcript.entries(EntryPlace::default())?, &run_id, ended_at)
    };
    services.sessions.read_transcript(&key, &entry, read).await
}

/// What a transcript tells of a run. All that models say between its message and its end is of
/// it, also after messages that went into it.
fn told(entries: Entries<'_>, run_id: &str, ended_at: u64) -> io::Result<Option<Said>> {
    let mut said: Option<Said> = None;
    for entry in entries {
        let entry = entry?;
        if entry.timestamp > ended_at {
            continue;
        }
        let EntryBody::Message(message) = entry.body else { continue };
        match &message {
            AgentMessage::User(user) => {
                let key = user.extra.get("idempotencyKey").and_then(Value::as_str);
                if key == Some(run_id) {
                    said = Some(Said::default());
                }
            }
            AgentMessage::Assistant(answer) if answer.is_from_gateway() => {}
            AgentMessage::Assistant(_) | AgentMessage::ToolResult(_) => {
                if let Some(said) = &mut said {
                    let mut turn = Speech::default();
                    turn.hear(&message);
                    said.turns.push(turn.text);
                    said.whole.hear(&message);
                }
            }
        }
    }
    Ok(said)
}
