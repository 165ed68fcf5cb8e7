//! Speaking to a sub-agent.
//!
//! Promises: what was accepted has a turn before the result is told, whatever
//! `messages.queue` says; one that waits is not begun by it.

use std::sync::Arc;

use tracing::Instrument;

use crate::agent::RunTerms;
use crate::agent::inter_session::{self, Source};
use crate::agent::report::Family;
use crate::agent::request::SendRequest;
use crate::agent::run::{AbortReason, ActiveRun};
use crate::agent::runs::Runs;
use crate::auth::Owner;
use crate::protocol::message::UserMessage;
use crate::sessions::SessionKey;
use crate::store::{SubagentRow, SubagentState};
use crate::telemetry::traces;

use super::SpawnError;

/// Most bytes that are kept for one that waits: each call of its model will carry
/// them.
const WAITING_MAX: usize = 100_000;

/// How a session speaks to a sub-agent under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// After what it does.
    Send,
    /// In the place of what it does.
    Steer,
}

impl Runs {
    /// Says something to a sub-agent. One that is over begins again, and its
    /// result is told like the first. `by` is who says it, and the run that does.
    /// Answers the id of the run that answers. Who asks may go away: what is said is
    /// said to its end, unless the run that says it was stopped meanwhile.
    ///
    /// # Errors
    /// When it could not be said.
    pub async fn tell_subagent(
        self: &Arc<Self>,
        row: &SubagentRow,
        text: &str,
        said: Said,
        by: (Owner, Option<Arc<ActiveRun>>),
    ) -> Result<String, SpawnError> {
        let (runs, row, text) = (Arc::clone(self), row.clone(), text.to_owned());
        let telling = Box::pin(async move { runs.tell(row, &text, said, by).await });
        let telling = traces::within(traces::current(), telling).in_current_span();
        let told = self.parts.tasks.result_of("tell", telling).await;
        told.unwrap_or(Err(SpawnError::Broken))
    }

    async fn tell(
        self: &Arc<Self>,
        row: SubagentRow,
        text: &str,
        said: Said,
        (owner, run): (Owner, Option<Arc<ActiveRun>>),
    ) -> Result<String, SpawnError> {
        let parent = SessionKey::from_canonical(row.parent_key.as_str());
        let child = SessionKey::from_canonical(row.child_key.as_str());
        if self.parts.sessions.entry(&child).await?.is_none() {
            return Err(SpawnError::Invalid("the sub-agent's session is gone".into()));
        }
        let source = Source { key: &parent, channel: None, tool: "subagents" };
        let message = inter_session::message(source, text, self.parts.clock.now_ms());
        match said {
            Said::Steer => {
                self.stop_subagent(&row.run_id, AbortReason::Rpc).await;
            }
            Said::Send => {
                let told = self.tell_open(&row.run_id, &child, &message, &owner).await?;
                if let Some(answering) = told {
                    return Ok(answering);
                }
            }
        }
        let place = match run.as_deref() {
            Some(run) => run.terms.hearer.chat().cloned(),
            // A person has commanded it: it is told where it was to be.
            None => row.place.clone(),
        };
        let again = SubagentRow {
            place,
            run_id: self.parts.ids.uuid(),
            parent_run_id: run.as_ref().map(|run| run.id.to_string()),
            owner: owner.to_text(),
            message: message.content.text(),
            state: SubagentState::Waiting,
            outcome: None,
            created_at: self.parts.clock.now_ms(),
            ended_at: None,
            ..row
        };
        let limit = self.parts.settings.now().agents.defaults.subagent_limits.max_children;
        if !self.parts.store.add_subagent(again.clone(), limit).await? {
            return Err(SpawnError::Forbidden(format!(
                "this session has {limit} active sub-agents already, as many as it may"
            )));
        }
        let run_id = again.run_id.clone();
        self.drive_subagent(again);
        // Whoever stops the run either saw the row, or is seen here.
        if run.is_some_and(|run| run.abort_reason().is_some()) {
            self.stop_subagent(&run_id, AbortReason::Rpc).await;
        }
        Ok(run_id)
    }

    /// Says it to one that is not over. One that waits hears it with its task; one
    /// that runs has a turn for it after what it does. Answers the run that answers,
    /// or nothing when it is over.
    async fn tell_open(
        self: &Arc<Self>,
        run_id: &str,
        child: &SessionKey,
        message: &UserMessage,
        owner: &Owner,
    ) -> Result<Option<String>, SpawnError> {
        let _turn = self.subagents.turning.lock().await;
        let Some(now) = self.subagent_now(run_id).await? else { return Ok(None) };
        match now.state {
            SubagentState::Waiting => {
                let text = message.content.text();
                if now.message.len() + text.len() > WAITING_MAX {
                    let error = "the sub-agent has not begun and was told too much already; \
                                 say it when it runs";
                    return Err(SpawnError::Invalid(error.into()));
                }
                let is_told = self.parts.store.tell_waiting_subagent(run_id, &text).await?;
                Ok(is_told.then(|| run_id.to_owned()))
            }
            SubagentState::Active => self.queue_message(child, message, owner).await.map(Some),
            SubagentState::Ended | SubagentState::Announced | SubagentState::Stopped => Ok(None),
        }
    }

    async fn queue_message(
        self: &Arc<Self>,
        child: &SessionKey,
        message: &UserMessage,
        owner: &Owner,
    ) -> Result<String, SpawnError> {
        let run_id = self.parts.ids.uuid();
        let sent = self.send(SendRequest {
            // Always gets a turn, and stops nobody's.
            family: Family::Agent,
            key: child.clone(),
            written_key: child.to_string(),
            idempotency_key: run_id.clone(),
            message: message.clone(),
            media: None,
            thinking: None,
            owner: owner.clone(),
            dedupe_text: None,
            limit: None,
            terms: RunTerms::default(),
        });
        let (_, start) = sent.await.map_err(|error| SpawnError::Invalid(error.to_string()))?;
        drop(start);
        Ok(run_id)
    }
}
