//! Limits failed logins.
//!
//! Owns: how often each place has tried lately. Promises: a try is paid for
//! before the secret is compared, so racing tries cannot exceed the budget
//! (GHSA-5m9r-p9g7-679c); the table is bounded; who sets the machine's clock opens
//! no lock and makes none longer.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::RateLimitSettings;
use crate::support::millis;

/// Most places that are remembered; beyond it the oldest are forgotten.
const MAX_PLACES: usize = 10_000;

#[derive(Debug, Clone, Copy)]
struct Record {
    tries: u32,
    window_ends_ms: u64,
    locked_until_ms: u64,
}

/// Counts tries per place.
#[derive(Debug)]
pub struct Limiter {
    settings: RateLimitSettings,
    /// Times are counted from here.
    began: Instant,
    places: Mutex<HashMap<String, Record>>,
}

impl Limiter {
    /// A limiter that has seen nothing yet.
    pub fn new(settings: RateLimitSettings) -> Self {
        Self { settings, began: Instant::now(), places: Mutex::default() }
    }

    /// One with other rules that has seen the same.
    #[must_use]
    pub fn reconfigured(&self, settings: RateLimitSettings) -> Self {
        Self { settings, began: self.began, places: Mutex::new(self.places.lock().clone()) }
    }

    /// Whether loopback addresses are not counted.
    pub const fn exempts_loopback(&self) -> bool {
        self.settings.exempt_loopback
    }

    /// Pays for one try from `place`; `false` when it is locked.
    pub fn pay(&self, place: &str) -> bool {
        self.pay_at(place, millis(self.began.elapsed()))
    }

    fn pay_at(&self, place: &str, now_ms: u64) -> bool {
        let mut places = self.places.lock();
        if places.len() >= MAX_PLACES && !places.contains_key(place) {
            places.retain(|_, record| record.window_ends_ms.max(record.locked_until_ms) > now_ms);
            if places.len() >= MAX_PLACES {
                let oldest = places.iter().min_by_key(|(_, record)| record.window_ends_ms);
                if let Some(oldest) = oldest.map(|(place, _)| place.clone()) {
                    places.remove(&oldest);
                }
            }
        }
        let fresh = Record {
            tries: 0,
            window_ends_ms: now_ms + millis(self.settings.window),
            locked_until_ms: 0,
        };
        let record = places.entry(place.to_owned()).or_insert(fresh);
        if record.locked_until_ms > now_ms {
            return false;
        }
        if record.window_ends_ms <= now_ms {
            *record = fresh;
        }
        record.tries += 1;
        if record.tries >= self.settings.max_attempts {
            record.locked_until_ms = now_ms + millis(self.settings.lockout);
        }
        true
    }

    /// For how many milliseconds a place is locked.
    pub fn wait_ms(&self, place: &str) -> u64 {
        self.wait_ms_at(place, millis(self.began.elapsed()))
    }

    fn wait_ms_at(&self, place: &str, now_ms: u64) -> u64 {
        let until = self.places.lock().get(place).map_or(0, |record| record.locked_until_ms);
        until.saturating_sub(now_ms)
    }

    /// What was paid for was no guess: it counts no more, and neither for nor
    /// against the tries before it.
    pub fn refund(&self, place: &str) {
        if let Some(record) = self.places.lock().get_mut(place) {
            record.tries = record.tries.saturating_sub(1);
            record.locked_until_ms = 0;
        }
    }

    /// A try succeeded: the place starts over.
    pub fn forgive(&self, place: &str) {
        self.places.lock().remove(place);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn limiter() -> Limiter {
        Limiter::new(RateLimitSettings {
            max_attempts: 3,
            window: Duration::from_secs(1),
            lockout: Duration::from_secs(5),
            exempt_loopback: true,
        })
    }

    #[test]
    fn the_last_allowed_try_locks_and_the_lock_ends() {
        let limiter = limiter();
        assert!((0..3).all(|_| limiter.pay_at("a", 0)));
        assert!(!limiter.pay_at("a", 1));
        assert_eq!((limiter.wait_ms_at("a", 1), limiter.wait_ms_at("b", 1)), (4999, 0));
        assert!(limiter.pay_at("b", 1));
        assert!(!limiter.pay_at("a", 4999));
        assert!(limiter.pay_at("a", 5000));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_lasts_as_long_as_it_is_told_by_a_clock_that_nobody_sets() {
        let limiter = limiter();
        assert!((0..3).all(|_| limiter.pay("a")));
        tokio::time::advance(Duration::from_millis(4999)).await;
        assert_eq!((limiter.pay("a"), limiter.wait_ms("a")), (false, 1));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!((limiter.wait_ms("a"), limiter.pay("a")), (0, true));
    }

    #[test]
    fn success_and_time_reset_the_count() {
        let limiter = limiter();
        assert!(limiter.pay_at("a", 0) && limiter.pay_at("a", 0));
        limiter.forgive("a");
        assert!((0..2).all(|_| limiter.pay_at("a", 0)));
        assert!((0..3).all(|_| limiter.pay_at("a", 1000)), "the window had passed");
        assert!(!limiter.pay_at("a", 1000));
    }

    #[test]
    fn a_refund_gives_back_one_try_and_no_more() {
        let limiter = limiter();
        assert!((0..3).all(|_| limiter.pay_at("a", 0)));
        limiter.refund("a");
        assert!(limiter.pay_at("a", 1));
        assert!(!limiter.pay_at("a", 1));
    }

    #[test]
    fn the_table_stays_bounded() {
        let limiter = limiter();
        for place in 0..(MAX_PLACES + 100) {
            assert!(limiter.pay_at(&place.to_string(), 0));
        }
        assert!(limiter.places.lock().len() <= MAX_PLACES);
    }
}
