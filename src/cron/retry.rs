//! Whether a job of a single instant that failed is tried again, and when; how long one that
//! comes again rests.
//!
//! Promises: each further try is an instant of its own, with a row of its own;
//! there are no more of them than the config says. Pure.

use crate::config::{CronRetryOn, CronRetrySettings};
use crate::providers::ProviderErrorKind;

use super::job::JobState;

/// How long a job that comes again rests after each failure in a row, as in the original: one that
/// runs every few seconds would ask a provider that refuses it for ever.
const RESTS_MS: [u64; 5] = [30_000, 60_000, 300_000, 900_000, 3_600_000];

/// Until when a job that comes again rests after its failures; 0 where it has not failed, or by a
/// clock that was ahead.
pub(super) fn rests_until(state: &JobState, now: u64) -> u64 {
    let failed = state.consecutive_errors.unwrap_or_default();
    let Some(ran_at) = state.last_run_at_ms.filter(|at| failed > 0 && *at <= now) else { return 0 };
    let place = usize::try_from(failed.saturating_sub(1)).unwrap_or(usize::MAX);
    let rest = RESTS_MS.get(place).or(RESTS_MS.last()).copied().unwrap_or_default();
    ran_at.saturating_add(state.last_duration_ms.unwrap_or_default()).saturating_add(rest)
}

/// The word of the config for a failure that may pass.
pub(super) const fn kind(failure: ProviderErrorKind) -> Option<CronRetryOn> {
    use ProviderErrorKind as Kind;
    match failure {
        Kind::RateLimit => Some(CronRetryOn::RateLimit),
        Kind::Overloaded => Some(CronRetryOn::Overloaded),
        Kind::Network | Kind::Cut => Some(CronRetryOn::Network),
        Kind::Timeout => Some(CronRetryOn::Timeout),
        Kind::Server => Some(CronRetryOn::ServerError),
        _ => None,
    }
}

/// When a job is tried again that has failed now, so often in a row; `None` when
/// it is given up.
pub(super) fn next_try(
    settings: &CronRetrySettings,
    failure: Option<CronRetryOn>,
    failed: u64,
    now: u64,
) -> Option<u64> {
    let is_wanted = failure.is_some_and(|kind| settings.retry_on.contains(&kind));
    if !is_wanted || failed > settings.max_attempts {
        return None;
    }
    let place = usize::try_from(failed.saturating_sub(1)).unwrap_or(usize::MAX);
    let wait = settings.backoff_ms.get(place).or(settings.backoff_ms.last())?;
    Some(now.saturating_add(*wait))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_fails_rests_ever_longer_up_to_an_hour() {
        let until = |failed, now| {
            let state = JobState {
                consecutive_errors: Some(failed),
                last_run_at_ms: Some(1000),
                last_duration_ms: Some(500),
                ..JobState::default()
            };
            rests_until(&state, now)
        };
        let rests = [1, 2, 3, 4, 5, 9].map(|failed| (until(failed, 1500) - 1500) / 1000);
        assert_eq!(rests, [30, 60, 300, 900, 3600, 3600]);
        assert_eq!((until(0, 1500), until(5, 999)), (0, 0));
    }

    #[test]
    fn what_may_pass_is_tried_again_later_each_time_and_not_for_ever() {
        let settings = CronRetrySettings {
            max_attempts: 3,
            backoff_ms: vec![30, 60],
            retry_on: vec![CronRetryOn::Timeout, CronRetryOn::ServerError],
        };
        let at = |failure, failed| next_try(&settings, failure, failed, 1000);
        let silent = kind(ProviderErrorKind::Timeout);
        assert_eq!(
            [1, 2, 3, 4].map(|failed| at(silent, failed)),
            [Some(1030), Some(1060), Some(1060), None]
        );
        assert_eq!(at(kind(ProviderErrorKind::RateLimit), 1), None);
        assert_eq!(at(kind(ProviderErrorKind::Auth), 1), None);
        assert_eq!(at(None, 1), None);
    }
}
