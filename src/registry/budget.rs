//! How often the gateway itself may be changed.
//!
//! Promises: a caller has a few writes of its configuration in a minute, whatever
//! they do; the table is bounded.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::json;

use crate::protocol::{ErrorKind, ErrorShape};

/// As in the original: each of them may restart the gateway.
const MOST: u32 = 3;
const WINDOW_MS: u64 = 60_000;
/// Callers that are remembered; beyond it the one whose window is the oldest is
/// forgotten.
const MAX_CALLERS: usize = 10_000;

/// Counts writes per caller.
#[derive(Debug, Default)]
pub struct WriteBudget(Mutex<HashMap<String, Window>>);

#[derive(Debug, Clone, Copy)]
struct Window {
    began_ms: u64,
    writes: u32,
}

impl WriteBudget {
    /// Pays for a call of `method`.
    ///
    /// # Errors
    /// When the caller has none left.
    pub fn pay(&self, caller: &str, method: &str, now_ms: u64) -> Result<(), ErrorShape> {
        let mut callers = self.0.lock();
        let is_over = |window: &Window| now_ms.saturating_sub(window.began_ms) >= WINDOW_MS;
        if callers.len() >= MAX_CALLERS && !callers.contains_key(caller) {
            callers.retain(|_, window| !is_over(window));
            let oldest = callers.iter().min_by_key(|(_, window)| window.began_ms);
            if let Some(oldest) = oldest.map(|(caller, _)| caller.clone())
                && callers.len() >= MAX_CALLERS
            {
                callers.remove(&oldest);
            }
        }
        let fresh = Window { began_ms: now_ms, writes: 0 };
        let window = callers.entry(caller.to_owned()).or_insert(fresh);
        if is_over(window) {
            *window = fresh;
        }
        if window.writes >= MOST {
            let wait_ms = (window.began_ms + WINDOW_MS).saturating_sub(now_ms).max(1);
            let seconds = wait_ms.div_ceil(1000);
            let text = format!("rate limit exceeded for {method}; retry after {seconds}s");
            let limit = format!("{MOST} per {}s", WINDOW_MS / 1000);
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

    #[test]
    fn the_fourth_write_in_a_minute_waits_for_the_next_one() {
        let budget = WriteBudget::default();
        let pay = |caller: &str, now_ms| budget.pay(caller, "config.patch", now_ms);
        assert!((0..3).all(|index| pay("a", index * 1000).is_ok()));
        let refused = pay("a", 3500).unwrap_err();
        let expected =
            ErrorShape::unavailable("rate limit exceeded for config.patch; retry after 57s")
                .kind(ErrorKind::RateLimited)
                .retry_after(56_500)
                .details(json!({"method": "config.patch", "limit": "3 per 60s"}));
        assert_eq!(refused, expected);
        assert!(pay("b", 3500).is_ok());
        assert!(pay("a", 59_999).is_err());
        assert!(pay("a", 60_000).is_ok());
    }

    #[test]
    fn the_table_stays_bounded() {
        let budget = WriteBudget::default();
        for caller in 0..(MAX_CALLERS + 100) {
            budget.pay(&caller.to_string(), "config.apply", 0).unwrap();
        }
        assert_eq!(budget.0.lock().len(), MAX_CALLERS);
    }
}
