//! How the runs of this process have ended, for `status`.

use parking_lot::Mutex;
use serde_json::Value;

use crate::support::json;

use super::run::{AbortReason, RunEnd};

#[derive(Debug, Default)]
struct Ended {
    answered: u64,
    failed: u64,
    timed_out: u64,
    cancelled: u64,
    /// Interrupted by the last stop of the gateway.
    lost: u64,
}

/// Counts ends of runs.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Ended>);

impl Tally {
    /// Counts one end.
    pub fn count(&self, end: &RunEnd) {
        let mut ended = self.0.lock();
        match end {
            RunEnd::Answered => ended.answered += 1,
            RunEnd::Failed(_) => ended.failed += 1,
            RunEnd::Aborted(AbortReason::Timeout) => ended.timed_out += 1,
            RunEnd::Aborted(_) => ended.cancelled += 1,
        }
    }

    /// Counts runs that the last stop interrupted.
    pub fn count_lost(&self, runs: usize) {
        self.0.lock().lost += u64::try_from(runs).unwrap_or(u64::MAX);
    }

    /// How many have ended, by outcome.
    pub fn ended(&self) -> [(&'static str, u64); 5] {
        let ended = self.0.lock();
        [
            ("succeeded", ended.answered),
            ("failed", ended.failed),
            ("timed_out", ended.timed_out),
            ("cancelled", ended.cancelled),
            ("lost", ended.lost),
        ]
    }

    /// `tasks` of `status`: runs are the tasks of this gateway.
    pub fn tasks(&self, active: usize, waiting: usize) -> Value {
        let ended = self.0.lock();
        let failures = ended.failed + ended.timed_out + ended.lost;
        let terminal = ended.answered + ended.cancelled + failures;
        let open = u64::try_from(active + waiting).unwrap_or(u64::MAX);
        json!({
            "total": terminal + open,
            "active": open,
            "terminal": terminal,
            "failures": failures,
            "byStatus": {
                "queued": waiting,
                "running": active,
                "succeeded": ended.answered,
                "failed": ended.failed,
                "timed_out": ended.timed_out,
                "cancelled": ended.cancelled,
                "lost": ended.lost,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_is_counted_once() {
        let tally = Tally::default();
        tally.count(&RunEnd::Answered);
        tally.count(&RunEnd::Failed("x".into()));
        tally.count(&RunEnd::Aborted(AbortReason::Timeout));
        tally.count(&RunEnd::Aborted(AbortReason::Rpc));
        tally.count_lost(2);
        let tasks = tally.tasks(1, 3);
        assert_eq!(
            tasks,
            json!({"total": 10, "active": 4, "terminal": 6, "failures": 4, "byStatus": {
                "queued": 3, "running": 1, "succeeded": 1, "failed": 1, "timed_out": 1,
                "cancelled": 1, "lost": 2,
            }})
        );
    }
}
