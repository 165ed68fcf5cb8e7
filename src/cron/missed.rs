//! What is done when instants have passed.
//!
//! Promises: each instant gets one row; at most one of them, the last, still
//! begins, and only if it is young enough. Pure decisions.

use super::schedule::Timing;
use crate::config::CronSettings;

pub use crate::config::MissedPolicy;

/// How late an instant may be and still not count as missed: a start takes a
/// moment, and so does a machine that wakes up.
pub const GRACE_MS: u64 = 5_000;

/// What the configuration says, for jobs that say nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usual {
    /// Of jobs of a single instant.
    pub once: MissedPolicy,
    /// Of those that come again.
    pub again: MissedPolicy,
}

impl Usual {
    /// That of the configuration.
    pub const fn of(settings: &CronSettings) -> Self {
        Self { once: settings.missed_once, again: settings.missed }
    }
}

impl MissedPolicy {
    /// Whether an instant that is so many milliseconds old still runs.
    pub const fn runs(self, age: u64) -> bool {
        match self {
            Self::Run => true,
            Self::Skip => age <= GRACE_MS,
            Self::RunIfYounger(limit) => age <= limit || age <= GRACE_MS,
        }
    }
}

/// The instants that have passed, the last one apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// The last.
    pub last: u64,
    /// Those before it, the oldest first.
    pub before: Vec<u64>,
}

/// The instants from `due` to now. Of those before the last at most `max` are
/// told, the newest: no log keeps more.
pub fn passed(timing: &Timing, due: u64, now: u64, max: usize) -> Passed {
    let last = timing.last_until(now).filter(|last| *last > due).unwrap_or(due);
    let mut before = Vec::new();
    let mut at = last;
    while at > due && before.len() < max {
        let earlier = at.checked_sub(1).and_then(|moment| timing.last_until(moment));
        match earlier.filter(|earlier| *earlier > due) {
            Some(earlier) => at = earlier,
            // Where the schedule changed meanwhile, what was due still was.
            None => at = due,
        }
        before.push(at);
    }
    before.reverse();
    Passed { last, before }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_instant_that_passed_is_named_once() {
        let timing = Timing::Every { every: 10, anchor: 5 };
        let instants = |due, now, max| passed(&timing, due, now, max);
        assert_eq!(instants(15, 15, 9), Passed { last: 15, before: vec![] });
        assert_eq!(instants(15, 24, 9), Passed { last: 15, before: vec![] });
        assert_eq!(instants(15, 47, 9), Passed { last: 45, before: vec![15, 25, 35] });
        // The newest, when there are more than are kept.
        assert_eq!(instants(15, 95, 2), Passed { last: 95, before: vec![75, 85] });
        assert_eq!(passed(&Timing::At(7), 7, 99, 9), Passed { last: 7, before: vec![] });
    }

    #[test]
    fn a_policy_says_how_old_an_instant_may_be() {
        assert!(MissedPolicy::parse("run").unwrap().runs(u64::MAX));
        assert!(!MissedPolicy::parse("skip").unwrap().runs(GRACE_MS + 1));
        let half = MissedPolicy::parse(" 30M ").unwrap();
        assert_eq!(half, MissedPolicy::RunIfYounger(1_800_000));
        assert!(half.runs(1_800_000) && !half.runs(1_800_001));
        for (text, limit) in
            [("90", 5_400_000), ("1.5h", 5_400_000), ("500ms", 500), ("0s", 0), ("2d", 172_800_000)]
        {
            let policy = MissedPolicy::RunIfYounger(limit);
            assert_eq!(MissedPolicy::parse(text), Some(policy), "{text}");
        }
        for wrong in ["", "soon", "-1m", "1w", "99999999999999999999s"] {
            assert_eq!(MissedPolicy::parse(wrong), None, "{wrong}");
        }
    }
}
