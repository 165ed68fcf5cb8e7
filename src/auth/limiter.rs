//! Limits failed logins.
//!
//! Owns: how often each place has failed lately, and what is under way there.
//! Promises: a try is paid for before the secret is compared, so racing tries cannot
//! exceed the budget (GHSA-5m9r-p9g7-679c); tries under way lock nobody out, however
//! many there are: the others wait until they are decided; the table is bounded; who
//! sets the machine's clock opens no lock and makes none longer.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::config::RateLimitSettings;
use crate::support::millis;

/// Most places that are remembered; beyond it the oldest are forgotten.
const MAX_PLACES: usize = 10_000;

#[derive(Debug, Clone, Copy, Default)]
struct Record {
    failed: u32,
    under_way: u32,
    window_ends_ms: u64,
    locked_until_ms: u64,
}

/// Counts failed tries per place.
#[derive(Debug)]
pub struct Limiter {
    settings: RateLimitSettings,
    /// Times are counted from here.
    began: Instant,
    places: Mutex<HashMap<String, Record>>,
    /// Rings when a try is decided.
    decided: Notify,
}

/// A try that is paid for and under way. It has failed unless somebody says
/// otherwise.
#[derive(Debug)]
#[must_use = "a try that is dropped has failed"]
pub struct Try<'a> {
    limiter: &'a Limiter,
    place: String,
    outcome: Outcome,
}

#[derive(Debug, Clone, Copy)]
enum Outcome {
    Failed,
    Succeeded,
    NoGuess,
}

/// What a place may do now.
enum Turn {
    Begun,
    Later,
    Locked,
}

impl Limiter {
    /// A limiter that has seen nothing yet.
    pub fn new(settings: RateLimitSettings) -> Self {
        let (places, decided) = (Mutex::default(), Notify::new());
        Self { settings, began: Instant::now(), places, decided }
    }

    /// One with other rules that has seen the same. What is under way is decided
    /// by the old ones.
    #[must_use]
    pub fn reconfigured(&self, settings: RateLimitSettings) -> Self {
        let mut places = self.places.lock().clone();
        for record in places.values_mut() {
            record.under_way = 0;
        }
        Self { began: self.began, places: Mutex::new(places), ..Self::new(settings) }
    }

    /// Whether loopback addresses are not counted.
    pub const fn exempts_loopback(&self) -> bool {
        self.settings.exempt_loopback
    }

    /// Pays for one try from `place`; none when it is locked. Waits while the tries
    /// that are under way there would lock it, if they all failed.
    pub async fn pay(&self, place: &str) -> Option<Try<'_>> {
        loop {
            // Made before the look, so that it hears what is decided after it.
            let decided = self.decided.notified();
            match self.begin(place, self.now_ms()) {
                Turn::Begun => {
                    let place = place.to_owned();
                    return Some(Try { limiter: self, place, outcome: Outcome::Failed });
                }
                Turn::Locked => return None,
                Turn::Later => decided.await,
            }
        }
    }

    fn begin(&self, place: &str, now_ms: u64) -> Turn {
        let mut places = self.places.lock();
        if places.len() >= MAX_PLACES && !places.contains_key(place) {
            make_room(&mut places, now_ms);
        }
        let record = places.entry(place.to_owned()).or_default();
        if record.locked_until_ms > now_ms {
            return Turn::Locked;
        }
        if record.window_ends_ms <= now_ms {
            let window_ends_ms = now_ms + millis(self.settings.window);
            *record = Record { under_way: record.under_way, window_ends_ms, ..Record::default() };
        }
        if record.under_way > 0 && record.failed + record.under_way >= self.settings.max_attempts {
            return Turn::Later;
        }
        record.under_way += 1;
        Turn::Begun
    }

    fn decide(&self, place: &str, outcome: Outcome, now_ms: u64) {
        if let Some(record) = self.places.lock().get_mut(place) {
            record.under_way = record.under_way.saturating_sub(1);
            match outcome {
                Outcome::Failed => record.failed += 1,
                Outcome::Succeeded => (record.failed, record.locked_until_ms) = (0, 0),
                Outcome::NoGuess => {}
            }
            if matches!(outcome, Outcome::Failed) && record.failed >= self.settings.max_attempts {
                record.locked_until_ms = now_ms + millis(self.settings.lockout);
            }
        }
        self.decided.notify_waiters();
    }

    fn now_ms(&self) -> u64 {
        millis(self.began.elapsed())
    }

    /// For how many milliseconds a place is locked.
    pub fn wait_ms(&self, place: &str) -> u64 {
        let until = self.places.lock().get(place).map_or(0, |record| record.locked_until_ms);
        until.saturating_sub(self.now_ms())
    }

    /// Somebody there has proved who he is, however often others have failed: the
    /// place starts over.
    pub fn forgive(&self, place: &str) {
        if let Some(record) = self.places.lock().get_mut(place) {
            (record.failed, record.locked_until_ms) = (0, 0);
        }
    }
}

/// Forgets what is over, or else the oldest.
fn make_room(places: &mut HashMap<String, Record>, now_ms: u64) {
    places.retain(|_, it| it.window_ends_ms.max(it.locked_until_ms) > now_ms || it.under_way > 0);
    if places.len() >= MAX_PLACES {
        let oldest = places.iter().min_by_key(|(_, record)| record.window_ends_ms);
        if let Some(oldest) = oldest.map(|(place, _)| place.clone()) {
            places.remove(&oldest);
        }
    }
}

impl Try<'_> {
    /// It was right: the place starts over.
    pub fn succeeded(mut self) {
        self.outcome = Outcome::Succeeded;
    }

    /// It was no guess: it counts neither for nor against the tries before it.
    pub fn was_no_guess(mut self) {
        self.outcome = Outcome::NoGuess;
    }
}

impl Drop for Try<'_> {
    fn drop(&mut self) {
        self.limiter.decide(&self.place, self.outcome, self.limiter.now_ms());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::future::join_all;
    use tokio::time::advance;

    use super::*;

    const PLACE: &str = "a";

    fn limiter() -> Limiter {
        Limiter::new(RateLimitSettings {
            max_attempts: 3,
            window: Duration::from_secs(1),
            lockout: Duration::from_secs(5),
            exempt_loopback: true,
        })
    }

    /// Whether a try from there was made; it failed.
    async fn fails(limiter: &Limiter, place: &str) -> bool {
        limiter.pay(place).await.is_some()
    }

    async fn fails_often(limiter: &Limiter, times: u32) {
        for _ in 0..times {
            assert!(fails(limiter, PLACE).await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_allowed_try_locks_and_the_lock_ends_by_a_clock_that_nobody_sets() {
        let limiter = limiter();
        fails_often(&limiter, 3).await;
        assert!(!fails(&limiter, PLACE).await);
        assert_eq!((limiter.wait_ms(PLACE), limiter.wait_ms("b")), (5000, 0));
        assert!(fails(&limiter, "b").await);
        advance(Duration::from_millis(4999)).await;
        assert_eq!((fails(&limiter, PLACE).await, limiter.wait_ms(PLACE)), (false, 1));
        advance(Duration::from_millis(1)).await;
        assert_eq!((limiter.wait_ms(PLACE), fails(&limiter, PLACE).await), (0, true));
    }

    #[tokio::test(start_paused = true)]
    async fn success_and_time_reset_the_count() {
        let limiter = limiter();
        fails_often(&limiter, 2).await;
        limiter.pay(PLACE).await.unwrap().succeeded();
        fails_often(&limiter, 2).await;
        advance(Duration::from_secs(1)).await;
        fails_often(&limiter, 3).await;
        assert!(!fails(&limiter, PLACE).await, "the window had passed, and began anew");
        limiter.forgive(PLACE);
        fails_often(&limiter, 3).await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_no_guess_counts_neither_for_nor_against_the_tries_before() {
        let limiter = limiter();
        fails_often(&limiter, 2).await;
        limiter.pay(PLACE).await.unwrap().was_no_guess();
        fails_often(&limiter, 1).await;
        assert!(!fails(&limiter, PLACE).await);
    }

    #[tokio::test(start_paused = true)]
    async fn good_tries_under_way_lock_nobody_out() {
        let limiter = limiter();
        let tries = (0..20).map(async |_| {
            let paid = limiter.pay(PLACE).await.expect("nobody has failed");
            tokio::time::sleep(Duration::from_millis(10)).await;
            paid.was_no_guess();
        });
        join_all(tries).await;
        assert_eq!(limiter.wait_ms(PLACE), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn of_bad_tries_at_once_no_more_are_compared_than_one_after_the_other() {
        let limiter = limiter();
        let tries = (0..20).map(async |_| {
            let paid = limiter.pay(PLACE).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
            paid.is_some()
        });
        let compared = join_all(tries).await;
        assert_eq!(compared.iter().filter(|compared| **compared).count(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn other_rules_know_who_has_failed_and_wait_for_nobody_under_the_old() {
        let old = limiter();
        fails_often(&old, 2).await;
        let under_way = old.pay(PLACE).await.unwrap();
        let new = old.reconfigured(old.settings);
        fails_often(&new, 1).await;
        assert!(!fails(&new, PLACE).await);
        drop(under_way);
        assert!(!fails(&old, PLACE).await);
    }

    #[tokio::test]
    async fn the_table_stays_bounded() {
        let limiter = limiter();
        for place in 0..(MAX_PLACES + 100) {
            assert!(fails(&limiter, &place.to_string()).await);
        }
        assert!(limiter.places.lock().len() <= MAX_PLACES);
    }
}
