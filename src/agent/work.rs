//! What a stop of the gateway would interrupt, and its end before one.

use std::time::Duration;

use crate::auth::Owner;
use crate::support::trouble;

use super::abort::ABORT_WAIT;
use super::run::AbortReason;
use super::runs::Runs;

/// How often it is looked whether work has ended, while something waits for it.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long whoever leaves waits for the ends of slash commands, which come soon after their
/// answers.
const TOLD_LIMIT: Duration = Duration::from_secs(1);

/// How much there is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Messages that are being answered, or wait for that, and lanes that are held for
    /// something else.
    pub queued: usize,
    /// Answers that are due.
    pub replies: usize,
    /// Runs that are under way.
    pub runs: usize,
    /// Commands of agents that run.
    pub tasks: usize,
}

impl Work {
    /// All of it.
    pub const fn total(&self) -> usize {
        self.queued + self.replies + self.runs + self.tasks
    }
}

impl Runs {
    /// What a stop would interrupt now.
    pub fn work(&self) -> Work {
        let ((runs, waiting), held) = {
            let table = self.lanes.table();
            (table.counts(), table.held())
        };
        let replies = runs + waiting;
        Work { queued: replies + held, replies, runs, tasks: self.parts.processes.count() }
    }

    fn is_idle(&self) -> bool {
        self.work().total() == 0 && self.lanes.table().is_idle() && self.commands.is_empty()
    }

    /// Waits until nothing is done, the slash commands of clients included.
    pub async fn idle(&self) {
        while !self.is_idle() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Waits for a moment until the ends of this owner's slash commands are told that are
    /// done.
    pub async fn commands_told(&self, owner: &Owner) {
        // Whoever waits goes either way.
        let _ = tokio::time::timeout(TOLD_LIMIT, self.lanes.told(owner)).await;
    }

    /// Takes no more messages, and waits for runs and slash commands for at most
    /// `limit`; then stops the runs that are left, keeping their partial text.
    pub async fn drain(&self, limit: Duration) {
        let runs = self.lanes.table().close();
        // Nobody hears any more that all is well.
        trouble::outdate();
        let all_end = async {
            for run in &runs {
                run.ended().await;
            }
        };
        self.commands.close();
        let all_done = async { tokio::join!(all_end, self.commands.wait()) };
        if tokio::time::timeout(limit, all_done).await.is_ok() {
            return;
        }
        for run in &runs {
            run.abort(AbortReason::Shutdown);
        }
        let all_end = async {
            for run in &runs {
                run.ended().await;
            }
        };
        let _ = tokio::time::timeout(ABORT_WAIT, all_end).await;
    }
}
