//! Whether a job of a single instant that failed is tried again, and when.
//!
//! Promises: each further try is an instant of its own, with a row of its own;
//! there are no more of them than the config says. Pure.

use crate::config::{CronRetryOn, CronRetrySettings};
use crate::providers::ProviderErrorKind;

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
