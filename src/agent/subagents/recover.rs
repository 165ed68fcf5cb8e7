//! What the last process left of sub-agents, and what time leaves of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::agent::runs::Runs;
use crate::sessions::SessionKey;
use crate::store::{StoreError, SubagentQuery, SubagentState};

use super::drive::{PAUSE, PAUSE_MAX};

/// How often old sessions are looked for.
const SWEEP_EVERY: Duration = Duration::from_mins(1);
const MINUTE_MS: u64 = 60_000;

impl Runs {
    /// Goes on with the sub-agents of the last process, as soon as the database says
    /// which there are, then removes the sessions of those that ended long ago, for
    /// ever. Not needed for the start.
    pub async fn keep_subagents(self: Arc<Self>) {
        let mut pause = PAUSE;
        while let Err(error) = self.resume_subagents().await {
            tracing::error!(%error, "sub-agents of the last process not resumed yet");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        let mut ticks = tokio::time::interval(SWEEP_EVERY);
        loop {
            ticks.tick().await;
            if let Err(error) = self.sweep_subagents().await {
                tracing::warn!(%error, "old sessions of sub-agents not removed");
            }
        }
    }

    async fn resume_subagents(self: &Arc<Self>) -> Result<(), StoreError> {
        for row in self.parts.store.subagents(SubagentQuery::Unsettled).await? {
            let (run, session) = (row.run_id.clone(), row.child_key.clone());
            // What this process has begun has somebody who cares already.
            if self.drive_subagent(row) {
                tracing::info!(%run, %session, "sub-agent goes on");
            }
        }
        // Those whose result was answered just when the last process ended.
        for row in self.parts.store.subagents(SubagentQuery::SettledBefore(u64::MAX)).await? {
            let is_told = row.is_temporary && row.state == SubagentState::Announced;
            if is_told && self.is_old(&row.child_key, u64::MAX).await? {
                self.remove_subagent(&row.child_key).await;
            }
        }
        Ok(())
    }

    /// Removes the sessions of sub-agents that have been over for long enough
    /// and that nobody has used since.
    async fn sweep_subagents(&self) -> Result<(), StoreError> {
        let minutes =
            self.parts.settings.now().agents.defaults.subagent_limits.archive_after_minutes;
        if minutes == 0 {
            return Ok(());
        }
        let now = self.parts.clock.now_ms();
        let before = now.saturating_sub(minutes.saturating_mul(MINUTE_MS));
        let rows = self.parts.store.subagents(SubagentQuery::SettledBefore(before)).await?;
        let children: BTreeSet<_> = rows.into_iter().map(|row| row.child_key).collect();
        for child in children {
            if self.is_old(&child, before).await? {
                self.remove_subagent(&child).await;
            }
        }
        Ok(())
    }

    /// Whether nothing of a sub-agent is under way, and nobody has used it since then.
    pub(super) async fn is_old(&self, child: &str, before: u64) -> Result<bool, StoreError> {
        let key = SessionKey::from_canonical(child);
        let entry = self.parts.store.session(key.as_str()).await?;
        if entry.is_some_and(|entry| entry.updated_at >= before) {
            return Ok(false);
        }
        // Its own sub-agents are below it.
        let runs = self.parts.store.subagents(SubagentQuery::OfChild(child.into())).await?;
        let below = self.parts.store.subagents(SubagentQuery::OfParent(child.into())).await?;
        let is_unsettled = |state: &SubagentState| SubagentState::UNSETTLED.contains(state);
        Ok(!runs.iter().chain(&below).any(|row| is_unsettled(&row.state)))
    }
}
