//! Making a session quiet: all that runs in it ends.

use std::sync::Arc;

use super::abort::{ABORT_WAIT, StillActive};
use super::run::{AbortReason, ActiveRun};
use super::runs::Runs;
use crate::auth::Owner;
use crate::sessions::SessionKey;

impl Runs {
    /// Stops all runs of a session and its sub-agents, whoever began them, and who waits in
    /// line for it, and waits for their ends.
    ///
    /// # Errors
    /// When they do not end in time.
    pub async fn interrupt(
        self: &Arc<Self>,
        key: &SessionKey,
        reason: AbortReason,
    ) -> Result<(), StillActive> {
        let all = self.lanes.table().everyone(key);
        self.quiet(None, key, &all, reason).await
    }

    /// The same for these of a session alone, with all its sub-agents, by who asks for it.
    pub(super) async fn quiet(
        self: &Arc<Self>,
        who: Option<&Owner>,
        key: &SessionKey,
        runs: &[Arc<ActiveRun>],
        reason: AbortReason,
    ) -> Result<(), StillActive> {
        self.stop_to_end(who, runs, reason).await?;
        self.interrupt_subagents(who, key, reason).await
    }

    /// Stops all runs of a session and its sub-agents, whoever began them, and waits for their
    /// ends; answers whether something ran there. Who waits in line has his turn afterwards.
    ///
    /// # Errors
    /// When they do not end in time.
    pub async fn make_room(
        self: &Arc<Self>,
        key: &SessionKey,
        reason: AbortReason,
    ) -> Result<bool, StillActive> {
        let was_active = self.interrupt_runs(None, key, reason).await?;
        self.interrupt_subagents(None, key, reason).await?;
        Ok(was_active)
    }

    async fn interrupt_subagents(
        self: &Arc<Self>,
        who: Option<&Owner>,
        key: &SessionKey,
        reason: AbortReason,
    ) -> Result<(), StillActive> {
        let spawned = self.stop_all_subagents(key, who, reason).await;
        let wind_down = async {
            for run in &spawned {
                run.ended().await;
            }
        };
        tokio::time::timeout(ABORT_WAIT, wind_down).await.map_err(|_| StillActive)
    }

    /// Stops all runs of a session, whoever began them, by who asks for it, and waits for their
    /// ends, and for those of runs that somebody else has stopped: their messages
    /// go into the session as it is now. Answers whether there were any.
    /// Who waits in line, or has the lane from there and has not begun, has his turn afterwards.
    ///
    /// # Errors
    /// When they do not end in time.
    pub(super) async fn interrupt_runs(
        self: &Arc<Self>,
        who: Option<&Owner>,
        key: &SessionKey,
        reason: AbortReason,
    ) -> Result<bool, StillActive> {
        let runs = self.lanes.table().in_the_way(key);
        self.stop_to_end(who, &runs, reason).await
    }

    async fn stop_to_end(
        self: &Arc<Self>,
        who: Option<&Owner>,
        runs: &[Arc<ActiveRun>],
        reason: AbortReason,
    ) -> Result<bool, StillActive> {
        let all: Vec<_> = runs.iter().collect();
        let stopped = self.stop_by(who, &all, reason).await;
        let wind_down = async {
            for run in runs.iter().chain(&stopped) {
                run.ended().await;
            }
        };
        tokio::time::timeout(ABORT_WAIT, wind_down).await.map_err(|_| StillActive)?;
        Ok(!runs.is_empty())
    }
}
