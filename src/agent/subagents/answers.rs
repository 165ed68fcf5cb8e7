//! Answers on their way to sessions that have asked others and do not wait any more.
//!
//! Promises: one is told once, or never: not in a session that was stopped, reset or deleted
//! meanwhile, not in that of a job, and not by the next process. It asks for nothing: what the
//! session says to it goes to no other session by itself, and to a chat where that gets the
//! answer of the run that has asked.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::agent::inter_session;
use crate::agent::report::Family;
use crate::agent::run::{ActiveRun, RunEnd};
use crate::agent::runs::{Runs, SendError};
use crate::auth::{Owner, Principal};
use crate::sessions::{SessionKey, directives};
use crate::store::{OutboxAddress, StoreError, SubagentQuery, SubagentRow, SubagentState};

use super::announce::{ID_PREFIX, Word};
use super::stop::may_stop_of;

/// How long an answer is waited for.
const WAIT_MAX: Duration = Duration::from_mins(10);

/// Who has asked.
#[derive(Debug)]
struct Asker {
    key: SessionKey,
    /// The run that did; none when a client did.
    run_id: Option<Arc<str>>,
    owner: Owner,
    /// Where the answer of that run goes, if that is a place of a channel.
    place: Option<OutboxAddress>,
    /// Nobody is to hear the answer any more.
    stopped: CancellationToken,
}

/// Those to whom an answer is on its way.
#[derive(Debug, Default)]
pub(super) struct Askers(Mutex<Vec<Weak<Asker>>>);

impl Askers {
    fn add(&self, asker: &Arc<Asker>) {
        let mut all = self.0.lock();
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(asker));
    }

    /// Nobody is to hear what was asked in a session, or by one run of it; with a principal,
    /// what that may stop. Whether anything was.
    pub(super) fn stop(
        &self,
        key: &SessionKey,
        run_id: Option<&str>,
        principal: Option<&Principal>,
    ) -> bool {
        let mut is_any = false;
        for asker in self.0.lock().iter().filter_map(Weak::upgrade) {
            let is_meant = asker.key == *key
                && run_id.is_none_or(|run_id| asker.run_id.as_deref() == Some(run_id))
                && principal.is_none_or(|principal| may_stop_of(principal, &asker.owner));
            if is_meant {
                asker.stopped.cancel();
                is_any = true;
            }
        }
        is_any
    }
}

impl Runs {
    /// Tells a session what another one answers, as soon as it does. `run` is the one that has
    /// asked, if one did, and `answering` the one that answers. False when nothing is to come:
    /// a job that has ended is no conversation that goes on, and the result of a sub-agent
    /// tells what it has said last.
    pub async fn tell_answer(
        self: &Arc<Self>,
        (key, run): (&SessionKey, Option<&ActiveRun>),
        owner: Owner,
        target: SessionKey,
        answering: String,
    ) -> bool {
        if key.is_job() {
            return false;
        }
        let run_id = run.map(|run| Arc::clone(&run.id));
        let place = run.and_then(|run| run.terms.hearer.chat()).cloned();
        let stopped = CancellationToken::new();
        let asker = Arc::new(Asker { key: key.clone(), run_id, owner, place, stopped });
        self.subagents.askers.add(&asker);
        // Whoever stops the run either saw it there, or is seen here.
        if run.is_some_and(|run| run.abort_reason().is_some()) {
            return false;
        }
        let working = match self.working_for(key, &target).await {
            Ok(working) => working.map(|row| row.run_id),
            Err(error) => {
                tracing::warn!(session = %key, %target, %error, "an answer is not told");
                return false;
            }
        };
        let (runs, is_to_come) = (Arc::clone(self), working.is_none());
        self.parts.tasks.spawn("answer", async move {
            let followed = runs.follow_answer(&asker, (&target, working.as_deref()), &answering);
            if let Err(error) = followed.await {
                tracing::warn!(session = %asker.key, %target, %error, "an answer is not told");
            }
        });
        is_to_come
    }

    async fn follow_answer(
        self: &Arc<Self>,
        asker: &Asker,
        (target, working): (&SessionKey, Option<&str>),
        answering: &str,
    ) -> Result<(), SendError> {
        let ends = self.ends(Some(Family::Agent), answering);
        let report = tokio::select! {
            biased;
            () = asker.stopped.cancelled() => return Ok(()),
            ended = tokio::time::timeout(WAIT_MAX, ends) => match ended {
                Ok(report) => report?,
                Err(_) => return Ok(()),
            },
        };
        let text = report.progress.paragraphs();
        let text = text.trim();
        if report.end != RunEnd::Answered || text.is_empty() || directives::is_silent(text) {
            return Ok(());
        }
        if let Some(task) = working {
            // Its result tells this, unless its task has failed: it has that one's words then.
            let ended = self.ended(Some(Family::Agent), task).await?;
            if ended.is_none_or(|report| report.end == RunEnd::Answered) {
                return Ok(());
            }
        }
        let word = Word {
            from: target,
            to: &asker.key,
            run_id: format!("{ID_PREFIX}{target}:{answering}"),
            begun_by: asker.run_id.clone(),
            owner: asker.owner.clone(),
            place: asker.place.clone(),
            tool: "sessions_send",
            text,
            at_ms: self.parts.clock.now_ms(),
            mark: inter_session::message,
        };
        self.bring(word, async { Ok(!asker.stopped.is_cancelled()) }).await?;
        Ok(())
    }

    /// What the session that was asked does as a sub-agent of the one that asks. Whether it
    /// ends is not decided meanwhile: what it was asked before is in its lane then, and its
    /// result waits for that, or it has ended.
    async fn working_for(
        &self,
        asking: &SessionKey,
        target: &SessionKey,
    ) -> Result<Option<SubagentRow>, StoreError> {
        let _turn = self.subagents.turning.lock().await;
        let rows = self.parts.store.subagents(SubagentQuery::OfChild(target.to_string())).await?;
        let is_own = |row: &SubagentRow| {
            row.parent_key == asking.as_str() && row.state == SubagentState::Active
        };
        Ok(rows.into_iter().find(is_own))
    }
}
