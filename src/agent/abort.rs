//! Stopping runs before they are done.

use std::sync::Arc;
use std::time::Duration;

use super::lane::Stopped;
use super::run::{AbortReason, ActiveRun, RunEnd};
use super::runs::Runs;
use crate::auth::{Owner, Principal};
use crate::protocol::Scope;
use crate::sessions::SessionKey;

/// How long an abort waits for the run to wind down before it answers anyway.
pub(super) const ABORT_WAIT: Duration = Duration::from_secs(5);

/// A stopped run does not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a stopped run does not wind down")]
pub struct StillActive;

/// Why nothing was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AbortError {
    /// The run belongs to another session.
    #[error("runId does not match sessionKey")]
    OtherSession,
    /// The runs belong to somebody else.
    #[error("unauthorized")]
    NotYours,
}

impl Runs {
    /// Stops runs of a session that `principal` may stop: one, or all, with the
    /// sub-agents that it began and what is told of them. Answers the ids of those that
    /// ended by it; a lane that was held for a run is told as that run.
    pub async fn abort(
        self: &Arc<Self>,
        key: &SessionKey,
        run_id: Option<&str>,
        principal: &Principal,
        reason: AbortReason,
    ) -> Result<Vec<String>, AbortError> {
        let mut runs = {
            let table = self.lanes.table();
            let mut runs = table.stoppable(key);
            if let Some(run_id) = run_id {
                runs.retain(|run| {
                    run.known_as() == run_id || run.terms.begun_by.as_deref() == Some(run_id)
                });
                if runs.is_empty() {
                    runs.extend(table.get(run_id));
                }
            }
            runs
        };
        runs.retain(|run| run.is_shown());
        if runs.iter().any(|run| run.key != *key) {
            return Err(AbortError::OtherSession);
        }
        let mine: Vec<_> = runs
            .iter()
            .filter(|run| principal.allows(Scope::Admin) || *run.owner == *principal.owner())
            .collect();
        if mine.is_empty() && !runs.is_empty() {
            return Err(AbortError::NotYours);
        }
        let stopped = self.stop_by(Some(principal.owner()), &mine, reason).await;
        let spawned = Box::pin(self.stop_subagents(key, run_id, Some(principal), reason)).await;
        // A run may have answered in the same moment; only its end tells.
        let wind_down = async {
            let mut aborted = Vec::new();
            for run in stopped.iter().chain(&spawned) {
                if matches!(run.ended().await, RunEnd::Aborted(_)) {
                    aborted.push(run);
                }
            }
            ids(aborted)
        };
        Ok(tokio::time::timeout(ABORT_WAIT, wind_down).await.unwrap_or_else(|_| {
            tracing::error!(session = %key, "a stopped run does not wind down");
            ids(stopped.iter().chain(&spawned))
        }))
    }

    /// Stops runs, and those that lanes were held for; answers all that are, or soon will
    /// be, over by it. Who asks may go away: the end of one that waited is brought to its
    /// end, after that of what it waited for where this ends as well.
    pub(super) async fn stop(
        self: &Arc<Self>,
        runs: &[&Arc<ActiveRun>],
        reason: AbortReason,
    ) -> Vec<Arc<ActiveRun>> {
        self.stop_by(None, runs, reason).await
    }

    /// The same, by somebody who may have asked for some of them: the others are taken away
    /// from those who did.
    pub(super) async fn stop_by(
        self: &Arc<Self>,
        who: Option<&Owner>,
        runs: &[&Arc<ActiveRun>],
        reason: AbortReason,
    ) -> Vec<Arc<ActiveRun>> {
        let mut all = Vec::new();
        for run in runs {
            // Before it ends. The first who stops it counts.
            if who != Some(&*run.owner) && run.abort_reason().is_none() {
                run.note(|progress| progress.is_taken_away = true);
            }
            let stopped = self.lanes.table().stop_with_own(run, reason);
            for (run, stopped) in stopped {
                match stopped {
                    Stopped::Nothing => continue,
                    Stopped::Active => {}
                    Stopped::Waiter => {
                        let before = self.lanes.table().before(&run);
                        let is_next = before.is_empty();
                        let (runs, waiter) = (Arc::clone(self), Arc::clone(&run));
                        let ending = async move { runs.end_waiter(&waiter, &before, reason).await };
                        let ending = self.parts.tasks.spawn("stop", ending);
                        // Else the others are stopped first, so that none of them begins.
                        if is_next {
                            let _ = ending.await;
                        }
                    }
                }
                all.push(run);
            }
        }
        all
    }
}

/// The ids that clients know runs by. One may be there twice, with its lane.
fn ids<'a>(runs: impl IntoIterator<Item = &'a Arc<ActiveRun>>) -> Vec<String> {
    let mut ids = Vec::new();
    for run in runs {
        let id = run.known_as();
        if !ids.iter().any(|known| known == id) {
            ids.push(id.to_owned());
        }
    }
    ids
}
