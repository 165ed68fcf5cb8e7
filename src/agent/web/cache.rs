//! Answers that are kept for a while.
//!
//! Owns: them and when they are forgotten. Promises: at most so many, at most
//! so large. Must not: keep failures.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

/// Most answers, as in the original.
const MAX_ENTRIES: usize = 100;
/// Most bytes of all answers together: idle memory has a budget.
const MAX_BYTES: usize = 2 * 1024 * 1024;

/// Answers by what was asked.
#[derive(Default)]
pub struct Cache {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: HashMap<String, Entry>,
    bytes: usize,
}

struct Entry {
    value: Value,
    bytes: usize,
    kept_since: Instant,
    until: Instant,
}

impl Cache {
    /// The answer, with `cached: true`.
    pub fn get(&self, key: &str) -> Option<Value> {
        let state = self.state.lock();
        let entry = state.entries.get(key).filter(|entry| Instant::now() < entry.until)?;
        let mut value = entry.value.clone();
        if let Value::Object(members) = &mut value {
            members.insert("cached".into(), true.into());
        }
        Some(value)
    }

    /// Keeps an answer for `ttl`.
    pub fn put(&self, key: String, value: &Value, ttl: Duration) {
        let bytes = key.len() + value.to_string().len();
        if ttl.is_zero() || bytes > MAX_BYTES {
            return;
        }
        let now = Instant::now();
        let entry = Entry { value: value.clone(), bytes, kept_since: now, until: now + ttl };
        let mut state = self.state.lock();
        state.remove(&key);
        let late = state.entries.iter().filter(|(_, entry)| entry.until <= now);
        let late: Vec<_> = late.map(|(key, _)| key.clone()).collect();
        for key in &late {
            state.remove(key);
        }
        while state.entries.len() >= MAX_ENTRIES || state.bytes + bytes > MAX_BYTES {
            let oldest = state.entries.iter().min_by_key(|(_, entry)| entry.kept_since);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { break };
            state.remove(&oldest);
        }
        state.bytes += bytes;
        state.entries.insert(key, entry);
    }
}

impl State {
    fn remove(&mut self, key: &str) {
        if let Some(entry) = self.entries.remove(key) {
            self.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::support::json;

    const TTL: Duration = Duration::from_mins(15);

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_kept_for_its_time_and_says_so() {
        let cache = Cache::default();
        cache.put("a".into(), &json!({"x": 1}), TTL);
        assert_eq!(cache.get("a"), Some(json!({"x": 1, "cached": true})));
        tokio::time::advance(TTL).await;
        assert_eq!(cache.get("a"), None);
        cache.put("b".into(), &json!({}), Duration::ZERO);
        assert_eq!(cache.get("b"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_go_when_there_are_too_many_or_too_large_ones() {
        let cache = Cache::default();
        for index in 0..=MAX_ENTRIES {
            cache.put(index.to_string(), &json!({}), TTL);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert!(cache.get("0").is_none() && cache.get("1").is_some());
        cache.put("large".into(), &json!("x".repeat(MAX_BYTES - 100)), TTL);
        assert!(cache.get("large").is_some());
        assert!(cache.state.lock().bytes <= MAX_BYTES);
        cache.put("too large".into(), &json!("x".repeat(MAX_BYTES)), TTL);
        assert!(cache.get("too large").is_none() && cache.get("large").is_some());
    }
}
