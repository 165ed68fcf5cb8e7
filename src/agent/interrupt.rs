//! Making a session quiet: all that runs in it ends.

use std::sync::Arc;

use super::abort::{ABORT_WAIT, StillActive};
use super::run::AbortReason;
use super::runs::Runs;
use crate::sessions::SessionKey;

impl Runs {
    /// Stops all runs of a session and its sub-agents, whoever began them, and
    /// waits for their ends; answers whether something ran in the session.
    ///
    /// # Errors
    /// When they do not end in time.
    pub async fn interrupt(
        self: &Arc<Self>,
        key: &SessionKey,
        reason: AbortReason,
    ) -> Result<bool, StillActive> {
        let was_active = self.interrupt_runs(key, reason).await?;
        let spawned = self.stop_subagents(key, None, None, reason).await;
        let wind_down = async {
            for run in &spawned {
                run.ended().await;
            }
        };
        tokio::time::timeout(ABORT_WAIT, wind_down).await.map_err(|_| StillActive)?;
        Ok(was_active)
    }

    /// Stops all runs of a session, whoever began them, and waits for their
    /// ends, and for those of runs that somebody else has stopped: their messages
    /// go into the session as it is now. Answers whether there were any.
    ///
    /// # Errors
    /// When they do not end in time.
    pub(super) async fn interrupt_runs(
        self: &Arc<Self>,
        key: &SessionKey,
        reason: AbortReason,
    ) -> Result<bool, StillActive> {
        let runs = self.lanes.table().unfinished(key);
        let all: Vec<_> = runs.iter().collect();
        let stopped = self.stop(&all, reason).await;
        let wind_down = async {
            for run in runs.iter().chain(&stopped) {
                run.ended().await;
            }
        };
        tokio::time::timeout(ABORT_WAIT, wind_down).await.map_err(|_| StillActive)?;
        Ok(!runs.is_empty())
    }
}
