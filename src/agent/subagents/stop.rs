//! Stopping sub-agents: with what began them, or one of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::agent::run::{AbortReason, ActiveRun};
use crate::agent::runs::Runs;
use crate::auth::{Owner, Principal};
use crate::protocol::Scope;
use crate::sessions::SessionKey;
use crate::store::{StoreError, SubagentQuery, SubagentRow, SubagentState};

use super::announce::ID_PREFIX;

impl Runs {
    /// Stops the sub-agents of a session and all below them, or those that one
    /// run began; with a principal, those that it may stop. Nobody is told of
    /// their results, also where that has begun. Answers the runs that are, or soon will
    /// be, over by it. Who asks may go away: none is stopped half.
    pub async fn stop_subagents(
        self: &Arc<Self>,
        key: &SessionKey,
        run_id: Option<&str>,
        principal: Option<&Principal>,
        reason: AbortReason,
    ) -> Vec<Arc<ActiveRun>> {
        let (runs, key) = (Arc::clone(self), key.clone());
        let (run_id, by) = (run_id.map(str::to_owned), principal.cloned());
        let stopping =
            async move { runs.stop_those_of(&key, run_id.as_deref(), by.as_ref(), reason).await };
        self.parts.tasks.spawn("stop", stopping).await.ok().flatten().unwrap_or_default()
    }

    async fn stop_those_of(
        self: &Arc<Self>,
        key: &SessionKey,
        run_id: Option<&str>,
        principal: Option<&Principal>,
        reason: AbortReason,
    ) -> Vec<Arc<ActiveRun>> {
        let mut stopped = Vec::new();
        match self.parts.store.subagents(SubagentQuery::OfParent(key.to_string())).await {
            Ok(mut rows) => {
                rows.retain(|row| {
                    run_id.is_none_or(|run_id| row.parent_run_id.as_deref() == Some(run_id))
                        && principal.is_none_or(|principal| may_stop(principal, row))
                });
                self.stop_rows(rows, reason, &mut stopped).await;
            }
            Err(error) => tracing::error!(session = %key, %error, "sub-agents not stopped"),
        }
        self.stop_results(key, run_id, principal, reason, &mut stopped).await;
        stopped
    }

    /// Stops results that came into the lane of a session while it was being stopped, or
    /// one run of it, and answers on their way to it; with a principal, those that it may
    /// stop.
    async fn stop_results(
        self: &Arc<Self>,
        key: &SessionKey,
        run_id: Option<&str>,
        principal: Option<&Principal>,
        reason: AbortReason,
        stopped: &mut Vec<Arc<ActiveRun>>,
    ) {
        if self.subagents.askers.stop(key, run_id, principal) {
            // One that is being told is in the lane after this.
            drop(self.subagents.turning.lock().await);
        }
        let runs = self.lanes.table().of_session(key);
        let is_result = |run: &&Arc<ActiveRun>| {
            run.id.starts_with(ID_PREFIX)
                && run_id.is_none_or(|run_id| run.terms.begun_by.as_deref() == Some(run_id))
                && run.abort_reason().is_none()
                && principal.is_none_or(|principal| may_stop_of(principal, &run.owner))
        };
        let results: Vec<_> = runs.iter().filter(is_result).collect();
        let who = principal.map(Principal::owner);
        stopped.extend(self.stop_by(who, &results, reason).await);
    }

    /// Stops one run of a sub-agent, with all below it; answers whether there
    /// was something to stop. Who asks may go away: none is stopped half.
    pub async fn stop_subagent(self: &Arc<Self>, run_id: &str, reason: AbortReason) -> bool {
        let (runs, run_id) = (Arc::clone(self), run_id.to_owned());
        let stopping = async move { runs.stop_one(&run_id, reason).await };
        self.parts.tasks.spawn("stop", stopping).await.ok().flatten().unwrap_or_default()
    }

    async fn stop_one(self: &Arc<Self>, run_id: &str, reason: AbortReason) -> bool {
        let mut stopped = Vec::new();
        match self.parts.store.subagents(SubagentQuery::Run(run_id.into())).await {
            Ok(rows) => self.stop_rows(rows, reason, &mut stopped).await,
            Err(error) => {
                tracing::error!(run = run_id, %error, "sub-agent not stopped");
                false
            }
        }
    }

    /// Stops these and all below them; answers whether any was not over.
    async fn stop_rows(
        self: &Arc<Self>,
        mut rows: Vec<SubagentRow>,
        reason: AbortReason,
        stopped: &mut Vec<Arc<ActiveRun>>,
    ) -> bool {
        // No newer message takes the place of what a sub-agent does.
        let reason = match reason {
            AbortReason::Interrupt => AbortReason::Rpc,
            reason => reason,
        };
        let (mut has_stopped, mut children) = (false, BTreeSet::new());
        while let Some(row) = rows.pop() {
            match self.stop_row(&row, reason, stopped).await {
                Ok(is_stopped) => has_stopped |= is_stopped,
                Err(error) => {
                    tracing::error!(run = %row.run_id, %error, "sub-agent not stopped");
                }
            }
            // Also below one that is over: the gateway may have stopped in between.
            let below = SubagentQuery::OfParent(row.child_key.clone());
            rows.extend(self.parts.store.subagents(below).await.unwrap_or_default());
            children.insert(row.child_key);
        }
        // Now that nothing below tells a result any more.
        for child in children {
            let child = SessionKey::from_canonical(child);
            self.stop_results(&child, None, None, reason, stopped).await;
        }
        if has_stopped {
            self.subagents.news.notify_waiters();
        }
        has_stopped
    }

    async fn stop_row(
        self: &Arc<Self>,
        row: &SubagentRow,
        reason: AbortReason,
        stopped: &mut Vec<Arc<ActiveRun>>,
    ) -> Result<bool, StoreError> {
        if row.state == SubagentState::Stopped {
            // What it did goes on where whoever stopped it broke in between.
            let own = self.lanes.table().get(&row.run_id);
            let goes_on = |run: &&Arc<ActiveRun>| run.abort_reason().is_none() && !run.is_over();
            let own: Vec<_> = own.iter().filter(goes_on).collect();
            let ended = self.stop(&own, reason).await;
            let is_stopped = !ended.is_empty();
            stopped.extend(ended);
            return Ok(is_stopped);
        }
        if !SubagentState::UNSETTLED.contains(&row.state) {
            return Ok(false);
        }
        let is_stopped = {
            let _turn = self.subagents.turning.lock().await;
            self.move_subagent(&row.run_id, SubagentState::Stopped, None).await?
        };
        if !is_stopped {
            return Ok(false);
        }
        let child = SessionKey::from_canonical(row.child_key.as_str());
        let runs = self.lanes.table().of_session(&child);
        self.stop(&runs.iter().collect::<Vec<_>>(), reason).await;
        if row.state == SubagentState::Waiting {
            self.tell_subagent_status(row).await;
        }
        stopped.extend(runs);
        Ok(true)
    }
}

/// Whether a client may stop a sub-agent: its owner and admins may.
pub(super) fn may_stop(principal: &Principal, row: &SubagentRow) -> bool {
    may_stop_of(principal, &Owner::from_text(&row.owner))
}

/// Whether a client may stop what this owner has begun.
pub(super) fn may_stop_of(principal: &Principal, owner: &Owner) -> bool {
    principal.allows(Scope::Admin) || owner == principal.owner()
}
