//! A result on its way to whoever asked for it.
//!
//! Promises: it arrives once, however often it is tried. Its run has an id of its
//! own, made of those of the child, and an id is answered once, also across a restart.
//! What it brings to the run of a job waits until nothing runs in the session of the job.

use std::sync::Arc;

use crate::agent::inter_session::{self, Source};
use crate::agent::report::Family;
use crate::agent::request::SendRequest;
use crate::agent::runs::{Accepted, Runs, SendError, Start};
use crate::agent::terms::RunTerms;
use crate::auth::Owner;
use crate::sessions::{SessionKey, directives};
use crate::store::{SubagentRow, SubagentState};

use super::Outcome;

/// The tool that it comes by, as clients see it.
const TOOL: &str = "subagent_announce";
/// How ids of its runs begin.
pub(super) const ID_PREFIX: &str = "announce:v1:";

impl Runs {
    /// Tells the parent of an end, then clears up.
    ///
    /// # Errors
    /// When it could not be told now.
    pub(super) async fn announce_subagent(
        self: &Arc<Self>,
        row: &SubagentRow,
        outcome: &Outcome,
    ) -> Result<(), SendError> {
        let parent = SessionKey::from_canonical(row.parent_key.as_str());
        let is_silent = outcome.status == "ok" && directives::is_silent(&outcome.text);
        if !is_silent {
            match self.say_result(row, outcome, &parent).await {
                Ok(true) => {}
                // Somebody has stopped it, or the next start tells it.
                Ok(false) | Err(SendError::Stopping) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.move_subagent(&row.run_id, SubagentState::Announced, None).await?;
        if row.is_temporary {
            self.remove_subagent(&row.child_key).await;
        }
        Ok(())
    }

    /// Says it to the parent; false when somebody has stopped the sub-agent meanwhile.
    async fn say_result(
        self: &Arc<Self>,
        row: &SubagentRow,
        outcome: &Outcome,
        parent: &SessionKey,
    ) -> Result<bool, SendError> {
        let owner = Owner::from_text(&row.owner);
        let held = self.hold_row(parent, owner.clone()).await?;
        // Without a session there is nobody to say it to.
        let Some(entry) = self.parts.sessions.entry(parent).await? else { return Ok(true) };
        let child = SessionKey::from_canonical(row.child_key.as_str());
        let of_child = self.parts.sessions.entry(&child).await.ok().flatten();
        let channel = of_child.and_then(|entry| entry.last_channel);
        let source = Source { key: &child, channel: channel.as_deref(), tool: TOOL };
        let now = self.parts.clock.now_ms();
        let request = SendRequest {
            family: Family::Agent,
            key: parent.clone(),
            written_key: parent.to_string(),
            idempotency_key: format!("{ID_PREFIX}{}:{}", row.child_key, row.run_id),
            message: inter_session::internal(source, &outcome.told(row), now),
            media: None,
            thinking: None,
            owner,
            dedupe_text: None,
            limit: None,
            terms: RunTerms::default(),
        };
        let run_id = request.idempotency_key.clone();
        if let Some(held) = &held {
            held.stand_for(&run_id);
        }
        let Some((_, start)) = self.send_result(&row.run_id, request).await? else {
            return Ok(false);
        };
        let is_busy = self.active(parent).is_some();
        self.parts.events.reason(parent, Some(&entry), "send", is_busy);
        if let Some(held) = held {
            self.keep_row(held, parent.clone(), run_id);
        }
        // The run begins as this goes.
        drop(start);
        Ok(true)
    }

    /// Puts it into the lane of the parent, unless somebody has stopped the sub-agent.
    async fn send_result(
        self: &Arc<Self>,
        run_id: &str,
        request: SendRequest,
    ) -> Result<Option<(Accepted, Option<Start>)>, SendError> {
        let _turn = self.subagents.turning.lock().await;
        // Whoever has stopped it looks for its result in the lane only after that, and
        // the session may have ended with it.
        let now = self.subagent_now(run_id).await?;
        if now.is_none_or(|now| now.state != SubagentState::Ended) {
            return Ok(None);
        }
        self.send(request).await.map(Some)
    }

    /// Takes the session of a sub-agent away, unless it is in use.
    pub(super) async fn remove_subagent(&self, child_key: &str) {
        let child = SessionKey::from_canonical(child_key);
        if self.is_in_use(&child) {
            return;
        }
        match self.parts.sessions.delete(&child, false).await {
            Ok(Some(gone)) => {
                self.parts.session_deleted(&child);
                self.parts.events.deleted(&child, &gone.entry.session_id);
            }
            Ok(None) => {}
            Err(error) => {
                tracing::error!(session = %child, %error, "session of a sub-agent not removed");
                return;
            }
        }
        if let Err(error) = self.parts.store.forget_subagent(child_key).await {
            tracing::error!(session = %child, %error, "runs of a sub-agent not forgotten");
        }
    }
}
