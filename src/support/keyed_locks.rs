//! Locks by name.
//!
//! Owns: the table of them. Promises: whoever names the same has the same lock, as long as
//! anybody has it; what nobody has is forgotten. Must not: wait.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Locks that are handed out in the order of asking, each to those who name it.
#[derive(Debug, Default)]
pub struct KeyedLocks {
    locks: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl KeyedLocks {
    /// The lock of this name. Whoever asks sweeps out those that nobody has.
    pub fn of(&self, name: String) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.locks.lock();
        locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(locks.entry(name).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_has_its_lock_until_nobody_has_that() {
        let locks = KeyedLocks::default();
        let held = locks.of("a".into()).lock_owned().await;
        assert!(locks.of("a".into()).try_lock().is_err());
        assert!(locks.of("b".into()).try_lock().is_ok());
        drop(held);
        let last = locks.of("c".into());
        assert!(last.try_lock().is_ok());
        assert_eq!(locks.locks.lock().len(), 1, "what nobody has is swept");
    }
}
