//! A result on its way to whoever asked for it.
//!
//! Promises: it arrives once, however often it is tried. Its run has an id of its
//! own, made of those of the child, and an id is answered once, also across a restart. One
//! whose answer a kill has cut off is told again.
//! Where the answer of the run that asked for it goes to a chat, the answer to it goes there, too.
//! What it brings to the run of a job waits until nothing runs in the session of the job.

use std::sync::Arc;

use crate::agent::inter_session::{self, Source};
use crate::agent::report::Family;
use crate::agent::request::SendRequest;
use crate::agent::run::{AbortReason, RunEnd};
use crate::agent::runs::{Accepted, Runs, SendError, Start};
use crate::agent::terms::{Hearer, RunTerms};
use crate::auth::Owner;
use crate::channels::ReplyTo;
use crate::protocol::message::UserMessage;
use crate::sessions::{Remains, SessionKey, directives};
use crate::store::{OutboxAddress, StoreError, SubagentRow, SubagentState};

use super::Outcome;

/// The tool that it comes by, as clients see it.
const TOOL: &str = "subagent_announce";
/// How ids of its runs begin.
pub const ID_PREFIX: &str = "announce:v1:";

/// Whether a run hears what another session has to say: nobody has sent a message for it.
pub fn hears_of_another(run_id: &str) -> bool {
    run_id.starts_with(ID_PREFIX)
}

/// The id of the run that hears the result of this one.
fn id_of(row: &SubagentRow) -> String {
    format!("{ID_PREFIX}{}:{}", row.child_key, row.run_id)
}

/// What one session says in another.
pub(super) struct Word<'a> {
    /// The session that says it.
    pub from: &'a SessionKey,
    /// The session that hears it.
    pub to: &'a SessionKey,
    /// The id of the run that it hears it by, which begins with [`ID_PREFIX`].
    pub run_id: String,
    /// The run of that session by which it was asked for, if one did.
    pub begun_by: Option<Arc<str>>,
    /// Who may stop that.
    pub owner: Owner,
    /// Where the answer to it goes, if that is a place of a channel.
    pub place: Option<OutboxAddress>,
    /// What it comes by, as clients see it.
    pub tool: &'a str,
    /// What is said.
    pub text: &'a str,
    /// When it was there, Unix milliseconds: said again after a crash it is known by that.
    pub at_ms: u64,
    /// Who may read it.
    pub mark: fn(Source<'_>, &str, u64) -> UserMessage,
}

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
        let id = id_of(row);
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
        if !row.is_temporary {
            return Ok(());
        }
        // Its row is there until it is answered: after a crash before that it is told again.
        if self.session_of(&id).is_some() {
            self.subagents.news.notify_waiters();
            let report = self.ends(Some(Family::Agent), &id).await?;
            if report.end == RunEnd::Aborted(AbortReason::Shutdown) {
                return Ok(());
            }
        }
        // It may have been told something since.
        if self.is_old(&row.child_key, u64::MAX).await? {
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
        let child = SessionKey::from_canonical(row.child_key.as_str());
        let ended = self.subagent_now(&row.run_id).await?.and_then(|now| now.ended_at);
        let word = Word {
            from: &child,
            to: parent,
            run_id: id_of(row),
            begun_by: row.parent_run_id.as_deref().map(Arc::from),
            owner: Owner::from_text(&row.owner),
            place: row.place.clone(),
            tool: TOOL,
            text: &outcome.told(row),
            at_ms: ended.unwrap_or_else(|| self.parts.clock.now_ms()),
            mark: inter_session::internal,
        };
        let is_wanted = async {
            let now = self.subagent_now(&row.run_id).await?;
            Ok::<_, StoreError>(now.is_some_and(|now| now.state == SubagentState::Ended))
        };
        self.bring(word, is_wanted).await
    }

    /// Says a word in a session, unless it is not wanted there any more; false then.
    pub(super) async fn bring(
        self: &Arc<Self>,
        word: Word<'_>,
        is_wanted: impl Future<Output = Result<bool, StoreError>> + Send,
    ) -> Result<bool, SendError> {
        let Word { from, to, run_id, begun_by, owner, place, tool, text, at_ms, mark } = word;
        let held = self.hold_row(to, owner.clone()).await?;
        // Without a session there is nobody to say it to.
        let Some(entry) = self.parts.sessions.entry(to).await? else { return Ok(true) };
        let of_source = self.parts.sessions.entry(from).await.ok().flatten();
        let channel = of_source.and_then(|entry| entry.last_channel);
        let source = Source { key: from, channel: channel.as_deref(), tool };
        // Without channels nobody would follow it.
        let place = place.filter(|_| !self.parts.channels.is_empty());
        let reply = place.map(|address| ReplyTo {
            run_id: run_id.clone(),
            family: Family::Agent,
            key: to.clone(),
            address,
            reply_to: None,
            is_overheard: false,
        });
        let hearer = reply.as_ref().map(|reply| Hearer::from(reply.address.clone()));
        let request = SendRequest {
            family: Family::Agent,
            key: to.clone(),
            written_key: to.to_string(),
            idempotency_key: run_id.clone(),
            message: mark(source, text, at_ms),
            media: None,
            thinking: None,
            owner,
            dedupe_text: None,
            limit: None,
            terms: RunTerms { hearer: hearer.unwrap_or_default(), begun_by, ..RunTerms::default() },
        };
        if let Some(held) = &held {
            held.stand_for(&run_id);
        }
        let (_, start) = {
            let _turn = self.subagents.turning.lock().await;
            // Whoever has stopped it looks for its result in the lane only after that, and
            // the session may have ended with it.
            if !is_wanted.await? {
                return Ok(false);
            }
            self.send_expected(request, reply).await?
        };
        let is_busy = self.active(to).is_some();
        self.parts.events.reason(to, Some(&entry), "send", is_busy);
        if let Some(held) = held {
            self.keep_row(held, to.clone(), run_id);
        }
        // The run begins as this goes.
        drop(start);
        Ok(true)
    }

    /// Has a message accepted whose answer goes to a channel, if it does.
    async fn send_expected(
        self: &Arc<Self>,
        request: SendRequest,
        reply: Option<ReplyTo>,
    ) -> Result<(Accepted, Option<Start>), SendError> {
        let Some(reply) = reply else { return self.send(request).await };
        // Before it is accepted: a crash between the two loses no answer.
        let expected = self.parts.channels.expect(reply).await?;
        let sent = self.send(request).await;
        expected.settle(sent.is_ok()).await;
        sent
    }

    /// Takes the session of a sub-agent away, unless it is in use.
    pub(super) async fn remove_subagent(&self, child_key: &str) {
        let child = SessionKey::from_canonical(child_key);
        if self.is_in_use(&child) {
            return;
        }
        match self.parts.sessions.delete(&child, Remains::PutAway).await {
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
