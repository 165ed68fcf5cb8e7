//! How often the gateway itself may be changed.
//!
//! Promises: a caller has a few writes of its configuration in a minute, whatever
//! they do and whoever sets the machine's clock; the table is bounded.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::protocol::{ErrorKind, ErrorShape};
use crate::support::{json, millis};

/// As in the original: each of them may restart the gateway.
const MOST: u32 = 3;
const WINDOW: Duration = Duration::from_mins(1);
/// Callers that are remembered; beyond it the one whose window is the oldest is
/// forgotten.
const MAX_CALLERS: usize = 10_000;

/// Counts writes per caller.
#[derive(Debug, Default)]
pub struct WriteBudget(Mutex<HashMap<String, Window>>);

#[derive(Debug, Clone, Copy)]
struct Window {
    began: Instant,
    writes: u32,
}

impl WriteBudget {
    /// Pays for a call of `method`.
    ///
    /// # Errors
    /// When the caller has none left.
    pub fn pay(&self, caller: &str, method: &str) -> Result<(), ErrorShape> {
        let now = Instant::now();
        let mut callers = self.0.lock();
        let is_over = |window: &Window| now.duration_since(window.began) >= WINDOW;
        if callers.len() >= MAX_CALLERS && !callers.contains_key(caller) {
            callers.retain(|_, window| !is_over(window));
            let oldest = callers.iter().min_by_key(|(_, window)| window.began);
            if let Some(oldest) = oldest.map(|(caller, _)| caller.clone())
                && callers.len() >= MAX_CALLERS
            {
                callers.remove(&oldest);
            }
        }
        let fresh = Window { began: now, writes: 0 };
        let window = callers.entry(caller.to_owned()).or_insert(fresh);
        if is_over(window) {
            *window = fresh;
        }
        if window.writes >= MOST {
            let wait_ms = millis((window.began + WINDOW).duration_since(now)).max(1);
            let seconds = wait_ms.div_ceil(1000);
            let text = format!("rate limit exceeded for {method}; retry after {seconds}s");
            let limit = format!("{MOST} per {}s", WINDOW.as_secs());
            let details = json!({"method": method, "limit": limit});
            return Err(ErrorShape::unavailable(text)
                .kind(ErrorKind::RateLimited)
                .retry_after(wait_ms)
                .details(details));
        }
        window.writes += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_fourth_write_in_a_minute_waits_for_the_next_one() {
        let budget = WriteBudget::default();
        let pay = |caller: &str| budget.pay(caller, "config.patch");
        assert!((0..3).all(|_| pay("a").is_ok()));
        tokio::time::advance(Duration::from_millis(3500)).await;
        let refused = pay("a").unwrap_err();
        let expected =
            ErrorShape::unavailable("rate limit exceeded for config.patch; retry after 57s")
                .kind(ErrorKind::RateLimited)
                .retry_after(56_500)
                .details(json!({"method": "config.patch", "limit": "3 per 60s"}));
        assert_eq!(refused, expected);
        assert!(pay("b").is_ok());
        tokio::time::advance(Duration::from_millis(56_499)).await;
        assert!(pay("a").is_err());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(pay("a").is_ok());
    }

    #[test]
    fn the_table_stays_bounded() {
        let budget = WriteBudget::default();
        for caller in 0..(MAX_CALLERS + 100) {
            budget.pay(&caller.to_string(), "config.apply").unwrap();
        }
        assert_eq!(budget.0.lock().len(), MAX_CALLERS);
    }
}
