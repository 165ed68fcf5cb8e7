//! How often somebody may change how the gateway works.
//!
//! Owns: when each caller has done so lately. Promises: a try counts before it
//! is known whether it succeeds. Must not: know the methods.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use serde_json::json;

use crate::auth::Owner;
use crate::protocol::{ErrorKind, ErrorShape};

/// As in the original: a program that writes more often is out of control.
const WRITES_MAX: usize = 3;
/// Within this time.
const WINDOW_MS: u64 = 60_000;
/// Callers that are remembered. More than that within a minute is no use but an
/// attack; then all of them wait.
const CALLERS_MAX: usize = 1000;

/// What each caller has changed lately.
#[derive(Debug, Default)]
pub struct ControlWrites(Mutex<HashMap<Owner, VecDeque<u64>>>);

impl ControlWrites {
    /// Counts a call of `method` by `owner`.
    ///
    /// # Errors
    /// When it was the fourth within a minute.
    pub fn count(&self, owner: &Owner, method: &str, now_ms: u64) -> Result<(), ErrorShape> {
        let mut callers = self.0.lock();
        callers.retain(|_, times| {
            times.retain(|time| now_ms.saturating_sub(*time) < WINDOW_MS);
            !times.is_empty()
        });
        if callers.len() >= CALLERS_MAX && !callers.contains_key(owner) {
            return Err(refusal(method, WINDOW_MS));
        }
        let times = callers.entry(owner.clone()).or_default();
        if let Some(first) = times.front().filter(|_| times.len() >= WRITES_MAX) {
            let wait = WINDOW_MS.saturating_sub(now_ms.saturating_sub(*first)).max(1);
            return Err(refusal(method, wait));
        }
        times.push_back(now_ms);
        Ok(())
    }
}

fn refusal(method: &str, wait_ms: u64) -> ErrorShape {
    let seconds = wait_ms.div_ceil(1000);
    ErrorShape::unavailable(format!("rate limit exceeded for {method}; retry after {seconds}s"))
        .kind(ErrorKind::RateLimited)
        .retry_after(wait_ms)
        .details(
            json!({"method": method, "limit": format!("{WRITES_MAX} per {}s", WINDOW_MS / 1000)}),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fourth_change_of_a_caller_within_a_minute_is_refused() {
        let writes = ControlWrites::default();
        let (one, other) = (Owner::Connection("a".into()), Owner::Device("b".into()));
        for now in [0, 1000, 5000] {
            writes.count(&one, "config.patch", now).unwrap();
        }
        let refused = writes.count(&one, "config.apply", 5500).unwrap_err();
        assert_eq!(refused.message, "rate limit exceeded for config.apply; retry after 55s");
        assert_eq!(refused.retry_after_ms, Some(54_500));
        writes.count(&other, "config.patch", 5500).unwrap();
        writes.count(&one, "config.patch", 60_000).unwrap();
        assert!(writes.count(&one, "config.patch", 60_500).is_err());
    }
}
