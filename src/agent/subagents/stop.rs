//! Stopping sub-agents: with what began them, or one of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::agent::run::{AbortReason, ActiveRun};
use crate::agent::runs::Runs;
use crate::auth::{Owner, Principal};
use crate::protocol::Scope;
use crate::sessions::SessionKey;
use crate::store::{StoreError, SubagentQuery, SubagentRow, SubagentState};

use super::announce::hears_of_another;

/// What of a session is to be stopped: all of it by default, whoever began it.
#[derive(Debug, Default)]
struct Meant {
    /// What this run began alone.
    run_id: Option<String>,
    /// What this client may stop alone.
    principal: Option<Principal>,
    /// Who asks for it.
    who: Option<Owner>,
}

impl Meant {
    /// Whether what this run began is meant.
    fn is_of(&self, begun_by: Option<&str>) -> bool {
        self.run_id.is_none() || self.run_id.as_deref() == begun_by
    }

    /// Whether what is of this owner is meant.
    fn is_free_to(&self, owner: &Owner) -> bool {
        self.principal.as_ref().is_none_or(|principal| may_stop_of(principal, owner))
    }
}

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
        let meant = Meant {
            run_id: run_id.map(str::to_owned),
            principal: principal.cloned(),
            who: principal.map(|principal| principal.owner().clone()),
        };
        self.stop_meant(key, meant, reason).await
    }

    /// The same for all of a session, whoever has begun them, by who asks for it.
    pub(in crate::agent) async fn stop_all_subagents(
        self: &Arc<Self>,
        key: &SessionKey,
        who: Option<&Owner>,
        reason: AbortReason,
    ) -> Vec<Arc<ActiveRun>> {
        self.stop_meant(key, Meant { who: who.cloned(), ..Meant::default() }, reason).await
    }

    async fn stop_meant(
        self: &Arc<Self>,
        key: &SessionKey,
        meant: Meant,
        reason: AbortReason,
    ) -> Vec<Arc<ActiveRun>> {
        let (runs, key) = (Arc::clone(self), key.clone());
        let stopping = async move { runs.stop_those_of(&key, &meant, reason).await };
        self.parts.tasks.result_of("stop", stopping).await.unwrap_or_default()
    }

    async fn stop_those_of(
        self: &Arc<Self>,
        key: &SessionKey,
        meant: &Meant,
        reason: AbortReason,
    ) -> Vec<Arc<ActiveRun>> {
        let mut stopped = Vec::new();
        match self.parts.store.subagents(SubagentQuery::OfParent(key.to_string())).await {
            Ok(mut rows) => {
                rows.retain(|row| {
                    meant.is_of(row.parent_run_id.as_deref())
                        && meant.is_free_to(&Owner::from_text(&row.owner))
                });
                self.stop_rows(rows, reason, &mut stopped).await;
            }
            Err(error) => tracing::error!(session = %key, %error, "sub-agents not stopped"),
        }
        self.stop_results(key, meant, reason, &mut stopped).await;
        stopped
    }

    /// Stops results that came into the lane of a session while it was being stopped, or
    /// one run of it, and answers on their way to it.
    async fn stop_results(
        self: &Arc<Self>,
        key: &SessionKey,
        meant: &Meant,
        reason: AbortReason,
        stopped: &mut Vec<Arc<ActiveRun>>,
    ) {
        let Meant { run_id, principal, who } = meant;
        if self.subagents.askers.stop(key, run_id.as_deref(), principal.as_ref()) {
            // One that is being told is in the lane after this.
            drop(self.subagents.turning.lock().await);
        }
        let runs = self.lanes.table().of_session(key);
        let is_result = |run: &&Arc<ActiveRun>| {
            hears_of_another(&run.id)
                && meant.is_of(run.terms.begun_by.as_deref())
                && run.abort_reason().is_none()
                && meant.is_free_to(&run.owner)
        };
        let results: Vec<_> = runs.iter().filter(is_result).collect();
        stopped.extend(self.stop_by(who.as_ref(), &results, reason).await);
    }

    /// Stops one run of a sub-agent, with all below it; answers whether there
    /// was something to stop. Who asks may go away: none is stopped half.
    pub async fn stop_subagent(self: &Arc<Self>, run_id: &str, reason: AbortReason) -> bool {
        let (runs, run_id) = (Arc::clone(self), run_id.to_owned());
        let stopping = async move { runs.stop_one(&run_id, reason).await };
        self.parts.tasks.result_of("stop", stopping).await.unwrap_or_default()
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
            self.stop_results(&child, &Meant::default(), reason, stopped).await;
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
